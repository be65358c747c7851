"""Prints what the plugin's look costs a cycle while it sleeps, in ns; run with PYTHONPATH set.

The function that stands for `run_batch` does nothing, so that the difference is the look alone.
"""

from __future__ import annotations

import timeit
from statistics import median
from typing import Any

from spectrace.plugin._sleeper import settle
from tests.helpers import simulated_scheduler as simulated

CALLS = 200_000
ROUNDS = 15


class Scheduler:
    """What the plugin hooks."""

    def run_batch(self, batch: Any) -> Any:
        """Nothing."""
        return batch


def main() -> None:
    """Measure with and without, in turn."""
    original = Scheduler.run_batch
    for _ in simulated.installed(Scheduler):
        settle()
    dormant = Scheduler.run_batch
    scheduler = Scheduler()
    differences = []
    for _ in range(ROUNDS):
        times = [
            timeit.timeit(lambda: run(scheduler, None), number=CALLS)  # noqa: B023 - called at once
            for run in (original, dormant)
        ]
        differences.append((times[1] - times[0]) / CALLS * 1e9)
    print(round(median(differences), 1))


if __name__ == "__main__":
    main()
