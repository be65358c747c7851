"""`spectrace sweep` on the real server: stopped, killed, gone on with, and at its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

import spectrace
from examples.sglang_cpu.server import START_TIMEOUT_S, answers
from tests.helpers.command import SPECTRACE
from tests.helpers.sweep_command import sweep_command

ASKED = ("--steps", "5", "--setting", "broken=--speculative-num-steps x")
LOAD = ("--requests", "30", "--concurrency", "1", "--warm-up", "3", "--max-tokens", "64")
TIMEOUT_S = 2 * START_TIMEOUT_S


@dataclass(frozen=True)
class Sweep:
    """A sweep over plain decode, 5 steps, and a setting that no server takes.

    Attributes:
        folder: Where it keeps what it has.
        command: The command that begins it and goes on with it.
        environment: Of its servers.
        url: Where they answer.
    """

    folder: Path
    command: tuple[str, ...]
    environment: dict[str, str]
    url: str

    def start(self, log: Path) -> subprocess.Popen[bytes]:
        """Starts the command."""
        with log.open("wb") as output:
            return subprocess.Popen(
                self.command, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )

    def run(self, *more: str) -> subprocess.CompletedProcess[str]:
        """Runs it to its end."""
        place = self.command.index("--")
        return subprocess.run(
            [*self.command[:place], *more, *self.command[place:]],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    def servers(self) -> list[int]:
        """Process ids of its servers: nobody else has that port."""
        port = self.url.rpartition(":")[2]
        found = []
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or []
            if "sglang.launch_server" in line and port in line and SPECTRACE not in line:
                found.append(process.pid)
        return found

    def wait_until_up(self, process: subprocess.Popen[bytes], log: Path) -> None:
        """Returns when the first server answers."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not answers(self.url):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sweep]:
    """The sweep, not begun; whatever server a test leaves is killed."""
    folder = tmp_path_factory.mktemp("sweep") / "folder"
    found = Sweep(folder, *sweep_command(folder, *ASKED, *LOAD))
    yield found
    for pid in found.servers():
        os.killpg(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def interrupted(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, int]:
    """Exit status, output and servers left of a sweep that met Ctrl-C in its first turn."""
    log = tmp_path_factory.mktemp("interrupted") / "log"
    process = sweep.start(log)
    sweep.wait_until_up(process, log)
    process.send_signal(signal.SIGINT)
    status = process.wait(TIMEOUT_S)
    return status, log.read_text(), len(sweep.servers())


def test_ctrl_c_stops_the_server_and_leaves_nothing_half_done(
    sweep: Sweep, interrupted: tuple[int, str, int]
) -> None:
    """The command says how to go on; the turn has left no file."""
    status, output, servers = interrupted
    assert (status, servers) == (130, 0), output
    assert "the same command goes on from here" in output
    assert sorted(file.name for file in sweep.folder.iterdir()) == ["owner", "sweep.json"]


@dataclass(frozen=True)
class Result:
    """What a whole sweep said: its notes, its result, and its exit status."""

    notes: str
    found: dict[str, Any]
    status: int

    def setting(self, name: str) -> dict[str, Any]:
        """What one setting came to."""
        return next(one for one in self.found["settings"] if one["name"] == name)


def result_of(done: subprocess.CompletedProcess[str]) -> Result:
    """Reads the output of `--json`."""
    assert done.stdout, done.stderr
    return Result(done.stderr, json.loads(done.stdout), done.returncode)


@pytest.fixture(scope="module")
def whole(
    sweep: Sweep, interrupted: tuple[int, str, int], tmp_path_factory: pytest.TempPathFactory
) -> Result:
    """The result of a sweep of which an earlier try was killed with its server running."""
    del interrupted
    log = tmp_path_factory.mktemp("killed") / "log"
    process = sweep.start(log)
    sweep.wait_until_up(process, log)
    process.kill()
    process.wait()
    assert len(sweep.servers()) == 1
    return result_of(sweep.run("--json"))


def test_after_a_kill_the_server_that_was_left_is_ended_and_all_is_measured(
    sweep: Sweep, whole: Result
) -> None:
    """Each turn has a recording that opens, and none is left to do."""
    assert "Ended what a sweep that was killed here left running" in whole.notes
    assert whole.found["left"] == 0
    assert sweep.servers() == []
    for name in ("plain.1", "5-steps.1"):
        with spectrace.open(sweep.folder / f"{name}.spectrace") as recording:
            assert recording.cycles.num_rows > 100


def test_a_setting_is_the_best_only_where_its_interval_clears_the_other(whole: Result) -> None:
    """Which one that is, if any, is a matter of speed; `tests/benchmarks/sweep.py` measures it."""
    assert whole.status == 0, whole.notes
    plain, drafting = (whole.setting(name)["tokens_per_s"] for name in ("plain", "5-steps"))
    clear = [
        name
        for name, one, other in (("plain", plain, drafting), ("5-steps", drafting, plain))
        if one["low"] > other["high"]
    ]
    assert whole.found["best"] == (clear[0] if clear else None)
    assert bool(whole.found["restart"]) is bool(clear)
    said = " ".join(whole.found["sentences"])
    assert ("is the fastest" in said) is bool(clear)
    assert ("no clear winner" in said) is not bool(clear)


def test_what_was_traced_agrees_with_what_the_load_measured(whole: Result) -> None:
    """Tokens by cycles and by answers: within 10 %, for requests are cut at the ends."""
    for name in ("plain", "5-steps"):
        one = whole.setting(name)
        assert one["tokens_per_s"]["value"] == pytest.approx(one["sent_tokens_per_s"], rel=0.1)
        assert one["busy_share"] > 0.5
    assert whole.setting("plain")["accept_length"] is None
    assert 1 < whole.setting("5-steps")["accept_length"]["value"] <= 6


def test_a_setting_that_no_server_takes_is_named_with_what_the_server_said(whole: Result) -> None:
    """The others are measured all the same."""
    broken = whole.setting("broken")
    assert broken["tokens_per_s"] is None
    assert "ended with status 2 while it started" in broken["failure"]
    assert any("invalid int value: 'x'" in line for line in broken["last_lines"])


def test_what_is_done_is_not_done_again(sweep: Sweep, whole: Result) -> None:
    """What failed is tried again, the rest is read; the result is the same."""
    before = {file.name: file.stat().st_mtime_ns for file in sweep.folder.glob("*.spectrace")}
    again = result_of(sweep.run("--json"))
    assert again.notes.count("is there already") == 2
    assert "broken.1 (3 of 3): failed" in again.notes
    assert {f.name: f.stat().st_mtime_ns for f in sweep.folder.glob("*.spectrace")} == before
    assert again.found["best"] == whole.found["best"]
    assert again.found["settings"][:2] == whole.found["settings"][:2]


def test_the_recordings_of_a_sweep_can_be_compared(sweep: Sweep, whole: Result) -> None:
    """5 steps against plain decode: of the two only one drafts, and the options say so."""
    del whole
    files = [str(sweep.folder / f"{name}.1.spectrace") for name in ("5-steps", "plain")]
    done = subprocess.run(
        [SPECTRACE, "compare", *files, "--json"], capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    comparison = found["comparison"]
    assert "other_kinds" in comparison["notes"]
    assert [side["steps"] for side in comparison["sides"]] == [[5], [0]]
    phases = {one["phase"]: one["time_ms"] for one in comparison["host"]}
    assert phases["draft"]["one"]["value"] > 0
    assert phases["draft"]["other"]["value"] == 0
    parts = sum(times["excess"]["value"] for times in phases.values())
    assert parts == pytest.approx(comparison["cycle_ms"]["excess"]["value"], abs=0.01)
    options = {each["what"]: (each["one"], each["other"]) for each in found["settings"]}
    assert options["--speculative-num-steps"] == ("5", "not given")
