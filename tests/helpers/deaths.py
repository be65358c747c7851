"""Kills spectrace, ranks and servers at random moments, and looks at what is left of the others.

The same for simulated servers and for real ones: see `Server`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from spectrace.attach import procfs
from tests.helpers.command import TIMEOUT_S, run, start

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only listed
_KILLED_FIRST = 0.4  # of the servers: so often spectrace is killed before


class Server(Protocol):
    """A server under load."""

    @property
    def pid(self) -> int:
        """The process that started the others."""

    def ranks(self) -> list[int]:
        """Process ids of its schedulers, in order."""

    def answers(self) -> bool:
        """Whether it does its work as ever."""


@dataclass
class Toll:
    """What was killed, and what came of it.

    Attributes:
        kills: How many.
        attaches: Attaches that followed, each of which saw cycles and left nothing.
        joined: How many of those found the probe of one that was killed.
        exits: Exit statuses of spectraces whose server was killed, with how often.
    """

    kills: int = 0
    attaches: int = 0
    joined: int = 0
    exits: dict[int, int] = field(default_factory=dict)

    def exited(self, status: int) -> None:
        """Counts the end of a spectrace."""
        self.exits[status] = self.exits.get(status, 0) + 1


def files() -> set[str]:
    """What spectrace has in shared memory, files that are being made included."""
    return {path.name for path in SHARED_MEMORY.glob("*spectrace-*")}


def files_of(ticks: dict[int, int]) -> set[str]:
    """Those of these processes, by process id and start time, whether they run or not."""
    names = [f"spectrace-{pid}-{began}.ring" for pid, began in ticks.items()]
    return {found for found in files() if any(name in found for name in names)}


def ticks_of(server: Server) -> dict[int, int]:
    """The ranks of a server with their start times."""
    return {pid: procfs.start_ticks(pid) for pid in server.ranks()}


def attach(server: Server) -> subprocess.Popen[str]:
    """A spectrace that traces the server."""
    return start("attach", str(server.pid), "--no-page", "--json")


def a_moment(longest_s: float) -> None:
    """Lets a random time pass: in which a spectrace starts, attaches, or traces."""
    time.sleep(random.uniform(0.0, longest_s))  # noqa: S311 - no secret


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits until the condition holds.

    Raises:
        AssertionError: It does not within a minute.
    """
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def attach_well(server: Server, toll: Toll) -> float:
    """The next attach works, sees cycles, loses nothing, and leaves nothing.

    Returns:
        How long it took, in s: within that a spectrace has come to tracing.
    """
    ticks = ticks_of(server)
    began_s = time.monotonic()
    done = run("attach", str(server.pid), "--no-page", "--json", "--duration", "1s")
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["summary"]["cycles"] > 0
    assert last["session"]["lost_records"] == 0
    assert all(removal["removed"] for removal in last["removals"])
    assert files_of(ticks) == set()
    toll.attaches += 1
    toll.joined += not last["stall"]
    return time.monotonic() - began_s


def kill_spectraces(server: Server, count: int) -> Toll:
    """SIGKILL to spectrace: the server goes on, and the next one finds its way in and out."""
    toll, ranks = Toll(), server.ranks()
    longest_s = attach_well(server, Toll())
    for _ in range(count):
        process = attach(server)
        a_moment(longest_s)
        process.kill()
        process.communicate()
        toll.kills += 1
        assert server.ranks() == ranks
        assert server.answers()
        attach_well(server, toll)
    return toll


def kill_servers(make: Callable[[], contextlib.AbstractContextManager[Server]], count: int) -> Toll:
    """SIGKILL to a server's first process: spectrace ends, and says so; no file stays.

    Sometimes spectrace is killed before: then the next command removes what is left.
    """
    return _kill(make, count, lambda server: server.pid)


def kill_ranks(make: Callable[[], contextlib.AbstractContextManager[Server]], count: int) -> Toll:
    """SIGKILL to one of a server's ranks, as `kill_servers`."""
    return _kill(make, count, lambda server: random.choice(server.ranks()))  # noqa: S311 - no secret


def _kill(
    make: Callable[[], contextlib.AbstractContextManager[Server]],
    count: int,
    victim: Callable[[Server], int],
) -> Toll:
    toll = Toll()
    for _ in range(count):
        with make() as server:
            longest_s = attach_well(server, toll)
            ticks = ticks_of(server)
            process = attach(server)
            try:
                a_moment(longest_s)
                if random.random() < _KILLED_FIRST:  # noqa: S311 - no secret
                    process.kill()
                os.kill(victim(server), signal.SIGKILL)
                _, said = process.communicate(timeout=TIMEOUT_S)
            finally:
                process.kill()
                process.communicate()
            toll.kills += 1
            toll.exited(process.returncode)
            # Killed, or it says that the server ended, or what stood in the way of attaching.
            assert process.returncode in {-signal.SIGKILL, 1, 3}, said
            assert not any(word in said for word in ("Traceback", "Please report", "replaced")), (
                said
            )
        wait_until(lambda ticks=ticks: gone(ticks), "ranks outlive their server")  # type: ignore[misc]
        assert run("status").returncode == 0  # sweeps up
        assert files_of(ticks) == set()
    return toll


def gone(ticks: dict[int, int]) -> bool:
    """Whether none of these processes runs any more."""
    return not any(procfs.is_alive(pid, began) for pid, began in ticks.items())
