"""Series in memory: sums, present values and histograms, and what they are at one moment."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

import msgspec

from spectrace.metrics.table import TABLE, Form, Instrument

Values = tuple[str, ...]
"""Values of the attributes of one series, in the order of `Instrument.attributes`."""
MOST_SERIES = 10_000
"""Of one instrument and run. 128 ranks have about 3,000; a sender may claim to have any number."""
OVERFLOW = "overflow"
"""The value of every attribute where there would be more."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram at one moment, in the unit of its instrument.

    Attributes:
        counts: How many values lie in each bucket: above the bound before and up to its own;
            the last bucket has what lies above all bounds.
        total: The sum of the values.
    """

    counts: tuple[int, ...]
    total: float

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self.counts)


Value = int | float | Distribution


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One series at one moment, in the unit of its instrument."""

    values: Values
    value: Value


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """The series of one instrument at one moment."""

    instrument: Instrument
    points: tuple[Point, ...]


class _Buckets:
    """A histogram that grows."""

    __slots__ = ("counts", "total")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.total = 0


class Series:
    """The series of one run; whoever uses it sees to it that nobody else does at the same time."""

    def __init__(self) -> None:
        self._sums: dict[Instrument, dict[Values, int]] = {
            instrument: {} for instrument in TABLE if instrument.form is not Form.HISTOGRAM
        }
        self._buckets: dict[Instrument, dict[Values, _Buckets]] = {
            instrument: {} for instrument in TABLE if instrument.form is Form.HISTOGRAM
        }

    def add(self, counter: Instrument, values: Values = (), amount: int = 1) -> None:
        """Adds to a counter; with 0 the series is there from now on."""
        sums = self._sums[counter]
        key = _bounded(values, sums)
        sums[key] = sums.get(key, 0) + amount

    def set(self, gauge: Instrument, value: int, values: Values = ()) -> None:
        """Puts the present value of a gauge."""
        sums = self._sums[gauge]
        sums[_bounded(values, sums)] = value

    def reach(self, counter: Instrument, value: int, values: Values = ()) -> None:
        """Lets a counter that somebody else keeps come to a value; it never goes back."""
        sums = self._sums[counter]
        key = _bounded(values, sums)
        sums[key] = max(value, sums.get(key, 0))

    def observe(self, histogram: Instrument, values: Values, observed: int, times: int = 1) -> None:
        """Takes a value into a histogram, once or several times.

        Args:
            histogram: Which one.
            values: Of its attributes.
            observed: The value, in ns where its unit is `s`.
            times: How often.
        """
        series = self._buckets[histogram]
        buckets = series.get(values)
        if buckets is None:
            new = _Buckets(len(histogram.bounds))
            buckets = series.setdefault(_bounded(values, series), new)
        buckets.counts[bisect_left(histogram.bounds, observed)] += times
        buckets.total += observed * times

    def read(self) -> tuple[Reading, ...]:
        """All series now, in the order of the table; instruments without any are left out."""
        return tuple(
            Reading(instrument=instrument, points=points)
            for instrument in TABLE
            if (points := self._points(instrument))
        )

    def _points(self, instrument: Instrument) -> tuple[Point, ...]:
        scale = instrument.scale
        if instrument.form is Form.HISTOGRAM:
            return tuple(
                Point(
                    values=values,
                    value=Distribution(
                        counts=tuple(buckets.counts), total=_scaled(buckets.total, scale)
                    ),
                )
                for values, buckets in self._buckets[instrument].items()
            )
        sums = self._sums[instrument]
        return tuple(Point(values=key, value=_scaled(value, scale)) for key, value in sums.items())


def _bounded(values: Values, series: Mapping[Values, object]) -> Values:
    if len(series) < MOST_SERIES or values in series:
        return values
    return (OVERFLOW,) * len(values)


def _scaled(value: int, scale: int) -> int | float:
    return value if scale == 1 else value / scale
