"""Intervals of sums, products and shares."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrace.analysis.estimates import exact, mapped, overlap, product, total, wilson
from spectrace.analysis.intervals import Estimate

KNOWN = Estimate(value=10.0, low=7.0, high=14.0)
OPEN = Estimate(value=10.0, low=None, high=None)


def test_limits_of_a_sum_add_by_squares() -> None:
    """10 and 10, each 3 down and 4 up: 20, down by 3 √2 and up by 4 √2."""
    found = total((1.0, KNOWN), (1.0, KNOWN))
    assert (found.value, found.low, found.high) == pytest.approx(
        (20.0, 20 - 3 * math.sqrt(2), 20 + 4 * math.sqrt(2))
    )


def test_what_is_subtracted_lends_its_other_limit() -> None:
    """5 less 10 can fall by 4, since 10 can rise by 4."""
    found = total((1.0, exact(5.0)), (-1.0, KNOWN))
    assert (found.value, found.low, found.high) == pytest.approx((-5.0, -9.0, -2.0))


def test_a_ratio_has_the_limits_of_its_logarithms() -> None:
    """10 over 2 that is known: the limits of 10 over 2."""
    found = product([KNOWN], [exact(2.0)])
    assert (found.value, found.low, found.high) == pytest.approx((5.0, 3.5, 7.0))


@pytest.mark.parametrize("found", [total((1.0, KNOWN), (1.0, OPEN)), product([KNOWN, OPEN])])
def test_a_missing_limit_stays_missing(found: Estimate) -> None:
    """In sums and products."""
    assert found.low is None
    assert found.high is None


def test_what_may_be_nothing_leaves_a_ratio_without_an_upper_limit() -> None:
    """10 over 5, which may be 0 or 10: from 1 on; and 5, which may be 0, over 5 is 0 at least."""
    wide = Estimate(value=5.0, low=0.0, high=10.0)
    over = product([exact(10.0)], [wide])
    assert (over.value, over.low) == pytest.approx((2.0, 1.0))
    assert over.high is None
    under = product([wide], [exact(5.0)])
    assert (under.low, under.value, under.high) == pytest.approx((0.0, 1.0, 2.0))


def test_no_factor_is_zero() -> None:
    """A logarithm needs more."""
    with pytest.raises(ValueError, match="no factor"):
        product([exact(0.0)])


def test_a_falling_function_turns_the_limits_round() -> None:
    """1 / 10, from 1 / 14 to 1 / 7."""
    found = mapped(KNOWN, lambda value: 1 / value)
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 1 / 14, 1 / 7))


def test_two_values_that_may_be_the_same() -> None:
    """Their difference may be 0, may not, or is not known."""
    assert overlap(KNOWN, exact(13.0)) is True
    assert overlap(KNOWN, exact(15.0)) is False
    assert overlap(KNOWN, OPEN) is None


def test_wilson_as_in_newcombe() -> None:
    """81 of 263 is 0.2553 to 0.3662, and 0 of 20 is 0 to 0.1611: Newcombe (1998), table I."""
    found = wilson(81, 263, 0.95)
    assert (found.low, found.high) == pytest.approx((0.2553, 0.3662), abs=0.00005)
    none = wilson(0, 20, 0.95)
    assert (none.low, none.high) == pytest.approx((0.0, 0.1611), abs=0.00005)


@given(st.integers(1, 10_000), st.data())
def test_a_share_lies_in_its_interval(trials: int, data: st.DataObject) -> None:
    """And the interval between 0 and 1."""
    successes = data.draw(st.integers(0, trials))
    found = wilson(successes, trials, 0.95)
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= successes / trials <= found.high <= 1
