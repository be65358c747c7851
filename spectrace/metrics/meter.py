"""Keeps the metrics of all runs that this process knows of, and reads them at one moment."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping

import msgspec

from spectrace.metrics import table
from spectrace.metrics.counting import count
from spectrace.metrics.series import Reading, Series
from spectrace.metrics.settling import HOLD_S, Settling
from spectrace.model import Cycle, Run, SkippedCycles


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run beside its Cycles.

    Attributes:
        worker: Class of the worker.
        algorithm: Speculative algorithm, as the server names it.
        device: Such as `cuda`.
        tracing: By rank, whether it lives and reports.
        lost_records: By rank, the records that were overwritten before they were read.
        stall_ns: By rank and part, for how long attaching held it up, in ns.
        missing_cycles: Cycles that not every rank reported.
        export_lost: Cycles that could not be delivered as traces.
        skipped: What sampling left out.
    """

    worker: str = ""
    algorithm: str = ""
    device: str = ""
    tracing: Mapping[str, bool] = {}
    lost_records: Mapping[str, int] = {}
    stall_ns: Mapping[tuple[str, str], int] = {}
    missing_cycles: int = 0
    export_lost: int = 0
    skipped: SkippedCycles = SkippedCycles()


class RunMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of one run at one moment.

    Attributes:
        run: The run.
        facts: What was last told of it.
        start_unix_ns: UNIX time in ns since which is counted.
        readings: The series, by instrument.
    """

    run: Run
    facts: Facts
    start_unix_ns: int
    readings: tuple[Reading, ...]


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of all runs at one moment.

    Attributes:
        unix_ns: The moment, UNIX time in ns.
        runs: Those that are known.
    """

    unix_ns: int
    runs: tuple[RunMetrics, ...]


class _Metered:
    """One run."""

    def __init__(self, run: Run, start_unix_ns: int) -> None:
        self.run = run
        self.start_unix_ns = start_unix_ns
        self.facts = Facts()
        self.series = Series()
        self.series.add(table.LATE, (), 0)


class Meter:
    """Takes Cycles and facts from any thread, and gives what they add up to.

    A Cycle counts once, in the form that it has `HOLD_S` after its first report.

    Args:
        hold_s: Another time, in s.
        clock_s: A clock that never goes back, in s.
        unix_ns: UNIX time in ns.
    """

    def __init__(
        self,
        *,
        hold_s: float = HOLD_S,
        clock_s: Callable[[], float] = time.monotonic,
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._clock_s = clock_s
        self._unix_ns = unix_ns
        self._lock = threading.Lock()
        self._settling = Settling(hold_s)
        self._runs: dict[str, _Metered] = {}

    def put_run(self, run: Run) -> None:
        """Takes in what is known of a run, in place of what was known before."""
        with self._lock:
            metered = self._runs.get(run.run_id)
            if metered is None:
                metered = self._runs[run.run_id] = _Metered(run, self._unix_ns())
            metered.run = run

    def tell(self, run_id: str, facts: Facts) -> None:
        """Takes in what is known of a run beside its cycles."""
        with self._lock:
            metered = self._runs.get(run_id)
            if metered is not None:
                metered.facts = facts
                _apply(facts, metered.series)

    def add(self, cycles: Iterable[Cycle]) -> None:
        """Takes in cycles, new or amended, of runs that were put before."""
        now_s = self._clock_s()
        with self._lock:
            for cycle in cycles:
                metered = self._runs.get(cycle.run_id)
                if metered is not None and cycle.ranks and not self._settling.put(cycle, now_s):
                    metered.series.add(table.LATE)
            self._count(now_s)

    def settle(self) -> None:
        """Counts what still waits: nothing more will come."""
        with self._lock:
            self._count(math.inf)

    def forget(self, run_id: str) -> None:
        """Lets go of a run."""
        with self._lock:
            self._runs.pop(run_id, None)
            self._settling.forget(run_id)

    def read(self) -> Snapshot:
        """The metrics now."""
        with self._lock:
            self._count(self._clock_s())
            return Snapshot(
                unix_ns=self._unix_ns(),
                runs=tuple(
                    RunMetrics(
                        run=metered.run,
                        facts=metered.facts,
                        start_unix_ns=metered.start_unix_ns,
                        readings=metered.series.read(),
                    )
                    for metered in self._runs.values()
                ),
            )

    def _count(self, now_s: float) -> None:
        for cycle in self._settling.take(now_s):
            count(cycle, self._runs[cycle.run_id].series)


def _apply(facts: Facts, series: Series) -> None:
    """Puts what the facts say in numbers."""
    for rank, traced in facts.tracing.items():
        series.set(table.RANK_TRACING, int(traced), (rank,))
    for rank, lost in facts.lost_records.items():
        series.reach(table.LOST_RECORDS, lost, (rank,))
    for part, stall_ns in facts.stall_ns.items():
        series.set(table.ATTACH_STALL, stall_ns, part)
    skipped = facts.skipped
    for counter, value in (
        (table.MISSING_CYCLES, facts.missing_cycles),
        (table.EXPORT_LOST, facts.export_lost),
        (table.SKIPPED_CYCLES, skipped.cycles),
        (table.SKIPPED_TIME, skipped.total_ns),
        (table.SKIPPED_VERIFIES, skipped.verifies),
        (table.SKIPPED_ACCEPTED, skipped.correct_drafts),
        (table.SKIPPED_TOKENS, skipped.output_tokens),
    ):
        series.reach(counter, value)
