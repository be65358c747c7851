"""Traces a server while it answers requests, and keeps every Cycle."""

from __future__ import annotations

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
SETTLE_S = 0.5  # the last results are processed after the last answer was sent


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
    session: TraceSession, work: Callable[[], list[Answer]]
) -> tuple[list[Answer], Collected]:
    """Runs `work` in a thread of its own and polls until its results are in.

    Returns:
        What `work` gave, and the Cycles.
    """
    collected = Collected()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        while not future.done():
            collected.add(session.poll())
            time.sleep(POLL_S)
        deadline = time.monotonic() + SETTLE_S
        while time.monotonic() < deadline:
            collected.add(session.poll())
            time.sleep(POLL_S)
    return future.result(), collected


def requests_of(url: str, *, requests: int, tag: str, tokens: int) -> Callable[[], list[Answer]]:
    """Work for `traced`: so many requests, four at a time."""

    def work() -> list[Answer]:
        return generate(url, requests=requests, concurrency=4, max_new_tokens=tokens, tag=tag)

    return work
