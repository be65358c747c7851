"""Does speculation pay: accept length against break-even, and the one thing to change first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from spectrace.analysis.acceptance import PLAIN, Setting, fitted_chance
from spectrace.analysis.baseline import Baseline, Source
from spectrace.analysis.costs import Stratum
from spectrace.analysis.estimates import exact, mapped, product, total
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.speculation import (
    cap,
    padding_waste,
    plain_tokens,
    speed_up,
    throughput,
    wasted_verify,
)
from spectrace.analysis.what_if import Doubt, Point, WhatIf, gain

MARGIN = 0.01  # a gain or loss that is less does not matter
_ALONE = 0.05  # what less than that can bring at most is not named first where verify is not known


class Answer(str, Enum):
    """Whether speculation pays.

    `pays`, `loses`: the interval of the speed-up lies above or below 1. `same`: it lies within
    1 % of it. `open`: the data allow neither statement. `unknown`: there is nothing to hold it
    against.
    """

    PAYS = "pays"
    LOSES = "loses"
    SAME = "same"
    OPEN = "open"
    UNKNOWN = "unknown"


class BatchVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One setting at one batch size.

    Attributes:
        setting: The setting.
        batch: Batch size.
        cycles: Cycles whose times count.
        share: Of the time of all speculative cycles, from 0 to 1.
        tokens_per_cycle: Tokens that a request got from a cycle, L.
        cycle_ms: Mean, C: tokens per second are tokens over the sum of all times.
        tokens_per_s: b L / C.
        plain_ms: A plain decode, t0; None where that is not known, like all that follows.
        plain_source: Where it comes from.
        break_even: C / t0, times the tokens of a plain decode: one, or a little less where ends of
            requests are noticed late.
        speed_up: L over that.
        answer: What that means.
        needed_chance: The acceptance that break-even needs, the same at every position; None where
            no acceptance reaches it with so many steps, or drafts form a tree.
        chance: The same that the tokens per cycle come from.
        wasted_verify: Share of verified tokens that nobody got.
        padding_waste: Share of the graph that ran for nobody; None without a graph.
    """

    setting: Setting
    batch: int
    cycles: int
    share: float
    tokens_per_cycle: Estimate
    cycle_ms: Estimate
    tokens_per_s: Estimate
    plain_ms: Estimate | None = None
    plain_source: Source | None = None
    break_even: Estimate | None = None
    speed_up: Estimate | None = None
    answer: Answer = Answer.UNKNOWN
    needed_chance: float | None = None
    chance: float | None = None
    wasted_verify: float | None = None
    padding_waste: float | None = None


