"""A look at kernels while a session goes on: its stages, its ends, and that nobody waits for it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.attach import discover, window_file
from spectrace.attach.kernel_look import KernelLooks, Reader
from spectrace.attach.kernel_obstacles import ShutError
from spectrace.attach.looking import LookStage
from spectrace.attach.session import TraceSession
from spectrace.attach.tapped import TappedSession
from spectrace.kernels import Seen, SeenKernels, Written
from spectrace.model import Cycle, Lane, Run
from spectrace.probe.layout_window import Place, Stage
from spectrace.server.kernel_reader import WindowReader
from tests.helpers.attach_rounds import belongings
from tests.helpers.command import TIMEOUT_S, start
from tests.helpers.cupti_site.cupti.cupti import AFTER_NS, LONG_NS
from tests.helpers.gpu_site import GpuSite
from tests.helpers.page import until
from tests.helpers.shared_files import left_of, shared_files
from tests.helpers.simulated_server import SimulatedServer

pytestmark = pytest.mark.beside_others

CYCLES = 20
LONG = 5000  # cycles: a window that is open for as long as a test needs
POLL_S = 0.01
OVER = {LookStage.DONE, LookStage.REFUSED}


@pytest.fixture
def site(tmp_path: Path) -> GpuSite:
    """What makes a server look like one on a GPU."""
    return GpuSite(tmp_path)


@pytest.fixture
def server(tmp_path: Path, site: GpuSite) -> Iterator[SimulatedServer]:
    """Two ranks with a CUPTI that makes records up."""
    with SimulatedServer(tmp_path, "TP0", "TP1", packages=[site.path]) as it:
        yield it


class Traced:
    """A session on a server, and the looks that it goes through.

    Args:
        server: The server.
        reader: Makes what reads its windows, of what takes what they show.
        clock_s: The clock by which looks go.
    """

    def __init__(
        self,
        server: SimulatedServer,
        reader: Callable[[Callable[[str, Seen], None]], Reader] = lambda keep: WindowReader(
            KernelClasses(), keep
        ),
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.seen: list[Seen] = []
        self.stages: list[LookStage] = []
        self.cycles: dict[int, Cycle] = {}
        session = TraceSession(discover.find_by_pid(server.pid))
        made = reader(lambda _, seen: self.seen.append(seen))
        self.looks = KernelLooks(session, made, clock_s)
        self.session = TappedSession(session, [self.looks])

    def __enter__(self) -> Traced:  # noqa: PYI034 - Self came with Python 3.11
        """Attaches, and waits for a cycle."""
        self.session.__enter__()
        self.until(lambda: bool(self.cycles))
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves."""
        self.session.detach()

    def poll(self) -> None:
        """As a command polls, again and again."""
        self.cycles.update((cycle.number, cycle) for cycle in self.session.poll())
        if self.looks.looking is not None and self.looks.looking.stage not in self.stages[-1:]:
            self.stages.append(self.looks.looking.stage)
        time.sleep(POLL_S)

    def until(self, holds: Callable[[], bool]) -> None:
        """Polls until something holds."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < deadline_s, self.looks.looking
            self.poll()

    def until_stage(self, *stages: LookStage) -> None:
        """Polls until the look has come to one of these."""
        self.until(lambda: self.looks.looking is not None and self.looks.looking.stage in stages)

    def look(self, cycles: int = CYCLES) -> None:
        """Has a look made, to its end."""
        self.looks.ask(cycles)
        self.until_stage(*OVER)

    @property
    def why(self) -> str:
        """Why there is none, and what to do."""
        looking = self.looks.looking
        assert looking is not None
        assert looking.stage is LookStage.REFUSED
        return f"{looking.why} {looking.mend}".strip()


def stage_of(traced: Traced) -> LookStage | None:
    """How far its look is by now."""
    looking = traced.looks.looking
    return None if looking is None else looking.stage


def misplaced(kernels: SeenKernels, cycles: dict[int, Cycle]) -> list[tuple[int, str]]:
    """Cycles and phases of kernels whose launch lies in no such phase of their rank."""
    columns = (kernels.number, kernels.phase, kernels.start_ns)
    found = []
    for number, place, start_ns in zip(*(column.tolist() for column in columns), strict=True):
        name, launch_ns = kernels.phases[place], start_ns - AFTER_NS
        phases = [
            phase
            for share in cycles[number].ranks
            if share.rank == kernels.rank
            for phase in share.phases
            if phase.lane is Lane.HOST and phase.name.value == name
        ]
        if not any(phase.start_ns <= launch_ns < phase.end_ns for phase in phases):
            found.append((number, name))
    return found


def test_a_look_goes_through_its_stages_and_shows_kernels_where_they_were_launched(
    server: SimulatedServer,
) -> None:
    """Tracing goes on behind it without a file of it; the server has no thread more than before."""
    threads = [belongings(pid).threads for pid in server.pids.values()]
    with Traced(server) as traced:
        traced.look()
        assert traced.stages == [
            *(LookStage.ASKED, LookStage.OPEN, LookStage.READING),
            LookStage.DONE,
        ]
        rings = [path for path in shared_files(server.pids.values()) if path.suffix == ".ring"]
        assert left_of(server.pids.values()) == rings
        [seen] = traced.seen
        assert seen.look.cycles == CYCLES
        assert [kernels.rank for kernels in seen.kernels] == ["TP0", "TP1"]
        for kernels in seen.kernels:
            assert len(kernels.start_ns) > 0
            assert set((kernels.end_ns - kernels.start_ns).tolist()) == {LONG_NS}
            assert set(kernels.classes) == {"communication"}
            assert misplaced(kernels, traced.cycles) == []
        newest = max(traced.cycles)
        traced.until(lambda: max(traced.cycles) > newest)
    assert server.untouched()
    assert left_of(server.pids.values()) == []
    assert [belongings(pid).threads for pid in server.pids.values()] == threads


class HeldBack(WindowReader):
    """Reads as ever, and hands over what it made only when it is told to."""

    def __init__(self, keep: Callable[[str, Seen], None]) -> None:
        super().__init__(KernelClasses(), keep)
        self.handed_over: Future[None] = Future()

    def kept(
        self, run: Run, cycles: Sequence[Cycle], written: Sequence[Written], asked: int
    ) -> Future[None]:
        """As ever, but for the answer."""
        super().kept(run, cycles, written, asked).result(TIMEOUT_S)
        return self.handed_over


def test_cycles_come_while_a_look_is_added_up_and_a_second_look_has_to_wait(
    server: SimulatedServer,
) -> None:
    """However long that takes; when it is over another one can be asked for."""
    readers: list[HeldBack] = []

    def reader(keep: Callable[[str, Seen], None]) -> HeldBack:
        readers.append(HeldBack(keep))
        return readers[-1]

    with Traced(server, reader) as traced:
        traced.looks.ask(CYCLES)
        with pytest.raises(ShutError, match="one at a time"):
            traced.looks.ask(CYCLES)
        traced.until(lambda: bool(traced.seen))
        newest = max(traced.cycles)
        traced.until(lambda: max(traced.cycles) > newest + 20)
        assert traced.stages[-1] is LookStage.READING
        with pytest.raises(ShutError, match="one at a time"):
            traced.looks.ask(CYCLES)
        readers[0].handed_over.set_result(None)
        traced.until_stage(LookStage.DONE)
        traced.looks.ask(CYCLES)
        traced.until_stage(LookStage.OPEN)


def test_a_look_that_is_being_kept_when_tracing_ends_is_there(server: SimulatedServer) -> None:
    """It is said to be done once it is, and not to have been ended."""
    readers: list[HeldBack] = []

    def reader(keep: Callable[[str, Seen], None]) -> HeldBack:
        readers.append(HeldBack(keep))
        readers[-1].handed_over.set_running_or_notify_cancel()
        return readers[-1]

    with Traced(server, reader) as traced:
        traced.looks.ask(CYCLES)
        traced.until(lambda: bool(traced.seen))
    assert stage_of(traced) is LookStage.READING
    readers[0].handed_over.set_result(None)
    assert stage_of(traced) is LookStage.DONE


class Failing(WindowReader):
    """Cannot read what windows left."""

    def __init__(self, keep: Callable[[str, Seen], None]) -> None:
        super().__init__(KernelClasses(), keep)

    def named(self, written: Sequence[Written]) -> Future[list[Written]]:
        """Fails."""
        failed: Future[list[Written]] = Future()
        failed.set_exception(RuntimeError(f"{len(written)} ranks"))
        return failed


def test_an_error_of_our_own_ends_the_look_and_not_the_session(server: SimulatedServer) -> None:
    """It is said, and cycles come as before."""
    with Traced(server, Failing) as traced:
        traced.look()
        assert "an error of its own" in traced.why
        assert "(RuntimeError: 2 ranks)" in traced.why
        newest = max(traced.cycles)
        traced.until(lambda: max(traced.cycles) > newest)


def test_without_room_in_shared_memory_there_is_no_look(
    server: SimulatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is missing is said; with room again the next look is made."""
    with Traced(server) as traced:
        with monkeypatch.context() as patched:
            patched.setattr(window_file, "_MOST_BYTES", 1 << 50)
            patched.setattr(window_file, "_BYTES_AT_LEAST", 1 << 49)
            traced.look()
        assert "no room" in traced.why
        traced.look()
        assert len(traced.seen) == 1


