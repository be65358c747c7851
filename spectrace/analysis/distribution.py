"""How the times of picked cycles are spread, which are the slowest, and what was accepted."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.analysis.acceptance import (
    CONFIDENCE,
    Position,
    Setting,
    depth_of,
    length_of,
    positions,
)
from spectrace.analysis.intervals import Estimate
from spectrace.chosen import Chosen, Columns, Times
from spectrace.measures import NONE
from spectrace.model import Lane, PhaseName

CYCLE = "cycle"
"""The name of the whole pass among those of phases."""
GAP = "gap"
"""The name of the time in which the device ran nothing, from the cycle before on."""
MOST_BARS = 192
_USUAL_BARS = MOST_BARS // 2
_FEWEST_BARS = 8
_SLOWEST = 10
_MOST_ALIKE = 40
_MOST_SETTINGS = 20
# What lies further out is counted at the edge: a few cycles would press all others together.
_EDGES = (0.1, 99.6)
_LANES = (Lane.DEVICE, Lane.HOST)
_CAUSE = 0.5  # of what a cycle took longer than usual, so much is called its cause


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a phase on one lane.

    Attributes:
        lane: Whose time.
        cycles: In how many it occurs.
        p50_ns: Median in ns, interpolated as `analysis.summary.percentile`, like the next two.
        p95_ns: 95th percentile.
        p99_ns: 99th percentile.
        least_ns: The shortest.
        most_ns: The longest.
        below: Cycles that are shorter than the first bar begins.
        bars: Cycles of each bar.
        beyond: Cycles from where the last bar ends.
    """

    lane: Lane
    cycles: int
    p50_ns: float
    p95_ns: float
    p99_ns: float
    least_ns: int
    most_ns: int
    below: int
    bars: tuple[int, ...]
    beyond: int


