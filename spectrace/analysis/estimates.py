"""Arithmetic with estimates: intervals of sums, products and shares.

Limits are carried over by MOVER: Zou and Donner, "Construction of confidence limits about effect
measures: a general approach", Statistics in Medicine 27 (2008). What goes in has to be independent;
limits need not be symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from spectrace.analysis.intervals import Estimate

_MOST_LOG = 700.0  # of what a float holds


def exact(value: float) -> Estimate:
    """A value that is known."""
    return Estimate(value=value, low=value, high=value)


def unknown_limits(value: float) -> Estimate:
    """A value of which it is not known how far off it may be."""
    return Estimate(value=value, low=None, high=None)


def total(*terms: tuple[float, Estimate]) -> Estimate:
    """The sum of estimates, each times a factor; without limits where one of them has none."""
    value = sum(factor * term.value for factor, term in terms)
    return Estimate(
        value=value,
        low=_limit(value, [_down(*term) for term in terms], -1),
        high=_limit(value, [_up(*term) for term in terms], 1),
    )


def _limit(value: float, reaches: Sequence[float | None], sign: int) -> float | None:
    known = [reach for reach in reaches if reach is not None]
    return value + sign * math.hypot(*known) if len(known) == len(reaches) else None


def _up(factor: float, term: Estimate) -> float | None:
    limit = term.high if factor >= 0 else term.low
    return None if limit is None else abs(factor * (limit - term.value))


def _down(factor: float, term: Estimate) -> float | None:
    return _up(-factor, term) if factor else 0.0


def product(tops: Sequence[Estimate], bottoms: Sequence[Estimate] = ()) -> Estimate:
    """The product of positive estimates over that of others, by the sum of their logarithms.

    What is divided by something that may be nothing has no upper limit.

    Raises:
        ValueError: A value is not positive.
    """
    terms = [(1.0, _log(top)) for top in tops] + [(-1.0, _log(bottom)) for bottom in bottoms]
    found = total(*terms)
    return Estimate(
        value=math.exp(found.value),
        low=None if found.low is None else math.exp(found.low),
        high=None if found.high is None or found.high > _MOST_LOG else math.exp(found.high),
    )


def _log(estimate: Estimate) -> Estimate:
    if estimate.value <= 0:
        raise ValueError(f"{estimate.value} is no factor: it is not positive")
    low, high = (
        None if limit is None else math.log(limit) if limit > 0 else -math.inf
        for limit in (estimate.low, estimate.high)
    )
    return Estimate(value=math.log(estimate.value), low=low, high=high)


def mapped(estimate: Estimate, function: Callable[[float], float]) -> Estimate:
    """A rising or falling function of an estimate."""
    limits = [None if limit is None else function(limit) for limit in (estimate.low, estimate.high)]
    known = [limit for limit in limits if limit is not None]
    whole = len(known) == len(limits)
    return Estimate(
        value=function(estimate.value),
        low=min(known) if whole else None,
        high=max(known) if whole else None,
    )


def overlap(one: Estimate, other: Estimate) -> bool | None:
    """Whether two independent values may be the same; None where a limit is missing."""
    found = total((1.0, one), (-1.0, other))
    return None if found.low is None or found.high is None else not found.excludes(0.0)


def wilson(successes: float, trials: float, confidence: float) -> Estimate:
    """A share with its interval.

    Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", Journal of the
    American Statistical Association 22 (1927).

    Args:
        successes: From 0 to `trials`; need not be whole, where trials count less than once.
        trials: Above 0.
        confidence: Such as 0.95.
    """
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    share = successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    reach = (
        z
        / (1 + z * z / trials)
        * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    )
    return Estimate(
        value=share,
        low=max(0.0, min(centre - reach, share)),
        high=min(1.0, max(centre + reach, share)),
    )