def test_a_server_that_dies_in_the_window_is_said_to_have_ended(server: SimulatedServer) -> None:
    """Nothing of it is left in shared memory."""
    files = shared_files(server.pids.values())
    with Traced(server) as traced:
        traced.looks.ask(LONG)
        traced.until_stage(LookStage.OPEN)
        assert all(path.exists() for path in files)
        for pid in server.pids.values():
            os.kill(pid, signal.SIGKILL)
        traced.until(lambda: traced.session.end is not None)
    assert "The server has ended before its window was over" in traced.why
    assert not any(path.exists() for path in files)


def test_leaving_the_server_ends_the_window_with_it(server: SimulatedServer) -> None:
    """It is said, nothing can be asked for any more, and the server is as it was."""
    with Traced(server) as traced:
        traced.looks.ask(LONG)
        traced.until_stage(LookStage.OPEN)
    assert "Tracing was ended before the window was over" in traced.why
    assert server.untouched()
    assert left_of(server.pids.values()) == []
    with pytest.raises(ShutError, match="not traced any more"):
        traced.looks.ask(CYCLES)


def stage_instead(file: Path, inode: int) -> int:
    """How far a window is whose file stands in the place of this one; not begun before it does."""
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_ino == inode:
                return Stage.ASKED
            opened.seek(Place.STATE * 8)
            return int.from_bytes(opened.read(8), "little")  # 0 while it is being made
    except FileNotFoundError:
        return Stage.ASKED


