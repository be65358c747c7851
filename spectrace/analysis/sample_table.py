"""Puts samples into columns: like with like, every mode with the same mixture of cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spectrace.analysis.intervals import Estimate, Places, Values, difference, quantile, ratio
from spectrace.analysis.samples import Refusal, Sample
from spectrace.model import TimingMode

FEWEST_CYCLES = 5  # of a block, and of one kind of cycles in a mode
FEWEST_BLOCKS = 2  # of a mode
Quantity = Callable[[Sample], "float | None"]


class _Span(NamedTuple):
    """Where the samples of one block lie."""

    mode: TimingMode
    round: int
    block: int
    places: slice


class SampleTable:
    """The samples that can be compared, in columns.

    Only modes with two blocks count, only blocks with five cycles, and of those only cycles of
    which every mode has some that are like them. Modes may have met different mixtures of them:
    the weight of a cycle makes the mixtures the same.

    Args:
        samples: All that were taken.

    Attributes:
        samples: Those that can be compared.
        modes: Their modes, in the order of `model.TimingMode`.
        likes: What they have in common, and how many there are.
        left: How many were left out, by reason.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        kept, self.left = _comparable(samples)
        self.samples = sorted(kept, key=lambda sample: sample.block)
        found = {sample.mode for sample in self.samples}
        self.modes = tuple(mode for mode in TimingMode if mode in found)
        self.likes = Counter(sample.like for sample in self.samples)
        names = {like: place for place, like in enumerate(self.likes)}
        self._likes: Places = np.array([names[s.like] for s in self.samples], dtype=np.intp)
        self._modes: Places = np.array(
            [self.modes.index(s.mode) for s in self.samples], dtype=np.intp
        )
        self._blocks: Places = np.array([s.block for s in self.samples], dtype=np.intp)
        self._spans = self._cut()
        self._weights = self._weigh()

    def _cut(self) -> list[_Span]:
        """Where each block begins and ends; they lie one behind the other."""
        starts = np.flatnonzero(np.diff(self._blocks, prepend=-1))
        ends = np.append(starts, len(self.samples))[1:]
        return [
            _Span(first.mode, first.round, first.block, slice(start, end))
            for start, end in zip(map(int, starts), map(int, ends), strict=True)
            for first in [self.samples[start]]
        ]

    def _weigh(self) -> Values:
        weights = np.zeros(len(self.samples))
        total = len(self.samples)
        for mode in range(len(self.modes)):
            of_mode = self._modes == mode
            for place, count in enumerate(self.likes.values()):
                here = of_mode & (self._likes == place)
                weights[here] = count / total * of_mode.sum() / here.sum()
        return weights

    def blocks(self, mode: TimingMode) -> int:
        """How many blocks a mode has."""
        return sum(span.mode is mode for span in self._spans)

    def cycles(self, mode: TimingMode) -> int:
        """How many cycles a mode has."""
        return int(self._of(mode).sum())

    def count(self, mode: TimingMode, values: Values) -> int:
        """In how many cycles of a mode a column has a value."""
        return int((self._of(mode) & ~np.isnan(values)).sum())

    def column(self, quantity: Quantity) -> Values:
        """A quantity of every sample, NaN where it has none."""
        found = [quantity(sample) for sample in self.samples]
        return np.array([np.nan if value is None else value for value in found], dtype=np.float64)

    def quantile(
        self, mode: TimingMode, values: Values, part: float, confidence: float
    ) -> Estimate | None:
        """A quantile of a column in a mode; None where the mode has no such value."""
        here = self._of(mode) & ~np.isnan(values)
        if not here.any():
            return None
        return quantile(values[here], self._weights[here], self._blocks[here], part, confidence)

    def ratio(
        self, mode: TimingMode, tops: Values, bottoms: Values, confidence: float
    ) -> Estimate | None:
        """The sum of one column over the sum of another in a mode, where both have values.

        None where the lower sum is 0.
        """
        here = self._of(mode) & ~np.isnan(tops) & ~np.isnan(bottoms)
        if not float((weights := self._weights[here]) @ bottoms[here]):
            return None
        _, places = np.unique(self._blocks[here], return_inverse=True)
        upper, lower = (
            np.bincount(places, weights=weights * column[here]).astype(np.float64)
            for column in (tops, bottoms)
        )
        return ratio(upper, lower, confidence)

    def excess(
        self, one: tuple[TimingMode, Values], other: tuple[TimingMode, Values], confidence: float
    ) -> Estimate | None:
        """By how much a column in one mode exceeds one in another, by the medians of blocks.

        Args:
            one: A mode and a column.
            other: The same of what is subtracted.
            confidence: Such as 0.95.

        Returns:
            None where there is too little.
        """
        levels = self._levels(one, other, np.median)
        shifted = [
            values - levels[self._likes] + self._mean_level(levels) for _, values in (one, other)
        ]
        return self._between((one[0], shifted[0]), (other[0], shifted[1]), np.median, confidence)

    def factor(
        self, one: TimingMode, other: TimingMode, values: Values, confidence: float
    ) -> Estimate | None:
        """How many times the mean of a column in one mode is that in another; as `excess`."""
        levels = self._levels((one, values), (other, values), np.mean)
        scaled = values / levels[self._likes]
        logs = self._between(
            (one, scaled), (other, scaled), lambda part: float(np.log(np.mean(part))), confidence
        )
        if logs is None:
            return None
        value, low, high = (
            None if limit is None else float(np.exp(limit))
            for limit in (logs.value, logs.low, logs.high)
        )
        return Estimate(value=value or 0.0, low=low, high=high)

    def _of(self, mode: TimingMode) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        found = self._modes == self.modes.index(mode)
        return np.asarray(found, dtype=np.bool_)

    def _levels(
        self,
        one: tuple[TimingMode, Values],
        other: tuple[TimingMode, Values],
        middle: Callable[[Values], float],
    ) -> Values:
        """Of each kind of cycles, the middle of a quantity, between two modes."""
        levels = np.ones(len(self.likes))
        for place in range(len(self.likes)):
            found = []
            for mode, values in (one, other):
                here = values[self._of(mode) & (self._likes == place) & ~np.isnan(values)]
                if len(here):
                    found.append(float(middle(here)))
            levels[place] = np.mean(found) if found else np.nan
        return levels

    def _mean_level(self, levels: Values) -> float:
        shares = np.array(list(self.likes.values())) / len(self.samples)
        return float(np.nansum(shares * levels))

    def _between(
        self,
        one: tuple[TimingMode, Values],
        other: tuple[TimingMode, Values],
        middle: Callable[[Values], float],
        confidence: float,
    ) -> Estimate | None:
        sides = []
        for mode, values in (one, other):
            found, rounds, blocks = [], [], []
            for span in self._spans:
                of_block = values[span.places] if span.mode is mode else values[:0]
                known = of_block[~np.isnan(of_block)]
                if len(known):
                    found.append(float(middle(known)))
                    rounds.append(span.round)
                    blocks.append(span.block)
            sides.append((np.array(found), rounds, blocks))
        (ones, one_rounds, one_blocks), (others, other_rounds, other_blocks) = sides
        return difference(
            ones,
            others,
            (one_rounds, other_rounds),
            confidence,
            places=(one_blocks, other_blocks),
        )


