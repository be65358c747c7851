"""Confidence intervals from blocks, against published tables and arithmetic by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spectrace.analysis.intervals import Estimate, difference, quantile, ratio
from spectrace.analysis.student import t_below, t_quantile


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 10, 2.228),
        (0.975, 30, 2.042),
        (0.95, 5, 2.015),
        (0.995, 4, 4.604),
        (0.9995, 9, 4.781),
    ],
)
def test_quantiles_of_t_are_those_of_the_table(
    probability: float, freedom: int, expected: float
) -> None:
    """Percentage points as in any printed table of Student's t, to three decimals."""
    assert t_quantile(probability, freedom) == pytest.approx(expected, abs=5e-4)


def test_t_is_cauchy_with_one_degree_of_freedom() -> None:
    """There 3/4 of all values lie below 1, and the curve is symmetric."""
    assert t_below(1.0, 1) == pytest.approx(0.75)
    assert t_below(-1.0, 1) == pytest.approx(0.25)
    assert t_below(0.0, 7) == 0.5


@pytest.mark.parametrize(("probability", "freedom"), [(0.4, 3), (1.0, 3), (0.9, 0)])
def test_no_quantile_out_of_range(probability: float, freedom: int) -> None:
    """What cannot be answered is refused."""
    with pytest.raises(ValueError, match="no t quantile"):
        t_quantile(probability, freedom)


def test_a_ratio_of_blocks() -> None:
    """Of 10, 12 and 14 over 5 each it is 2.4 ± t(2) · sqrt(3 / 2 · 8) / 15 = 4.303 · 0.23094."""
    found = ratio(np.array([10.0, 12.0, 14.0]), np.array([5.0, 5.0, 5.0]), 0.95)
    assert found.value == pytest.approx(2.4)
    assert found.half_width == pytest.approx(4.3027 * 0.23094, rel=1e-4)


def test_one_block_gives_no_interval() -> None:
    """With one block there is nothing to tell the error from."""
    found = ratio(np.array([10.0]), np.array([5.0]), 0.95)
    assert (found.value, found.low, found.high) == (2.0, None, None)
    assert found.half_width == math.inf
    assert not found.excludes(0.0)
    assert not found.within(0.0, 10.0)


def test_a_difference_takes_the_drift_out() -> None:
    """Rounds of (12, 10) and (22, 20), twice each, differ by 2 without any error at all."""
    ones, others = np.array([12.0, 12.0, 22.0, 22.0]), np.array([10.0, 10.0, 20.0, 20.0])
    found = difference(ones, others, ((0, 0, 1, 1), (0, 0, 1, 1)), 0.95)
    assert found == Estimate(value=2.0, low=2.0, high=2.0)


def test_a_difference_and_its_error_by_hand() -> None:
    """In one round (3, 5) less (1, 1) is 3; squares 2, 2 degrees, weight 1: 3 ± 4.303 · 1."""
    found = difference(np.array([3.0, 5.0]), np.array([1.0, 1.0]), ((0, 0), (0, 0)), 0.95)
    # Squares: (3-4)² + (5-4)² = 2; 4 values, 1 round, 1 difference: 4 - 1 - 1 = 2 degrees.
    # Variance 2/2 = 1 over the weight 2·2/4 = 1.
    assert found is not None
    assert found.value == 3.0
    assert found.half_width == pytest.approx(4.3027, rel=1e-4)


def test_a_difference_takes_a_slope_within_rounds_out() -> None:
    """Rounds of A B, B A, A B with A = 2, B = 0 and 10 more from block to block: 2, no error."""
    ones, others = np.array([2.0, 32.0, 42.0]), np.array([10.0, 20.0, 50.0])
    rounds, places = ((0, 1, 2), (0, 1, 2)), ((0, 3, 4), (1, 2, 5))
    found = difference(ones, others, rounds, 0.95, places=places)
    assert found is not None
    assert found.value == pytest.approx(2.0)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)
    without = difference(ones, others, rounds, 0.95)
    assert without is not None
    assert without.value == pytest.approx(2.0 - 10.0 / 3)  # A comes first once more than B


def test_a_slope_that_cannot_be_told_from_the_difference_stays() -> None:
    """Where A is always the first of a round, what comes later and what is B are the same."""
    ones, others = np.array([2.0, 23.0, 41.0]), np.array([10.0, 30.0, 50.0])
    rounds = ((0, 1, 2), (0, 1, 2))
    found = difference(ones, others, rounds, 0.95, places=((0, 2, 4), (1, 3, 5)))
    assert found == difference(ones, others, rounds, 0.95)


def test_no_difference_without_a_common_round() -> None:
    """Modes that never met in a round differ by the drift as well."""
    assert difference(np.array([1.0, 2.0]), np.array([3.0]), ((0, 0), (1,)), 0.95) is None
    assert difference(np.array([1.0]), np.array([3.0]), ((0,), (0,)), 0.95) is None


def test_a_median_of_equal_blocks_has_no_error_beyond_its_neighbours() -> None:
    """Six blocks that hold the same nine values: the share below 5 never differs."""
    values = np.tile(np.arange(1.0, 10.0), 6)
    blocks = np.repeat(np.arange(6), 9)
    found = quantile(values, np.ones(54), blocks, 0.5, 0.95)
    assert found == Estimate(value=5.0, low=5.0, high=5.0)


@pytest.mark.parametrize(("cycles", "whole"), [(100, False), (140, True)])
def test_a_percentile_takes_enough_values_beyond_it(cycles: int, whole: bool) -> None:
    """Of 0.05 n values beyond a p95, t(5)² · 0.95 · 5 = 6.61 · 4.75 = 31 are the least.

    In six blocks of 100 that are alike there are 30, of 140 there are 42.
    """
    values = np.tile(np.arange(float(cycles)), 6)
    blocks = np.repeat(np.arange(6), cycles)
    found = quantile(values, np.ones(6 * cycles), blocks, 0.95, 0.95)
    assert math.isfinite(found.half_width) is whole


def test_a_weight_counts_as_so_many_values() -> None:
    """A value of weight 3 among others of 1 is as three of them."""
    blocks = np.array([0, 0, 0, 1, 1, 1])
    once = quantile(np.array([1.0, 2.0, 9.0] * 2), np.array([1.0, 1.0, 3.0] * 2), blocks, 0.5, 0.95)
    assert 2.0 < once.value <= 9.0


def test_a_percentile_beyond_the_data_has_no_upper_limit() -> None:
    """The 99th percentile of 20 values, whose blocks differ, may lie above them all."""
    values = np.arange(20.0)
    found = quantile(values, np.ones(20), np.repeat(np.arange(4), 5), 0.99, 0.95)
    assert found.high is None
    assert found.half_width == math.inf
