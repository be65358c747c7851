"""Sums up a stretch of Cycles: rates, times of each phase, acceptance, and what tracing cost."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from random import Random

import msgspec

from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    PhaseName,
    RankCycle,
    RequestRow,
    TimingMode,
)

_NS_PER_MS = 1e6
_NS_PER_US = 1e3
# Every phase counts as itself and as a part of its parent.
_COUNTED_AS = {name: (name, name.parent) if name.parent else (name,) for name in PhaseName}
_VALUES = 65_536  # kept of one quantity
_MOST_DRAFTS = 4096  # with a place of their own in a histogram


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of a time in ms, as `percentile` defines them."""

    p50_ms: float
    p95_ms: float
    p99_ms: float


class PhaseSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One phase on one lane of the first rank.

    A phase that occurs several times in a cycle counts with its sum, and a parent such as
    `verify` with the sum of its parts.

    Attributes:
        name: The phase.
        time: Over the cycles in which the phase occurs.
        share: Its time in all cycles divided by the time of these cycles, from 0 to 1.
        cycles: Cycles in which it occurs.
        max_lag: By how many cycles the batch that it worked on was older, at most.
    """

    name: PhaseName
    time: Percentiles
    share: float
    cycles: int
    max_lag: int


class CycleTimes(msgspec.Struct, frozen=True, kw_only=True):
    """How long cycles of one kind took on the first rank, and where the time went.

    Incomplete cycles are left out of all times, and cycles without phases (timing mode
    `off`) out of those of the phases.

    Attributes:
        cycles: Cycles of this kind.
        incomplete: How many of them are incomplete.
        time: The distance from cycle start to cycle end; None if no cycle is complete.
        phases: On the host lane, in the order of a cycle, parents before their parts.
        device_cycles: Cycles with a device lane in which nothing is missing.
        device: The same as `phases` on the device lane of these cycles. Its shares are of their
            time on the host, so that they can be compared with those of `phases`: what the
            phases lack of 1, together, is the time in which the device ran none of them.
    """

    cycles: int
    incomplete: int
    time: Percentiles | None
    phases: tuple[PhaseSummary, ...]
    device_cycles: int = 0
    device: tuple[PhaseSummary, ...] = ()


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What a stretch of Cycles shows.

    Attributes:
        window_s: Length of the stretch in s; the rates refer to it.
        cycles: Cycles of any kind, of all groups.
        cycles_per_s: The same per second.
        cycles_by_kind: The same by kind, without the kinds that did not occur.
        output_tokens: Tokens that requests got, health checks left out.
        tokens_per_s: The same per second.
        speculative: Times of speculative cycles, None if there was none.
        decode: Times of plain decode cycles, None if there was none.
        verifies: Rows that count: one request verified in one cycle, without overshoot and
            health checks.
        correct_drafts: Drafts found correct in them.
        accept_length: (correct drafts + verifies) / verifies; None if nothing was verified.
        server_accept_length: Output tokens / verifies, as SGLang's `spec_accept_length`:
            with the token of the prefill and the cut at the token limit. None if nothing
            was verified.
        correct_drafts_histogram: Place i counts the verifies with i correct drafts.
        overshoot_rows: Rows whose request had ended before their result was processed.
        batch_size_median: Of speculative and plain decode cycles, None without any.
        steps_seen: Draft steps of speculative cycles, each number once, ascending.
        topk_seen: Branches per draft step, likewise.
        draft_tokens_seen: Tokens per verify and request, likewise.
        probe_median_us: The probe's own time in a cycle on the first rank, median in µs;
            None without cycles.
        probe_share: The probe's own time divided by the time of all cycles, from 0 to 1.
        modes: Timing modes seen on any rank.
    """

    window_s: float
    cycles: int
    cycles_per_s: float
    cycles_by_kind: dict[str, int]
    output_tokens: int
    tokens_per_s: float
    speculative: CycleTimes | None
    decode: CycleTimes | None
    verifies: int
    correct_drafts: int
    accept_length: float | None
    server_accept_length: float | None
    correct_drafts_histogram: tuple[int, ...]
    overshoot_rows: int
    batch_size_median: float | None
    steps_seen: tuple[int, ...]
    topk_seen: tuple[int, ...]
    draft_tokens_seen: tuple[int, ...]
    probe_median_us: float | None
    probe_share: float | None
    modes: tuple[TimingMode, ...]


class RequestCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one request got over its cycles, comparable to the server's own counts.

    Attributes:
        cycles: Cycles that verified it, SGLang's `spec_verify_ct`.
        correct_drafts: Drafts found correct, SGLang's `spec_num_correct_drafts`.
        histogram: Place i counts its cycles with i correct drafts, from 0 to the most draft
            steps that a cycle of it had; SGLang's `spec_correct_drafts_histogram`.
        output_tokens: Tokens that the request got, the prefill's among them.
    """

    cycles: int
    correct_drafts: int
    histogram: tuple[int, ...]
    output_tokens: int


def summarize(cycles: Iterable[Cycle], window_s: float) -> Summary:
    """Sums up `cycles`, each of which occurs once, over a window of `window_s` seconds.

    Raises:
        ValueError: The window has no length.
    """
    tally = Tally()
    for cycle in cycles:
        tally.add(cycle)
    return tally.summary(window_s)


def percentile(ascending: Sequence[float], percent: float) -> float:
    """The value below which `percent` of the values lie, interpolated linearly.

    Definition 7 of Hyndman and Fan, "Sample Quantiles in Statistical Packages", The
    American Statistician 50 (1996): the value at place (n - 1) * percent / 100, counted
    from 0. It is what NumPy computes by default.

    Args:
        ascending: At least one value, sorted.
        percent: From 0 to 100.

    Raises:
        IndexError: There are no values.
    """
    place = (len(ascending) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (ascending[above] - ascending[below]) * (place - below)


def per_request(cycles: Iterable[Cycle]) -> dict[str, RequestCounts]:
    """Counts by request id what the requests of `cycles` got; health checks are left out."""
    tallies: dict[str, _RequestTally] = {}
    for cycle in cycles:
        for row in cycle.requests or ():
            if not row.health_check:
                tallies.setdefault(row.request_id, _RequestTally()).add(row, cycle.steps)
    return {request_id: tally.counts() for request_id, tally in tallies.items()}


class Tally:
    """Sums up Cycles one by one in bounded memory.

    Counts and shares are exact. Percentiles are exact up to 65,536 cycles; beyond that they
    are taken over a random sample of that size, even over the whole stretch.
    """

    def __init__(self) -> None:
        self._kinds: Counter[CycleKind] = Counter()
        self._modes: set[TimingMode] = set()
        self._times = {CycleKind.SPECULATIVE: _TimesTally(), CycleKind.DECODE: _TimesTally()}
        self._batch_sizes = _Values()
        self._steps: set[int] = set()
        self._topk: set[int] = set()
        self._draft_tokens: set[int] = set()
        self._probe = _Values()
        self._cycle_ns = 0
        self._rows = _RowsTally()

    def add(self, cycle: Cycle) -> None:
        """Takes in a cycle that was not taken in before."""
        first = cycle.ranks[0]
        self._kinds[cycle.kind] += 1
        self._modes.update(rank.mode for rank in cycle.ranks)
        self._probe.add(first.probe_ns)
        self._cycle_ns += first.duration_ns
        if cycle.kind in self._times:
            self._times[cycle.kind].add(cycle.number, first)
            self._batch_sizes.add(cycle.batch_size)
        if cycle.kind is CycleKind.SPECULATIVE:
            self._steps.add(cycle.steps)
            self._topk.add(cycle.topk)
            self._draft_tokens.add(cycle.draft_tokens)
        for row in cycle.requests or ():
            self._rows.add(row, cycle.steps)

    def summary(self, window_s: float) -> Summary:
        """What was taken in so far, over a window of `window_s` seconds.

        Raises:
            ValueError: The window has no length.
        """
        if window_s <= 0:
            raise ValueError(f"a window of {window_s} s has no rates")
        cycles = self._kinds.total()
        rows = self._rows
        return Summary(
            window_s=window_s,
            cycles=cycles,
            cycles_per_s=cycles / window_s,
            cycles_by_kind={
                kind.value: self._kinds[kind] for kind in CycleKind if self._kinds[kind]
            },
            output_tokens=rows.output_tokens,
            tokens_per_s=rows.output_tokens / window_s,
            speculative=self._times[CycleKind.SPECULATIVE].times(),
            decode=self._times[CycleKind.DECODE].times(),
            verifies=rows.verifies,
            correct_drafts=rows.correct_drafts,
            accept_length=_ratio(rows.correct_drafts + rows.verifies, rows.verifies),
            server_accept_length=_ratio(rows.output_tokens, rows.verifies),
            correct_drafts_histogram=rows.histogram.places(),
            overshoot_rows=rows.overshoot,
            batch_size_median=self._batch_sizes.median(),
            steps_seen=tuple(sorted(self._steps)),
            topk_seen=tuple(sorted(self._topk)),
            draft_tokens_seen=tuple(sorted(self._draft_tokens)),
            probe_median_us=_scaled(self._probe.median(), _NS_PER_US),
            probe_share=_ratio(self._probe.sum, self._cycle_ns),
            modes=tuple(mode for mode in TimingMode if mode in self._modes),
        )


class _Values:
    """The values of one quantity, beyond 65,536 an even random sample of them.

    The sample is Vitter's reservoir, "Random Sampling with a Reservoir", ACM Transactions on
    Mathematical Software 11 (1985), algorithm R. Taking every second value instead would
    mislead where cycles follow a pattern.
    """

    def __init__(self) -> None:
        self.sum = 0
        self.count = 0
        self._kept = array("q")
        self._random = Random(0)  # noqa: S311 - a sample, no secret; the same at every run

    def add(self, value: int) -> None:
        self.sum += value
        self.count += 1
        if len(self._kept) < _VALUES:
            self._kept.append(value)
        else:
            place = self._random.randrange(self.count)
            if place < _VALUES:
                self._kept[place] = value

    def median(self) -> float | None:
        return percentile(sorted(self._kept), 50) if self.count else None

    def percentiles(self) -> Percentiles:
        ascending = sorted(self._kept)
        p50, p95, p99 = (percentile(ascending, percent) / _NS_PER_MS for percent in (50, 95, 99))
        return Percentiles(p50_ms=p50, p95_ms=p95, p99_ms=p99)


class _Histogram:
    """How often each number of correct drafts came, up to the most that could have come.

    Its last place is 4,096 and holds whatever lies beyond.
    """

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._most = -1

    def add(self, correct_drafts: int, steps: int) -> None:
        self._counts[min(correct_drafts, _MOST_DRAFTS)] += 1
        self._most = min(max(self._most, correct_drafts, steps), _MOST_DRAFTS)

    def places(self) -> tuple[int, ...]:
        return tuple(self._counts[place] for place in range(self._most + 1))


class _RowsTally:
    """The rows of all requests."""

    def __init__(self) -> None:
        self.verifies = 0
        self.correct_drafts = 0
        self.output_tokens = 0
        self.overshoot = 0
        self.histogram = _Histogram()

    def add(self, row: RequestRow, steps: int) -> None:
        if row.health_check:
            return
        self.output_tokens += row.output_tokens
        self.overshoot += row.overshoot
        if row.counts and row.correct_drafts is not None:
            self.verifies += 1
            self.correct_drafts += row.correct_drafts
            self.histogram.add(row.correct_drafts, steps)


class _RequestTally(_RowsTally):
    """The rows of one request."""

    def counts(self) -> RequestCounts:
        return RequestCounts(
            cycles=self.verifies,
            correct_drafts=self.correct_drafts,
            histogram=self.histogram.places(),
            output_tokens=self.output_tokens,
        )


class _PhaseTally:
    """One phase over the cycles in which it occurs."""

    def __init__(self) -> None:
        self.values = _Values()
        self.max_lag = 0

    def see_lag(self, lag: int) -> None:
        self.max_lag = max(self.max_lag, lag)


class _LaneTally:
    """The phases of one lane, in cycles that have any."""

    def __init__(self) -> None:
        self.cycles = 0
        self._ns = 0
        self._phases: dict[PhaseName, _PhaseTally] = {}

    def add(self, number: int, phases: Sequence[Phase], cycle_ns: int) -> None:
        if not phases:
            return
        self.cycles += 1
        self._ns += cycle_ns
        sums: dict[PhaseName, int] = {}
        for phase in phases:
            lag = number - phase.of_cycle
            for name in _COUNTED_AS[phase.name]:
                sums[name] = sums.get(name, 0) + phase.end_ns - phase.start_ns
                if lag:
                    self._tally(name).see_lag(lag)
        for name, duration_ns in sums.items():
            self._tally(name).values.add(duration_ns)

    def _tally(self, name: PhaseName) -> _PhaseTally:
        tally = self._phases.get(name)
        if tally is None:
            tally = self._phases[name] = _PhaseTally()
        return tally

    def phases(self) -> tuple[PhaseSummary, ...]:
        return tuple(self._phase(name) for name in PhaseName if name in self._phases)

    def _phase(self, name: PhaseName) -> PhaseSummary:
        tally = self._phases[name]
        return PhaseSummary(
            name=name,
            time=tally.values.percentiles(),
            share=tally.values.sum / self._ns,
            cycles=tally.values.count,
            max_lag=tally.max_lag,
        )


class _TimesTally:
    """The times of cycles of one kind on their first rank."""

    def __init__(self) -> None:
        self._cycles = 0
        self._incomplete = 0
        self._time = _Values()
        self._lanes = {lane: _LaneTally() for lane in Lane}

    def add(self, number: int, rank: RankCycle) -> None:
        self._cycles += 1
        if rank.incomplete:
            self._incomplete += 1
            return
        self._time.add(rank.duration_ns)
        for lane, tally in self._lanes.items():
            if lane is Lane.HOST or not rank.device_incomplete:
                phases = [phase for phase in rank.phases if phase.lane is lane]
                tally.add(number, phases, rank.duration_ns)

    def times(self) -> CycleTimes | None:
        if not self._cycles:
            return None
        return CycleTimes(
            cycles=self._cycles,
            incomplete=self._incomplete,
            time=self._time.percentiles() if self._time.count else None,
            phases=self._lanes[Lane.HOST].phases(),
            device_cycles=self._lanes[Lane.DEVICE].cycles,
            device=self._lanes[Lane.DEVICE].phases(),
        )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit
