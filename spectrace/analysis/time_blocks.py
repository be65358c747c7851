"""Chooses how many blocks a stretch of time is cut into, so that they are nearly independent."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from spectrace.analysis.intervals import Places, Values

COUNTS = (20, 10, 5)
FEWEST_CYCLES = 10  # of a block, on average
_ONE_SIDED = 1.645  # standard deviations that 5 % of normal values exceed


def block_count(means: Callable[[int], Values], cycles: int) -> int:
    """How many blocks: 20, 10 or 5, the most whose neighbours do not resemble each other.

    Neighbouring cycles are alike, and so are blocks that are too short. The first number is
    taken at which neighbours are no longer significantly correlated (Fishman, "Grouping
    observations in digital simulation", Management Science 24, 1978).

    Args:
        means: The mean of each block where there are so many.
        cycles: How many cycles there are.

    Returns:
        1 where there are too few cycles for more.
    """
    counts = [count for count in COUNTS if cycles >= count * FEWEST_CYCLES]
    for count in counts[:-1]:
        if correlation(means(count)) <= _ONE_SIDED / math.sqrt(count):
            return count
    return counts[-1] if counts else 1


def correlation(values: Values) -> float:
    """Of neighbours; 0 where all are the same."""
    rests = values - values.mean()
    squares = float(rests @ rests)
    return float(rests[:-1] @ rests[1:]) / squares if squares else 0.0


def merged(windows: Places, values: Values) -> Places:
    """Puts windows that follow each other together, so that the blocks are nearly independent.

    Args:
        windows: The window of each cycle, in the order of time.
        values: Something of each cycle, by which it is judged how alike neighbours are.

    Returns:
        The block of each cycle, from 0; as many windows in each, as far as that is possible.
    """
    _, places = np.unique(windows, return_inverse=True)
    total = int(places.max()) + 1 if len(places) else 0

    def blocks(count: int) -> Places:
        return np.asarray(places * min(count, total) // max(1, total), dtype=np.intp)

    def means(count: int) -> Values:
        found = blocks(count)
        return np.bincount(found, weights=values) / np.maximum(1, np.bincount(found))

    return blocks(block_count(means, len(values)))