class PhaseSpread(msgspec.Struct, frozen=True, kw_only=True):
    """The times of a phase on both lanes, on one axis.

    Attributes:
        name: Of the phase, `CYCLE` or `GAP`.
        low_ns: Where the first bar begins.
        step_ns: How wide a bar is: bar i holds times from low + i step to below low + (i + 1) step.
        lanes: The device first.
    """

    name: str
    low_ns: int
    step_ns: int
    lanes: tuple[Spread, ...]


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A phase that explains at least half of what a cycle took longer than usual.

    Attributes:
        name: Of the phase, or `GAP`.
        lane: Whose time.
        took_ns: In this cycle.
        usual_ns: The median.
    """

    name: str
    lane: Lane
    took_ns: int
    usual_ns: float


class SlowCycle(msgspec.Struct, frozen=True, kw_only=True):
    """One of the slowest cycles.

    Attributes:
        number: Its number.
        start_ns: UNIX time in ns at which it began.
        took_ns: Its time in ns.
        batch: Requests in its batch.
        steps: Draft steps.
        cause: What made it slow, None where no single phase did.
    """

    number: int
    start_ns: int
    took_ns: int
    batch: int
    steps: int
    cause: Cause | None


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """What verify accepted under one setting.

    Attributes:
        setting: The setting.
        verifies: Requests verified, cycle by cycle.
        accept_length: (correct drafts + verifies) / verifies.
        histogram: Place i counts the verifies with i correct drafts.
        positions: One for each.
    """

    setting: Setting
    verifies: int
    accept_length: Estimate
    histogram: tuple[int, ...]
    positions: tuple[Position, ...]


class Alike(msgspec.Struct, frozen=True, kw_only=True):
    """The times of cycles of one batch size and number of steps.

    Attributes:
        batch: Requests in the batch.
        steps: Draft steps.
        cycles: How many there are.
        p50_ns: Median of their times in ns, like the next two as in `Spread`.
        p95_ns: 95th percentile.
        p99_ns: 99th percentile.
    """

    batch: int
    steps: int
    cycles: int
    p50_ns: float
    p95_ns: float
    p99_ns: float


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """How the times of picked cycles are spread.

    Attributes:
        cycles: How many were picked.
        alike: By steps and batch size, the smallest first; of too many those with most cycles.
        phases: The whole cycle first, then phases in the order of a cycle, then gaps.
        slowest: At most ten, the slowest first.
        acceptance: By setting, the one with the most verifies first, at most twenty.
    """

    cycles: int
    alike: tuple[Alike, ...]
    phases: tuple[PhaseSpread, ...]
    slowest: tuple[SlowCycle, ...]
    acceptance: tuple[Accepted, ...]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """Cycles in which a phase took from so long to below so long.

    Attributes:
        name: Of the phase, `CYCLE` or `GAP`.
        lane: Whose time.
        from_ns: In ns; None for no limit.
        to_ns: Likewise.
    """

    name: str
    lane: Lane
    from_ns: int | None = None
    to_ns: int | None = None


class BarCycle(msgspec.Struct, frozen=True, kw_only=True):
    """One cycle of a bar.

    Attributes:
        number: Its number.
        start_ns: UNIX time in ns at which it began.
        took_ns: Time of the whole cycle in ns.
        value_ns: Time of the phase that the bar is of.
        batch: Requests in its batch.
        steps: Draft steps.
    """

    number: int
    start_ns: int
    took_ns: int
    value_ns: int
    batch: int
    steps: int


def distribution(chosen: Chosen) -> Distribution:
    """How the times of picked cycles are spread."""
    times = _times(chosen)
    names = dict.fromkeys(name for name, _ in times)
    return Distribution(
        cycles=len(chosen.cycles["number"]),
        alike=_alike(chosen.cycles),
        phases=tuple(
            _spread(
                name,
                {lane: times[name, lane] for lane in _LANES if (name, lane) in times},
            )
            for name in names
        ),
        slowest=_slowest(chosen.cycles, times),
        acceptance=_accepted(chosen.rows),
    )


def cycles_of_bar(
    chosen: Chosen, bar: Bar, before: int | None, limit: int
) -> tuple[int, tuple[BarCycle, ...]]:
    """The cycles of a bar, the highest number first.

    Args:
        chosen: What was picked.
        bar: The bar.
        before: Only cycles with a lower number; None for all.
        limit: How many at most.

    Returns:
        How many the bar has, whatever `before` and `limit`, and the cycles.
    """
    times = _times(chosen).get((bar.name, bar.lane))
    if times is None:
        return 0, ()
    inside = np.ones(len(times.at), dtype=np.bool_)
    if bar.from_ns is not None:
        inside &= times.took_ns >= bar.from_ns
    if bar.to_ns is not None:
        inside &= times.took_ns < bar.to_ns
    at, values = times.at[inside], times.took_ns[inside]
    numbers = chosen.cycles["number"][at]
    end = len(at) if before is None else int(np.searchsorted(numbers, before))
    rows = _rows(chosen.cycles, at[:end][::-1][:limit])
    return len(at), tuple(
        BarCycle(**row, value_ns=value)
        for row, value in zip(rows, values[:end][::-1][:limit].tolist(), strict=True)
    )


def _times(chosen: Chosen) -> dict[tuple[str, Lane], Times]:
    """Everything that has a time in the picked cycles, in the order in which it is shown."""
    took_ns = chosen.cycles["took_ns"]
    found = {(CYCLE, Lane.HOST): Times(np.arange(len(took_ns)), took_ns)} if len(took_ns) else {}
    for phase in PhaseName:
        for lane in _LANES:
            if (lane, phase) in chosen.parts:
                found[phase.value, lane] = chosen.parts[lane, phase]
    gaps = _gaps(chosen)
    if len(gaps.at):
        found[GAP, Lane.DEVICE] = gaps
    return found


def _alike(cycles: Columns) -> tuple[Alike, ...]:
    keys = np.stack([cycles["steps"], cycles["batch"]], axis=1)
    unique, places, counts = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    sorted_ns = cycles["took_ns"][np.argsort(places.reshape(-1), kind="stable")]
    parts = np.split(sorted_ns, np.cumsum(counts)[:-1])
    found = []
    for at in sorted(np.argsort(-counts, kind="stable")[:_MOST_ALIKE].tolist()):
        p50, p95, p99 = np.percentile(parts[at], [50, 95, 99]).tolist()
        steps, batch = unique[at].tolist()
        found.append(
            Alike(
                batch=batch,
                steps=steps,
                cycles=int(counts[at]),
                p50_ns=p50,
                p95_ns=p95,
                p99_ns=p99,
            )
        )
    return tuple(found)


def _gaps(chosen: Chosen) -> Times:
    """How long the device ran nothing since its last phase of the cycle before.

    Only of cycles of which the one before was picked too. Between two cycles what is shorter than
    both errors of the device's clock is no gap.
    """
    cycles = chosen.cycles
    whole = cycles["first_ns"] != NONE
    busy = np.zeros(len(whole), dtype=np.int64)
    for (lane, phase), times in chosen.parts.items():
        if lane is Lane.DEVICE and phase.parent is None:
            busy[times.at] += times.took_ns
    follows = np.zeros(len(whole), dtype=np.bool_)
    follows[1:] = whole[1:] & whole[:-1] & (np.diff(cycles["number"]) == 1)
    at = np.flatnonzero(follows)
    between = cycles["first_ns"][at] - cycles["last_ns"][at - 1]
    between[between <= cycles["error_ns"][at] + cycles["error_ns"][at - 1]] = 0
    inside = np.maximum(0, cycles["last_ns"][at] - cycles["first_ns"][at] - busy[at])
    return Times(at, between + inside)


def _spread(name: str, lanes: dict[Lane, Times]) -> PhaseSpread:
    """The bars of a phase."""
    edges = [
        (
            int(np.percentile(times.took_ns, _EDGES[0], method="lower")),
            int(np.percentile(times.took_ns, _EDGES[1], method="higher")),
        )
        for times in lanes.values()
    ]
    low, high = min(one for one, _ in edges), max(one for _, one in edges)
    most = max(len(times.at) for times in lanes.values())
    wanted = min(_USUAL_BARS, max(_FEWEST_BARS, math.ceil(2 * math.sqrt(most))))
    # Where the lanes lie far apart each would be a few bars: these are up to half as wide then.
    apart = (high - low + 1) / sum(to - begin + 1 for begin, to in edges)
    wanted = math.ceil(wanted * min(2.0, max(1.0, apart)))
    step = -(-(high - low + 1) // wanted)
    bars = -(-(high - low + 1) // step)
    return PhaseSpread(
        name=name,
        low_ns=low,
        step_ns=step,
        lanes=tuple(
            _of_lane(lane, times.took_ns, low, step, bars) for lane, times in lanes.items()
        ),
    )


def _of_lane(lane: Lane, took_ns: NDArray[np.int64], low: int, step: int, bars: int) -> Spread:
    places = (took_ns - low) // step
    below, beyond = int((took_ns < low).sum()), int((places >= bars).sum())
    p50, p95, p99 = np.percentile(took_ns, [50, 95, 99]).tolist()
    return Spread(
        lane=lane,
        cycles=len(took_ns),
        p50_ns=p50,
        p95_ns=p95,
        p99_ns=p99,
        least_ns=int(took_ns.min()),
        most_ns=int(took_ns.max()),
        below=below,
        bars=tuple(np.bincount(places[(places >= 0) & (places < bars)], minlength=bars).tolist()),
        beyond=beyond,
    )


def _slowest(cycles: Columns, times: dict[tuple[str, Lane], Times]) -> tuple[SlowCycle, ...]:
    took_ns = cycles["took_ns"]
    # Of those that took equally long the newest comes first.
    order = np.lexsort((-cycles["number"], -took_ns))[:_SLOWEST]
    usual = {key: float(np.median(one.took_ns)) for key, one in times.items()}
    leaves = [key for key in times if key[0] != CYCLE and not _has_parts(key, times)]
    excess = [took_ns[at] - usual[CYCLE, Lane.HOST] for at in order]
    return tuple(
        SlowCycle(**row, cause=_cause(int(at), over * _CAUSE, leaves, times, usual))
        for row, at, over in zip(_rows(cycles, order), order, excess, strict=True)
    )


def _has_parts(key: tuple[str, Lane], times: dict[tuple[str, Lane], Times]) -> bool:
    name, lane = key
    return any(other.startswith(f"{name}.") and at is lane for other, at in times)


def _cause(
    at: int,
    least: float,
    leaves: list[tuple[str, Lane]],
    times: dict[tuple[str, Lane], Times],
    usual: dict[tuple[str, Lane], float],
) -> Cause | None:
    """What took longer than usual by at least so much; on the device before on the host."""
    for lane in _LANES:
        found = []
        for key in leaves:
            place = int(np.searchsorted(times[key].at, at))
            if key[1] is lane and place < len(times[key].at) and times[key].at[place] == at:
                took = int(times[key].took_ns[place])
                found.append((took - usual[key], took, key))
        over, took, key = max(found, default=(0.0, 0, ("", lane)))
        if over >= max(least, 1):
            return Cause(name=key[0], lane=lane, took_ns=took, usual_ns=usual[key])
    return None


def _rows(cycles: Columns, at: NDArray[np.int64]) -> list[dict[str, int]]:
    names = ("number", "start_ns", "took_ns", "batch", "steps")
    columns = [cycles[name][at].tolist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _accepted(rows: Columns) -> tuple[Accepted, ...]:
    keys = np.stack([rows[name] for name in ("steps", "topk", "draft_tokens")], axis=1)
    unique, places = np.unique(keys, axis=0, return_inverse=True)
    places = places.reshape(-1)
    verifies = np.bincount(places, weights=rows["rows"], minlength=len(unique))
    found = []
    for at in np.argsort(-verifies, kind="stable")[:_MOST_SETTINGS].tolist():
        steps, topk, draft_tokens = unique[at].tolist()
        setting = Setting(steps=steps, topk=topk, draft_tokens=draft_tokens)
        here = places == at
        found.append(_of_setting(setting, {key: column[here] for key, column in rows.items()}))
    return tuple(found)


def _of_setting(setting: Setting, rows: Columns) -> Accepted:
    depth = depth_of(setting, rows["correct"])
    histogram = np.bincount(rows["correct"], weights=rows["rows"], minlength=depth + 1)
    return Accepted(
        setting=setting,
        verifies=int(rows["rows"].sum()),
        accept_length=length_of(rows, rows["block"], depth, CONFIDENCE),
        histogram=tuple(histogram.astype(int).tolist()),
        positions=positions(rows, depth, rows["block"], CONFIDENCE),
    )
