"""Throughput of a server under a load, with an interval that knows that cycles are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrace.analysis.intervals import Estimate, Values, ratio
from spectrace.analysis.time_blocks import block_count

FEWEST_STARTS = 3  # from which on the starts of a server are what its intervals are made of
_NS_PER_S = 1e9


class Unit(str, Enum):
    """What an interval takes for independent: stretches of time, or starts of the server."""

    TIME = "time"
    START = "start"


class Stretch(NamedTuple):
    """What a server made in one start while the load counted.

    Attributes:
        tokens: In each block of time; all blocks are equally long.
        block_s: How long each is, in s.
    """

    tokens: Values
    block_s: float

    @property
    def total_s(self) -> float:
        """The whole time, in s."""
        return self.block_s * len(self.tokens)


def stretch(
    end_ns: NDArray[np.int64], tokens: NDArray[Any], begin_ns: int, until_ns: int
) -> Stretch | None:
    """Cuts the time in which a load counted into blocks that are nearly independent.

    Args:
        end_ns: When each cycle ended, UNIX time in ns.
        tokens: What each gave.
        begin_ns: From when on it counts.
        until_ns: Until when.

    Returns:
        None where no time passes, or no cycle ended in it; one block where there are too few
        cycles for more.
    """
    here = (end_ns >= begin_ns) & (end_ns < until_ns)
    if until_ns <= begin_ns or not here.any():
        return None
    since_s = (end_ns[here] - begin_ns) / _NS_PER_S
    total_s = (until_ns - begin_ns) / _NS_PER_S
    count = block_count(lambda count: _sums(since_s, tokens[here], total_s, count), len(since_s))
    return Stretch(_sums(since_s, tokens[here], total_s, count), total_s / count)


def _sums(since_s: Values, tokens: NDArray[Any], total_s: float, count: int) -> Values:
    places = np.minimum((since_s / total_s * count).astype(np.intp), count - 1)
    return np.bincount(places, weights=tokens, minlength=count).astype(np.float64)


def throughput(stretches: Sequence[Stretch], confidence: float) -> tuple[Estimate, Unit]:
    """Tokens per second of one setting, over all starts of its server.

    From three starts on these are the units of the interval, so that it holds what differs
    from start to start; else blocks of time are, and it does not.

    Args:
        stretches: One for each start, at least one.
        confidence: Such as 0.95.
    """
    if len(stretches) >= FEWEST_STARTS:
        tokens = np.array([float(one.tokens.sum()) for one in stretches])
        seconds = np.array([one.total_s for one in stretches])
        return ratio(tokens, seconds, confidence), Unit.START
    tokens = np.concatenate([one.tokens for one in stretches])
    seconds = np.concatenate([np.full(len(one.tokens), one.block_s) for one in stretches])
    return ratio(tokens, seconds, confidence), Unit.TIME


def clear_best(found: Mapping[str, Estimate]) -> str | None:
    """Whose interval lies above all others; None where it is not clear, or there is one alone."""
    if len(found) < 2:  # noqa: PLR2004 - a pair
        return None
    best = max(found, key=lambda name: found[name].value)
    low = found[best].low
    highs = [other.high for name, other in found.items() if name != best]
    if low is None:
        return None
    return best if all(high is not None and high < low for high in highs) else None
