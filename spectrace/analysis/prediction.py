"""A what-if that is kept with its assumptions, and held against a later run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum

import msgspec

from spectrace.analysis.acceptance import Setting
from spectrace.analysis.estimates import total
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.run_report import RunReport
from spectrace.analysis.speculation import throughput
from spectrace.analysis.what_if import Doubt, Point

FORMAT = 1
_NOTHING = 1e-9
_MOST = 1e9  # of any quantity, in its unit: what is more was not written by us


class Quantity(str, Enum):
    """What a prediction rests on.

    `accept_length`: tokens of a request per cycle. `verify_ms`, `draft_ms`: of a cycle.
    `rest_ms`: all else of a cycle. `plain_ms`: a plain decode.
    """

    ACCEPT_LENGTH = "accept_length"
    VERIFY_MS = "verify_ms"
    DRAFT_MS = "draft_ms"
    REST_MS = "rest_ms"
    PLAIN_MS = "plain_ms"


_OF_CYCLE = (Quantity.VERIFY_MS, Quantity.DRAFT_MS, Quantity.REST_MS)
_NEEDED = (Quantity.ACCEPT_LENGTH, *_OF_CYCLE)
_DOUBTED = {
    Doubt.DEEPER: Quantity.ACCEPT_LENGTH,
    Doubt.CUTS: Quantity.ACCEPT_LENGTH,
    Doubt.VERIFY_SPAN: Quantity.VERIFY_MS,
    Doubt.VERIFY_BEYOND: Quantity.VERIFY_MS,
    Doubt.DRAFT_SHARE: Quantity.DRAFT_MS,
}


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What is expected of a setting, and why.

    Attributes:
        format: Of this file.
        run_id: The run from which it was made.
        made_unix_ns: When, UNIX time in ns.
        setting: The setting.
        batch: Batch size.
        assumptions: What it rests on; all but `plain_ms` are there.
        assumed: Those of them that a person said.
        cycle_ms: Their sum.
        tokens_per_s: What follows.
        doubts: Why it may be wrong beyond its interval.
    """

    format: int
    run_id: str
    made_unix_ns: int
    setting: Setting
    batch: int
    assumptions: dict[Quantity, Estimate]
    assumed: tuple[Quantity, ...]
    cycle_ms: Estimate
    tokens_per_s: Estimate
    doubts: tuple[Doubt, ...] = ()


class Held(str, Enum):
    """What became of an assumption.

    `held`: what came lies in its interval, within the precision of both. `failed`: it does not.
    `open`: they differ, and one of them is too short a run's for an interval. `not_measured`: the
    later run does not say.
    """

    HELD = "held"
    FAILED = "failed"
    OPEN = "open"
    NOT_MEASURED = "not_measured"


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One assumption and what came.

    Attributes:
        quantity: Which.
        expected: As assumed.
        measured: In the later run; None where it does not say.
        held: What became of it.
        effect: By which factor this alone moved the throughput; 1 where it did not, None where
            nothing was measured.
        by_person: A person assumed it.
    """

    quantity: Quantity
    expected: Estimate
    measured: Estimate | None
    held: Held
    effect: float | None
    by_person: bool


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction held against a later run.

    Attributes:
        prediction: The prediction.
        run_id: The later run.
        measured: Tokens/s that came; None where the run has no such setting at this batch size.
        held: Whether the prediction as a whole held.
        assumptions: One by one; what moved the throughput most comes first.
        sentences: The same in words.
    """

    prediction: Prediction
    run_id: str
    measured: Estimate | None
    held: Held
    assumptions: tuple[Checked, ...]
    sentences: tuple[str, ...] = ()


def predict(
    found: RunReport,
    setting: Setting,
    batch: int,
    *,
    assumed: Mapping[Quantity, Estimate] | None = None,
    made_unix_ns: int = 0,
) -> Prediction | None:
    """What a run lets expect of a setting.

    Args:
        found: The report of the run.
        setting: The setting.
        batch: Batch size.
        assumed: What a person assumes in place of what the run says.
        made_unix_ns: When, UNIX time in ns.

    Returns:
        None where the run says nothing about this setting and not all was assumed.
    """
    said = dict(assumed or {})
    point = point_of(found, setting, batch)
    own = {} if point is None else parts_of(point)
    plain = None if found.baseline is None else found.baseline.at(batch)
    if plain is not None:
        own[Quantity.PLAIN_MS] = plain[0]
    assumptions = {name: (own | said)[name] for name in Quantity if name in own | said}
    if any(name not in assumptions for name in _NEEDED):
        return None
    if not said and point is not None:
        cycle_ms = point.cycle_ms
    else:
        cycle_ms = total(*((1.0, assumptions[name]) for name in _OF_CYCLE))
    length = assumptions[Quantity.ACCEPT_LENGTH]
    return Prediction(
        format=FORMAT,
        run_id=found.run.run_id,
        made_unix_ns=made_unix_ns,
        setting=setting,
        batch=batch,
        assumptions=assumptions,
        assumed=tuple(name for name in Quantity if name in said),
        cycle_ms=cycle_ms,
        tokens_per_s=throughput(length, cycle_ms, batch),
        doubts=()
        if point is None
        else tuple(doubt for doubt in point.doubts if _DOUBTED[doubt] not in said),
    )


