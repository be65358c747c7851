"""Writes numbers the way spectrace shows them, and reads durations from the command line."""

from __future__ import annotations

import re

MISSING = "\u2013"  # an en dash
_MINUS = "\u2212"  # a real minus sign

_MS_PER_S = 1000.0
_US_PER_MS = 1000.0
_ONE_DECIMAL_FROM_MS = 9.995  # from here on two decimals would show 10.00
_S_FROM_MS = 999.95  # from here on one decimal would show 1000.0
_US_BELOW_MS = 0.0995  # below, whole µs show no more than 99
_WHOLE_FROM_PERCENT = 9.95
_WHOLE_FROM_RATE = 9.95
_WHOLE_BELOW_BYTES = 999.95  # from here on one decimal would show 1000.0

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _signed(value: float, text: str) -> str:
    """`text`, made for the amount of `value`, with a real minus sign where it is below 0."""
    return _MINUS + text if value < 0 else text


def milliseconds(value_ms: float | None) -> str:
    """A time with its unit: µs below 0.1 ms, 2 decimals below 10 ms, 1 above, s from 1000 ms."""
    if value_ms is None:
        return MISSING
    amount = abs(value_ms)
    if amount < _US_BELOW_MS:
        text = microseconds(amount * _US_PER_MS)
    elif amount < _ONE_DECIMAL_FROM_MS:
        text = f"{amount:.2f} ms"
    elif amount < _S_FROM_MS:
        text = f"{amount:.1f} ms"
    else:
        text = f"{amount / _MS_PER_S:,.2f} s"
    return _signed(value_ms, text)


def microseconds(value_us: float | None) -> str:
    """A time in whole µs; one that is not 0 is never shown as 0."""
    if value_us is None:
        return MISSING
    amount = abs(value_us)
    return _signed(value_us, "< 1 µs" if 0 < amount < 0.5 else f"{amount:,.0f} µs")  # noqa: PLR2004 - what rounds to 0


def milliseconds_cell(value_ms: float | None) -> str:
    """A time for a column headed ms: 2 decimals below 10, 1 above."""
    if value_ms is None:
        return MISSING
    amount = abs(value_ms)
    if 0 < amount < 0.005:  # noqa: PLR2004 - what rounds to 0.00
        text = "< 0.01"
    else:
        text = f"{amount:.2f}" if amount < _ONE_DECIMAL_FROM_MS else f"{amount:,.1f}"
    return _signed(value_ms, text)


def share(fraction: float | None) -> str:
    """A share in %: whole from 10 % on, 1 decimal below; one that is not 0 never shows as 0."""
    if fraction is None:
        return MISSING
    percent = abs(fraction) * 100
    if 0 < percent < 0.05:  # noqa: PLR2004 - what rounds to 0.0
        text = "< 0.1 %"
    elif 0 < percent < _WHOLE_FROM_PERCENT:
        text = f"{percent:.1f} %"
    else:
        text = f"{percent:.0f} %"
    return _signed(fraction, text)


def share_cell(fraction: float | None) -> str:
    """A share for a column headed %."""
    return share(fraction).removesuffix(" %")


def rate(per_s: float | None) -> str:
    """A number per second: whole from 10 on, 1 decimal below."""
    if per_s is None:
        return MISSING
    return f"{per_s:,.1f}" if 0 < per_s < _WHOLE_FROM_RATE else f"{per_s:,.0f}"


def two_decimals(value: float | None) -> str:
    """An accept length."""
    return MISSING if value is None else _signed(value, f"{abs(value):.2f}")


def count(value: int | None) -> str:
    """A whole number, with a comma between thousands."""
    return MISSING if value is None else _signed(value, f"{abs(value):,}")


def size(amount: int) -> str:
    """A size in bytes with its unit, counted in thousands: whole below 1 kB, 1 decimal above."""
    value, unit = float(amount), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < _WHOLE_BELOW_BYTES:
            break
        value, unit = value / 1000, larger
    return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"


def plain(value: float | None) -> str:
    """A median of whole numbers: no decimals, or the half that it may end in."""
    return MISSING if value is None else f"{value:,.1f}".removesuffix(".0")


def parse_duration(text: str) -> float:
    """The seconds in a duration such as `30s`, `500ms`, `2m`, `1h` or `1h30m`.

    Raises:
        ValueError: The text is no duration, or one of no length.
    """
    parts = _DURATION.findall(text.strip())
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text.strip() or seconds <= 0:
        raise ValueError(f"{text!r} is no duration: write 30s, 500ms, 2m or 1h.")
    return seconds
