"""Servers in containers: attached to from outside and from inside, and nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from spectrace.attach import discover, inject, leave, procfs, rank_status, ring_file
from spectrace.attach.handle import Options
from spectrace.attach.session import End, TraceSession
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Cycle
from spectrace.probe.layout import State, Word
from tests.helpers.command import SPECTRACE
from tests.helpers.container import CHROOT, OUTER_ID, Container, children, inside
from tests.helpers.tracing import POLL_S
from tests.integration.attach_targets import interpreters, wait_until

pytestmark = pytest.mark.beside_others

TIMEOUT_S = 60.0
CYCLES = 20
TITLES = ("sglang::scheduler_TP1", "sglang::scheduler_TP0")


def cycles_of(session: TraceSession) -> list[Cycle]:
    """So many cycles as both ranks report."""
    cycles: list[Cycle] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(cycles) < CYCLES and time.monotonic() < deadline:
        cycles += [cycle for cycle in session.poll() if len(cycle.ranks) == len(TITLES)]
        time.sleep(POLL_S)
    return cycles


def in_its_memory(container: Container) -> list[Path]:
    """What lies in the shared memory of a container."""
    return sorted(container.shared_memory.iterdir())


@pytest.mark.parametrize("own_users", [False, True], ids=["", "own users"])
def test_server_in_a_container_is_traced_from_outside(own_users: bool) -> None:
    """The rings are its user's, in its own shared memory, by its own process ids, until the end."""
    with Container(*TITLES, own_users=own_users) as container:
        run = discover.find_by_pid(container.server_pid)
        assert [rank.name for rank in run.ranks] == ["TP0", "TP1"]
        assert {rank.pid for rank in run.ranks} == set(container.rank_pids)
        with TraceSession(run, options=Options(units=4096)) as session:
            cycles = cycles_of(session)
            rings = in_its_memory(container)
            assert {ring.name for ring in rings} == {
                f"spectrace-{procfs.inner_pid(pid)}-{procfs.start_ticks(pid)}.ring"
                for pid in container.rank_pids
            }
            assert {ring.stat().st_uid for ring in rings} == {OUTER_ID if own_users else 0}
            assert {ring.stat().st_mode & 0o777 for ring in rings} == {0o600}
        assert len(cycles) >= CYCLES
        assert all(len(cycle.requests or ()) == 2 for cycle in cycles[: CYCLES // 2])
        assert all(out.removed for out in session.detach())
        assert in_its_memory(container) == []
        assert all(procfs.is_alive(pid) for pid in container.rank_pids)


def test_server_with_another_root_and_another_python_is_traced() -> None:
    """Of files that we see under longer names than it does the right ones are looked into."""
    python = min(interpreters())
    with Container(*TITLES, python=str(python), enter=CHROOT) as container:
        maps = Path(f"/proc/{container.rank_pids[0]}/maps").read_text("utf-8")
        assert f"/root{python.parents[1]}" in maps
        with TraceSession(discover.find_by_pid(container.server_pid)) as session:
            assert len(cycles_of(session)) >= CYCLES
        assert all(out.removed for out in session.detach())
        assert in_its_memory(container) == []


def test_ring_of_a_server_that_ended_goes_though_its_container_goes_on() -> None:
    """The way to it through the process is gone; another process of the container leads there."""
    with Container() as container:
        (pid,) = container.rank_pids
        shared_memory = Path(f"/proc/{container.server_pid}/root/dev/shm")
        with TraceSession(discover.find_by_pid(pid), options=Options(units=4096)) as session:
            assert list(shared_memory.iterdir())
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: session.end is End.SERVER_DIED)
            assert list(shared_memory.iterdir())
            # Its process id is free once its parent has asked how it ended.
            container.tell()
            wait_until(lambda: not Path(f"/proc/{pid}").exists())
        assert list(shared_memory.iterdir()) == []


def test_what_a_spectrace_inside_traces_is_left_alone_outside() -> None:
    """Its numbers mean nothing to us: no sweep removes its ring, and we read along with it."""
    with Container() as container:
        (pid,) = container.rank_pids
        command = inside(container.server_pid, SPECTRACE, "attach", "1", "--no-page", "--json")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as tracing:
            try:
                assert tracing.stdout is not None
                assert tracing.stdout.readline()
                ring = RingView(ring_file.ring_path(pid))
                assert ring.word(Word.TARGET_PID) == procfs.inner_pid(pid)
                assert ring.path not in ring_file.sweep()
                assert ring.path.exists()
                (rank,) = discover.find_by_pid(pid).ranks
                seen = rank_status.look_at(rank)
                assert seen.state == "traced"
                assert seen.reader == "a spectrace in another container"
                joined = inject.put_in(rank)
                assert joined.joined
                assert leave.take_out(joined).left_to
                os.kill(children(tracing.pid)[0], signal.SIGTERM)
                tracing.communicate(timeout=TIMEOUT_S)
                assert ring.word(Word.STATE) == State.DETACHED
                ring.close()
                assert in_its_memory(container) == []
            finally:
                tracing.kill()


def test_shared_memory_of_a_container_that_is_too_small_is_named() -> None:
    """The server is left as it was, and the error says what to start it with."""
    with Container(shared_memory="64k") as container:
        run = discover.find_by_pid(container.server_pid)
        with pytest.raises(SpectraceError, match=r"no room for a ring of .* larger --shm-size"):
            inject.put_in(run.ranks[0])
        assert in_its_memory(container) == []
        with pytest.raises(SpectraceError, match="There is no spectrace in process"):
            leave.take_out_pid(container.rank_pids[0])
