"""Compares what timing modes show of the same server: times, differences, costs, what hid what.

Three rules keep it honest. Blocks are the unit, not cycles (`intervals`). All differences and
costs share one error probability: each has an interval at 1 - (1 - confidence) / their number
(Bonferroni), so that a server on which nothing differs gets any false claim in 5 % of all runs at
most. And a difference that is real but smaller than the margin is called none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from spectrace.analysis.intervals import Estimate, Values, negated
from spectrace.analysis.sample_table import SampleTable
from spectrace.analysis.samples import Refusal, Sample
from spectrace.analysis.speculation import break_even
from spectrace.analysis.timing_report import (
    Comparison,
    Cost,
    ModeFigures,
    Moved,
    PhaseDifference,
    PhaseFigures,
    Reference,
    Stratum,
    Verdict,
)
from spectrace.model import CycleKind, Lane, PhaseName, TimingMode

CONFIDENCE = 0.95
MARGIN = 0.01
ORDER = (TimingMode.OFF, TimingMode.HOST, TimingMode.DEVICE, TimingMode.SYNC)
_WAITS = (PhaseName.WAIT, PhaseName.RESOLVE)
_MS_PER_S = 1e3
_OFTEN = 0.5  # of the cycles: a phase that is rarer is not compared
_LEAST_CHARGED = 0.5  # of what is hidden: what a phase has too much by less is not that


def compare(  # noqa: PLR0913 - each is a fact or a wish of its own
    samples: Sequence[Sample],
    *,
    asked: Sequence[TimingMode] = (),
    left_out: dict[str, int] | None = None,
    rounds: int = 0,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    plain_decode_ms: float | None = None,
    device_timing: str = "",
) -> Comparison:
    """Compares the modes of some samples.

    Args:
        samples: One for each cycle that counts.
        asked: The modes that were to be compared; by default those that have samples.
        left_out: Cycles that do not, by reason.
        rounds: Whole rounds of the plan.
        margin: What counts as no difference, as a share of the time of a cycle.
        confidence: Of the intervals.
        plain_decode_ms: Time of a plain decode of the same batch, where it is known.
        device_timing: Why there is no device timing, a sentence.
    """
    table = SampleTable(samples)
    part = _Part(table, confidence, plain_decode_ms)
    modes = tuple(part.figures(mode) for mode in ORDER if mode in table.modes)
    reference = _reference(modes)
    compared = [] if reference is None else part.compared(modes, reference)
    costly = _costly(modes)
    claims = len(compared) + len(costly)
    shared = 1 - (1 - confidence) / max(claims, 1)
    margin_ms = modes[0].cycle_p50_ms.value * margin if modes else None
    differences = tuple(
        part.difference(mode, phase, reference, shared, margin_ms or 0.0)
        for mode, phase in compared
        if reference is not None
    )
    return Comparison(
        confidence=confidence,
        claims=claims,
        margin=margin,
        margin_ms=margin_ms,
        modes=modes,
        reference=reference,
        differences=differences,
        costs=tuple(part.cost(mode, shared, margin) for mode in costly),
        moved=tuple(one for figures in modes for one in _moved(figures, differences)),
        strata=tuple(
            Stratum(like=like, cycles=count, share=count / len(table.samples))
            for like, count in table.likes.most_common()
        ),
        left_out=_together(left_out or {}, table.left),
        rounds=rounds,
        blocks=len({sample.block for sample in table.samples}),
        runs_ahead=_mostly(sample.runs_ahead for sample in table.samples if sample.host),
        without_data=tuple(mode for mode in ORDER if mode in asked and mode not in table.modes),
        device_timing=device_timing,
    )


class _Part:
    """Figures of single modes and pairs of them."""

    def __init__(
        self, table: SampleTable, confidence: float, plain_decode_ms: float | None
    ) -> None:
        self._table = table
        self._confidence = confidence
        self._plain_decode_ms = plain_decode_ms
        self._cycle_ms = table.column(lambda sample: sample.cycle_ms)
        self._ones = np.ones_like(self._cycle_ms)
        self._tokens = table.column(lambda sample: sample.tokens)
        self._verifies = table.column(lambda sample: sample.verifies)
        self._speculative = table.column(
            lambda sample: 1.0 if sample.like.kind is CycleKind.SPECULATIVE else None
        )
        self._accepted = table.column(lambda sample: sample.correct_drafts + sample.verifies)
        self._times = {
            (lane, name): table.column(partial(_time, lane=lane, name=name))
            for lane in (Lane.HOST, Lane.DEVICE)
            for name in PhaseName
        }
        self._with_lane = {  # the time of cycles that have this lane
            lane: table.column(partial(_cycle_with, lane=lane)) for lane in (Lane.HOST, Lane.DEVICE)
        }

    def figures(self, mode: TimingMode) -> ModeFigures:
        table, confidence = self._table, self._confidence
        p50, p95, p99 = (
            table.quantile(mode, self._cycle_ms, part, confidence) for part in (0.5, 0.95, 0.99)
        )
        rate = self._rate(mode, self._ones)
        assert p50 and p95 and p99 and rate  # noqa: PT018, S101 - a mode of the table has cycles
        host, device = (self._phases(mode, lane) for lane in (Lane.HOST, Lane.DEVICE))
        return ModeFigures(
            mode=mode,
            blocks=table.blocks(mode),
            cycles=table.cycles(mode),
            cycles_per_s=rate,
            tokens_per_s=self._rate(mode, self._tokens),
            cycle_p50_ms=p50,
            cycle_p95_ms=p95,
            cycle_p99_ms=p99,
            accept_length=self._accept_length(mode),
            break_even_accept_length=self._break_even(mode),
            host=host,
            device=device,
        )

    def _rate(self, mode: TimingMode, counts: Values) -> Estimate | None:
        return self._table.ratio(mode, counts, self._cycle_ms / _MS_PER_S, self._confidence)

    def _accept_length(self, mode: TimingMode) -> float | None:
        found = self._table.ratio(mode, self._accepted, self._verifies, self._confidence)
        return None if found is None else found.value

    def _break_even(self, mode: TimingMode) -> float | None:
        mean_ms = self._table.ratio(mode, self._cycle_ms, self._speculative, self._confidence)
        if mean_ms is None or self._plain_decode_ms is None:
            return None
        return break_even(mean_ms.value, self._plain_decode_ms)

    def _phases(self, mode: TimingMode, lane: Lane) -> tuple[PhaseFigures, ...]:
        table, confidence = self._table, self._confidence
        found = []
        for name in PhaseName:
            times = self._times[lane, name]
            time = table.quantile(mode, times, 0.5, confidence)
            share = table.ratio(mode, _or_zero(times), self._with_lane[lane], confidence)
            if time is not None and share is not None:
                found.append(PhaseFigures(name=name, time_ms=time, share=share))
        return tuple(found)

    def compared(
        self, modes: Sequence[ModeFigures], reference: Reference
    ) -> list[tuple[TimingMode, PhaseName]]:
        """Which phases of which modes are held against the reference: those that both have."""
        known = self._often(reference.mode, reference.lane)
        return [
            (figures.mode, phase)
            for figures in modes
            if figures.mode not in {reference.mode, TimingMode.OFF}
            for phase in self._often(figures.mode, Lane.HOST)
            if phase in known
        ]

    def _often(self, mode: TimingMode, lane: Lane) -> list[PhaseName]:
        """The phases that occur in most cycles of a mode."""
        cycles = self._table.count(mode, self._with_lane[lane])
        return [
            name
            for name in PhaseName
            if self._table.count(mode, self._times[lane, name]) > _OFTEN * cycles
        ]

    def difference(
        self,
        mode: TimingMode,
        phase: PhaseName,
        reference: Reference,
        confidence: float,
        margin_ms: float,
    ) -> PhaseDifference:
        found = self._table.excess(
            (mode, self._times[Lane.HOST, phase]),
            (reference.mode, self._times[reference.lane, phase]),
            confidence,
        )
        verdict = _verdict(found, 0.0, (-margin_ms, margin_ms))
        return PhaseDifference(mode=mode, phase=phase, difference_ms=found, verdict=verdict)

    def cost(self, mode: TimingMode, confidence: float, margin: float) -> Cost:
        found = self._table.factor(mode, TimingMode.OFF, self._cycle_ms, confidence)
        verdict = _verdict(found, 1.0, (1 - margin, 1 + margin))
        return Cost(mode=mode, throughput_ratio=found, verdict=verdict)


def _verdict(estimate: Estimate | None, nothing: float, margin: tuple[float, float]) -> Verdict:
    if estimate is None:
        return Verdict.OPEN
    if estimate.within(*margin):
        return Verdict.SAME
    return Verdict.DIFFERS if estimate.excludes(nothing) else Verdict.OPEN


def _time(sample: Sample, lane: Lane, name: PhaseName) -> float | None:
    """Of a phase on a lane."""
    return ((sample.host if lane is Lane.HOST else sample.device) or {}).get(name)


def _cycle_with(sample: Sample, lane: Lane) -> float | None:
    """Of a cycle that has this lane."""
    return sample.cycle_ms if (sample.host if lane is Lane.HOST else sample.device) else None


def _together(left_out: dict[str, int], left: Counter[Refusal]) -> dict[str, int]:
    """Cycles that were left out before, and those that the table left, by reason."""
    counts = Counter(left_out)
    counts.update({reason.value: count for reason, count in left.items()})
    return {reason.value: counts[reason.value] for reason in Refusal if counts[reason.value]}


def _or_zero(times: Values) -> Values:
    """The same column with 0 where a phase did not occur."""
    return np.nan_to_num(times, nan=0.0)


def _reference(modes: Sequence[ModeFigures]) -> Reference | None:
    """The device's own times where there are any, else those of `sync`."""
    if any(figures.device for figures in modes):
        return Reference(mode=TimingMode.DEVICE, lane=Lane.DEVICE)
    if any(figures.mode is TimingMode.SYNC for figures in modes) and len(modes) > 1:
        return Reference(mode=TimingMode.SYNC, lane=Lane.HOST)
    return None


