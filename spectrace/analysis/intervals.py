"""Confidence intervals for values that come in blocks, of which only whole blocks are independent.

Cycles that follow each other are alike, so that a thousand of them say less than a thousand
independent values. The unit is therefore the block: what differs between the blocks of a mode is
the error, whatever its cause, and Student's t takes into account how few blocks there are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.analysis.student import t_quantile

Values = NDArray[np.float64]
Places = NDArray[np.intp]
_FEWEST_BLOCKS = 2
_APART = 0.25  # of what tells two modes apart must be left beside a slope
_ALIKE = 5.0  # so much more do values scatter by blocks than independent ones: a cautious guess


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """A value and its confidence interval, in the unit of the field that holds it.

    Attributes:
        value: The estimate.
        low: Lower limit; None where the data do not give one.
        high: Upper limit; likewise.
    """

    value: float
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float:
        """Half of the interval, infinite where a limit is missing."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / 2

    def excludes(self, value: float) -> bool:
        """Whether the interval is whole and does not hold this value."""
        if self.low is None or self.high is None:
            return False
        return not self.low <= value <= self.high

    def within(self, low: float, high: float) -> bool:
        """Whether the whole interval lies between two values."""
        if self.low is None or self.high is None:
            return False
        return low <= self.low and self.high <= high


def negated(estimate: Estimate) -> Estimate:
    """The same difference the other way round."""
    low = None if estimate.high is None else -estimate.high
    high = None if estimate.low is None else -estimate.low
    return Estimate(value=-estimate.value, low=low, high=high)


def ratio(tops: Values, bottoms: Values, confidence: float) -> Estimate:
    """The sum of some quantity over the sum of another, each given by block and never negative.

    The usual linearisation: Cochran, Sampling Techniques (1977), 6.3, with n - 1 degrees of
    freedom.

    Args:
        tops: Sum of the upper quantity in each block.
        bottoms: Sum of the lower one, in all blocks together not 0.
        confidence: Such as 0.95.
    """
    mean = block_mean(tops, bottoms)
    if not mean.freedom:
        return Estimate(value=mean.value, low=None, high=None)
    reach = t_quantile(0.5 + confidence / 2, mean.freedom) * mean.error
    return Estimate(value=mean.value, low=max(0.0, mean.value - reach), high=mean.value + reach)


class BlockMean(NamedTuple):
    """A ratio of sums over blocks with its standard error, to be held against another one.

    Attributes:
        value: The ratio.
        error: Its standard error; infinite where there is one block.
        freedom: Degrees of freedom of the error.
    """

    value: float
    error: float
    freedom: int


def block_mean(tops: Values, bottoms: Values) -> BlockMean:
    """As `ratio`, for what may be negative too."""
    value = float(tops.sum() / bottoms.sum())
    return mean_of_rests(value, tops - value * bottoms, float(bottoms.sum()))


def mean_of_rests(value: float, rests: Values, whole: float) -> BlockMean:
    """A ratio whose error is told from what is left in each block.

    Args:
        value: The ratio.
        rests: By how much the blocks' upper sums differ from the ratio times their lower ones,
            which is 0 in all of them together.
        whole: The lower sum of all blocks.
    """
    blocks = len(rests)
    if blocks < _FEWEST_BLOCKS:
        return BlockMean(value, math.inf, 0)
    variance = blocks / (blocks - 1) * float((rests**2).sum()) / whole**2
    return BlockMean(value, math.sqrt(variance), blocks - 1)


def excess_of(one: BlockMean, other: BlockMean, confidence: float) -> Estimate:
    """By how much one mean exceeds another, where their errors are independent.

    Welch, "The generalization of Student's problem when several different population variances
    are involved", Biometrika 34 (1947); the degrees of freedom are rounded down.
    """
    value = one.value - other.value
    if not (one.freedom and other.freedom):
        return Estimate(value=value, low=None, high=None)
    squares = one.error**2, other.error**2
    parts = squares[0] ** 2 / one.freedom + squares[1] ** 2 / other.freedom
    if not parts:
        return Estimate(value=value, low=value, high=value)
    freedom = max(1, math.floor(sum(squares) ** 2 / parts))
    reach = t_quantile(0.5 + confidence / 2, freedom) * math.sqrt(sum(squares))
    return Estimate(value=value, low=value - reach, high=value + reach)


