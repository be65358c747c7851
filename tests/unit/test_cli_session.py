"""A session attaches to all ranks or to none, reads their rings, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrace.attach import readers, traced_rank
from spectrace.attach.handle import Attached, Options, TakenOut
from spectrace.attach.session import End, TraceSession
from spectrace.attach.ways import Way
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank, Run
from spectrace.probe.layout import Kind, Mode, Ph, RecordType, State, Word
from spectrace.probe.ring import RingWriter
from tests.helpers.probe_ring import make_ring

NAMES = ("TP0", "TP1")


def run_of(pid: int) -> Run:
    """A server whose two ranks are, for the test, one process."""
    return Run(
        run_id="r" * 32,
        host="here",
        server_pid=pid,
        command=("python",),
        ranks=tuple(Rank(name=name, pid=pid) for name in NAMES),
        anchor_unix_ns=0,
        anchor_monotonic_ns=0,
    )


class FakeProbes:
    """Puts rings where probes would be; each can be written to as its probe would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writers: dict[str, RingWriter] = {}
        self.refused = ""
        self.joined = False
        self.controller = os.getpid()
        self.taken_out: list[str] = []
        self.asked: list[str] = []
        self.stuck = ""
        self.last_words = False

    def put_in(self, rank: Rank, *, options: Options, timeout_s: float) -> Attached:
        """Makes a ring, unless the rank is the one to refuse."""
        del timeout_s
        if rank.name == self.refused:
            raise SpectraceError("It cannot be reached.")
        path = self.folder / rank.name
        writer = self.writers[rank.name] = make_ring(path, units=options.units)
        writer.words[Word.STATE] = State.ARMED
        writer.words[Word.CONTROLLER_PID] = self.controller
        writer.words[Word.LOAD_NS] = 1_000_000
        writer.words[Word.ARM_NS] = 200_000
        if self.joined:
            write_cycle(writer, 1)
        view = RingView(path)
        key = readers.sit_down(view)
        view.close()
        return Attached(rank, path, Way.PTRACE, 300_000, self.joined, key)

    def ask_to_leave(self, attached: Attached) -> None:
        """Notes whom it was said to."""
        self.asked.append(attached.rank.name)

    def take_out(self, attached: Attached, *, timeout_s: float) -> TakenOut:
        """Writes what a probe writes last, and removes the ring."""
        del timeout_s
        name = attached.rank.name
        if name == self.stuck:
            raise SpectraceError("It does not let go.")
        self.taken_out.append(name)
        if self.last_words:
            write_cycle(self.writers[name], 2)
        self.writers[name].words[Word.STATE] = State.DETACHED
        attached.path.unlink()
        return TakenOut(True, (), "The probe is out.")

    def close(self) -> None:
        """Unmaps the rings."""
        for writer in self.writers.values():
            writer.close()


def write_cycle(writer: RingWriter, number: int) -> None:
    """A cycle without results, of 1 µs."""
    times = (number * 1000, 1000, 5)
    modes = Mode.HOST | Mode.HOST << 4
    sizes = (1, 0, 0, 0, 0, 0)
    writer.cycle((Kind.OTHER, modes, 0, number, *times, *sizes, 1, 0), (Ph.RESOLVE,))


@pytest.fixture
def probes(tmp_path: Path) -> Iterator[FakeProbes]:
    """Rings in a folder of their own."""
    made = FakeProbes(tmp_path)
    yield made
    made.close()


def session_of(probes: FakeProbes, pid: int | None = None) -> TraceSession:
    """A session with small rings."""
    return TraceSession(run_of(pid or os.getpid()), injector=probes, options=Options(units=64))


def test_cycles_of_all_ranks_come_out_joined(probes: FakeProbes) -> None:
    """What both ranks wrote is one Cycle."""
    with session_of(probes) as session:
        for name in NAMES:
            write_cycle(probes.writers[name], 1)
        (cycle,) = session.poll()
        assert [rank.rank for rank in cycle.ranks] == ["TP0", "TP1"]
        assert session.poll() == []
        assert (session.lost, session.end, session.server_alive) == (0, None, True)


def test_leaving_takes_the_probe_out_of_all_ranks_once(probes: FakeProbes) -> None:
    """`detach` and leaving the block do it once, and give the same answer."""
    with session_of(probes) as session:
        first = session.detach()
    assert probes.asked == ["TP0", "TP1"]
    assert probes.taken_out == ["TP0", "TP1"]
    assert session.detach() == first
    assert all(out.removed for out in first)
    assert list(probes.folder.iterdir()) == []
    assert session.poll() == []


def test_what_a_probe_wrote_last_is_kept(probes: FakeProbes) -> None:
    """Records that come while the probe leaves are in `last_cycles`."""
    probes.last_words = True
    with session_of(probes) as session:
        for name in NAMES:
            write_cycle(probes.writers[name], 1)
        assert len(session.poll()) == 1
    assert [cycle.number for cycle in session.last_cycles] == [2]
    assert [rank.cycles for rank in session.facts().ranks] == [0, 0]


def test_if_one_rank_cannot_be_reached_none_is_traced(probes: FakeProbes) -> None:
    """The rank that had the probe already is given back."""
    probes.refused = "TP1"
    with pytest.raises(SpectraceError, match="cannot be reached"):
        session_of(probes).__enter__()
    assert probes.taken_out == ["TP0"]
    assert list(probes.folder.iterdir()) == []


