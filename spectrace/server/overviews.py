"""Answers how long cycles took over a stretch of time, one column for each px of a picture."""

from __future__ import annotations

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from spectrace.analysis.overview import OverviewColumn, columns_of, step_of
from spectrace.server.asked import Asked
from spectrace.server.one_reader import OneReader
from spectrace.store.source import CycleSource

MOST_COLUMNS = 8192
_COLUMNS = 1024  # when nobody says how many


class WireOverview(msgspec.Struct, frozen=True, kw_only=True):
    """An overview as the page gets it; UNIX times are ns in decimal digits.

    Attributes:
        first: When the oldest cycle that is kept began.
        last: When the newest one ended.
        since: All cycles from here on were looked at; older ones took too long to read.
        begin: Where the first column begins.
        step_ns: The time of a column in ns.
        count: How many columns there are.
        columns: Those that have cycles, in order.
    """

    first: str
    last: str
    since: str
    begin: str
    step_ns: int
    count: int
    columns: list[OverviewColumn]


class Overviews:
    """Sums cycles of a store up, for one browser at a time; may be called from any thread.

    Args:
        store: What is read.
        reader: Who else reads from it.
    """

    def __init__(self, store: CycleSource, reader: OneReader) -> None:
        self._store = store
        self._reader = reader

    def answer(self, run_id: str, parameters: QueryParams) -> bytes:
        """The JSON of a `WireOverview`.

        Raises:
            HTTPException: A parameter is wrong (400), or too many ask at once (503).
            SpectraceError: A file is damaged.
        """
        asked = Asked(parameters, ("group", "from_ns", "to_ns", "columns"))
        from_ns, to_ns = asked.number("from_ns"), asked.number("to_ns")
        if from_ns is not None and to_ns is not None and from_ns >= to_ns:
            raise HTTPException(400, "from_ns has to be less than to_ns.")
        count = asked.number("columns", 1, MOST_COLUMNS) or _COLUMNS
        with self._reader.turn():
            timed = self._store.timed(run_id, asked.text("group") or "", from_ns, to_ns)
        begin_ns = timed.first_ns if from_ns is None else from_ns
        end_ns = timed.last_ns if to_ns is None else to_ns
        step_ns = step_of(begin_ns, end_ns, count)
        return msgspec.json.encode(
            WireOverview(
                first=str(timed.first_ns),
                last=str(timed.last_ns),
                since=str(timed.since_ns),
                begin=str(begin_ns),
                step_ns=step_ns,
                count=count,
                columns=columns_of(timed.cycles, begin_ns, step_ns, count),
            )
        )
