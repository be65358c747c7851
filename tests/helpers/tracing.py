"""Traces a server while it answers, keeps every Cycle, and holds it against the answers."""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from examples.sglang_cpu.load import Answer, generate
from spectrace.analysis.summary import RequestCounts, per_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from spectrace.attach.session import TraceSession
    from spectrace.model import Cycle

POLL_S = 0.02
TOUCH_NS = 20_000
SETTLE_S = 0.5  # the last results are processed after the last answer was sent
PATIENCE_S = 20.0  # for them, on a machine however busy


class Collected:
    """Cycles by group and number; an amended one takes the place of the one before."""

    def __init__(self) -> None:
        self._cycles: dict[tuple[str, int], Cycle] = {}

    def add(self, cycles: list[Cycle]) -> None:
        """Takes in what a poll gave."""
        self._cycles.update({(cycle.group, cycle.number): cycle for cycle in cycles})

    @property
    def cycles(self) -> list[Cycle]:
        """All of them, by number."""
        return [cycle for _, cycle in sorted(self._cycles.items())]

    def counts(self) -> dict[str, RequestCounts]:
        """What each request got."""
        return per_request(self.cycles)


def traced(
    session: TraceSession,
    work: Callable[[], list[Answer]],
    meanwhile: Callable[[Collected], object] = lambda _: None,
) -> tuple[list[Answer], Collected]:
    """Runs `work` in a thread of its own and polls until its results are in.

    Args:
        session: The session.
        work: Sends requests and gives their answers.
        meanwhile: Is shown what has come after each poll while `work` runs.

    Returns:
        What `work` gave, and the Cycles.
    """
    collected = Collected()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        while not future.done():
            collected.add(session.poll())
            meanwhile(collected)
            time.sleep(POLL_S)
        answers = future.result()
        began_s = time.monotonic()
        while (passed_s := time.monotonic() - began_s) < PATIENCE_S:
            collected.add(session.poll())
            if passed_s >= SETTLE_S and _all_came(answers, collected):
                break
            time.sleep(POLL_S)
    return answers, collected


def _all_came(answers: list[Answer], collected: Collected) -> bool:
    """Whether all tokens of the answers were traced, and every cycle has its results."""
    counts = collected.counts()
    return all(cycle.requests is not None for cycle in collected.cycles) and all(
        answer.request_id in counts
        and counts[answer.request_id].output_tokens >= answer.completion_tokens
        for answer in answers
    )


def token_ids(answers: list[Answer]) -> list[tuple[int, ...]]:
    """The tokens of each answer."""
    return [answer.token_ids for answer in answers]


def assert_the_servers_counts(answers: list[Answer], collected: Collected) -> None:
    """Verifies, correct drafts, histogram and tokens of each request are the server's own."""
    counts = collected.counts()
    for answer in answers:
        ours = counts[answer.request_id]
        assert ours.cycles == answer.verify_count
        assert ours.correct_drafts == answer.correct_drafts
        assert ours.output_tokens == answer.completion_tokens
        length = len(answer.correct_drafts_histogram)
        assert ours.histogram[:length] == answer.correct_drafts_histogram
        assert not any(ours.histogram[length:])


def assert_phases_touch(cycles: list[Cycle]) -> int:
    """Phases follow each other without a hole and end where the next cycle starts.

    Returns:
        Of how many ranks' cycles the end was compared: one that ended idle has none.
    """
    compared = 0
    for cycle, following in itertools.pairwise(cycles):
        for rank, next_rank in zip(cycle.ranks, following.ranks, strict=True):
            phases = rank.phases
            assert phases[0].start_ns == rank.start_ns
            assert all(a.end_ns == b.start_ns for a, b in itertools.pairwise(phases))
            if not rank.ended_idle:
                total_ns = sum(phase.duration_ns for phase in phases)
                assert abs(total_ns - (next_rank.start_ns - rank.start_ns)) <= TOUCH_NS
                compared += 1
    return compared


def requests_of(url: str, *, requests: int, tag: str, tokens: int) -> Callable[[], list[Answer]]:
    """Work for `traced`: so many requests, four at a time."""

    def work() -> list[Answer]:
        return generate(url, requests=requests, concurrency=4, max_new_tokens=tokens, tag=tag)

    return work
