"""How the time of verify depends on the number of tokens and on the batch size.

V(n, b) = F_b + m_b n over n ≥ 2, by least squares through the median of each n: outliers do not
move a median. Plain decode is no point of that line but one of its own (another graph, another way
of attention, other communication), and the distance between them is the jump.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import pairwise

import msgspec
import numpy as np

from spectrace.analysis.estimates import total
from spectrace.analysis.intervals import Estimate

_LINE_R2 = 0.98  # below it a line says too little, however certain its points are
_BENT_SHARE = 0.02  # of verify: a bend that is less does not matter
_LINE = 2  # distinct numbers of tokens that a line needs
_CURVE = 3  # and that tell whether it is one


class Shape(str, Enum):
    """What verify's time is as a function of the number of tokens.

    `unknown`: one number of tokens was seen, so that nothing can be told from it. `line`.
    `concave`, `convex`: no line; each further token costs less, or more, than the one before.
    `irregular`: none of these.
    """

    UNKNOWN = "unknown"
    LINE = "line"
    CONCAVE = "concave"
    CONVEX = "convex"
    IRREGULAR = "irregular"


class VerifyPoint(msgspec.Struct, frozen=True, kw_only=True):
    """The time of verify at one number of tokens and one batch size.

    Attributes:
        tokens: Per request, n.
        batch: Batch size, b.
        padded_batch: For which the graph was made; None where that is not known.
        verify_ms: Median.
    """

    tokens: int
    batch: int
    verify_ms: Estimate
    padded_batch: int | None = None


class VerifyFit(msgspec.Struct, frozen=True, kw_only=True):
    """Verify at one batch size.

    Attributes:
        batch: Batch size.
        points: What was measured, by number of tokens.
        shape: What that is.
        fixed_ms: F; None where no line can be told.
        per_token_ms: m, for each token of every request; likewise.
        r_squared: Of the line; None with fewer than three points.
        jump_ms: By how much the line at n = 1 exceeds plain decode; None where either is not known.
    """

    batch: int
    points: tuple[VerifyPoint, ...]
    shape: Shape
    fixed_ms: Estimate | None = None
    per_token_ms: Estimate | None = None
    r_squared: float | None = None
    jump_ms: Estimate | None = None

    def at(self, tokens: int) -> Estimate | None:
        """The time of verify with so many tokens in ms: measured, by the line, or between points.

        None where it would have to be guessed.
        """
        measured = [point.verify_ms for point in self.points if point.tokens == tokens]
        if measured:
            return measured[0]
        if self.shape is Shape.LINE:
            return _through(self.points, float(tokens))
        return _between(self.points, tokens)


class GraphStep(msgspec.Struct, frozen=True, kw_only=True):
    """What verify costs more where the batch no longer fits into a graph.

    Attributes:
        tokens: Per request.
        from_batch: The last batch size that was seen with the smaller graph.
        to_batch: The first with the larger one.
        from_padded: Batch size of the smaller graph.
        to_padded: Of the larger one.
        step_ms: How much longer verify takes.
    """

    tokens: int
    from_batch: int
    to_batch: int
    from_padded: int
    to_padded: int
    step_ms: Estimate


def fit(points: Sequence[VerifyPoint], plain_ms: Estimate | None = None) -> VerifyFit:
    """The cost of verify at one batch size.

    Args:
        points: Of this batch size, each with another number of tokens; without plain decode.
        plain_ms: The same of plain decode.

    Raises:
        ValueError: There are no points, or of several batch sizes.
    """
    if len({point.batch for point in points}) != 1:
        raise ValueError("a fit is of one batch size")
    known = tuple(sorted(points, key=lambda point: point.tokens))
    batch = points[0].batch
    if len(known) < _LINE:
        return VerifyFit(batch=batch, points=known, shape=Shape.UNKNOWN)
    r_squared = _r_squared(known) if len(known) >= _CURVE else None
    shape = Shape.LINE if r_squared is None else _shape(known, r_squared)
    if shape is not Shape.LINE:
        return VerifyFit(batch=batch, points=known, shape=shape, r_squared=r_squared)
    at_one = _through(known, 1.0)
    return VerifyFit(
        batch=batch,
        points=known,
        shape=shape,
        fixed_ms=_through(known, 0.0),
        per_token_ms=_slope(known),
        r_squared=r_squared,
        jump_ms=None if plain_ms is None else total((1.0, at_one), (-1.0, plain_ms)),
    )


def _weights(tokens: Sequence[float], at: float) -> list[float]:
    """How much each point counts for the value of the line at a number of tokens."""
    places = np.asarray(tokens, dtype=np.float64)
    centred = places - places.mean()
    found = 1 / len(places) + centred * (at - places.mean()) / float((centred**2).sum())
    return [float(weight) for weight in found]


def _through(points: Sequence[VerifyPoint], at: float) -> Estimate:
    weights = _weights([point.tokens for point in points], at)
    return total(*zip(weights, (point.verify_ms for point in points), strict=True))


def _slope(points: Sequence[VerifyPoint]) -> Estimate:
    ones, zeros = (_weights([point.tokens for point in points], at) for at in (1.0, 0.0))
    weights = [one - zero for one, zero in zip(ones, zeros, strict=True)]
    return total(*zip(weights, (point.verify_ms for point in points), strict=True))


def _r_squared(points: Sequence[VerifyPoint]) -> float:
    values = np.array([point.verify_ms.value for point in points])
    line = np.array([_through(points, point.tokens).value for point in points])
    spread = float(((values - values.mean()) ** 2).sum())
    return 1 - float(((values - line) ** 2).sum()) / spread if spread else 1.0


def _shape(points: Sequence[VerifyPoint], r_squared: float) -> Shape:
    """Whether the points are a line: by how they bend, and whether that matters."""
    values = np.array([point.verify_ms.value for point in points])
    line = np.array([_through(points, point.tokens).value for point in points])
    rests = values - line
    if float(np.abs(rests).max()) <= _BENT_SHARE * float(values.mean()):
        return Shape.LINE
    bend = _bend(points)
    exact = bend.low == bend.high  # points without intervals, as in a publication: R² decides
    if r_squared >= _LINE_R2 if exact else not bend.excludes(0.0):
        return Shape.LINE
    slopes = np.diff(values) / np.diff([point.tokens for point in points])
    if (np.diff(slopes) < 0).all():
        return Shape.CONCAVE
    if (np.diff(slopes) > 0).all():
        return Shape.CONVEX
    return Shape.IRREGULAR


def _bend(points: Sequence[VerifyPoint]) -> Estimate:
    """The factor of n² in a parabola through the points."""
    tokens = np.array([float(point.tokens) for point in points])
    matrix = np.linalg.pinv(np.stack([np.ones_like(tokens), tokens, tokens**2], axis=1))
    weights = [float(weight) for weight in matrix[2]]
    return total(*zip(weights, (point.verify_ms for point in points), strict=True))


def _between(points: Sequence[VerifyPoint], tokens: int) -> Estimate | None:
    below = [point for point in points if point.tokens < tokens]
    above = [point for point in points if point.tokens > tokens]
    if not below or not above:
        return None
    one, other = below[-1], above[0]
    part = (tokens - one.tokens) / (other.tokens - one.tokens)
    return total((1 - part, one.verify_ms), (part, other.verify_ms))


def graph_steps(points: Sequence[VerifyPoint]) -> tuple[GraphStep, ...]:
    """Where verify takes longer because the batch needs the next graph, beyond chance."""
    found = []
    for tokens in sorted({point.tokens for point in points}):
        row = sorted((p for p in points if p.tokens == tokens), key=lambda point: point.batch)
        for one, other in pairwise(row):
            if one.padded_batch is None or other.padded_batch is None:
                continue
            step = total((1.0, other.verify_ms), (-1.0, one.verify_ms))
            larger = other.padded_batch > one.padded_batch
            if larger and step.value > 0 and step.excludes(0.0):
                found.append(
                    GraphStep(
                        tokens=tokens,
                        from_batch=one.batch,
                        to_batch=other.batch,
                        from_padded=one.padded_batch,
                        to_padded=other.padded_batch,
                        step_ms=step,
                    )
                )
    return tuple(found)
