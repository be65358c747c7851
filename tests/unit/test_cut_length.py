"""What the ends of requests cut off, by hand."""

from __future__ import annotations

import pytest

from spectrace.analysis.cut_length import excess, kept_share


def test_the_excess_by_hand() -> None:
    """One draft that is always right: an end loses one token or none. Never right: none."""
    assert excess([1.0]) == pytest.approx(0.5)
    assert excess([0.0, 0.9]) == 0.0
    assert excess([]) == 0.0
    # 1, 2 or 3 tokens in 1/2, 1/4 and 1/4: E[T (T - 1)] = 2/4 + 6/4, E[T] = 7/4.
    assert excess([0.5, 0.5]) == pytest.approx(2 / (2 * 7 / 4))


def test_the_share_that_is_kept_by_hand() -> None:
    """Requests of 9.5 tokens lose 0.5 at one step, and 1 of 10.5 at two that are always right."""
    assert kept_share(0.95, [1.0], [1.0, 1.0]) == pytest.approx(9.5 / 10.5)
    assert kept_share(0.95, [1.0], [1.0]) == pytest.approx(0.95)


def test_where_nothing_was_cut_nothing_will_be() -> None:
    """Nor where nothing could be."""
    assert kept_share(1.0, [0.9], [0.9, 0.9]) == 1.0
    assert kept_share(0.9, [0.0], [0.9, 0.9]) == 1.0
    assert kept_share(0.0, [0.5], [0.5]) == 0.0


def test_cycles_behind_the_end_are_lost_whole() -> None:
    """One for every 9 tokens: plain decode makes 10 of which 9 are kept, two steps lose three."""
    assert kept_share(1.0, [1.0], [], late=1 / 9) == pytest.approx(0.9)
    assert kept_share(1.0, [1.0], [1.0, 1.0], late=1 / 9) == pytest.approx(9 / 12)
    # What is measured stays: of 10 tokens 9.5 are kept, and 2 more come behind the end.
    assert kept_share(0.95, [1.0], [1.0], late=1 / 9.5) == pytest.approx(9.5 / 12)
