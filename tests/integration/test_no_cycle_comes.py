"""A server that stands still while the probe is in it: what is said of it, and getting out."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrace.attach import discover, handle, inject, leave, loader, ring_file
from spectrace.attach.pulse import Activity
from spectrace.attach.session import TraceSession
from spectrace.collect.ring_view import RingView
from spectrace.model import Rank
from spectrace.probe.layout import State, Word
from tests.helpers.command import TIMEOUT_S, run
from tests.helpers.simulated_server import SimulatedServer
from tests.integration.attach_targets import sleeps_in, state_of, wait_until


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SimulatedServer]:
    """One rank that decodes."""
    with SimulatedServer(tmp_path, "TP0") as it:
        yield it


def attached(server: SimulatedServer) -> handle.Attached:
    """The probe is in, and traces."""
    it = inject.put_in(Rank(name="TP0", pid=server.pids["TP0"]))
    ring = RingView(it.path)
    wait_until(lambda: ring.word(Word.STATE) == State.TRACING)
    ring.close()
    return it


def still(server: SimulatedServer, what: str) -> None:
    """Waits until the rank does what leads to no cycle."""
    server.order("TP0", what)
    wait_until(lambda: server.does("TP0") == what)
    if what == "native":
        wait_until(lambda: sleeps_in(server.pids["TP0"], "poll"))
    elif what == "block":
        wait_until(lambda: sleeps_in(server.pids["TP0"], "select", "pselect6"))


def texts_in(pid: int) -> int:
    """Anonymous mappings of the size of a text that was put in."""
    lines = [line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines()]
    ranges = [line[0].split("-") for line in lines if len(line) == 5]
    return sum(int(end, 16) - int(start, 16) == loader.TEXT_BYTES for start, end in ranges)


@pytest.mark.parametrize("what", ["pause", "block"])
def test_a_probe_that_no_cycle_reaches_is_pushed_out(server: SimulatedServer, what: str) -> None:
    """Python runs without a cycle, or the main thread sleeps in the kernel: it is out in 2 s."""
    it = attached(server)
    still(server, what)
    before = texts_in(it.rank.pid)
    began = time.monotonic()
    assert leave.take_out(it) == handle.TakenOut(
        removed=True, foreign=(), reason="The probe is out."
    )
    assert time.monotonic() - began > 1.9
    assert not it.path.exists()
    if what == "block":
        server.wake("TP0")
    assert server.untouched()
    assert texts_in(it.rank.pid) <= before


def test_an_idle_server_lets_it_go_at_once(server: SimulatedServer) -> None:
    """Its idle call is a boundary like a cycle: nothing has to be put in a second time."""
    it = attached(server)
    still(server, "idle")
    began = time.monotonic()
    assert leave.take_out(it).removed
    assert time.monotonic() - began < 1.9
    assert server.untouched()


def test_a_cycle_that_is_cut_off_is_marked(server: SimulatedServer) -> None:
    """Of a scheduler blocked within a cycle the last record says that it is not whole."""
    run_ = discover.find_by_pid(server.pid)
    with TraceSession(run_) as session:
        deadline = time.monotonic() + TIMEOUT_S
        while not session.poll():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        still(server, "block in a cycle")
        wait_until(lambda: sleeps_in(server.pids["TP0"], "select", "pselect6"))
        session.poll()
        (out,) = session.detach()
        assert out.removed
        last = session.last_cycles[-1]
    assert last.ranks[0].incomplete
    server.wake("TP0")
    assert server.untouched()


def test_a_process_that_was_stopped_is_named_as_such_and_lets_it_go_later(
    server: SimulatedServer,
) -> None:
    """Into a process in state T nothing is put; the probe leaves at the first cycle after it."""
    it = attached(server)
    os.kill(it.rank.pid, signal.SIGSTOP)
    wait_until(lambda: state_of(it.rank.pid) == "T")
    out = leave.take_out(it)
    assert not out.removed
    assert f"kill -CONT {it.rank.pid}" in out.reason
    assert it.path.exists()
    os.kill(it.rank.pid, signal.SIGCONT)
    assert leave.take_out_pid(it.rank.pid, timeout_s=60, was_there=True).removed
    assert not it.path.exists()
    assert server.untouched()


def test_native_code_that_keeps_python_from_running_is_not_disturbed(
    server: SimulatedServer,
) -> None:
    """What was put in waits for its end, finds the probe gone by then, and frees itself."""
    it = attached(server)
    before = texts_in(it.rank.pid)
    still(server, "native")
    out = leave.take_out(it)
    assert not out.removed
    assert "paused, or blocked" in out.reason
    server.wake("TP0")
    assert leave.take_out_pid(it.rank.pid, timeout_s=60).removed
    assert server.untouched()
    wait_until(lambda: texts_in(it.rank.pid) <= before)


def test_detach_from_the_command_line_works_on_a_paused_server(server: SimulatedServer) -> None:
    """Whoever put the probe in: it is out, and its file is gone."""
    it = attached(server)
    still(server, "pause")
    done = run("detach", str(server.pid))
    assert done.returncode == 0, done.stderr
    assert not ring_file.ring_path(it.rank.pid).exists()
    assert server.untouched()


def test_idle_and_still_are_told_apart(server: SimulatedServer) -> None:
    """A session knows by the idle calls which of the two a server is, when no cycle comes."""
    with TraceSession(discover.find_by_pid(server.pid)) as session:
        for what, activity in (
            ("decode", Activity.DECODING),
            ("idle", Activity.IDLE),
            ("pause", Activity.STILL),
            ("idle", Activity.IDLE),
        ):
            server.order("TP0", what)
            deadline = time.monotonic() + TIMEOUT_S
            while session.facts().ranks[0].activity is not activity:
                assert time.monotonic() < deadline, what
                session.poll()
                time.sleep(0.01)
    assert server.untouched()
