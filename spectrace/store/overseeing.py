"""Reads how long the cycles of a stretch of time took, and nothing else of them, a part at a time.

Between two parts the thread of the store does what else waits for it. So many cycles are looked at,
and for so long; the newest come first.
"""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

import numpy as np

from spectrace.chosen import Timed
from spectrace.store.choosing import Ask
from spectrace.store.columns import Batch
from spectrace.store.counting import SOUND_CYCLE
from spectrace.store.picking import joined, newest
from spectrace.store.recent import GroupKey
from spectrace.store.shelf import Shelf

MOST_CYCLES = 4_000_000
MOST_S = 5.0
_PART = 200_000  # ids that are read at once
_COLUMNS = ("id", "number", "start_ns", "took_ns")


class _Part(NamedTuple):
    """Ids of one slice that follow each other."""

    name: str
    low: int
    high: int


class _Plan(NamedTuple):
    """What there is: the newest parts first, and when the group's cycles began and ended."""

    parts: list[_Part]
    first_ns: int
    last_ns: int


class Overseeing:
    """Reads the times of a group's cycles, as far as time and memory allow.

    Args:
        ask: How the shelf is asked.
        shelf: What is read.
        key: The run and the group.
        most_cycles: How many are looked at, about.
        most_s: For how long, in s, about; at least one part is read.
    """

    def __init__(
        self,
        ask: Ask,
        shelf: Shelf,
        key: GroupKey,
        *,
        most_cycles: int = MOST_CYCLES,
        most_s: float = MOST_S,
    ) -> None:
        self._ask = ask
        self._shelf = shelf
        self._key = key
        self._most_cycles = most_cycles
        self._until_s = time.monotonic() + most_s

    def timed(self, from_ns: int | None, to_ns: int | None) -> Timed:
        """The cycles that began from one time to before another, None for no limit.

        Raises:
            SpectraceError: A file is damaged.
        """
        plan = self._ask(partial(self._plan, from_ns, to_ns))
        found: list[Batch] = [{name: np.zeros(0, dtype=np.int64) for name in _COLUMNS}]
        bounds = (
            plan.first_ns if from_ns is None else from_ns,
            plan.last_ns if to_ns is None else to_ns - 1,
        )
        since_ns = plan.first_ns
        count = 0
        for place, part in enumerate(plan.parts):
            if place and (count >= self._most_cycles or time.monotonic() > self._until_s):
                starts_ns = found[-1]["start_ns"]
                since_ns = int(starts_ns.min()) if len(starts_ns) else plan.last_ns
                break
            batch = self._ask(partial(self._cycles, part, *bounds))
            if batch is not None:
                count += len(batch["id"])
                found.append(batch)
        return Timed(
            first_ns=plan.first_ns,
            last_ns=plan.last_ns,
            since_ns=since_ns,
            cycles=newest(joined(found)),
        )

    def _plan(self, from_ns: int | None, to_ns: int | None) -> _Plan:
        spans = [
            (part.name, part.spans[self._key])
            for part in self._shelf.slices
            if self._key in part.spans
        ]
        parts = [
            _Part(name, low, high)
            for name, span in reversed(spans)
            if (from_ns is None or span.last_ns >= from_ns)
            and (to_ns is None or span.first_ns < to_ns)
            for low, high in self._shelf.database.stretches(name, _PART)
        ]
        return _Plan(
            parts,
            min((span.first_ns for _, span in spans), default=0),
            max((span.last_ns for _, span in spans), default=0),
        )

    def _cycles(self, part: _Part, from_ns: int, to_ns: int) -> Batch | None:
        """What is kept of a part; None where retention has taken it meanwhile."""
        if not any(held.name == part.name for held in self._shelf.slices):
            return None
        return self._shelf.database.columns(
            "SELECT id, number, start_ns, end_ns - start_ns AS took_ns "
            f"FROM {part.name}.cycles WHERE run_id = $1 AND group_name = $2 "
            f"AND id BETWEEN $3 AND $4 AND start_ns BETWEEN $5 AND $6 AND {SOUND_CYCLE}",
            [*self._key, part.low, part.high, from_ns, to_ns],
        )