def _costly(modes: Sequence[ModeFigures]) -> list[TimingMode]:
    """The modes whose throughput can be held against that without timing."""
    found = [figures.mode for figures in modes]
    return [mode for mode in found if mode is not TimingMode.OFF and TimingMode.OFF in found]


def _mostly(flags: Iterable[bool]) -> bool:
    known = list(flags)
    return sum(known) > len(known) / 2


def _moved(figures: ModeFigures, differences: Sequence[PhaseDifference]) -> list[Moved]:
    """Which phases a mode shows too short, and which it shows too long or as a wait instead.

    A synchronize hides nothing: what it changes it takes from nobody.
    """
    if figures.mode is TimingMode.SYNC:
        return []
    own = {
        one.phase: one.difference_ms
        for one in differences
        if one.mode is figures.mode
        and one.verdict is Verdict.DIFFERS
        and one.difference_ms is not None
    }
    longer = {phase: excess for phase, excess in own.items() if excess.value > 0}
    wait = _longest_wait(figures)
    waits = {wait.name: wait.time_ms} if wait and wait.name not in longer else {}
    found = []
    for phase, excess in sorted(own.items(), key=lambda one: one[1].value):
        hidden = negated(excess)
        if hidden.value <= 0:
            break
        bare = Moved(
            mode=figures.mode,
            hidden_in=phase,
            hidden_ms=hidden,
            charged_to=None,
            charged_ms=None,
        )
        if charge := _charge(hidden, longer):
            bare = replace(bare, charged_to=charge[0], charged_ms=charge[1])
        elif charge := _charge(hidden, waits):
            bare = replace(bare, charged_to=charge[0], charged_ms=charge[1], as_wait=True)
        found.append(bare)
    return found


def _charge(hidden: Estimate, left: dict[PhaseName, Estimate]) -> tuple[PhaseName, Estimate] | None:
    """Takes what a phase hides from that of which most is left, which keeps the rest for others.

    Returns:
        That one and what it is charged with: no more than was left. None where that is too little.
    """
    name = max(left, key=lambda one: left[one].value, default=None)
    if name is None or left[name].value < _LEAST_CHARGED * hidden.value:
        return None
    charged = hidden if hidden.value <= left[name].value else left[name]
    left[name] = _less(left[name], charged)
    return name, charged


def _less(one: Estimate, other: Estimate) -> Estimate:
    """A difference whose interval holds the truth wherever those of both do."""
    away = negated(other)
    return Estimate(
        value=one.value + away.value,
        low=None if one.low is None or away.low is None else one.low + away.low,
        high=None if one.high is None or away.high is None else one.high + away.high,
    )


def _longest_wait(figures: ModeFigures) -> PhaseFigures | None:
    waits = [phase for phase in figures.host if phase.name in _WAITS]
    return max(waits, key=lambda phase: phase.time_ms.value, default=None)
