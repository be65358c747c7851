"""Brings what a traced session finds into the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from spectrace.attach.session import End, SessionFacts, Stall
from spectrace.metrics.meter import Facts, Meter
from spectrace.model import Cycle, Run

_NS_PER_MS = 1e6


class MeterTap:
    """A tap on a session (`attach.tapped.Tap`) that counts its cycles.

    Args:
        meter: Where they are counted.
        export_lost: Cycles that an exporter could not deliver.
    """

    def __init__(self, meter: Meter, export_lost: Callable[[], int] = lambda: 0) -> None:
        self._meter = meter
        self._export_lost = export_lost

    def tell(self, run: Run, facts: SessionFacts, stalls: Sequence[Stall]) -> None:
        """Puts the run and its facts."""
        self._meter.put_run(run)
        self._meter.tell(run.run_id, facts_of(facts, stalls, self._export_lost()))

    def feed(self, cycles: Sequence[Cycle]) -> None:
        """Hands cycles over."""
        self._meter.add(cycles)

    def end(self, run: Run, end: End | None) -> None:
        """Counts what still waits for more."""
        del run, end
        self._meter.settle()


def facts_of(facts: SessionFacts, stalls: Sequence[Stall] = (), export_lost: int = 0) -> Facts:
    """The same facts for the metrics."""
    return Facts(
        worker=facts.worker,
        algorithm=facts.algorithm,
        device=facts.device,
        tracing={rank.name: rank.alive and rank.state == "tracing" for rank in facts.ranks},
        lost_records={rank.name: rank.lost_records for rank in facts.ranks},
        stall_ns=dict(_stalls(stalls)),
        missing_cycles=facts.missing_cycles,
        export_lost=export_lost,
        skipped=facts.skipped,
    )


def _stalls(stalls: Sequence[Stall]) -> Iterator[tuple[tuple[str, str], int]]:
    for stall in stalls:
        yield (stall.rank, "stop"), round(stall.stop_ms * _NS_PER_MS)
        yield (stall.rank, "loading"), round(stall.loading_ms * _NS_PER_MS)
        yield (stall.rank, "installing"), round(stall.installing_ms * _NS_PER_MS)
