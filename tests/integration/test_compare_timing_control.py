"""What `spectrace compare-timing` leaves to others who read the same server, and who time it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from spectrace.attach import ring_file
from spectrace.cli.status import look_at
from spectrace.collect.ring_view import RingView
from spectrace.model import Rank
from spectrace.probe.layout import Mode, Word, split_mode
from tests.helpers.command import TIMEOUT_S, first_line_with, start
from tests.helpers.fake_worker import FakeWorker
from tests.helpers.simulated_server import SimulatedServer

_BEHIND_A_SWITCH_S = 3.0  # a switch lies a second ahead
_LOOK_S = 0.02


@pytest.fixture
def worker() -> Iterator[FakeWorker]:
    """A worker with cycles of 9 ms."""
    with FakeWorker("v1", "--scale", "0.3") as running:
        yield running


def mode_of(pid: int) -> str | None:
    """How a rank's cycles are timed at this moment; None where it is not traced."""
    return look_at(Rank(name="TP0", pid=pid)).mode


def until_timed(pids: Collection[int], among: Collection[str]) -> None:
    """Waits until all of these ranks are timed in one of some modes."""
    deadline = time.monotonic() + TIMEOUT_S
    while not all(mode_of(pid) in among for pid in pids):
        assert time.monotonic() < deadline, [mode_of(pid) for pid in pids]
        time.sleep(_LOOK_S)


def until_asked(pids: Collection[int], mode: int) -> None:
    """Waits until these ranks were last asked for a mode; nobody asks further for a second."""
    deadline = time.monotonic() + TIMEOUT_S
    while not all(asked_of(pid) == mode for pid in pids):
        assert time.monotonic() < deadline, [asked_of(pid) for pid in pids]
        time.sleep(_LOOK_S)


def asked_of(pid: int) -> int | None:
    """The mode in a rank's control word; None where it is not traced."""
    try:
        view = RingView(ring_file.ring_path(pid))
    except FileNotFoundError:
        return None
    asked, _ = split_mode(view.word(Word.MODE))
    view.close()
    return asked


def compare(pid: int, *options: str) -> subprocess.Popen[str]:
    """Begins a comparison, and comes back when it has asked for a mode that nobody else wants."""
    process = start("compare-timing", str(pid), "--yes", "--duration", "60s", *options)
    first_line_with(process, "Attaching")
    until_asked([pid], Mode.OFF)
    return process


def end(process: subprocess.Popen[str]) -> str:
    """Has a command end by Ctrl-C, and gives what it said."""
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    return output


def test_who_had_control_finds_the_server_timed_as_before(worker: FakeWorker) -> None:
    """It is broken off where mode off is asked for; soon all cycles are in mode host."""
    first = start("attach", str(worker.pid), "--no-page", "--timing", "host", "--json")
    first_line_with(first, '"final":false')
    end(compare(worker.pid, "--take-control"))
    until_timed([worker.pid], ["host"])
    time.sleep(_BEHIND_A_SWITCH_S)
    assert mode_of(worker.pid) == "host"
    last = json.loads(end(first).splitlines()[-1])
    assert last["session"]["lost_records"] == 0
    assert not ring_file.ring_path(worker.pid).exists()


def test_who_came_meanwhile_finds_the_server_timed_as_at_first(worker: FakeWorker) -> None:
    """The comparison itself had begun with device timing, and that is what it leaves behind."""
    comparing = compare(worker.pid)
    late = start("attach", str(worker.pid), "--no-page", "--json")
    first_line_with(late, '"final":false')
    until_asked([worker.pid], Mode.OFF)
    assert "left to" in " ".join(end(comparing).split())
    until_timed([worker.pid], ["device"])
    time.sleep(_BEHIND_A_SWITCH_S)
    assert mode_of(worker.pid) == "device"
    assert json.loads(end(late).splitlines()[-1])["session"]["controls"]


def test_who_takes_control_is_left_alone(worker: FakeWorker) -> None:
    """The comparison ends by itself and says who it was; the server stays as that one has it."""
    comparing = compare(worker.pid)
    other = start(
        "attach", str(worker.pid), "--no-page", "--json", "--take-control", "--timing", "sync"
    )
    output, errors = comparing.communicate(timeout=TIMEOUT_S)
    assert comparing.returncode == 0, errors
    said = " ".join(output.split())
    assert (
        f"Process {other.pid} has taken control" in said
        or f"process {other.pid} controls how server {worker.pid} is timed" in said
    )
    until_timed([worker.pid], ["sync"])
    time.sleep(_BEHIND_A_SWITCH_S)
    assert mode_of(worker.pid) == "sync"
    end(other)


def test_a_rank_that_came_late_is_timed_as_the_others(tmp_path: Path) -> None:
    """It takes part in the blocks from then on, and is left as they are left."""
    with SimulatedServer(tmp_path, "DP0") as server:
        first = start("attach", str(server.pid), "--no-page", "--timing", "host", "--json")
        first_line_with(first, '"final":false')
        comparing = compare(server.pids["DP0"], "--take-control")
        server.add("DP1")
        until_asked(server.pids.values(), Mode.SYNC)
        until_asked(server.pids.values(), Mode.OFF)
        end(comparing)
        until_timed(server.pids.values(), ["host"])
        time.sleep(_BEHIND_A_SWITCH_S)
        assert {mode_of(pid) for pid in server.pids.values()} == {"host"}
        end(first)
        assert server.untouched()
