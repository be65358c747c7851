"""Throughput under a load: its interval holds what it promises, and a winner is clear or none."""

from __future__ import annotations

import numpy as np
import pytest

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.throughput import (
    Stretch,
    Unit,
    clear_best,
    stretch,
    throughput,
)
from spectrace.analysis.time_blocks import correlation, merged

S = 1_000_000_000
T0 = 1_700_000_000 * S


def even(tokens: float, cycles: int, every_ms: float) -> Stretch:
    """A server that makes as many tokens in each of so many cycles."""
    ends = T0 + ((np.arange(cycles) + 0.5) * every_ms * 1e6).astype(np.int64)
    found = stretch(ends, np.full(cycles, tokens), T0, T0 + round(cycles * every_ms * 1e6))
    assert found is not None
    return found


def test_throughput_is_tokens_by_time() -> None:
    """Four tokens each 10 ms for 4 s are 400 a second, and nothing varies."""
    found, unit = throughput([even(4, 400, 10.0)], 0.95)
    assert unit is Unit.TIME
    assert found.value == pytest.approx(400)
    assert found.low == pytest.approx(400)
    assert found.high == pytest.approx(400)


def test_what_ended_before_the_load_counted_or_after_it_does_not_count() -> None:
    """Of ten cycles of one second those that end from 3 s on and before 8 s are five."""
    ends = T0 + (np.arange(10) + 1) * S
    found = stretch(ends, np.ones(10), T0 + 3 * S, T0 + 8 * S)
    assert found is not None
    assert found.tokens.sum() == 5
    assert found.total_s == pytest.approx(5)


def test_without_cycles_or_time_there_is_no_throughput() -> None:
    """An empty time, and one in which nothing ended."""
    ends, tokens = np.array([T0]), np.ones(1)
    assert stretch(ends, tokens, T0, T0) is None
    assert stretch(ends, tokens, T0 + S, T0 + 2 * S) is None


def test_few_cycles_give_a_value_without_an_interval() -> None:
    """49 are too few for five blocks of ten."""
    found, _ = throughput([even(4, 49, 10.0)], 0.95)
    assert found.value == pytest.approx(400)
    assert found.low is None
    assert found.high is None


def remembering(random: np.random.Generator, cycles: int, memory: float) -> np.ndarray:
    """Tokens of cycles around 4, each of which resembles the one before; their mean is 4."""
    noise = random.standard_normal(cycles + 200)
    for place in range(1, len(noise)):
        noise[place] = memory * noise[place - 1] + np.sqrt(1 - memory**2) * noise[place]
    return 4 + noise[200:]


def test_the_true_throughput_lies_within_the_interval_as_often_as_promised() -> None:
    """In 400 runs of 2000 cycles that remember each other for about 20, in 95 % of them.

    The error of a share of 0.95 in 400 runs is 0.011, of which three are allowed for, and two
    points for what blocks cost that are not quite independent. Intervals that took cycles for
    independent would hold the truth in a quarter of the runs.
    """
    random = np.random.default_rng(5)
    ends = T0 + np.arange(2000) * 10_000_000 + 5_000_000
    held = 0
    for _ in range(400):
        piece = stretch(ends, remembering(random, 2000, 0.95), T0, T0 + 20 * S)
        assert piece is not None
        found, _ = throughput([piece], 0.95)
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 400 <= found.high
    assert 0.95 - 0.033 - 0.02 <= held / 400 <= 0.95 + 0.033


def test_from_three_starts_on_the_interval_holds_what_differs_from_start_to_start() -> None:
    """Three steady starts with 390, 400 and 410 tokens a second: t of 2 degrees, 4.303.

    The standard error of the mean is 10 / √3, so that the interval reaches 24.84.
    """
    starts = [even(tokens, 400, 10.0) for tokens in (3.9, 4.0, 4.1)]
    found, unit = throughput(starts, 0.95)
    assert unit is Unit.START
    assert found.value == pytest.approx(400)
    assert found.half_width == pytest.approx(4.303 * 10 / 3**0.5, rel=1e-3)


def test_two_starts_are_not_enough_for_that() -> None:
    """Their blocks of time are the units."""
    assert throughput([even(4, 400, 10.0), even(4, 400, 10.0)], 0.95)[1] is Unit.TIME


def between(low: float, high: float) -> Estimate:
    """An interval around its middle."""
    return Estimate(value=(low + high) / 2, low=low, high=high)


def test_the_best_is_named_where_its_interval_lies_above_all_others() -> None:
    """Also above those of settings whose value is lower, but known less well."""
    clear = {"plain": between(290, 310), "5": between(200, 220), "2": between(250, 280)}
    assert clear_best(clear) == "plain"
    assert clear_best(clear | {"2": between(250, 291)}) is None
    assert clear_best(clear | {"5": between(100, 300)}) is None


def test_without_intervals_or_rivals_nobody_is_the_best() -> None:
    """One setting alone, and one of which no interval is known."""
    assert clear_best({"plain": between(290, 310)}) is None
    unknown = Estimate(value=200, low=None, high=None)
    assert clear_best({"plain": between(290, 310), "5": unknown}) is None
    assert clear_best({"plain": between(1, 2), "5": unknown}) is None


def test_neighbours_that_alternate_are_correlated_by_minus_one() -> None:
    """Of 1, -1, 1, … each product of neighbours is -1: -(n - 1) / n."""
    values = np.array([1.0, -1.0] * 10)
    assert correlation(values) == pytest.approx(-19 / 20)


def test_windows_are_put_together_into_twenty_blocks() -> None:
    """40 windows of 25 independent cycles become 20 blocks of 50."""
    random = np.random.default_rng(3)
    windows = np.repeat(np.arange(40), 25)
    blocks = merged(windows, random.standard_normal(1000))
    assert np.bincount(blocks).tolist() == [50] * 20


def test_windows_that_resemble_each_other_are_put_together_further() -> None:
    """A level that changes half-way leaves five blocks: of ten the correlation is 1.75 / 2.5.

    That is more than 1.645 / √10 = 0.52.
    """
    windows = np.repeat(np.arange(40), 25)
    assert len(np.unique(merged(windows, np.repeat([0.0, 1.0], 500)))) == 5