def _comparable(samples: Sequence[Sample]) -> tuple[list[Sample], Counter[Refusal]]:
    """Those of whole blocks, of modes with several, and with cycles like them in every mode.

    What one rule takes away may leave too little for another: they are applied until nothing
    changes.

    Returns:
        Those that are left, and how many were taken away for which reason.
    """
    kept, left = list(samples), Counter[Refusal]()
    while True:
        enough = _enough(kept)
        alike = _alike(enough)
        left[Refusal.TOO_FEW] += len(kept) - len(enough)
        left[Refusal.UNLIKE] += len(enough) - len(alike)
        if len(alike) == len(kept):
            return kept, +left
        kept = alike


def _enough(samples: Sequence[Sample]) -> list[Sample]:
    """Those of blocks with five cycles and of modes with two such blocks."""
    sizes = Counter(sample.block for sample in samples)
    kept = [sample for sample in samples if sizes[sample.block] >= FEWEST_CYCLES]
    blocks = Counter(mode for mode, _ in {(sample.mode, sample.block) for sample in kept})
    return [sample for sample in kept if blocks[sample.mode] >= FEWEST_BLOCKS]


def _alike(samples: Sequence[Sample]) -> list[Sample]:
    """Those of which every mode has five that are like them."""
    modes = {sample.mode for sample in samples}
    counts = Counter((sample.mode, sample.like) for sample in samples)
    likes = {
        like
        for like in {sample.like for sample in samples}
        if all(counts[mode, like] >= FEWEST_CYCLES for mode in modes)
    }
    return [sample for sample in samples if sample.like in likes]
