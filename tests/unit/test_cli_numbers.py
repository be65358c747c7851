"""Numbers are written as the page writes them, and durations are read."""

from __future__ import annotations

import pytest

from spectrace.cli import numbers

DASH, MINUS = "\u2013", "\u2212"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, DASH),
        (0.0, "0 µs"),
        (0.0004, "< 1 µs"),
        (0.0006, "1 µs"),
        (0.087, "87 µs"),
        (0.0994, "99 µs"),
        (0.0996, "0.10 ms"),
        (0.1, "0.10 ms"),
        (4.557, "4.56 ms"),
        (9.994, "9.99 ms"),
        (9.996, "10.0 ms"),
        (26.64, "26.6 ms"),
        (999.94, "999.9 ms"),
        (999.96, "1.00 s"),
        (1_234_567.0, "1,234.57 s"),
        (-4.5, f"{MINUS}4.50 ms"),
    ],
)
def test_a_time_changes_its_unit_and_decimals_with_its_size(value: float | None, text: str) -> None:
    """µs below 0.1 ms, 2 decimals below 10, 1 from 10 on, s from 1000 on, after rounding."""
    assert numbers.milliseconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, DASH),
        (0.0, "0.00"),
        (0.004, "< 0.01"),
        (0.006, "0.01"),
        (9.996, "10.0"),
        (26.64, "26.6"),
        (1234.56, "1,234.6"),
        (-0.5, f"{MINUS}0.50"),
    ],
)
def test_a_time_in_a_column_keeps_the_unit_of_the_column(value: float | None, text: str) -> None:
    """All values of a column are ms, and one that is not 0 does not show as 0."""
    assert numbers.milliseconds_cell(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, DASH),
        (0.0, "0 %"),
        (0.0004, "< 0.1 %"),
        (0.0006, "0.1 %"),
        (0.068, "6.8 %"),
        (0.0996, "10 %"),
        (0.896, "90 %"),
        (1.0, "100 %"),
    ],
)
def test_a_share_is_whole_from_ten_percent_on(value: float | None, text: str) -> None:
    """Below it has one decimal, and one that is not 0 is never 0 %."""
    assert numbers.share(value) == text


def test_a_share_in_a_column_has_its_unit_in_the_head() -> None:
    """The sign is left out, and so it is where the value is missing."""
    assert numbers.share_cell(0.068) == "6.8"
    assert numbers.share_cell(None) == DASH


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, DASH), (0.0, "0"), (2.34, "2.3"), (9.96, "10"), (71.3, "71"), (1234.5, "1,234")],
)
def test_a_rate_is_whole_from_ten_on(value: float | None, text: str) -> None:
    """A slow server still shows how slow it is."""
    assert numbers.rate(value) == text


def test_other_numbers() -> None:
    """Accept length has two decimals, counts have commas, a median shows its half."""
    assert numbers.two_decimals(2.693) == "2.69"
    assert numbers.two_decimals(None) == DASH
    assert numbers.count(12345) == "12,345"
    assert numbers.count(None) == DASH
    assert [numbers.plain(value) for value in (4.0, 4.5, None)] == ["4", "4.5", DASH]
    assert [numbers.microseconds(value) for value in (23.4, 0.2, None)] == ["23 µs", "< 1 µs", DASH]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30.0),
        ("500ms", 0.5),
        ("2m", 120.0),
        ("1h", 3600.0),
        ("1h30m", 5400.0),
        ("1.5s", 1.5),
    ],
)
def test_a_duration_is_read_with_its_units(text: str, seconds: float) -> None:
    """Parts add up."""
    assert numbers.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "s", "3x", "-3s", "0s", "3s later", "1 h"])
def test_what_is_no_duration_says_how_to_write_one(text: str) -> None:
    """A number without unit is not guessed at."""
    with pytest.raises(ValueError, match="write 30s"):
        numbers.parse_duration(text)
