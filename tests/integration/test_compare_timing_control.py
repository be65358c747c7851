"""What `spectrace compare-timing` leaves to others who read the same server, and who time it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Thread

import pytest

from spectrace.attach import discover, modes, ring_file
from spectrace.attach.rank_status import look_at
from spectrace.collect.ring_view import RingView
from spectrace.model import Rank, TimingMode
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
    word = word_of(pid)
    return None if word is None else split_mode(word)[0]


def word_of(pid: int) -> int | None:
    """A rank's control word: a mode, and the cycle from which on; None where it is not traced."""
    try:
        view = RingView(ring_file.ring_path(pid))
    except FileNotFoundError:
        return None
    word = view.word(Word.MODE)
    view.close()
    return word


def compare(pid: int, *options: str) -> subprocess.Popen[str]:
    """Begins a comparison, and comes back when it has asked for a mode that nobody else wants."""
    process = start("compare-timing", str(pid), "--yes", "--duration", "60s", *options)
    first_line_with(process, "Attaching")
    until_asked([pid], Mode.OFF)
    return process


def end(process: subprocess.Popen[str], said: Future[tuple[str, str]] | None = None) -> str:
    """Has a command end by Ctrl-C, and gives what it said."""
    process.send_signal(signal.SIGINT)
    output, errors = said.result() if said else process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    return output


def hear(process: subprocess.Popen[str]) -> Future[tuple[str, str]]:
    """Reads what a command says from now on: where its pipe is full, a line breaks off."""
    said: Future[tuple[str, str]] = Future()
    Thread(
        target=lambda: said.set_result(process.communicate(timeout=TIMEOUT_S)), daemon=True
    ).start()
    return said


def test_who_had_control_finds_the_server_timed_as_before(worker: FakeWorker) -> None:
    """It is broken off where mode off is asked for; soon all cycles are in mode host."""
    first = start("attach", str(worker.pid), "--no-page", "--timing", "host", "--json")
    first_line_with(first, '"final":false')
    said = hear(first)
    end(compare(worker.pid, "--take-control"))
    until_timed([worker.pid], ["host"])
    time.sleep(_BEHIND_A_SWITCH_S)
    assert mode_of(worker.pid) == "host"
    last = json.loads(end(first, said).splitlines()[-1])
    assert last["session"]["lost_records"] == 0
    assert not ring_file.ring_path(worker.pid).exists()


def test_who_came_meanwhile_finds_the_server_timed_as_at_first(worker: FakeWorker) -> None:
    """The comparison itself had begun with device timing, and that is what it leaves behind."""
    comparing = compare(worker.pid)
    late = start("attach", str(worker.pid), "--no-page", "--json")
    first_line_with(late, '"final":false')
    said = hear(late)
    until_asked([worker.pid], Mode.OFF)
    assert "left to" in " ".join(end(comparing).split())
    until_timed([worker.pid], ["device"])
    time.sleep(_BEHIND_A_SWITCH_S)
    assert mode_of(worker.pid) == "device"
    assert json.loads(end(late, said).splitlines()[-1])["session"]["controls"]


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


def test_who_had_control_ends_sync_of_one_that_was_killed(tmp_path: Path) -> None:
    """All ranks are asked for the host's clock again, from one cycle on, and a line says so."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as server:
        first = start("attach", str(server.pid), "--no-page", "--timing", "host")
        first_line_with(first, "cycles/s")
        pids = server.pids.values()
        comparing = compare(server.pids["TP0"], "--take-control")
        until_asked(pids, Mode.SYNC)
        kill(comparing)
        until_asked(pids, Mode.HOST)
        time.sleep(_BEHIND_A_SWITCH_S)
        assert len({word_of(pid) for pid in pids}) == 1
        assert {asked_of(pid) for pid in pids} == {Mode.HOST}
        said = " ".join(end(first).split())
        assert "asked for mode host now, as when this spectrace last controlled it" in said
        assert server.untouched()


def kill(process: subprocess.Popen[str]) -> None:
    """Ends a command that can do nothing about it."""
    process.kill()
    process.communicate(timeout=TIMEOUT_S)


def test_who_only_read_along_ends_sync_of_one_that_was_killed(worker: FakeWorker) -> None:
    """It has never controlled and asked for nothing: the server is timed without slowing it."""
    comparing = compare(worker.pid)
    late = start("attach", str(worker.pid), "--no-page")
    first_line_with(late, "cycles/s")
    until_timed([worker.pid], ["sync"])
    kill(comparing)
    until_timed([worker.pid], ["device"])
    assert "asked for mode device now" in " ".join(end(late).split())


def test_a_mode_that_a_person_asks_for_meanwhile_stays(worker: FakeWorker) -> None:
    """Where it comes just when the comparison was about to ask: that one ends and says why.

    A person who asks again and again hits such a moment, and stops when the comparison has ended.
    """
    comparing = start("compare-timing", str(worker.pid), "--yes", "--json", "--duration", "60s")
    late = None
    try:
        until_asked([worker.pid], Mode.OFF)
        late = start("attach", str(worker.pid), "--no-page", "--json")
        first_line_with(late, '"final":false')
        run = discover.find_by_pid(worker.pid)
        with ThreadPoolExecutor(max_workers=1) as beside:
            ended = beside.submit(line_of_errors, comparing, "it ends here")
            while not ended.done():
                modes.switch(run, TimingMode.HOST, lambda _: None, take_control=True)
                time.sleep(_LOOK_S)
        assert "mode host" in ended.result()
        output, errors = comparing.communicate(timeout=TIMEOUT_S)
        assert comparing.returncode == 0, errors
        result = json.loads(output)
        assert result["end"] == "switched"
        last = result["comparison"]["sentences"][-1]
        assert last.startswith("Somebody asked for another mode before the end.")
        time.sleep(_BEHIND_A_SWITCH_S)
        assert asked_of(worker.pid) == Mode.HOST
    finally:
        if late is not None:
            end(late)


def line_of_errors(process: subprocess.Popen[str], text: str) -> str:
    """Waits for a line on stderr, or for its end."""
    assert process.stderr is not None
    return next((line for line in process.stderr if text in line), "")