class Change(str, Enum):
    """What could be changed.

    `steps`: another number of draft steps. `off`: no speculation. `draft`: a faster draft.
    `verify`: a verify that costs what plain decode does. `overhead`: the host's time in which
    nothing of a cycle runs. `nothing`: nothing that the data show.
    """

    STEPS = "steps"
    OFF = "off"
    DRAFT = "draft"
    VERIFY = "verify"
    OVERHEAD = "overhead"
    NOTHING = "nothing"


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """A change and what it brings in throughput, as a share.

    Attributes:
        change: What to change.
        batch: At which batch size this was computed.
        gain: What it brings; of `draft`, `verify` and `overhead` the most that it can; of `nothing`
            what the largest of these could, where verify is not known.
        at_most: The gain is such a cap.
        setting: The new setting; of `steps` and `off`.
        measured: The run had cycles of it; else what it gives is predicted.
        doubts: Why the prediction may be wrong beyond its interval.
    """

    change: Change
    batch: int
    gain: Estimate
    at_most: bool
    setting: Setting | None = None
    measured: bool = False
    doubts: tuple[Doubt, ...] = ()


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether speculation pays, over all batch sizes of which that is known.

    Attributes:
        answer: Whether it does.
        speed_up: The time that plain decode would have taken for the same tokens over the time
            that was taken; None where nothing is known.
        covered: Share of the time of speculative cycles for which it is known, from 0 to 1: with
            an interval, where that is most of it.
        by_batch: What took most time comes first.
        first: The one thing to change first; None where too little is known.
        caps: What each change can bring at most, the largest first.
    """

    answer: Answer
    speed_up: Estimate | None
    covered: float
    by_batch: tuple[BatchVerdict, ...]
    first: Advice | None
    caps: tuple[Advice, ...]


def answer_of(found: Estimate | None) -> Answer:
    """What the interval of a speed-up says."""
    if found is None:
        return Answer.UNKNOWN
    if found.within(1 - MARGIN, 1 + MARGIN):
        return Answer.SAME
    if not found.excludes(1.0):
        return Answer.OPEN
    return Answer.PAYS if found.value > 1 else Answer.LOSES


def by_batch(
    strata: Sequence[Stratum],
    lengths: Mapping[tuple[Setting, int], Estimate],
    baseline: Baseline | None,
    late: Mapping[tuple[Setting, int], float] | None = None,
) -> tuple[BatchVerdict, ...]:
    """Each setting at each batch size.

    Args:
        strata: Of the run.
        lengths: Tokens of a request per cycle, by setting and batch size.
        baseline: What plain decode takes, None where that is not known.
        late: Cycles behind the ends of requests for each token that they get, likewise.
    """
    speculative = [one for one in strata if one.setting != PLAIN]
    all_ms = sum(one.total_ms for one in speculative)
    found = []
    for one in speculative:
        length = lengths.get((one.setting, one.batch))
        if one.mean_ms is None or length is None or min(length.value, one.mean_ms.value) <= 0:
            continue
        verdict = _verdict(one, length, one.mean_ms, one.total_ms / all_ms)
        plain = None if baseline is None else baseline.at(one.batch)
        tokens = plain_tokens((late or {}).get((one.setting, one.batch), 0.0))
        found.append(verdict if plain is None else _against(verdict, *plain, tokens))
    return tuple(found)


def _verdict(stratum: Stratum, length: Estimate, cycle_ms: Estimate, share: float) -> BatchVerdict:
    return BatchVerdict(
        setting=stratum.setting,
        batch=stratum.batch,
        cycles=stratum.cycles,
        share=share,
        tokens_per_cycle=length,
        cycle_ms=cycle_ms,
        tokens_per_s=throughput(length, cycle_ms, stratum.batch),
        chance=_chance(stratum.setting, length.value),
        wasted_verify=wasted_verify(length.value, stratum.setting.draft_tokens)
        if stratum.setting.draft_tokens > 0
        else None,
        padding_waste=None
        if not stratum.padded_batch
        else padding_waste(stratum.batch, stratum.padded_batch),
    )


def _against(
    found: BatchVerdict, plain_ms: Estimate, source: Source, tokens: float
) -> BatchVerdict:
    """The same held against a plain decode of so many tokens."""
    gained = speed_up(found.tokens_per_cycle, found.cycle_ms, plain_ms, tokens)
    even = product([found.cycle_ms, exact(tokens)], [plain_ms])
    return msgspec.structs.replace(
        found,
        plain_ms=plain_ms,
        plain_source=source,
        break_even=even,
        speed_up=gained,
        answer=answer_of(gained),
        needed_chance=_chance(found.setting, even.value),
    )


def _chance(setting: Setting, length: float) -> float | None:
    """The one probability behind a length, None where there is none."""
    if setting.topk != 1 or not 1 <= length <= setting.steps + 1:
        return None
    return fitted_chance(length, setting.steps)


def verdict(
    found: Sequence[BatchVerdict],
    strata: Sequence[Stratum],
    what_if: WhatIf,
) -> Verdict:
    """Everything put together.

    Args:
        found: As `by_batch` gives it.
        strata: Of the run.
        what_if: The settings against each other.
    """
    known = _judged(found)
    covered = sum(one.share for one in known)
    terms = [(one.share / covered, one.speed_up) for one in known if one.speed_up is not None]
    gained = total(*terms) if terms else None
    caps = _caps(found, strata)
    return Verdict(
        answer=answer_of(gained),
        speed_up=gained,
        covered=covered,
        by_batch=tuple(found),
        first=_first(found, what_if, caps),
        caps=caps,
    )


def _judged(found: Sequence[BatchVerdict]) -> list[BatchVerdict]:
    """Those of which the factor is made: with intervals, where these are most of the time.

    A batch size that comes now and then has too few cycles for one, and does not take it from all.
    """
    known = [one for one in found if one.speed_up is not None]
    sure = [one for one in known if one.speed_up and one.speed_up.half_width < math.inf]
    most = sum(one.share for one in sure) > sum(one.share for one in known) / 2
    return sure if most else known


def _caps(found: Sequence[BatchVerdict], strata: Sequence[Stratum]) -> tuple[Advice, ...]:
    """The most that each change can bring at the batch size that took most time."""
    if not found:
        return ()
    main = found[0]
    stratum = next(one for one in strata if (one.setting, one.batch) == (main.setting, main.batch))
    if stratum.parts is None:
        return ()
    parts = stratum.parts
    saved = {Change.DRAFT: parts.draft_ms, Change.OVERHEAD: parts.overhead_ms}
    if main.plain_ms is not None:
        saved[Change.VERIFY] = total((1.0, parts.verify_ms), (-1.0, main.plain_ms))
    advice = [
        Advice(change=change, batch=main.batch, gain=most, at_most=True)
        for change, saved_ms in saved.items()
        for most in [_gain(main.cycle_ms, saved_ms)]
        if most is not None and most.value > 0
    ]
    return tuple(sorted(advice, key=lambda one: -one.gain.value))


def _gain(cycle_ms: Estimate, saved_ms: Estimate) -> Estimate | None:
    if cap(cycle_ms.value, saved_ms.value) is None:
        return None
    # Of a cycle that is known: the uncertainty of what is saved is larger than its own.
    limits = [saved_ms.low, saved_ms.high]
    if any(limit is not None and cap(cycle_ms.value, limit) is None for limit in limits):
        return Estimate(value=cap(cycle_ms.value, saved_ms.value) or 0.0, low=None, high=None)
    return mapped(saved_ms, lambda value: cap(cycle_ms.value, value) or 0.0)


def _first(found: Sequence[BatchVerdict], what_if: WhatIf, caps: Sequence[Advice]) -> Advice | None:
    """The change that brings most of those that the data show to bring something."""
    if not found:
        return None
    main = found[0]
    better = _better(main, what_if)
    if better is not None:
        point, gained = better
        return Advice(
            change=Change.OFF if point.setting == PLAIN else Change.STEPS,
            batch=main.batch,
            gain=gained,
            at_most=False,
            setting=point.setting,
            measured=point.measured,
            doubts=point.doubts,
        )
    if main.answer is Answer.LOSES and main.speed_up is not None:
        lost = total((1.0, product([], [main.speed_up])), (-1.0, exact(1.0)))
        return Advice(change=Change.OFF, batch=main.batch, gain=lost, at_most=False, setting=PLAIN)
    return _largest(main, caps)


def _largest(main: BatchVerdict, caps: Sequence[Advice]) -> Advice | None:
    """What the largest cap says; None where no phase was timed."""
    if not caps:
        return None
    # Without plain decode nobody knows what verify, the largest part, could bring.
    largest = caps[0]
    if largest.gain.value >= (_ALONE if main.plain_ms is None else MARGIN):
        return largest
    if main.plain_ms is None:
        return Advice(change=Change.NOTHING, batch=main.batch, gain=largest.gain, at_most=True)
    return Advice(change=Change.NOTHING, batch=main.batch, gain=exact(0.0), at_most=False)


def _better(main: BatchVerdict, what_if: WhatIf) -> tuple[Point, Estimate] | None:
    """The fastest setting that is not extrapolated, and what it gains, where that is clear."""
    here = [one for one in what_if.points if one.batch == main.batch and not one.extrapolated]
    now = next((one for one in here if one.setting == main.setting), None)
    if now is None:
        return None
    top = max(here, key=lambda point: point.tokens_per_s.value)
    gained = gain(top, now)
    return (top, gained) if gained.low is not None and gained.low > MARGIN else None
