"""Runs very many cycles and looks whether anything grows, for tests."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLES = 10
CYCLES_OF_A_REQUEST = 20


@dataclass(frozen=True)
class Growth:
    """What so many cycles left behind.

    Attributes:
        rss_bytes: Memory of this process after each tenth of the cycles.
        collections: How often the garbage collector ran, whichever generation.
        tracked: Objects that it watches, after the cycles less before.
    """

    rss_bytes: list[int]
    collections: int
    tracked: int

    @property
    def rss_grown(self) -> int:
        """By how many bytes memory grew after the first tenth."""
        return max(self.rss_bytes) - self.rss_bytes[0]


def request_id(number: int) -> str:
    """The request of a cycle: a new one every 20 cycles, as requests come and go."""
    return f"request-{number // CYCLES_OF_A_REQUEST}"


def watch(cycle: Callable[[int], object], cycles: int) -> Growth:
    """Runs `cycle(number)` for numbers from 1 on; the garbage collector works as always."""
    process = psutil.Process()
    rss: list[int] = []
    started = [0]

    def count(phase: str, _: object) -> None:
        if phase == "start":
            started[0] += 1

    gc.collect()
    before = len(gc.get_objects())
    gc.callbacks.append(count)
    try:
        for part in range(SAMPLES):
            for number in range(part * cycles // SAMPLES, (part + 1) * cycles // SAMPLES):
                cycle(number + 1)
            rss.append(process.memory_info().rss)
    finally:
        gc.callbacks.remove(count)
    return Growth(rss, started[0], len(gc.get_objects()) - before)