def test_every_poll_is_a_sign_of_life(probes: FakeProbes) -> None:
    """The heartbeat is the time, the controller this process."""
    with session_of(probes) as session:
        before_ns = time.monotonic_ns()
        session.poll()
        for name in NAMES:
            words = probes.writers[name].words
            assert before_ns <= words[Word.HEARTBEAT_NS] <= time.monotonic_ns()
            assert words[Word.CONTROLLER_PID] == os.getpid()


def test_a_rank_that_does_not_let_go_keeps_no_other(probes: FakeProbes) -> None:
    """Its reason is told in its place."""
    probes.stuck = "TP0"
    with session_of(probes) as session:
        pass
    stuck, free = session.detach()
    assert (stuck.removed, stuck.reason) == (False, "It does not let go.")
    assert free.removed


def test_what_the_server_is_comes_from_the_probe(probes: FakeProbes) -> None:
    """The run has its engine once the probe has spoken."""
    with session_of(probes) as session:
        assert (session.run.engine, session.facts().overlap) == ("", None)
        info = {
            "engine": "sglang 0.5.23",
            "worker": "EAGLEWorkerV2",
            "algorithm": "EAGLE3",
            "overlap": True,
            "device": "cuda",
            "missing": ["Worker.draft"],
        }
        probes.writers["TP1"].info(info)
        probes.writers["TP1"].text(RecordType.ERROR, 0, "it broke")
        session.poll()
        facts = session.facts()
        assert session.run.engine == "sglang 0.5.23"
        assert (facts.worker, facts.algorithm, facts.device) == ("EAGLEWorkerV2", "EAGLE3", "cuda")
        assert facts.overlap is True
        assert facts.unhooked == ("Worker.draft",)
        assert facts.errors == ("TP1: it broke",)
    assert session.run.engine == "sglang 0.5.23"


def test_the_stall_has_its_parts(probes: FakeProbes) -> None:
    """0.3 ms stop, 1 ms loading, 0.2 ms hooking; 0.5 ms more once the worker is hooked."""
    with session_of(probes) as session:
        first, second = session.stall()
        assert (first.stop_ms, first.loading_ms, first.installing_ms) == (0.3, 1.0, 0.2)
        assert (first.total_ms, first.installed) == (1.5, False)
        probes.writers["TP1"].words[Word.INSTALL_NS] = 500_000
        first, second = session.stall()
        assert (second.installing_ms, second.total_ms, second.installed) == (0.7, 2.0, True)
    assert session.stall() == [first, second]


def test_records_lost_and_cycles_missed_are_counted(probes: FakeProbes) -> None:
    """Of 40 records of 3 units in a ring of 64, 18 are safe: 21 are gone on both ranks."""
    with session_of(probes) as session:
        for name in NAMES:
            write_cycle(probes.writers[name], 1)
        session.poll()
        joins = probes.writers["TP0"].words[Word.JOINS]
        for number in range(2, 41):
            for name in NAMES:
                write_cycle(probes.writers[name], number)
        assert [cycle.number for cycle in session.poll()] == list(range(23, 41))
        facts = session.facts()
        assert [rank.lost_records for rank in facts.ranks] == [21, 21]
        assert (facts.lost_records, facts.missing_cycles, session.lost) == (42, 21, 63)
        # Ids may have been among them, so that they are asked for again.
        assert probes.writers["TP0"].words[Word.JOINS] == joins + 1


def test_a_probe_that_was_there_is_read_from_now_on(probes: FakeProbes) -> None:
    """Its old records are not given, and ids are asked for again."""
    probes.joined = True
    with session_of(probes) as session:
        assert session.poll() == []
        for name in NAMES:
            assert probes.writers[name].words[Word.JOINS] == 1
            write_cycle(probes.writers[name], 2)
        assert [cycle.number for cycle in session.poll()] == [2]
        assert session.lost == 0


@pytest.mark.parametrize(
    ("states", "end"),
    [
        ((State.DETACHED, State.TRACING), None),
        ((State.DETACHED, State.DETACHED), End.TAKEN_OUT),
        ((State.DETACHED, State.FAILED), End.PROBE_FAILED),
    ],
)
def test_a_session_ends_when_no_rank_has_the_probe(
    probes: FakeProbes, states: tuple[int, int], end: End | None
) -> None:
    """Another command took it out, or it failed."""
    with session_of(probes) as session:
        for name, state in zip(NAMES, states, strict=True):
            probes.writers[name].words[Word.STATE] = state
        assert session.end is end


def test_a_server_that_died_leaves_no_ring_and_keeps_its_cycles(probes: FakeProbes) -> None:
    """What was in the rings is read, the rings are removed, and the session says so."""
    server = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with server, session_of(probes, server.pid) as session:
        for name in NAMES:
            write_cycle(probes.writers[name], 1)
        server.kill()
        server.wait()
        assert session.end is End.SERVER_DIED
        assert not session.server_alive
        out = session.detach()
    assert [cycle.number for cycle in session.last_cycles] == [1]
    assert probes.taken_out == []
    assert all(entry.removed for entry in out)
    assert list(probes.folder.iterdir()) == []


def test_a_ring_that_cannot_be_read_is_given_back(
    probes: FakeProbes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The probe does not stay behind a reader that cannot follow it."""

    def refuse(*_: object, **__: object) -> None:
        raise SpectraceError("This ring has another layout.")

    with monkeypatch.context() as patch:
        patch.setattr(traced_rank, "RingReader", refuse)
        with pytest.raises(SpectraceError, match="another layout"):
            session_of(probes).__enter__()
    assert probes.taken_out == ["TP0"]
