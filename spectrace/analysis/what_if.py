"""What other numbers of draft steps would give, from measured acceptance and measured costs.

L(k) is the prefix form of the conditional acceptance at positions 1 to k, less what the ends of
requests cut off, as it was of what was measured (`cut_length.py`). C(k, b) is the sum
k d + V(k + 1, b) + X + O. What was measured is given as measured. What was not is marked with why
it is uncertain, and where verify was seen with one number of tokens alone, it is given as the
span between two extremes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum

import msgspec

from spectrace.analysis.acceptance import PLAIN, Acceptance, Setting, prefix_length
from spectrace.analysis.baseline import Source
from spectrace.analysis.costs import Parts, Stratum
from spectrace.analysis.cut_length import kept_share
from spectrace.analysis.estimates import exact, mapped, product, total
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.speculation import plain_tokens, speed_up, throughput
from spectrace.analysis.verify_cost import VerifyFit

_CUTS = 0.01  # share of verify's tokens: what is cut off less than that does not matter
BEYOND = 2  # steps more than were measured that are still looked at
# SGLang's own tiers for adaptive speculation, 0.5.23: from which batch size on which steps.
ADAPTIVE_TIERS: Mapping[int, tuple[int, ...]] = {
    1: (1, 3, 5, 7),
    8: (0, 1, 3),
    32: (0, 1),
    64: (0,),
}


class Doubt(str, Enum):
    """Why a predicted point is less certain than its interval.

    `deeper`: drafts at these positions were never made; the last one that was stands for them.
    `verify_span`: verify was seen with one number of tokens alone; the interval reaches from
    "it costs the same with any number" to "all of it above plain decode goes with the number".
    `verify_beyond`: the number of tokens lies outside of what was measured.
    `draft_share`: the draft was seen with one number of steps alone; each is given an equal part.
    `cuts`: requests are so short that their ends cut off what matters; how much it would be is
    computed from how much it was.
    """

    DEEPER = "deeper"
    VERIFY_SPAN = "verify_span"
    VERIFY_BEYOND = "verify_beyond"
    DRAFT_SHARE = "draft_share"
    CUTS = "cuts"


_OUTSIDE = {Doubt.DEEPER, Doubt.VERIFY_BEYOND}


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What one number of steps gives at one batch size.

    Attributes:
        setting: The setting.
        batch: Batch size.
        measured: It was; else it is predicted, or `plain_source` says what it is.
        accept_length: Tokens of a request per cycle.
        verify_ms: Of a cycle, as it usually is; None for plain decode.
        draft_ms: Its mean; likewise.
        rest_ms: What the cycle has beyond both, with what slow ones take; likewise.
        cycle_ms: All of it, the mean.
        tokens_per_s: Of all requests together.
        speed_up: Against plain decode; None where that is not known.
        doubts: Why a prediction may be wrong beyond its interval.
        flags: The options with which to restart the server for it.
        plain_source: Of plain decode, where its time comes from.
    """

    setting: Setting
    batch: int
    measured: bool
    accept_length: Estimate
    verify_ms: Estimate | None
    draft_ms: Estimate | None
    rest_ms: Estimate | None
    cycle_ms: Estimate
    tokens_per_s: Estimate
    speed_up: Estimate | None
    doubts: tuple[Doubt, ...] = ()
    flags: tuple[str, ...] = ()
    plain_source: Source | None = None

    @property
    def extrapolated(self) -> bool:
        """It lies beyond what was measured, in depth or in tokens."""
        return not _OUTSIDE.isdisjoint(self.doubts)


class Best(msgspec.Struct, frozen=True, kw_only=True):
    """The number of steps with the highest throughput at one batch size.

    Attributes:
        batch: Batch size.
        setting: The best.
        tokens_per_s: What it gives.
        clear: Its interval lies above that of every other setting, and it is not extrapolated.
        gain: By how much it exceeds what runs now, as a share; None where nothing runs now.
        tier: Steps among which SGLang's adaptive speculation chooses at this batch size.
        tier_steps: The best of these that was looked at; None where none was.
        flags: The options with which to restart the server.
    """

    batch: int
    setting: Setting
    tokens_per_s: Estimate
    clear: bool
    gain: Estimate | None
    tier: tuple[int, ...]
    tier_steps: int | None
    flags: tuple[str, ...]


