"""Counts one Cycle into the series of its run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from spectrace.metrics import table
from spectrace.metrics.series import Series
from spectrace.model import Cycle, Lane, Phase, PhaseName, RankCycle


def count(cycle: Cycle, series: Series) -> None:
    """Takes in a cycle that was not taken in before."""
    kind = cycle.kind.value
    series.add(table.CYCLES, (cycle.group, kind))
    series.observe(table.BATCH_SIZE, (cycle.group, kind), cycle.batch_size)
    for rank in cycle.ranks:
        _count_rank(cycle.group, kind, rank, series)
    _count_rows(cycle, series)


def _count_rank(group: str, kind: str, rank: RankCycle, series: Series) -> None:
    """Times of one rank, as `analysis.summary` takes them: of a lane all of them or none."""
    # Also with 0, so that the first one is seen as an increase.
    series.add(table.INCOMPLETE, (group, rank.rank, Lane.HOST.value), rank.incomplete)
    series.add(table.INCOMPLETE, (group, rank.rank, Lane.DEVICE.value), rank.device_incomplete)
    if rank.incomplete:
        return
    series.observe(table.PROBE_DURATION, (group, rank.rank), rank.probe_ns)
    _count_lane(group, kind, rank, Lane.HOST, series)
    if not rank.device_incomplete:
        _count_lane(group, kind, rank, Lane.DEVICE, series)


def _count_lane(group: str, kind: str, rank: RankCycle, lane: Lane, series: Series) -> None:
    phases = [phase for phase in rank.phases if phase.lane is lane]
    values = (group, rank.rank, lane.value, kind, rank.mode.value)
    if lane is Lane.HOST:
        series.observe(table.CYCLE_DURATION, values, rank.duration_ns)
    elif phases:
        series.observe(table.CYCLE_DURATION, values, _extent_ns(phases))
    for name, duration_ns in _durations_ns(phases).items():
        series.observe(table.PHASE_DURATION, (*values, name.value), duration_ns)


def _extent_ns(phases: Iterable[Phase]) -> int:
    """From the first start to the last end."""
    return max(phase.end_ns for phase in phases) - min(phase.start_ns for phase in phases)


def _durations_ns(phases: Iterable[Phase]) -> dict[PhaseName, int]:
    """The time of each phase, which may occur more than once."""
    durations: dict[PhaseName, int] = {}
    for phase in phases:
        durations[phase.name] = durations.get(phase.name, 0) + phase.duration_ns
    return durations


def _count_rows(cycle: Cycle, series: Series) -> None:
    """What requests got, and what of their drafts was accepted."""
    tokens = overshoot = 0
    lengths: Counter[int] = Counter()
    for row in cycle.requests or ():
        if row.health_check:
            continue
        tokens += row.output_tokens
        overshoot += row.overshoot
        if row.counts and row.correct_drafts is not None:
            lengths[row.correct_drafts] += 1
    series.add(table.OUTPUT_TOKENS, (cycle.group, cycle.kind.value), tokens)
    series.add(table.OVERSHOOT, (cycle.group,), overshoot)
    for correct, requests in lengths.items():
        series.observe(table.ACCEPT_LENGTH, (cycle.group,), correct + 1, requests)
        _count_positions(cycle.group, correct, max(cycle.steps, correct), requests, series)


def _count_positions(group: str, correct: int, drafted: int, requests: int, series: Series) -> None:
    """A request with 2 correct of 3 drafts was verified at 1, 2 and 3 and accepted at 1 and 2."""
    for position in range(1, drafted + 1):
        values = (group, str(min(position, table.MOST_POSITIONS)))
        series.add(table.DRAFTS_VERIFIED, values, requests)
        series.add(table.DRAFTS_ACCEPTED, values, requests if position <= correct else 0)
