"""How long cycles took over a stretch of time, summed up to as many columns as a picture has."""

from __future__ import annotations

import msgspec
import numpy as np

from spectrace.chosen import Columns


class OverviewColumn(msgspec.Struct, frozen=True, array_like=True):
    """The cycles that began in one column, `[place, cycles, least, most, slowest, last]`.

    Attributes:
        place: Of the column, from 0 on.
        cycles: How many began in it.
        least_ns: The shortest one's time in ns.
        most_ns: The longest one's time in ns.
        slowest: The number of the longest one; of several the highest.
        last: The highest number.
    """

    place: int
    cycles: int
    least_ns: int
    most_ns: int
    slowest: int
    last: int


def step_of(from_ns: int, to_ns: int, count: int) -> int:
    """How many ns one of `count` columns has, at least 1."""
    return max(1, -(-(to_ns - from_ns) // count))


def columns_of(cycles: Columns, from_ns: int, step_ns: int, count: int) -> list[OverviewColumn]:
    """The columns that have cycles, in order.

    Args:
        cycles: `number`, `start_ns` (UNIX) and `took_ns` of each, int64, in any order.
        from_ns: UNIX time in ns at which the first column begins.
        step_ns: The time of a column in ns.
        count: How many columns there are; cycles before and behind them are left out.
    """
    places = (cycles["start_ns"] - from_ns) // step_ns
    inside = (places >= 0) & (places < count)
    places, took, numbers = (
        column[inside] for column in (places, cycles["took_ns"], cycles["number"])
    )
    if not len(places):
        return []
    order = np.lexsort((numbers, took, places))
    places, took, numbers = places[order], took[order], numbers[order]
    firsts = np.flatnonzero(np.diff(places, prepend=-1))
    lasts = np.append(firsts[1:], len(places)) - 1
    rows = zip(
        places[firsts].tolist(),
        (lasts - firsts + 1).tolist(),
        took[firsts].tolist(),
        took[lasts].tolist(),
        numbers[lasts].tolist(),
        np.maximum.reduceat(numbers, firsts).tolist(),
        strict=True,
    )
    return [OverviewColumn(*row) for row in rows]
