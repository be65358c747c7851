"""What cycles of each setting and batch size take, and their phases.

What throughput is made of are means, since tokens per second are tokens over the sum of all times:
of a cycle over all of them, which are counted exactly, of its parts from sampled cycles. Medians,
which a few slow cycles do not move, say what is usual.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.analysis.acceptance import CONFIDENCE, PLAIN, Setting
from spectrace.analysis.estimates import exact, total
from spectrace.analysis.intervals import Estimate, Values, quantile, ratio
from spectrace.measures import KINDS, LANES, MODES, PHASES, Columns, Measures
from spectrace.model import CycleKind, Lane, PhaseName, TimingMode

FEWEST_CYCLES = 20  # of which a time is given
SLOWEST = 0.1  # share of the cycles that are called the slowest
_MOST_BLOCKS = 25  # of cycles that follow each other, between which a mean's error is told
_BLOCK_CYCLES = 50  # of each at least: cycles that follow each other are alike
_NS_PER_MS = 1e6
_MOST_REACH = 50.0  # of a logarithm: more is no interval, and no number either
_DECODING = (CycleKind.SPECULATIVE, CycleKind.DECODE)
_WAITS = (PhaseName.RESOLVE, PhaseName.WAIT)
_TOP = tuple(name for name in PhaseName if name.parent is None)


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """How long something took in ms, over the cycles in which it occurs.

    Attributes:
        p50_ms: Median.
        p95_ms: 95th percentile.
        p99_ms: 99th percentile.
        cycles: In how many cycles.
    """

    p50_ms: Estimate
    p95_ms: Estimate
    p99_ms: Estimate
    cycles: int


class PhaseTimes(msgspec.Struct, frozen=True, kw_only=True):
    """One top-level phase on one lane of the first rank.

    Attributes:
        name: The phase.
        lane: Whose time.
        time: How long it took.
        share: Its time over that of the cycles on the host, from 0 to 1.
    """

    name: PhaseName
    lane: Lane
    time: Times
    share: Estimate


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """A cycle in the four parts of the cost model: means, which add up to that of the cycle.

    Attributes:
        lane: By which clock: the device's where there is one, else the host's.
        draft_ms: All draft steps, D.
        verify_ms: V; of plain decode its forward.
        extend_ms: Draft extend, X.
        overhead_ms: What is left of the cycle, O.
        verify_p50_ms: The median of V, of which its cost by number of tokens is told.
        waits_in_verify: By the host's clock, on a host that runs ahead: named waits are counted
            as verify, for which they wait.
    """

    lane: Lane
    draft_ms: Estimate
    verify_ms: Estimate
    extend_ms: Estimate
    overhead_ms: Estimate
    verify_p50_ms: Estimate
    waits_in_verify: bool


class Stratum(msgspec.Struct, frozen=True, kw_only=True):
    """Cycles that are alike: one setting at one batch size, without sync timing.

    Attributes:
        setting: The setting; `acceptance.PLAIN` is plain decode.
        batch: Batch size.
        cycles: All of the run whose times count.
        total_ms: Their time.
        sampled: How many of them were read in full.
        padded_batch: For which batch size the graph was made that most of them ran, if any.
        mean_ms: Of a cycle, over all of them; None where too few were sampled.
        slowest_share: What the slowest tenth takes of their time, from 0 to 1; None likewise.
        cycle: Their usual times; None likewise.
        parts: The same in parts; None likewise, and where no phases were timed.
        phases: All top-level phases of both lanes.
    """

    setting: Setting
    batch: int
    cycles: int
    total_ms: float
    sampled: int
    padded_batch: int | None
    mean_ms: Estimate | None
    slowest_share: float | None
    cycle: Times | None
    parts: Parts | None
    phases: tuple[PhaseTimes, ...]


def strata(measures: Measures, confidence: float = CONFIDENCE) -> tuple[Stratum, ...]:
    """The speculative and plain decode cycles of a run; what took most time comes first."""
    counts = measures.cycle_counts
    here = counts["timed"] & (counts["mode"] != MODES.index(TimingMode.SYNC))
    here &= np.isin(counts["kind"], [KINDS.index(kind) for kind in _DECODING])
    names = ("kind", "steps", "topk", "draft_tokens", "batch")
    keys = np.stack([counts[name][here] for name in names], axis=1)
    if not len(keys):
        return ()
    unique, places = np.unique(keys, axis=0, return_inverse=True)
    places = places.reshape(-1)
    summed = {name: counts[name][here] for name in ("group", "block", "cycles", "total_ns")}
    sampled = _Sampled(measures, confidence)
    found = []
    for at, key in enumerate(unique.tolist()):
        same = places == at
        kind, steps, topk, draft_tokens, batch = key
        speculative = KINDS[kind] is CycleKind.SPECULATIVE
        setting = Setting(steps=steps, topk=topk, draft_tokens=draft_tokens)
        found.append(
            sampled.stratum(
                setting if speculative else PLAIN,
                sampled.like(dict(zip(names, key, strict=True))),
                batch=batch,
                counts={name: column[same] for name, column in summed.items()},
            )
        )
    return tuple(sorted(found, key=lambda one: -one.total_ms))


def _mean(counts: Columns, confidence: float) -> Estimate:
    """The mean time of all cycles in ms, with an interval between stretches of many cycles.

    Its limits are those of the logarithm, since a time is never nothing: throughput, which goes by
    its inverse, would have no upper limit where stretches are few and differ.
    """
    order = np.lexsort((counts["block"], counts["group"]))
    cycles = counts["cycles"][order].astype(np.float64)
    took_ms = counts["total_ns"][order] / _NS_PER_MS
    whole = float(cycles.sum())
    blocks = int(min(_MOST_BLOCKS, max(1.0, whole // _BLOCK_CYCLES)))
    middle = np.cumsum(cycles) - cycles / 2
    places = np.minimum(middle * blocks / whole, blocks - 1).astype(np.intp)
    _, places = np.unique(places, return_inverse=True)
    tops, bottoms = (
        np.bincount(places, weights=column).astype(np.float64) for column in (took_ms, cycles)
    )
    found = ratio(tops, bottoms, confidence)
    if found.high is None or found.value <= 0:
        return found
    factor = math.exp(min(found.high / found.value - 1, _MOST_REACH))
    return Estimate(value=found.value, low=found.value / factor, high=found.value * factor)


def _slowest_share(took: Values) -> float:
    """What the slowest tenth of the cycles takes of the time of all."""
    whole = float(took.sum())
    slowest = np.sort(took)[-max(1, round(SLOWEST * len(took))) :]
    return float(slowest.sum()) / whole if whole > 0 else 0.0


class _Sampled:
    """The sampled cycles whose times count, and their phases in columns."""

    def __init__(self, measures: Measures, confidence: float) -> None:
        cycles = measures.cycles
        self._cycles = cycles
        self._confidence = confidence
        self._timed = cycles["timed"] & (cycles["mode"] != MODES.index(TimingMode.SYNC))
        self._took = (cycles["end_ns"] - cycles["start_ns"]) / _NS_PER_MS
        self._times = {
            (lane, name): measures.phase_ms(lane, name) for lane in Lane for name in _TOP
        }
        self._ahead = _runs_ahead(measures)

    def like(self, key: dict[str, int]) -> NDArray[np.bool_]:
        """Which sampled cycles have these in common."""
        here: NDArray[np.bool_] = self._timed.copy()
        for name, value in key.items():
            here &= self._cycles[name] == value
        return here

    def stratum(
        self,
        setting: Setting,
        here: NDArray[np.bool_],
        *,
        batch: int,
        counts: Columns,
    ) -> Stratum:
        enough = int(here.sum()) >= FEWEST_CYCLES
        mean_ms = _mean(counts, self._confidence) if enough else None
        padded = self._cycles["padded_batch"][here]
        known = padded[padded >= 0]
        return Stratum(
            setting=setting,
            batch=batch,
            cycles=int(counts["cycles"].sum()),
            total_ms=float(counts["total_ns"].sum()) / _NS_PER_MS,
            sampled=int(here.sum()),
            padded_batch=_most_common(known) if len(known) else None,
            mean_ms=mean_ms,
            slowest_share=_slowest_share(self._took[here]) if enough else None,
            cycle=self._spread(self._took, here) if enough else None,
            parts=None if mean_ms is None else self._parts(here, mean_ms, plain=setting == PLAIN),
            phases=self._phases(here) if enough else (),
        )

    def _median(self, values: Values, here: NDArray[np.bool_], part: float) -> Estimate:
        windows = self._cycles["window"][here].astype(np.intp)
        return quantile(values[here], np.ones(int(here.sum())), windows, part, self._confidence)

    def _spread(self, values: Values, here: NDArray[np.bool_]) -> Times:
        p50, p95, p99 = (self._median(values, here, part) for part in (0.5, 0.95, 0.99))
        return Times(p50_ms=p50, p95_ms=p95, p99_ms=p99, cycles=int(here.sum()))

    def _phases(self, here: NDArray[np.bool_]) -> tuple[PhaseTimes, ...]:
        found = []
        for lane in LANES:
            with_lane = here & self._has(lane)
            for name in PHASES:
                if name.parent is not None:
                    continue
                times = self._times[lane, name]
                occurs = with_lane & ~np.isnan(times)
                if int(occurs.sum()) >= FEWEST_CYCLES:
                    share = self._share(times, with_lane)
                    spread = self._spread(times, occurs)
                    found.append(PhaseTimes(name=name, lane=lane, time=spread, share=share))
        return tuple(found)

    def _has(self, lane: Lane) -> NDArray[np.bool_]:
        """Which cycles have any phase on a lane."""
        found = np.zeros(len(self._took), dtype=np.bool_)
        for name in _TOP:
            found |= ~np.isnan(self._times[lane, name])
        return found

    def _share(self, times: Values, here: NDArray[np.bool_]) -> Estimate:
        _, places = np.unique(self._cycles["window"][here], return_inverse=True)
        tops, bottoms = (
            np.bincount(places, weights=column[here]).astype(np.float64)
            for column in (np.nan_to_num(times), self._took)
        )
        return ratio(tops, bottoms, self._confidence)

    def _parts(self, here: NDArray[np.bool_], mean_ms: Estimate, *, plain: bool) -> Parts | None:
        lane = Lane.DEVICE
        if int((here & self._has(lane)).sum()) < FEWEST_CYCLES:
            lane = Lane.HOST
        here = here & self._has(lane)
        if int(here.sum()) < FEWEST_CYCLES:
            return None
        waits = lane is Lane.HOST and bool(self._ahead[here].mean() > 0.5)  # noqa: PLR2004 - most
        column = self._columns(lane, plain=plain, waits=waits)
        if not self._took[here].any():
            return None
        share = {name: self._share(times, here) for name, times in column.items()}
        known = self._share(sum(column.values(), np.zeros_like(self._took)), here)
        return Parts(
            lane=lane,
            draft_ms=_of_mean(share["draft"], mean_ms),
            verify_ms=_of_mean(share["verify"], mean_ms),
            extend_ms=_of_mean(share["extend"], mean_ms),
            overhead_ms=_of_mean(total((1.0, exact(1.0)), (-1.0, known)), mean_ms),
            verify_p50_ms=self._median(column["verify"], here, 0.5),
            waits_in_verify=waits,
        )

    def _columns(self, lane: Lane, *, plain: bool, waits: bool) -> dict[str, Values]:
        def of(*names: PhaseName) -> Values:
            times = np.stack([self._times[lane, name] for name in names])
            return np.asarray(np.nansum(times, axis=0), dtype=np.float64)

        target = (PhaseName.FORWARD, PhaseName.VERIFY) if plain else (PhaseName.VERIFY,)
        return {
            "draft": of(PhaseName.DRAFT),
            "verify": of(*target, *(_WAITS if waits else ())),
            "extend": of(PhaseName.DRAFT_EXTEND),
        }


def _of_mean(share: Estimate, mean_ms: Estimate) -> Estimate:
    """A share of sampled cycles as a part of the mean over all cycles, in ms."""
    value = share.value * mean_ms.value
    return total((mean_ms.value, share), (share.value, mean_ms), (-1.0, exact(value)))


def _runs_ahead(measures: Measures) -> NDArray[np.bool_]:
    """In which sampled cycles the first rank worked on the results of an earlier one."""
    phases, cycles = measures.phases, measures.cycles
    late = (phases["place"] == 0) & (phases["lane"] == LANES.index(Lane.HOST))
    late &= phases["of_cycle"] < cycles["number"][phases["cycle"]]
    found = np.zeros(len(cycles["number"]), dtype=np.bool_)
    found[phases["cycle"][late]] = True
    return found


def largest(
    found: tuple[Stratum, ...], wanted: Callable[[Stratum], bool] = lambda _: True
) -> Stratum | None:
    """The stratum that took most of the run's time, among those that are wanted."""
    return next((one for one in found if wanted(one)), None)


def _most_common(values: NDArray[np.int64]) -> int:
    """The smallest of those that occur most often; they may be as large as a sender likes."""
    found, counts = np.unique(values, return_counts=True)
    return int(found[counts.argmax()])
