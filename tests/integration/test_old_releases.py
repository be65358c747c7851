"""Real servers of older releases: their V1 worker, the V2 worker when it was new, plain decode."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from examples.sglang_cpu.load import Answer, generate
from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import SessionFacts, TraceSession
from spectrace.model import CycleKind, PhaseName
from tests.helpers.peek import peek
from tests.helpers.tracing import Collected, traced

if TYPE_CHECKING:
    pass

REQUESTS = 3
TOKENS = 9  # a few a second: Triton's kernels are interpreted
START_TIMEOUT_S = 600.0

CONFIGURATIONS = {
    "0.5.12-v1": ServerOptions(release="0.5.12"),
    "0.5.9-v1": ServerOptions(release="0.5.9"),
}

# Everything that the probe wraps, as it stands in the classes and modules of the server.
LOOK = """
import sys
from types import FunctionType
names = [name for name in sys.modules if name.startswith("sglang.srt.")]
answer = {"functions": [], "wrapped": 0}
for module in map(sys.modules.get, names):
    holders = [module, *(v for v in vars(module).values() if isinstance(v, type))]
    for function in [f for h in holders for f in vars(h).values() if isinstance(f, FunctionType)]:
        answer["functions"].append(id(function))
        answer["wrapped"] += function.__code__.co_filename.startswith("<spectrace")
answer["functions"].sort()
"""


@dataclass(frozen=True)
class Observed:
    """A server that was asked the same without the tracer, with it, and looked into.

    Attributes:
        options: The server's.
        baseline: Its answers without the tracer.
        answers: With it.
        collected: What was traced.
        facts: What is known of it.
        looks: The server's functions before, during and after.
    """

    options: ServerOptions
    baseline: list[Answer]
    answers: list[Answer]
    collected: Collected
    facts: SessionFacts
    looks: tuple[dict[str, object], ...]


def ask(server: CpuServer, tag: str) -> list[Answer]:
    """The same few requests, all at once."""
    return generate(
        server.url, requests=REQUESTS, concurrency=REQUESTS, max_new_tokens=TOKENS, tag=tag
    )


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def observed(request: pytest.FixtureRequest) -> Observed:
    """A server of each configuration, one at a time."""
    options = CONFIGURATIONS[request.param]
    with CpuServer(options, start_timeout_s=START_TIMEOUT_S) as server:
        (pid,) = server.scheduler_pids()
        baseline = ask(server, "baseline")
        before = peek(pid, LOOK)
        with TraceSession(find_by_pid(server.pid)) as session:
            answers, collected = traced(session, lambda: ask(server, "traced"))
            during = peek(pid, LOOK)
            session.detach()
            collected.add(session.last_cycles)
        looks = (before, during, peek(pid, LOOK))
    return Observed(options, baseline, answers, collected, session.facts(), looks)


def test_every_request_counts_what_the_old_server_counted(observed: Observed) -> None:
    """Cycles, correct drafts, histogram and tokens of each request equal the server's own."""
    counts = observed.collected.counts()
    assert len(observed.answers) == REQUESTS
    for answer in observed.answers:
        ours = counts[answer.request_id]
        assert ours.output_tokens == answer.completion_tokens
        assert ours.cycles == answer.verify_count
        assert ours.correct_drafts == answer.correct_drafts
        length = len(answer.correct_drafts_histogram)
        assert ours.histogram[:length] == answer.correct_drafts_histogram
        assert not any(ours.histogram[length:])


def test_the_tokens_of_the_old_server_stay_the_same(observed: Observed) -> None:
    """Under the tracer every request gets the very token ids that it got without."""
    ids = [[answer.token_ids for answer in run] for run in (observed.baseline, observed.answers)]
    assert ids[0] == ids[1]


def test_cycles_of_the_old_server_are_numbered_by_its_scheduler(observed: Observed) -> None:
    """No number is missing, each result belongs to its cycle, and sibling phases touch."""
    cycles = observed.collected.cycles
    numbers = [cycle.number for cycle in cycles]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert all(cycle.requests is not None for cycle in cycles)
    for cycle in cycles:
        phases = cycle.ranks[0].phases
        assert all(a.end_ns == b.start_ns for a, b in itertools.pairwise(phases))


def test_a_cycle_of_the_v1_worker_has_all_its_phases(observed: Observed) -> None:
    """Draft with its steps, the parts of verify, and draft extend where a request goes on."""
    speculative = [c for c in observed.collected.cycles if c.kind is CycleKind.SPECULATIVE]
    verify = [
        PhaseName.VERIFY_PREPARE,
        PhaseName.VERIFY_FORWARD,
        PhaseName.VERIFY_SAMPLE,
        PhaseName.VERIFY_COMMIT,
    ]
    drafted = [PhaseName.DRAFT, *[PhaseName.DRAFT_STEP] * 4, PhaseName.DRAFT]
    for cycle in speculative:
        assert (cycle.steps, cycle.topk, cycle.draft_tokens) == (5, 1, 6)
        names = [phase.name for phase in cycle.ranks[0].phases]
        assert names[: len(names) - names[::-1].index(PhaseName.VERIFY_COMMIT)] == [
            PhaseName.RESOLVE,
            *drafted,
            *verify,
        ]
    extended = [PhaseName.DRAFT_EXTEND in [p.name for p in c.ranks[0].phases] for c in speculative]
    assert all(extended[:-1])
    assert len(extended) >= 2


def test_an_old_release_is_named_with_the_rows_that_were_used(observed: Observed) -> None:
    """The release, its worker, and that these were tried; nothing is missing."""
    facts = observed.facts
    assert facts.engine == f"sglang {observed.options.release}"
    assert facts.worker == "EAGLEWorker"
    assert facts.row.startswith("EAGLEWorker since ")
    assert facts.untried == ""
    assert facts.unhooked == ()
    assert facts.errors == ()


def test_the_old_servers_functions_are_what_they_were(observed: Observed) -> None:
    """While it is traced some are wrapped; afterwards every class has the very objects."""
    before, during, after = observed.looks
    assert before["wrapped"] == 0
    assert during["wrapped"] != 0
    assert after == before