def quantile(
    values: Values, weights: Values, blocks: Places, part: float, confidence: float
) -> Estimate:
    """A weighted quantile of values that come in blocks.

    The interval is Woodruff's, "Confidence Intervals for Medians and Other Position Measures",
    Journal of the American Statistical Association 47 (1952): limits for the share of values
    below the quantile, between blocks, carried over to the values. Where such a limit lies
    beyond the data, there is none. Where it would for values that are `_ALIKE`, there is none
    either: those that are less alike by chance would hold the truth too seldom.

    Args:
        values: At least one.
        weights: Of each value.
        blocks: Which block each belongs to.
        part: From 0 to 1.
        confidence: Such as 0.95.
    """
    order = np.argsort(values, kind="stable")
    ascending = values[order]
    reached = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    value = float(np.interp(part, reached, ascending))
    names, places = np.unique(blocks, return_inverse=True)
    if len(names) < _FEWEST_BLOCKS:
        return Estimate(value=value, low=None, high=None)
    t, tail = t_quantile(0.5 + confidence / 2, len(names) - 1), min(part, 1 - part)
    if tail * len(values) < _ALIKE * (1 - tail) * t**2:
        return Estimate(value=value, low=None, high=None)
    rests = np.bincount(places, weights=weights * ((values <= value) - part))
    rests -= rests.mean()
    variance = len(names) / (len(names) - 1) * float((rests**2).sum()) / float(weights.sum()) ** 2
    reach = t * math.sqrt(variance)
    low, high = (
        float(np.interp(at, reached, ascending)) if reached[0] <= at <= reached[-1] else None
        for at in (part - reach, part + reach)
    )
    return Estimate(value=value, low=low, high=high)


def difference(
    ones: Values,
    others: Values,
    rounds: tuple[Sequence[int], Sequence[int]],
    confidence: float,
    *,
    places: tuple[Sequence[int], Sequence[int]] | None = None,
) -> Estimate | None:
    """By how much the blocks of one mode exceed those of another, within the same rounds.

    Least squares for two modes and one level per round, so that a drift over the rounds falls
    out: Montgomery, Design and Analysis of Experiments, randomised blocks. With `places` a slope
    over them is a further unknown (the same, analysis of covariance), so that what drifts evenly
    within the rounds falls out too. Both modes have as many blocks in a whole round, which keeps
    the pooled variance right where theirs differ.

    Args:
        ones: A value for each block of the one mode.
        others: A value for each block of the other one.
        rounds: The round of each block, of both.
        confidence: Such as 0.95.
        places: When each block came, of both, such as its number among all blocks. No slope is
            taken out where too few blocks would be left for the error, or where it cannot be told
            from the difference.

    Returns:
        None where no round has both modes, or nothing is left to tell the error from.
    """
    of_round = np.array([*rounds[0], *rounds[1]])
    both = np.intersect1d(rounds[0], rounds[1])
    kept = np.isin(of_round, both)
    freedom = int(kept.sum()) - len(both) - 1
    if not len(both) or freedom < 1:
        return None
    of_one = np.repeat([1.0, 0.0], [len(ones), len(others)])
    levels = np.unique(of_round[kept], return_inverse=True)[1]
    values, modes = (
        _centred(column[kept], levels) for column in (np.concatenate([ones, others]), of_one)
    )
    if places is not None and freedom > 1:
        when = _centred(np.array([*places[0], *places[1]], dtype=np.float64)[kept], levels)
        spread = float(when @ when)
        apart = modes - float(modes @ when) / (spread or 1.0) * when
        if spread and float(apart @ apart) > _APART * float(modes @ modes):
            values, modes = values - float(values @ when) / spread * when, apart
            freedom -= 1
    weight = float(modes @ modes)
    value = float(modes @ values) / weight
    rests = values - value * modes
    error = math.sqrt(float(rests @ rests) / freedom / weight)
    reach = t_quantile(0.5 + confidence / 2, freedom) * error
    return Estimate(value=value, low=value - reach, high=value + reach)


def _centred(values: Values, groups: Places) -> Values:
    """Values less the mean of their group; groups count from 0."""
    means = np.bincount(groups, weights=values) / np.bincount(groups)
    centred: Values = values - means[groups]
    return centred
