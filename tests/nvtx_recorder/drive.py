"""Drives `Ranges` in a process of its own, since NVTX looks for a tool once in a process.

Run with the name of a scenario; prints one JSON object with what `make_ranges` said.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

from spectrace.probe.layout import LAG_SHIFT, Ph
from spectrace.probe.ranges import Ranges, make_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

SPECULATIVE = (
    Ph.RESOLVE,
    Ph.DRAFT,
    Ph.VERIFY_PREPARE,
    Ph.VERIFY_FORWARD,
    Ph.VERIFY_SAMPLE,
    Ph.VERIFY_COMMIT,
    Ph.DRAFT_EXTEND,
    Ph.SCHEDULE,
)
PAIRS_OF_A_CYCLE = len(SPECULATIVE) + 2  # and the ranges of cycle and verify
BENCHMARK_CYCLES = 10_000
ROUNDS = 5


def whole_cycles(ranges: Ranges) -> None:
    """Two speculative cycles, the second with the results of the first in it."""
    for number in (7, 8):
        ranges.cycle_begin(number)
        for phase in SPECULATIVE:
            ranges.phase(phase)
        if number == 8:
            for phase in (Ph.WAIT, Ph.RESULT):
                ranges.phase(phase | 1 << LAG_SHIFT)
        ranges.cycle_end(number)


def broken_off(ranges: Ranges) -> None:
    """A cycle of which the server raised within verify, then one closed by leaving."""
    ranges.cycle_begin(1)
    ranges.phase(Ph.VERIFY_SAMPLE)
    ranges.cycle_begin(2)
    ranges.phase(Ph.DRAFT)
    ranges.close()
    ranges.cycle_begin(3)
    ranges.phase(Ph.DRAFT)


def benchmark(ranges: Ranges) -> float:
    """Nanoseconds that one range costs, opening and closing, in a cycle of eight phases."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter_ns()
        for number in range(BENCHMARK_CYCLES // ROUNDS):
            ranges.cycle_begin(number)
            for phase in SPECULATIVE:
                ranges.phase(phase)
            ranges.cycle_end(number)
        taken = time.perf_counter_ns() - began
        best = min(best, taken / (BENCHMARK_CYCLES // ROUNDS) / PAIRS_OF_A_CYCLE)
    return best


SCENARIOS: dict[str, Callable[[Ranges], Any]] = {
    "whole_cycles": whole_cycles,
    "whole_cycles_by_torch": whole_cycles,
    "broken_off": broken_off,
    "benchmark": benchmark,
}


def modules_for(scenario: str) -> dict[str, Any]:
    """The process's modules; for torch's way as if the package nvtx were not installed."""
    if not scenario.endswith("_by_torch"):
        return sys.modules
    return {"torch": import_module("torch"), "nvtx": None}


def main(scenario: str) -> None:
    """Runs the scenario if there is a way to make ranges."""
    modules = modules_for(scenario)
    began = time.perf_counter_ns()
    ranges, way = make_ranges(modules)
    made_ms = (time.perf_counter_ns() - began) / 1e6
    result = SCENARIOS[scenario](ranges) if ranges is not None else None
    answer = {
        "way": way,
        "result": result,
        "error": ranges.error if ranges else "",
        "made_ms": made_ms,
        "nvtx_loaded": "nvtx" in sys.modules,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1])
