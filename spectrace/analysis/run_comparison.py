"""Holds two runs against each other: like with like, and which phase made the difference."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.analysis.intervals import (
    BlockMean,
    Estimate,
    Places,
    Values,
    excess_of,
    mean_of_rests,
)
from spectrace.analysis.time_blocks import merged
from spectrace.analysis.timing_report import Verdict
from spectrace.measures import KINDS, LANES, MODES, NONE, Measures
from spectrace.model import CycleKind, Lane, PhaseName, TimingMode

CONFIDENCE = 0.95
MARGIN = 0.01  # of a cycle's time: what is smaller counts as no difference
_FEWEST = 20  # cycles of one kind in a run
_NS_PER_MS = 1e6
_MS_PER_S = 1000.0
_CONTEXT_DIFFERS = 1.2  # times: from here on contexts are told as a reason of their own
_DECODING = (CycleKind.SPECULATIVE, CycleKind.DECODE)
_Flags = NDArray[np.bool_]


class Note(str, Enum):
    """Why the comparison is not, or not wholly, one of like with like."""

    OTHER_KINDS = "other_kinds"  # one run speculates and the other decodes plainly
    OTHER_MODES = "other_modes"  # they were timed in different ways
    SYNC = "sync"  # one was timed with a synchronize at every boundary
    OTHER_BATCHES = "other_batches"  # many cycles have a batch size that the other run has not
    OTHER_CONTEXTS = "other_contexts"  # requests of one are much longer
    NOTHING_LIKE = "nothing_like"  # no batch size has enough cycles in both
    FEW_BLOCKS = "few_blocks"  # a run is too short for intervals


class Alike(msgspec.Struct, frozen=True, kw_only=True):
    """What cycles have in common that are compared with each other.

    Attributes:
        batch: Requests in the batch.
        kind: What they did; None where that is what the runs differ in.
        cycles: How many there are in either run.
        share: With what weight they count.
    """

    batch: int
    kind: CycleKind | None
    cycles: tuple[int, int]
    share: float


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity in both runs, like with like; times are means, so that those of phases add up.

    Attributes:
        one: In the first run.
        other: In the second one.
        excess: The second less the first.
        verdict: What the interval of that says.
    """

    one: Estimate
    other: Estimate
    excess: Estimate
    verdict: Verdict


class PhaseDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A phase in both runs.

    Attributes:
        phase: The phase with its parts; None for what no phase covers: the device's gaps.
        time_ms: Its mean time in a cycle, 0 where it does not occur.
        share: Which part of the cycle's difference it makes; None where the cycle has none.
    """

    phase: PhaseName | None
    time_ms: Difference
    share: float | None


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two runs, as far as it counts.

    Attributes:
        cycles: Decode cycles that are compared, of the sample.
        of: Decode cycles of the sample.
        steps: The numbers of draft steps that occur.
        draft_tokens: The numbers of tokens to verify that occur.
        modes: How they were timed.
        batch: Mean batch size.
        context: Mean tokens of a request; None where they are not known.
        groups: Groups of ranks that have cycles: the throughput is that of one of them.
    """

    cycles: int
    of: int
    steps: tuple[int, ...]
    draft_tokens: tuple[int, ...]
    modes: tuple[TimingMode, ...]
    batch: float
    context: float | None
    groups: int = 1


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs held against each other.

    Attributes:
        sides: The runs.
        alike: What was compared with what.
        cycle_ms: The cycle's time on the host.
        tokens_per_s: Output tokens of a second of decoding, of one group of ranks.
        throughput_ratio: The second's over the first's.
        ms_per_token: The cycle's time for each token of a request.
        accept_length: (Correct drafts + verifies) / verifies; None where one verified nothing.
        host: The phases by the host's clock, the largest difference first; they add up to the
            cycle's.
        device: Those of the device; with the one that has no name likewise.
        notes: What keeps it from being like with like.
        confidence: Of all differences together, and of each value alone.
        claims: How many differences share it.
        margin: What counts as none, as a part of a cycle.
    """

    sides: tuple[Side, Side]
    alike: tuple[Alike, ...] = ()
    cycle_ms: Difference | None = None
    tokens_per_s: Difference | None = None
    throughput_ratio: Estimate | None = None
    ms_per_token: Difference | None = None
    accept_length: Difference | None = None
    host: tuple[PhaseDifference, ...] = ()
    device: tuple[PhaseDifference, ...] = ()
    notes: tuple[Note, ...] = ()
    confidence: float = CONFIDENCE
    claims: int = 0
    margin: float = MARGIN


def compare_runs(one: Measures, other: Measures) -> RunComparison:
    """Holds a run against another one: differences are the second less the first.

    Cycles are compared with cycles of the same batch size and kind; where one run speculates
    and the other does not, of the same batch size. Weights give both runs the same mixture.

    Args:
        one: The first run, such as before.
        other: The second run, such as after.
    """
    runs = _Run(one), _Run(other)
    by_kind = _are_of_a_kind(runs)
    alike = _alike(runs, by_kind=by_kind)
    notes = list(_notes(runs, alike, by_kind=by_kind))
    sides = runs[0].side(alike), runs[1].side(alike)
    if not alike:
        return RunComparison(sides=sides, notes=(*notes, Note.NOTHING_LIKE))
    tables = _Table(runs[0], alike), _Table(runs[1], alike)
    if min(table.count for table in tables) < 2:  # noqa: PLR2004 - blocks
        notes.append(Note.FEW_BLOCKS)
    return _Comparison(tables, notes).of(sides, alike)


def _are_of_a_kind(runs: tuple[_Run, _Run]) -> bool:
    """Whether what both do is most of what each does.

    A server that speculates and now and then decodes plainly, as adaptive steps have it, is held
    against plain decode with all that it does.
    """
    kinds = [set(run.kind.tolist()) for run in runs]
    shared = list(kinds[0] & kinds[1])
    return not all(kinds) or all(np.isin(run.kind, shared).sum() * 2 >= run.total for run in runs)


def _alike(runs: tuple[_Run, _Run], *, by_kind: bool) -> tuple[Alike, ...]:
    """What both runs have enough of, the largest share first."""
    counts = [run.counts(by_kind=by_kind) for run in runs]
    found = {
        key: (counts[0][key], counts[1][key])
        for key in counts[0].keys() & counts[1].keys()
        if min(counts[0][key], counts[1][key]) >= _FEWEST
    }
    totals = [sum(pair[side] for pair in found.values()) for side in (0, 1)]
    alike = [
        Alike(
            batch=batch,
            kind=None if kind == NONE else KINDS[kind],
            cycles=pair,
            share=(pair[0] / totals[0] + pair[1] / totals[1]) / 2,
        )
        for (batch, kind), pair in found.items()
    ]
    return tuple(sorted(alike, key=lambda each: -each.share))


def _notes(runs: tuple[_Run, _Run], alike: tuple[Alike, ...], *, by_kind: bool) -> list[Note]:
    found = []
    if not by_kind:
        found.append(Note.OTHER_KINDS)
    modes = [set(run.modes) for run in runs]
    if modes[0] != modes[1]:
        found.append(Note.OTHER_MODES)
    if any(TimingMode.SYNC in each for each in modes):
        found.append(Note.SYNC)
    if alike:
        used = [sum(each.cycles[side] for each in alike) for side in (0, 1)]
        if any(part < run.total / 2 for part, run in zip(used, runs, strict=True)):
            found.append(Note.OTHER_BATCHES)
    contexts = [run.context for run in runs]
    if contexts[0] and contexts[1]:
        larger = max(contexts[0] / contexts[1], contexts[1] / contexts[0])
        if larger > _CONTEXT_DIFFERS:
            found.append(Note.OTHER_CONTEXTS)
    return found


class _Run:
    """The decode cycles of one run that can be compared at all."""

    def __init__(self, measures: Measures) -> None:
        cycles = measures.cycles
        wanted = np.isin(cycles["kind"], [KINDS.index(kind) for kind in _DECODING])
        wanted &= cycles["timed"].astype(np.bool_)
        self.measures = measures
        self.places: Places = np.flatnonzero(wanted)
        self.kind = cycles["kind"][self.places]
        self.batch = cycles["batch"][self.places]
        self.window = cycles["window"][self.places]
        self.ms = (cycles["end_ns"] - cycles["start_ns"])[self.places] / _NS_PER_MS
        self.total = len(self.places)
        self.modes = tuple(MODES[place] for place in np.unique(cycles["mode"][self.places]))
        self.context = self._mean_context()

    def _mean_context(self) -> float | None:
        known = self.measures.cycles["context_sum"][self.places]
        here = (known != NONE) & (self.batch > 0)
        if not here.any():
            return None
        return float(known[here].sum() / self.batch[here].sum())

    def counts(self, *, by_kind: bool) -> dict[tuple[int, int], int]:
        """How many cycles there are of each batch size and kind."""
        kinds = self.kind if by_kind else np.full(self.total, NONE)
        keys, counts = np.unique(np.stack([self.batch, kinds], axis=1), axis=0, return_counts=True)
        return {
            (int(batch), int(kind)): int(count)
            for (batch, kind), count in zip(keys.tolist(), counts, strict=True)
        }

    def like(self, alike: Alike) -> _Flags:
        """The cycles that are of one kind."""
        here = self.batch == alike.batch
        if alike.kind is not None:
            here &= self.kind == KINDS.index(alike.kind)
        return np.asarray(here)

    def side(self, alike: tuple[Alike, ...]) -> Side:
        """The run as it is reported."""
        used = np.zeros(self.total, dtype=np.bool_)
        for each in alike:
            used |= self.like(each)
        cycles = self.measures.cycles
        return Side(
            cycles=int(used.sum()),
            of=self.total,
            steps=_distinct(cycles["steps"][self.places]),
            draft_tokens=_distinct(cycles["draft_tokens"][self.places]),
            modes=self.modes,
            batch=float(self.batch.mean()) if self.total else 0.0,
            context=self.context,
            groups=len(self.measures.groups),
        )

    def per_cycle(self, name: str) -> Values:
        """Something of the requests in each cycle: `tokens`, `verifies` or `correct`.

        NaN where no results came.
        """
        rows = self.measures.rows
        real = ~(rows["health_check"].astype(np.bool_))
        counts = real & ~rows["overshoot"].astype(np.bool_) & (rows["correct"] != NONE)
        amount, here = {
            "tokens": (rows["delivered"], real),
            "verifies": (np.ones(len(counts)), counts),
            "correct": (rows["correct"], counts),
        }[name]
        count = len(self.measures.cycles["number"])
        found = np.bincount(rows["cycle"][here], weights=amount[here], minlength=count)
        found = found.astype(np.float64)
        found[np.bincount(rows["cycle"], minlength=count) == 0] = np.nan
        return np.asarray(found[self.places])

    def phase_ms(self, lane: Lane, name: PhaseName) -> Values:
        """The time of a phase in each cycle, NaN where it does not occur."""
        return np.asarray(self.measures.phase_ms(lane, name)[self.places])


def _distinct(values: NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(int(value) for value in np.unique(values))


class _Table:
    """The cycles of one run that are compared, with weights that make both mixtures the same."""

    def __init__(self, run: _Run, alike: tuple[Alike, ...]) -> None:
        likes = np.full(run.total, NONE)
        for place, each in enumerate(alike):
            likes[run.like(each)] = place
        self._used = likes != NONE
        self._likes: Places = likes[self._used].astype(np.intp)
        self._shares = np.array([each.share for each in alike])
        self._run = run
        self.ms = run.ms[self._used]
        self.batch = run.batch[self._used].astype(np.float64)
        self.blocks = merged(run.window[self._used].astype(np.intp), self.ms)
        self.count = int(self.blocks.max()) + 1

    def column(self, name: str) -> Values:
        """As `_Run.per_cycle`."""
        return np.asarray(self._run.per_cycle(name)[self._used])

    def phase_ms(self, lane: Lane, name: PhaseName) -> Values:
        """As `_Run.phase_ms`."""
        return np.asarray(self._run.phase_ms(lane, name)[self._used])

    def mean(self, tops: Values, bottoms: Values | None = None) -> BlockMean | None:
        """The weighted sum of something over that of something else, by default of cycles.

        Each cycle is held against the mean of those like it, so that the error does not hold how
        the mixture varies: the linearised post-stratified ratio, Cochran, Sampling Techniques
        (1977), 5A.9 and 6.3. Where one of the two is not known the cycle does not count. None where
        nothing is left.
        """
        under = np.ones(len(tops)) if bottoms is None else bottoms
        here = ~(np.isnan(tops) | np.isnan(under))
        likes = self._likes[here]
        counts = np.bincount(likes, minlength=len(self._shares))
        weights = self._shares / np.maximum(1, counts)
        upper, lower = (
            np.bincount(likes, weights=each[here], minlength=len(counts)) for each in (tops, under)
        )
        whole = float(weights @ lower)
        if not whole:
            return None
        value = float(weights @ upper) / whole
        level = (upper - value * lower) / np.maximum(1, counts)
        rests = weights[likes] * (tops[here] - value * under[here] - level[likes])
        _, places = np.unique(self.blocks[here], return_inverse=True)
        return mean_of_rests(value, np.bincount(places, weights=rests).astype(np.float64), whole)


_Means = tuple[BlockMean, BlockMean]


class _Comparison:
    """Judges all differences with one error probability for all of them together."""

    def __init__(self, tables: tuple[_Table, _Table], notes: list[Note]) -> None:
        self._tables = tables
        self._notes = notes

    def of(self, sides: tuple[Side, Side], alike: tuple[Alike, ...]) -> RunComparison:
        """The comparison."""
        whole = {
            "cycle_ms": self._both(lambda table: table.mean(table.ms)),
            "tokens_per_s": self._both(
                lambda table: table.mean(table.column("tokens"), table.ms / _MS_PER_S)
            ),
            "ms_per_token": self._both(
                lambda table: table.mean(table.ms * table.batch, table.column("tokens"))
            ),
            "accept_length": self._both(
                lambda table: table.mean(
                    table.column("correct") + table.column("verifies"), table.column("verifies")
                )
            ),
        }
        lanes = {lane: self._phases(lane) for lane in LANES}
        claims = sum(pair is not None for pair in whole.values())
        claims += sum(map(len, lanes.values()))
        each = 1 - (1 - CONFIDENCE) / max(1, claims)  # Bonferroni
        judged = {
            name: None if pair is None else self._judged(pair, MARGIN * pair[0].value, each)
            for name, pair in whole.items()
        }
        cycle = whole["cycle_ms"]
        return RunComparison(
            sides=sides,
            alike=alike,
            cycle_ms=judged["cycle_ms"],
            tokens_per_s=judged["tokens_per_s"],
            ms_per_token=judged["ms_per_token"],
            accept_length=judged["accept_length"],
            throughput_ratio=_throughput_ratio(whole["tokens_per_s"], each),
            host=self._told(lanes[Lane.HOST], cycle, each),
            device=self._told(lanes[Lane.DEVICE], cycle, each),
            notes=tuple(self._notes),
            claims=claims,
        )

    def _both(self, mean: Callable[[_Table], BlockMean | None]) -> _Means | None:
        one, other = map(mean, self._tables)
        return None if one is None or other is None else (one, other)

    def _phases(self, lane: Lane) -> dict[PhaseName | None, _Means]:
        """The mean of every phase that occurs; on the device also of what none covers."""
        columns = [_phase_columns(table, lane) for table in self._tables]
        if not all(columns):
            return {}
        names = [name for name in (*PhaseName, None) if any(name in each for each in columns)]
        found: dict[PhaseName | None, _Means] = {}
        for name in names:
            means = [
                table.mean(each.get(name, _absent(each)))
                for table, each in zip(self._tables, columns, strict=True)
            ]
            if means[0] is not None and means[1] is not None:
                found[name] = means[0], means[1]
        return found

    def _told(
        self, phases: dict[PhaseName | None, _Means], cycle: _Means | None, each: float
    ) -> tuple[PhaseDifference, ...]:
        if cycle is None:
            return ()
        whole = cycle[1].value - cycle[0].value
        found = [
            PhaseDifference(
                phase=name,
                time_ms=(judged := self._judged(means, MARGIN * cycle[0].value, each)),
                share=judged.excess.value / whole if whole else None,
            )
            for name, means in phases.items()
        ]
        return tuple(sorted(found, key=lambda one: -abs(one.time_ms.excess.value)))

    def _judged(self, means: _Means, margin: float, each: float) -> Difference:
        excess = excess_of(means[1], means[0], each)
        verdict = Verdict.OPEN
        if excess.excludes(0.0):
            verdict = Verdict.DIFFERS
        elif excess.within(-margin, margin):
            verdict = Verdict.SAME
        return Difference(
            one=_alone(means[0]), other=_alone(means[1]), excess=excess, verdict=verdict
        )


def _phase_columns(table: _Table, lane: Lane) -> dict[PhaseName | None, Values]:
    """The top-level phases of a lane by cycle, 0 where one does not occur; empty without any."""
    times = {
        name: column
        for name in PhaseName
        if name.parent is None and not np.isnan(column := table.phase_ms(lane, name)).all()
    }
    if not times:
        return {}
    timed = ~np.all([np.isnan(column) for column in times.values()], axis=0)
    found: dict[PhaseName | None, Values] = {
        name: np.where(timed, np.nan_to_num(column), np.nan) for name, column in times.items()
    }
    if lane is Lane.DEVICE:
        found[None] = np.where(timed, table.ms, np.nan) - np.sum(list(found.values()), axis=0)
    return found


def _absent(columns: dict[PhaseName | None, Values]) -> Values:
    """A phase that a run does not have: 0 in the cycles that have others."""
    any_column = next(iter(columns.values()))
    return np.where(np.isnan(any_column), np.nan, 0.0)


def _alone(mean: BlockMean) -> Estimate:
    """A value by itself."""
    return excess_of(mean, BlockMean(0.0, 0.0, 1 << 30), CONFIDENCE)


def _throughput_ratio(means: _Means | None, confidence: float) -> Estimate | None:
    """The second throughput over the first: a difference on a logarithmic scale."""
    if means is None or min(mean.value for mean in means) <= 0:
        return None
    logs = [
        BlockMean(math.log(mean.value), mean.error / mean.value, mean.freedom) for mean in means
    ]
    found = excess_of(logs[1], logs[0], confidence)
    value, low, high = (
        None if limit is None else math.exp(limit) for limit in (found.value, found.low, found.high)
    )
    return Estimate(value=value or 0.0, low=low, high=high)
