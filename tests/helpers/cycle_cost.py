"""What one cycle costs the host in a tight loop, for benchmarks and tests of growth."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spectrace.analysis.summary import percentile
from spectrace.probe.layout import Kind, Ph

if TYPE_CHECKING:
    from collections.abc import Callable

    from spectrace.probe.recorder import Recorder

# With the start of the cycle these are 8 boundaries, as on SGLang's EAGLE worker.
MARKS = (
    Ph.DRAFT,
    Ph.VERIFY_PREPARE,
    Ph.VERIFY_FORWARD,
    Ph.VERIFY_SAMPLE,
    Ph.VERIFY_COMMIT,
    Ph.DRAFT_EXTEND,
    Ph.SCHEDULE,
)
BOUNDARIES = 1 + len(MARKS)
WARM_UP = 200


@dataclass(frozen=True)
class Cost:
    """Host time per cycle, in µs."""

    median_us: float
    p99_us: float


def mark_cycle(recorder: Recorder, number: int) -> None:
    """One cycle of batch 1 as the hooks of a server make it, without its results."""
    began_ns = time.monotonic_ns()
    if recorder.boundaries is not None and recorder.pending:
        recorder.drain(began_ns)
    recorder.begin(began_ns, Kind.SPECULATIVE, 1, number)
    if recorder.timing:
        recorder.speculate(5, 1, 6)
    for phase in MARKS:
        if recorder.timing:
            recorder.mark(phase)
    recorder.end(time.monotonic_ns())


def simulate_cycle(recorder: Recorder, number: int, request_id: str) -> None:
    """The same with what it brought its request."""
    mark_cycle(recorder, number)
    recorder.results(number, [(request_id, 3, 4, False)])


def cost_of(cycle: Callable[[int], object], cycles: int, *, pause_s: float = 0.0) -> Cost:
    """Times `cycle(number)` so many times, without what reading the clock takes.

    Args:
        cycle: What to time.
        cycles: How often.
        pause_s: Between two of them, in which others may work.
    """
    for number in range(1, WARM_UP + 1):
        cycle(number)
    empty = _times(lambda _: None, cycles, 0.0)
    full = _times(cycle, cycles, pause_s)
    clock_us = percentile(empty, 50)
    return Cost(percentile(full, 50) - clock_us, percentile(full, 99) - clock_us)


def _times(work: Callable[[int], object], count: int, pause_s: float) -> list[float]:
    """How long each call took, in µs, sorted."""
    clock = time.perf_counter_ns
    times = [0] * count
    for index in range(count):
        if pause_s:
            time.sleep(pause_s)
        began = clock()
        work(WARM_UP + 1 + index)
        times[index] = clock() - began
    return sorted(time_ns / 1e3 for time_ns in times)