def test_who_takes_control_takes_the_window_too(server: SimulatedServer) -> None:
    """The first look ends with a sentence and leaves the file of the second one alone."""
    with Traced(server) as traced:
        traced.looks.ask(LONG)
        traced.until_stage(LookStage.OPEN)
        [file] = [path for path in left_of([server.pids["TP0"]]) if path.suffix == ".kernels"]
        before = file.stat().st_ino
        asked = ["kernels", str(server.pid), "--yes", "--take-control", "--json"]
        command = start(*asked, "--cycles", str(CYCLES))
        # The first one looks again only when the window of the second one is asked for.
        until(lambda: stage_instead(file, before) >= Stage.READY)
        traced.until(lambda: command.poll() is not None)
        output, errors = command.communicate()
        assert command.returncode == 0, errors
        assert '"cycles_seen":{"TP0":' in output
        assert "Another spectrace decides" in traced.why
        assert f"process {command.pid}" in traced.why
        assert traced.seen == []
        traced.until(lambda: not refuses(traced))  # control is inherited again
        traced.look()
        assert len(traced.seen) == 1


def refuses(traced: Traced) -> bool:
    """Whether somebody else decides."""
    try:
        traced.looks.refuse_without_control()
    except ShutError:
        return True
    return False


def test_where_no_cycle_comes_the_look_is_given_up(server: SimulatedServer) -> None:
    """After half a minute, which passes here at once; the file goes with it."""
    passed_s = [0.0]
    with Traced(server, clock_s=lambda: passed_s[0]) as traced:
        for rank in server.pids:
            server.order(rank, "idle")
        traced.until(lambda: all(server.does(rank) == "idle" for rank in server.pids))
        traced.looks.ask(CYCLES)

        def time_passes() -> bool:
            passed_s[0] += 1.0
            return LookStage.REFUSED in traced.stages

        traced.until(time_passes)
        assert 30 <= passed_s[0] < 40
        assert "too few cycles" in traced.why
        assert not any(path.suffix == ".kernels" for path in left_of(server.pids.values()))
