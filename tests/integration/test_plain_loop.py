"""The example of a loop that its author traces: counts equal its own, and tokens stay the same."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from examples.sglang_cpu.server import PYTHON
from spectrace.analysis.summary import RequestCounts, per_request
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import TraceSession
from spectrace.model import Cycle, CycleKind, PhaseName
from tests.helpers.tracing import POLL_S, Collected

pytestmark = pytest.mark.beside_others

SCRIPT = Path(__file__).parents[2] / "examples" / "plain_loop" / "loop.py"
REQUESTS = 20
TIMEOUT_S = 60.0
STEPS = 4

Answers = dict[str, dict[str, Any]]


def start(*arguments: str) -> subprocess.Popen[str]:
    """Starts the example; each request is a line of its output."""
    return subprocess.Popen(
        [PYTHON, SCRIPT, "--requests", str(REQUESTS), "--json", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answers_of(process: subprocess.Popen[str]) -> Answers:
    """What it says of each request, once it has ended."""
    out, complaint = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, complaint
    return {line["id"]: line for line in map(json.loads, out.splitlines())}


def traced(*arguments: str) -> tuple[Answers, list[Cycle], TraceSession]:
    """Runs the example with a session attached from its first cycle to its last."""
    process = start("--wait", *arguments)
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == f"spectrace attach {process.pid}\n"
        collected = Collected()
        with TraceSession(find_by_pid(process.pid)) as session:
            while process.poll() is None:
                collected.add(session.poll())
                time.sleep(POLL_S)
            session.detach()
            collected.add(session.last_cycles)
        return answers_of(process), collected.cycles, session
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def untraced() -> Answers:
    """The answers of the example while nobody is attached."""
    return answers_of(start())


@pytest.fixture(scope="module")
def observed() -> tuple[Answers, list[Cycle], TraceSession]:
    """The example with drafts, traced."""
    return traced()


Observed = tuple[Answers, list[Cycle], TraceSession]


def counts_of(answer: dict[str, Any]) -> tuple[int, int, int]:
    """Verifies, correct drafts and output tokens, as the loop counts them."""
    accepted = {int(count): times for count, times in answer["accepted"].items()}
    correct = sum(count * times for count, times in accepted.items())
    return answer["verifies"], correct, answer["output_tokens"]


def as_counted(ours: RequestCounts) -> tuple[int, int, int]:
    """The same of what was traced."""
    return ours.cycles, ours.correct_drafts, ours.output_tokens


def test_every_request_counts_what_the_loop_counted(observed: Observed) -> None:
    """Verifies, correct drafts, histogram and tokens of each request are the loop's own."""
    answers, cycles, _ = observed
    counts = per_request(cycles)
    assert set(counts) == set(answers)
    assert len(answers) == REQUESTS
    for request_id, answer in answers.items():
        assert as_counted(counts[request_id]) == counts_of(answer)
        histogram = [answer["accepted"].get(str(n), 0) for n in range(STEPS + 1)]
        assert list(counts[request_id].histogram)[: STEPS + 1] == histogram


def test_nothing_is_lost(observed: Observed) -> None:
    """Cycles are numbered without a hole, and every record arrived."""
    _, cycles, session = observed
    assert [cycle.number for cycle in cycles] == list(range(1, len(cycles) + 1))
    assert session.lost == 0
    assert session.facts().errors == ()


def test_the_text_is_that_of_the_untraced_loop(observed: Observed, untraced: Answers) -> None:
    """With a reader attached every request gets the very bytes that it got without."""
    answers, _, _ = observed
    assert {name: answer["text"] for name, answer in answers.items()} == {
        name: answer["text"] for name, answer in untraced.items()
    }


def test_acceptance_is_real(observed: Observed) -> None:
    """The draft is sometimes right and sometimes wrong, at every depth."""
    _, cycles, _ = observed
    seen = {row.correct_drafts for cycle in cycles for row in cycle.requests or ()}
    assert seen == set(range(STEPS + 1))


def test_phases_fill_every_cycle(observed: Observed) -> None:
    """Drafting and verifying are seen in each cycle, and phases touch from start to end."""
    _, cycles, _ = observed
    for cycle in cycles:
        (rank,) = cycle.ranks
        assert cycle.kind is CycleKind.SPECULATIVE
        assert {PhaseName.VERIFY, PhaseName.RESULT} <= {phase.name for phase in rank.phases}
        ends = [rank.start_ns, *(phase.end_ns for phase in rank.phases)]
        assert [phase.start_ns for phase in rank.phases] == ends[:-1]
        assert ends[-1] == rank.end_ns


def test_plain_decode_gives_the_same_text(untraced: Answers) -> None:
    """Without drafts the target says the same, one token a cycle, and cycles say `decode`."""
    answers, cycles, _ = traced("--plain")
    assert {cycle.kind for cycle in cycles} == {CycleKind.DECODE}
    assert {name: answer["text"] for name, answer in answers.items()} == {
        name: answer["text"] for name, answer in untraced.items()
    }
    tokens = {name: ours.output_tokens for name, ours in per_request(cycles).items()}
    assert tokens == {name: answer["output_tokens"] for name, answer in answers.items()}
