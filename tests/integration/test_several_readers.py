"""Several spectraces read one server: one controls, and the probe stays until the last leaves."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from spectrace.attach import discover, ring_file
from spectrace.attach.session import TraceSession
from spectrace.model import Cycle
from tests.helpers.command import TIMEOUT_S, run, start
from tests.helpers.simulated_server import SimulatedServer

pytestmark = pytest.mark.beside_others


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SimulatedServer]:
    """Two ranks that decode."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as it:
        yield it


class Spectrace:
    """`spectrace attach --json` as a process whose reports are read all the time.

    One that could not write would stand still, and lose its control.
    """

    def __init__(self, server: SimulatedServer, *arguments: str) -> None:
        self.process = start("attach", str(server.pid), "--json", "--no-page", *arguments)
        self._reports: deque[dict[str, Any]] = deque()
        self._said: list[str] = []
        self._threads = [Thread(target=self._read), Thread(target=self._listen)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self._reports.extend(map(json.loads, self.process.stdout))

    def _listen(self) -> None:
        assert self.process.stderr is not None
        self._said.extend(self.process.stderr)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def session(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Waits until its newest report says of the session what meets the condition."""
        deadline = time.monotonic() + TIMEOUT_S
        while not self._reports or not condition(self._reports[-1]["session"]):
            assert self.process.poll() is None, self._said
            assert time.monotonic() < deadline, list(self._reports)[-1:]
            time.sleep(0.05)
        session: dict[str, Any] = self._reports[-1]["session"]
        return session

    def end(self) -> tuple[dict[str, Any], str]:
        """Ends it by Ctrl-C; gives its last report and what it said beside its reports."""
        self.process.send_signal(signal.SIGINT)
        return self.ended()

    def ended(self) -> tuple[dict[str, Any], str]:
        """Waits for its end."""
        self._join()
        assert self.process.returncode == 0, self._said
        return self._reports[-1], "".join(self._said)

    def kill(self) -> None:
        """As the kernel does where memory runs out."""
        self.process.kill()
        self._join()

    def _join(self) -> None:
        self.process.wait(TIMEOUT_S)
        for thread in self._threads:
            thread.join()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def spectraces() -> Iterator[list[Spectrace]]:
    """Those that a test started; none of them outlives it."""
    started: list[Spectrace] = []
    yield started
    for one in started:
        if one.process.poll() is None:
            one.kill()


def rings(server: SimulatedServer) -> list[bool]:
    """Of each rank whether it has a ring."""
    return [ring_file.ring_path(pid).exists() for pid in server.pids.values()]


def decoding(session: dict[str, Any]) -> bool:
    """Cycles come from both ranks."""
    return all(rank["activity"] == "decoding" for rank in session["ranks"])


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """What a command that was refused said."""
    assert done.returncode == 1
    return done.stderr


def test_control_passes_on_and_the_last_one_takes_the_probe_out(
    server: SimulatedServer, spectraces: list[Spectrace]
) -> None:
    """By SIGKILL of the one that had it, by --take-control, and by its leaving."""
    first = Spectrace(server)
    spectraces.append(first)
    assert first.session(decoding)["controls"]
    assert not server.untouched()
    second = Spectrace(server)
    spectraces.append(second)
    found = second.session(decoding)
    assert (found["controls"], found["controller_pid"], found["readers"]) == (False, first.pid, 2)

    pid = str(server.pid)
    assert f"process {first.pid} decides" in refused(run("attach", pid, "--timing", "off"))
    assert f"controlled by process {first.pid}" in refused(run("mode", "off", pid))

    first.kill()
    assert second.session(lambda session: session["controls"])["readers"] == 1
    third = Spectrace(server, "--timing", "off", "--take-control")
    spectraces.append(third)
    assert third.session(decoding)["controls"]
    found = second.session(lambda session: not session["controls"])
    assert found["controller_pid"] == third.pid

    last, said = second.end()
    assert [removal["left_to"] for removal in last["removals"]] == [True, True]
    assert last["session"]["lost_records"] == last["session"]["missing_cycles"] == 0
    assert f"Process {first.pid} controls how the server is timed" in said
    assert "This spectrace controls now" in said
    assert f"Process {third.pid} controls how the server is timed" in said
    assert rings(server) == [True, True]
    last, _ = third.end()
    assert [removal["removed"] for removal in last["removals"]] == [True, True]
    assert rings(server) == [False, False]
    assert server.untouched()


def test_who_comes_to_control_again_has_the_sampling_of_before(
    server: SimulatedServer, spectraces: list[Spectrace]
) -> None:
    """What one that took control asked for goes with it, on all ranks, and a line says so."""
    first = Spectrace(server, "--sample-every", "4")
    spectraces.append(first)
    first.session(lambda session: decoding(session) and session["sample_every"] == 4)
    second = Spectrace(server, "--take-control", "--sample-every", "50")
    spectraces.append(second)
    first.session(lambda session: not session["controls"] and session["sample_every"] == 50)
    second.kill()
    first.session(lambda session: session["controls"] and session["sample_every"] == 4)
    ranks = {
        rank["pid"]: rank
        for one in json.loads(run("status", "--json").stdout)
        for rank in one["ranks"]
    }
    assert [ranks[pid]["sample_every"] for pid in server.pids.values()] == [4, 4]
    _, said = first.end()
    assert (
        "left with one cycle in 50 in full by whoever controlled it: it is asked for one cycle in "
        "4 in full now, as when this spectrace last controlled it"
    ) in " ".join(said.split())
    assert server.untouched()


def test_a_reader_that_was_killed_does_not_keep_the_probe_in(
    server: SimulatedServer, spectraces: list[Spectrace]
) -> None:
    """The one that controls is the last, and takes it out."""
    spectraces += [Spectrace(server)]
    spectraces[0].session(decoding)
    spectraces += [Spectrace(server)]
    spectraces[1].session(decoding)
    spectraces[1].kill()
    last, _ = spectraces[0].end()
    assert [removal["removed"] for removal in last["removals"]] == [True, True]
    assert rings(server) == [False, False]
    assert server.untouched()


def test_detach_takes_the_probe_out_whoever_reads(
    server: SimulatedServer, spectraces: list[Spectrace]
) -> None:
    """Both end by themselves, with what they have, and say why."""
    for _ in range(2):
        spectraces.append(Spectrace(server))
        spectraces[-1].session(decoding)
    done = run("detach", str(server.pid))
    assert done.returncode == 0, done.stderr
    for one in spectraces:
        last, _ = one.ended()
        assert last["end"] == "taken_out"
        assert last["summary"]["cycles"] > 0
    assert rings(server) == [False, False]
    assert server.untouched()


def test_two_that_start_at_the_same_moment_both_read(
    server: SimulatedServer, spectraces: list[Spectrace]
) -> None:
    """Neither is refused, exactly one controls, and all ranks are its own."""
    spectraces += [Spectrace(server), Spectrace(server)]
    found = [one.session(lambda session: session["readers"] == 2) for one in spectraces]
    assert sorted(session["controls"] for session in found) == [False, True]
    for one in spectraces:
        one.end()
    assert rings(server) == [False, False]
    assert server.untouched()


def test_readers_get_the_same_cycles_with_all_request_ids(server: SimulatedServer) -> None:
    """Also one that joins long after the ids were sent; nobody loses anything."""
    found = discover.find_by_pid(server.pid)
    with TraceSession(found) as first:
        early = cycles_of(first, 20)
        with TraceSession(found) as second:
            late: list[Cycle] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(late) < 40 and time.monotonic() < deadline:
                late += second.poll()
                early += first.poll()
                time.sleep(0.01)
        early += cycles_of(first, 20)
        assert (first.lost, second.lost) == (0, 0)
    by_number = {cycle.number: cycle for cycle in early}
    for cycle in {cycle.number: cycle for cycle in late}.values():
        assert cycle == by_number[cycle.number]
        assert cycle.requests is not None
        assert {row.request_id for row in cycle.requests} == {"request-0", "request-1"}
    assert rings(server) == [False, False]
    assert server.untouched()


def cycles_of(session: TraceSession, count: int) -> list[Cycle]:
    """At least so many cycles, as they come."""
    cycles: list[Cycle] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(cycles) < count:
        assert time.monotonic() < deadline
        cycles += session.poll()
        time.sleep(0.01)
    return cycles
