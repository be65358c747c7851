"""What a run of the real server lets expect of another one comes true, and the verdict follows.

Its tiny models accept what can be computed by hand: the drafts in a row that the draft model can
say. Greedy answers are the same with any number of steps.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import spectrace
from examples.sglang_cpu.load import Answer, generate
from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.measures import WARM_UP_CYCLES
from tests.helpers.command import first_line_with, run, start
from tests.helpers.simulated_server import SimulatedServer

REQUESTS = 24
TOKENS = 64


def said(*arguments: object) -> Any:
    """What a command says as JSON."""
    done = run(*map(str, arguments), "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def recorded(server: CpuServer, path: Path) -> list[Answer]:
    """Records a server while it answers one request after the other, and what it answers."""
    recorder = start("record", str(server.pid), "-o", str(path))
    first_line_with(recorder, "held up")
    answers = generate(
        server.url, requests=REQUESTS, concurrency=1, max_new_tokens=TOKENS, tag="report"
    )
    recorder.send_signal(signal.SIGINT)
    output, errors = recorder.communicate(timeout=60)
    assert (recorder.returncode, errors) == (0, ""), output
    return answers


class Runs:
    """Three recordings of the same requests: 5 steps, 2 steps, and plain decode.

    The first server was asked for a report before any request came.
    """

    def __init__(self, folder: Path) -> None:
        self.five, self.two, self.plain = (folder / f"{name}.spectrace" for name in "52p")
        with CpuServer(ServerOptions()) as server:
            self.at_rest = run("report", str(server.pid), "--duration", "1s")
            self.five_answers = recorded(server, self.five)
        with CpuServer(ServerOptions(steps=2, draft_tokens=3)) as server:
            self.two_answers = recorded(server, self.two)
        with CpuServer(ServerOptions(speculative=False)) as server:
            self.plain_answers = recorded(server, self.plain)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Made once."""
    return Runs(tmp_path_factory.mktemp("runs"))


def lengths(answers: list[Answer]) -> float:
    """The accept length by the server's own counts."""
    verifies = sum(answer.verify_count for answer in answers)
    return (sum(answer.correct_drafts for answer in answers) + verifies) / verifies


def kept_lengths(answers: list[Answer]) -> float:
    """Tokens per verify that requests got, without the one that the prefill of each gave."""
    tokens = sum(answer.completion_tokens - 1 for answer in answers)
    return tokens / sum(answer.verify_count for answer in answers)


def test_the_accept_length_is_the_servers_own(runs: Runs) -> None:
    """But for ten cycles of warm-up, which are in none of its figures."""
    [found] = said("report", runs.five)["acceptance"]
    assert found["accept_length"]["value"] == pytest.approx(lengths(runs.five_answers), rel=0.02)
    served = sum(answer.completion_tokens for answer in runs.five_answers)
    verifies = sum(answer.verify_count for answer in runs.five_answers)
    assert found["sglang_accept_length"] == pytest.approx(served / verifies, rel=0.03)


def test_five_steps_predict_the_accept_length_of_two(runs: Runs, tmp_path: Path) -> None:
    """What requests got with two steps lies within the predicted interval."""
    kept = tmp_path / "two.json"
    said("predict", runs.five, "--steps", 2, "-o", kept)
    expected = json.loads(kept.read_text())["assumptions"]["accept_length"]
    measured = kept_lengths(runs.two_answers)
    assert expected["low"] <= measured <= expected["high"]
    found = said("predict", runs.two, "--check", kept)
    by_name = {one["quantity"]: one for one in found["assumptions"]}
    assert by_name["accept_length"]["held"] == "held"
    assert by_name["accept_length"]["measured"]["value"] == pytest.approx(measured, rel=0.03)


def mean_ms(path: Path) -> float:
    """The mean of the cycles that speculate or decode, without warm-up and those before idling."""
    with spectrace.open(path) as run:
        cycles, ranks = run.cycles.to_pylist(), run.ranks.to_pylist()
    flags = ("ended_idle", "incomplete", "late_switch")
    idle = {rank["id"] for rank in ranks if any(rank[flag] for flag in flags)}
    first = sorted(cycle["number"] for cycle in cycles)[WARM_UP_CYCLES]
    times_ms: list[float] = [
        (cycle["end_ns"] - cycle["start_ns"]) / 1e6
        for cycle in cycles
        if cycle["kind"] in {"speculative", "decode"}
        and cycle["number"] >= first
        and cycle["id"] not in idle
    ]
    return fmean(times_ms)


def test_the_verdict_is_what_the_two_recordings_say(runs: Runs) -> None:
    """Break-even and speed-up by hand; which of them is faster depends on what else runs here."""
    found = said("report", runs.five, "--baseline", runs.plain)["verdict"]
    [main] = found["by_batch"]
    break_even = mean_ms(runs.five) / mean_ms(runs.plain)
    assert (main["batch"], main["plain_source"]) == (1, "recording")
    assert main["break_even"]["value"] == pytest.approx(break_even, rel=1e-6)
    tokens = main["tokens_per_cycle"]["value"]
    assert found["speed_up"]["value"] == pytest.approx(tokens / break_even, rel=1e-6)
    low, high = (found["speed_up"][limit] for limit in ("low", "high"))
    by_hand = "pays" if low > 1 else "loses" if high < 1 else "open"
    assert found["answer"] in {by_hand, "same"}
    assert [a.token_ids for a in runs.plain_answers] == [a.token_ids for a in runs.five_answers]


def test_a_running_server_is_reported_on(tmp_path: Path) -> None:
    """It is traced for a while first, and left as it was."""
    page = tmp_path / "page.html"
    with SimulatedServer(tmp_path, "TP0") as server:
        found = said("report", server.pid, "--duration", "3s", "--html", page)
        assert server.untouched()
    assert found["acceptance"][0]["verifies"] > 100
    assert found["verdict"]["answer"] == "unknown"
    assert "no_baseline" in found["gaps"]
    assert page.read_text("utf-8").startswith("<!doctype html>")


def test_a_server_at_rest_has_no_report(runs: Runs) -> None:
    """What to do is said."""
    assert runs.at_rest.returncode == 1
    assert "while the server answers requests" in runs.at_rest.stderr
