"""Intervals of ratios by the bootstrap, for benchmarks."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from spectrace.analysis.summary import percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")
RESAMPLES = 2000


@dataclass(frozen=True)
class Interval:
    """A figure and where it lies with 95 % confidence."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of the distance from `low` to `high`."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        """Such as `0.9991 (0.9975 to 1.0007)`."""
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


def interval(
    blocks: Sequence[T], figure: Callable[[Sequence[T]], float], *, resamples: int = RESAMPLES
) -> Interval:
    """The 95 % percentile interval of `figure` over `blocks` drawn again with replacement.

    Args:
        blocks: What was measured, in pieces that do not depend on each other.
        figure: The figure of some of them.
        resamples: How often to draw.
    """
    chance = random.Random(1)  # noqa: S311 - the same interval for the same measurements
    drawn = sorted(figure(chance.choices(blocks, k=len(blocks))) for _ in range(resamples))
    return Interval(figure(blocks), percentile(drawn, 2.5), percentile(drawn, 97.5))
