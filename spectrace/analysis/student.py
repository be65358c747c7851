"""Quantiles of Student's t distribution for whole degrees of freedom."""

from __future__ import annotations

import math
from functools import lru_cache

_HALVINGS = 200


def t_below(t: float, freedom: int) -> float:
    """The probability of a value below `t`.

    Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4: a finite sum
    of powers of cos² θ, where tan² θ is t² over the degrees of freedom.

    Args:
        t: Any value.
        freedom: Degrees of freedom, at least 1.
    """
    angle = math.atan(abs(t) / math.sqrt(freedom))
    squared = math.cos(angle) ** 2
    odd = freedom % 2
    term = total = math.cos(angle) if odd else 1.0
    for step in range(3 if odd else 2, freedom - 1, 2):
        term *= squared * (step - 1) / step
        total += term
    if odd:
        within = 2 / math.pi * (angle + (math.sin(angle) * total if freedom > 1 else 0.0))
    else:
        within = math.sin(angle) * total
    return 0.5 + math.copysign(within / 2, t)


@lru_cache(maxsize=1024)
def t_quantile(probability: float, freedom: int) -> float:
    """The value below which a t variable lies with this probability.

    Args:
        probability: From 0.5 to 1, without 1.
        freedom: Degrees of freedom, at least 1.

    Raises:
        ValueError: An argument is out of range.
    """
    if not 0.5 <= probability < 1 or freedom < 1:  # noqa: PLR2004 - the upper half
        raise ValueError(f"no t quantile at {probability} with {freedom} degrees of freedom")
    low, high = 0.0, 1.0
    while t_below(high, freedom) < probability:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        low, high = (middle, high) if t_below(middle, freedom) < probability else (low, middle)
    return high
