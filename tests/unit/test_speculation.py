"""What speculation must reach."""

from __future__ import annotations

import pytest

from spectrace.analysis.speculation import break_even


def test_the_founding_story_needs_2_69_tokens() -> None:
    """A cycle of 29.9 ms against a plain decode of 11.1 ms."""
    assert break_even(29.9, 11.1) == pytest.approx(2.69, abs=0.005)


def test_a_plain_decode_takes_time() -> None:
    """Without one there is no break-even."""
    with pytest.raises(ValueError, match="cannot be compared"):
        break_even(29.9, 0.0)