class WhatIf(msgspec.Struct, frozen=True, kw_only=True):
    """Settings against each other.

    Attributes:
        points: By batch size and steps; plain decode has none.
        best: One for each batch size.
        crossover_batch: The smallest batch size from which on speculation as it is now is slower
            than plain decode; None where it is not, or that is not known.
        crossover_clear: The interval of the speed-up there lies below 1.
    """

    points: tuple[Point, ...] = ()
    best: tuple[Best, ...] = ()
    crossover_batch: int | None = None
    crossover_clear: bool = False


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured at one batch size.

    Attributes:
        batch: Batch size.
        current: The setting that took most of the time.
        strata: Of speculation, with parts.
        lengths: Tokens of a request per cycle, by setting.
        kept: The share of verify's tokens that requests got, likewise; the rest was cut.
        late: Cycles behind the ends of requests for each token that they got, likewise.
        conditional: Acceptance at each position.
        fit: Of verify.
        plain_ms: Plain decode, None where it is not known.
        plain_source: Where that comes from.
    """

    batch: int
    current: Setting
    strata: tuple[Stratum, ...]
    lengths: Mapping[Setting, Estimate]
    kept: Mapping[Setting, Estimate]
    conditional: tuple[Estimate, ...]
    fit: VerifyFit
    plain_ms: Estimate | None
    plain_source: Source | None = None
    late: Mapping[Setting, float] = msgspec.field(default_factory=dict)

    @property
    def plain_tokens(self) -> float:
        """Tokens that a request gets from a plain decode, under the load of what runs now."""
        return plain_tokens(self.late.get(self.current, 0.0))


def points(known: Known) -> tuple[Point, ...]:
    """What each number of steps gives, from none to some more than were measured.

    Args:
        known: What was measured; of a tree of drafts only what was measured is given, since a
            narrower or deeper one cannot be told from it.
    """
    measured = {one.setting: one for one in known.strata if one.parts and one.mean_ms}
    found = [_measured(known, stratum) for stratum in measured.values()]
    if known.plain_ms is not None:
        found.append(_plain(known, known.plain_ms))
    chain = [setting for setting in measured if setting.topk == 1 and setting.steps > 0]
    if chain and known.conditional:
        most = max(setting.steps for setting in chain) + BEYOND
        for steps in range(1, most + 1):
            setting = Setting(steps=steps, topk=1, draft_tokens=steps + 1)
            if setting not in measured:
                point = _predicted(known, setting, [measured[one] for one in chain])
                found += [] if point is None else [point]
    return tuple(sorted(found, key=lambda point: point.setting))


def _point(  # noqa: PLR0913 - what a point is made of
    known: Known,
    setting: Setting,
    length: Estimate,
    cycle_ms: Estimate,
    *,
    measured: bool,
    verify_ms: Estimate | None = None,
    draft_ms: Estimate | None = None,
    rest_ms: Estimate | None = None,
    doubts: Iterable[Doubt] = (),
) -> Point:
    return Point(
        setting=setting,
        batch=known.batch,
        measured=measured,
        accept_length=length,
        verify_ms=verify_ms,
        draft_ms=draft_ms,
        rest_ms=rest_ms,
        cycle_ms=cycle_ms,
        tokens_per_s=throughput(length, cycle_ms, known.batch),
        speed_up=None
        if known.plain_ms is None
        else speed_up(length, cycle_ms, known.plain_ms, known.plain_tokens),
        doubts=tuple(doubts),
        flags=flags(setting),
    )


def _measured(known: Known, stratum: Stratum) -> Point:
    assert stratum.mean_ms is not None and stratum.parts is not None  # noqa: PT018, S101 - see `points`
    return _point(
        known,
        stratum.setting,
        known.lengths[stratum.setting],
        stratum.mean_ms,
        measured=True,
        verify_ms=stratum.parts.verify_p50_ms,
        draft_ms=stratum.parts.draft_ms,
        rest_ms=_rest(stratum.mean_ms, stratum.parts),
    )


def _rest(mean_ms: Estimate, parts: Parts) -> Estimate:
    """What a measured cycle has beyond draft and verify; it is known as well as the cycle is."""
    return total(
        (1.0, mean_ms),
        (-1.0, exact(parts.verify_p50_ms.value)),
        (-1.0, exact(parts.draft_ms.value)),
    )


def _plain(known: Known, plain_ms: Estimate) -> Point:
    source = known.plain_source
    measured = source is not None and source.measured
    point = _point(known, PLAIN, exact(known.plain_tokens), plain_ms, measured=measured)
    return msgspec.structs.replace(point, speed_up=exact(1.0), plain_source=source)


def _predicted(known: Known, setting: Setting, near: Sequence[Stratum]) -> Point | None:
    """A setting that was not measured, from the measured one that is nearest in steps."""
    base = min(near, key=lambda one: (abs(one.setting.steps - setting.steps), -one.total_ms))
    if base.parts is None or base.mean_ms is None:
        return None
    doubts: list[Doubt] = []
    chances = list(known.conditional[: setting.steps])
    if len(chances) < setting.steps:
        made = setting.steps <= max(one.setting.steps for one in near)
        # Behind a position where nothing was accepted it does not matter what would have been.
        if not (made and chances[-1].value <= 0):
            doubts.append(Doubt.DEEPER)
        chances += [chances[-1]] * (setting.steps - len(chances))
    length, length_doubts = _length(known, base.setting, chances)
    draft_ms, draft_doubts = _draft(setting.steps, near)
    verify_ms, verify_doubts = _verify(known, setting.draft_tokens)
    rest_ms = _rest(base.mean_ms, base.parts)
    cycle_ms = total((1.0, draft_ms), (1.0, verify_ms), (1.0, rest_ms))
    if cycle_ms.value <= 0:
        return None
    return _point(
        known,
        setting,
        length,
        cycle_ms,
        measured=False,
        verify_ms=verify_ms,
        draft_ms=draft_ms,
        rest_ms=rest_ms,
        doubts=(*doubts, *draft_doubts, *verify_doubts, *length_doubts),
    )


def _length(
    known: Known, base: Setting, chances: Sequence[Estimate]
) -> tuple[Estimate, list[Doubt]]:
    """Tokens that a request gets, from how much was cut at the setting that was measured."""
    measured = [chance.value for chance in known.conditional[: base.steps]]
    wanted = [chance.value for chance in chances]
    late = known.late.get(base, 0.0)
    kept = mapped(known.kept[base], lambda share: kept_share(share, measured, wanted, late))
    if kept.value <= 0:
        return prefix_length(chances), [Doubt.CUTS]
    length = product([prefix_length(chances), kept])
    return length, [Doubt.CUTS] if kept.value < 1 - _CUTS else []


def _draft(steps: int, near: Sequence[Stratum]) -> tuple[Estimate, list[Doubt]]:
    """The draft with so many steps: by the line through what was measured, else in equal parts.

    A line that falls, as chance has it, does not go below nothing.
    """
    measured = {
        one.setting.steps: one.parts.draft_ms for one in near if one.parts and one.setting.steps
    }
    if len(measured) > 1:
        low, high = min(measured), max(measured)
        part = (steps - low) / (high - low)
        line = total((1 - part, measured[low]), (part, measured[high]))
        return mapped(line, lambda value: max(0.0, value)), []
    [(other, draft_ms)] = measured.items()
    return total((steps / other, draft_ms)), [Doubt.DRAFT_SHARE]


def _verify(known: Known, tokens: int) -> tuple[Estimate, list[Doubt]]:
    found = known.fit.at(tokens)
    measured = [point.tokens for point in known.fit.points]
    if found is not None:
        outside = not min(measured) <= tokens <= max(measured)
        return found, [Doubt.VERIFY_BEYOND] if outside else []
    nearest = min(known.fit.points, key=lambda point: abs(point.tokens - tokens))
    return _span(known, nearest.verify_ms, nearest.tokens, tokens), [Doubt.VERIFY_SPAN]


def _span(known: Known, verify_ms: Estimate, measured: int, tokens: int) -> Estimate:
    """From "the same with any number of tokens" to "all above plain decode goes with them"."""
    least_ms = 0.0 if known.plain_ms is None else min(known.plain_ms.value, verify_ms.value)
    from_tokens = 0 if known.plain_ms is None else 1
    slope_ms = (verify_ms.value - least_ms) / (measured - from_tokens)
    low, high = (verify_ms.value if one is None else one for one in (verify_ms.low, verify_ms.high))
    ends = sorted((0.0, slope_ms * (tokens - measured)))
    value = verify_ms.value + sum(ends) / 2
    return Estimate(value=value, low=low + ends[0], high=high + ends[1])


def best(found: Sequence[Point], current: Setting) -> Best | None:
    """The setting with the highest throughput among the points of one batch size.

    Args:
        found: The points.
        current: What runs now.

    Returns:
        None where there is nothing to choose from.
    """
    if len(found) < 2:  # noqa: PLR2004 - one setting is no choice
        return None
    top = max(found, key=lambda point: point.tokens_per_s.value)
    now = next((point for point in found if point.setting == current), None)
    tier = max(batch for batch in ADAPTIVE_TIERS if batch <= max(1, top.batch))
    of_tier = [p for p in found if _is_of(p.setting, ADAPTIVE_TIERS[tier])]
    chosen = max(of_tier, key=lambda point: point.tokens_per_s.value, default=None)
    return Best(
        batch=top.batch,
        setting=top.setting,
        tokens_per_s=top.tokens_per_s,
        clear=not top.extrapolated
        and all(_clears(top, other) for other in found if other is not top),
        gain=None if now is None else gain(top, now),
        tier=ADAPTIVE_TIERS[tier],
        tier_steps=None if chosen is None else chosen.setting.steps,
        flags=flags(top.setting),
    )


def _is_of(setting: Setting, tier: Sequence[int]) -> bool:
    """Whether adaptive speculation chooses it: it makes no trees, and looks nothing up."""
    is_chain = setting == PLAIN or (setting.topk == 1 and setting.steps > 0)
    return is_chain and setting.steps in tier


def _clears(one: Point, other: Point) -> bool:
    low, high = one.tokens_per_s.low, other.tokens_per_s.high
    return low is not None and high is not None and low > high


def gain(new: Point, old: Point) -> Estimate:
    """By how much one point's throughput exceeds another's, as a share."""
    if new.setting == old.setting:
        return exact(0.0)
    return total((1.0, product([new.tokens_per_s], [old.tokens_per_s])), (-1.0, exact(1.0)))


def flags(setting: Setting) -> tuple[str, ...]:
    """The options of SGLang's server for a setting; none for plain decode, and where not known."""
    if setting.draft_tokens < 1 or (setting.steps and setting.topk < 1):
        return ()
    if not setting.steps:  # drafts that are looked up, as NGRAM's
        return ("--speculative-num-draft-tokens", str(setting.draft_tokens))
    return (
        "--speculative-num-steps",
        str(setting.steps),
        "--speculative-eagle-topk",
        str(setting.topk),
        "--speculative-num-draft-tokens",
        str(setting.draft_tokens),
    )


def crossover(found: Iterable[Point]) -> tuple[int | None, bool]:
    """The smallest batch size from which on what runs is slower than plain decode.

    Args:
        found: What runs now, one point for each batch size.

    Returns:
        The batch size, or None, and whether the interval there lies below 1.
    """
    known = sorted((p for p in found if p.speed_up is not None), key=lambda point: point.batch)
    crossing: Point | None = None
    for point in reversed(known):
        if point.speed_up is None or point.speed_up.value >= 1:
            break
        crossing = point
    if crossing is None or crossing.speed_up is None:
        return None, False
    high = crossing.speed_up.high
    return crossing.batch, high is not None and high < 1


def pooled_chances(found: Sequence[Acceptance]) -> tuple[Estimate, ...]:
    """The acceptance at each position, from the setting with most verifies that reaches it.

    Trees are left out: a position of theirs has several candidates.
    """
    chains = [one for one in found if one.setting.topk == 1 and one.positions]
    deepest = max((len(one.positions) for one in chains), default=0)
    return tuple(
        next(one.positions[place].conditional for one in chains if len(one.positions) > place)
        for place in range(deepest)
    )