def flaw(found: Prediction) -> str:
    """Why a prediction that was read cannot be held against a run; empty where it can."""
    missing = [name.value for name in _NEEDED if name not in found.assumptions]
    if missing:
        return f"{missing[0]} is missing"
    every = {name.value: one for name, one in found.assumptions.items()}
    every |= {"cycle_ms": found.cycle_ms, "tokens_per_s": found.tokens_per_s}
    positive = {Quantity.ACCEPT_LENGTH.value, Quantity.PLAIN_MS.value, "cycle_ms", "tokens_per_s"}
    for name, one in every.items():
        limits = [limit for limit in (one.value, one.low, one.high) if limit is not None]
        least = _NOTHING if name in positive else -_MOST
        if one.value < least or not all(abs(limit) <= _MOST for limit in limits):
            return f"{name} is {one.value:g}, which nothing can take"
        if one.low is not None and one.high is not None and one.low > one.high:
            return f"the interval of {name} ends, at {one.high:g}, before it begins"
    return ""


def point_of(found: RunReport, setting: Setting, batch: int) -> Point | None:
    """What a report says of a setting at a batch size."""
    return next((p for p in found.what_if.points if (p.setting, p.batch) == (setting, batch)), None)


def parts_of(point: Point) -> dict[Quantity, Estimate]:
    """What a point rests on; nothing for plain decode."""
    if point.verify_ms is None or point.draft_ms is None or point.rest_ms is None:
        return {}
    return {
        Quantity.ACCEPT_LENGTH: point.accept_length,
        Quantity.VERIFY_MS: point.verify_ms,
        Quantity.DRAFT_MS: point.draft_ms,
        Quantity.REST_MS: point.rest_ms,
    }


def check(prediction: Prediction, later: RunReport, tolerance: float = 0.05) -> Check:
    """Which assumption held in a later run, and which failed.

    Args:
        prediction: The prediction.
        later: The report of the run that tells.
        tolerance: By how much of a cycle's time, or of the accept length, an assumption may be
            off without failing: what is less does not make the difference.
    """
    point = point_of(later, prediction.setting, prediction.batch)
    if point is None or not point.measured:
        return Check(
            prediction=prediction,
            run_id=later.run.run_id,
            measured=None,
            held=Held.NOT_MEASURED,
            assumptions=tuple(
                _checked(prediction, name, None, 0.0) for name in prediction.assumptions
            ),
        )
    came = parts_of(point)
    own = {one.batch: one for one in later.verdict.by_batch}.get(prediction.batch)
    if own is not None and own.plain_ms is not None:
        came[Quantity.PLAIN_MS] = own.plain_ms
    room = dict.fromkeys(Quantity, tolerance * prediction.cycle_ms.value)
    room[Quantity.ACCEPT_LENGTH] = tolerance * prediction.assumptions[Quantity.ACCEPT_LENGTH].value
    checked = [
        _checked(prediction, name, came.get(name), room[name]) for name in prediction.assumptions
    ]
    return Check(
        prediction=prediction,
        run_id=later.run.run_id,
        measured=point.tokens_per_s,
        held=_held(
            prediction.tokens_per_s,
            point.tokens_per_s,
            tolerance * prediction.tokens_per_s.value,
        ),
        assumptions=tuple(sorted(checked, key=lambda one: -abs(math.log(one.effect or 1.0)))),
    )


def _checked(
    prediction: Prediction, name: Quantity, measured: Estimate | None, room: float
) -> Checked:
    expected = prediction.assumptions[name]
    return Checked(
        quantity=name,
        expected=expected,
        measured=measured,
        held=Held.NOT_MEASURED if measured is None else _held(expected, measured, room),
        effect=None if measured is None else _effect(prediction, name, measured),
        by_person=name in prediction.assumed,
    )


def _held(expected: Estimate, measured: Estimate, room: float) -> Held:
    """Whether two values agree: the difference may be nothing, or is less than what matters."""
    apart = total((1.0, measured), (-1.0, expected))
    if abs(apart.value) <= max(room, _NOTHING):
        return Held.HELD
    if apart.low is None or apart.high is None:
        return Held.OPEN
    return Held.FAILED if apart.excludes(0.0) else Held.HELD


def _effect(prediction: Prediction, name: Quantity, measured: Estimate) -> float:
    """The throughput with this one quantity as it was measured, over that predicted."""
    expected = prediction.assumptions[name]
    if name is Quantity.ACCEPT_LENGTH:
        return measured.value / expected.value
    if name not in _OF_CYCLE:
        return 1.0
    cycle_ms = prediction.cycle_ms.value
    moved_ms = cycle_ms + measured.value - expected.value
    return cycle_ms / moved_ms if moved_ms > 0 else 1.0
