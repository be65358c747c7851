"""Reads the cycles that somebody picks out of a run (`chosen.Chosen`), a stretch at a time.

Between two stretches the thread of the store does what else waits for it, such as writing. So many
cycles are looked at, and for so long; the newest come first.
"""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from spectrace.chosen import Choice, Chosen
from spectrace.measures import KINDS, LANES, MODES, PHASES
from spectrace.store.columns import Batch
from spectrace.store.counting import SOUND, SOUND_CYCLE, WarmUp, code, warm_up
from spectrace.store.picking import LANE_STEP, Picked, fitting, joined, newest, settled, where
from spectrace.store.shelf import Shelf

MOST_CYCLES = 500_000
MOST_S = 8.0
_STRETCH = 20_000  # ids that are read at once
_MOST_RANKS = 512
_MOST_ERROR_NS = 1_000_000_000_000_000
_MOST_NAME = 64  # characters of a rank's name; a file that somebody else made may hold anything
_NUMBERS = (
    *("id", "number", "start_ns", "took_ns", "batch", "steps", "topk", "draft_tokens", "kind"),
    *("mode", "untimed", "device_incomplete", "error_ns"),
)
_T = TypeVar("_T")


class Ask(Protocol):
    """Answers a question when the shelf may be touched."""

    def __call__(self, question: Callable[[], _T], /) -> _T:
        """The answer."""


class _Stretch(NamedTuple):
    """Ids of one slice that follow each other."""

    name: str
    low: int
    high: int


class _Plan(NamedTuple):
    """What is to be looked at.

    Attributes:
        stretches: The newest first.
        stored: Cycles of the group that are kept.
        since_ns: UNIX time in ns before which no cycle counts.
        warm_up: Which cycles do not count.
        ranks: Names of the ranks.
    """

    stretches: list[_Stretch]
    stored: int
    since_ns: int
    warm_up: WarmUp
    ranks: tuple[str, ...]


class Choosing:
    """Reads what is picked, as far as time and memory allow.

    Args:
        ask: How the shelf is asked.
        shelf: What is read.
        choice: What is picked.
        most_cycles: How many are looked at, about.
        most_s: For how long, in s, about; at least one stretch is read.
    """

    def __init__(
        self,
        ask: Ask,
        shelf: Shelf,
        choice: Choice,
        *,
        most_cycles: int = MOST_CYCLES,
        most_s: float = MOST_S,
    ) -> None:
        self._ask = ask
        self._shelf = shelf
        self._choice = choice
        self._key = choice.run_id, choice.group
        self._most_cycles = most_cycles
        began_s = time.monotonic()
        self._looked_until_s, self._until_s = began_s + most_s / 2, began_s + most_s

    def chosen(self) -> Chosen:
        """Reads; where no cycle fits all columns are empty.

        Raises:
            SpectraceError: A file is damaged.
        """
        plan = self._ask(self._plan)
        every, stretches = self._look(plan)
        choice, seen = settled(self._choice, every, plan.ranks)
        fits, timed = fitting(choice, every), every["untimed"] == 0
        picked = self._read(stretches, where(every, fits & timed))
        looked_at = every["id"] >= picked.from_id
        columns = picked.columns()
        whole = bool(looked_at.all()) and len(stretches) == len(plan.stretches)
        return Chosen(
            choice=choice,
            seen=seen,
            stored=plan.stored,
            looked_at=int(looked_at.sum()),
            whole=whole,
            warm_up=plan.warm_up.cycles if whole and not plan.since_ns else 0,
            untimed=int((fits & ~timed & looked_at).sum()),
            cycles=columns.cycles,
            parts=columns.parts,
            rows=columns.rows,
        )

    def _plan(self) -> _Plan:
        spans = [
            (part.name, part.spans[self._key])
            for part in self._shelf.slices
            if self._key in part.spans
        ]
        newest_ns = max((span.last_ns for _, span in spans), default=0)
        last_s = self._choice.last_s
        since_ns = 0 if last_s is None else max(1, newest_ns - round(last_s * 1e9))
        stretches = []
        for name, span in reversed(spans):
            if span.last_ns >= since_ns:
                stretches += [
                    _Stretch(name, low, high)
                    for low, high in self._shelf.database.stretches(name, _STRETCH)
                ]
        return _Plan(
            stretches=stretches,
            stored=sum(span.cycles for _, span in spans),
            since_ns=since_ns,
            warm_up=warm_up(
                self._shelf.database,
                [name for name, _ in spans],
                self._key,
                max(0, min((span.first_n for _, span in spans), default=0)),
            ),
            ranks=next(filter(None, map(self._rank_names, stretches)), ()),
        )

    def _rank_names(self, stretch: _Stretch) -> tuple[str, ...]:
        """Those of the cycles in a stretch, in their order."""
        found = self._shelf.database.columns(
            f"SELECT left(rank, {_MOST_NAME}) AS rank, min(place) AS place "
            f"FROM {stretch.name}.ranks WHERE id BETWEEN $1 AND $2 AND id IN "
            f"(SELECT id FROM {stretch.name}.cycles WHERE id BETWEEN $1 AND $2 "
            "AND run_id = $3 AND group_name = $4) GROUP BY 1 ORDER BY place, 1 LIMIT $5",
            [stretch.low, stretch.high, *self._key, _MOST_RANKS],
        )
        return tuple(found["rank"].tolist())

    def _look(self, plan: _Plan) -> tuple[Batch, list[_Stretch]]:
        """Cycles in their newest versions by number, and the stretches that were looked at."""
        found: list[Batch] = [{name: np.zeros(0, dtype=np.int64) for name in _NUMBERS}]
        stretches: list[_Stretch] = []
        count = 0
        for stretch in plan.stretches:
            late = time.monotonic() > self._looked_until_s
            if stretches and (late or count >= self._most_cycles):
                break
            stretches.append(stretch)
            batch = self._ask(partial(self._cycles, stretch, plan))
            if batch is not None:
                count += len(batch["id"])
                found.append(batch)
        return newest(joined(found)), stretches

    def _read(self, stretches: list[_Stretch], cycles: Batch) -> Picked:
        """The phases and requests of the picked cycles, as far as time allows."""
        picked = Picked(cycles)
        reads = 0
        for stretch in stretches:
            if picked.has_any(stretch.low, stretch.high):
                if reads and time.monotonic() > self._until_s:
                    break
                reads += 1
                found = self._ask(partial(self._rows, stretch))
                if found is not None:
                    picked.take(*found)
            picked.from_id = stretch.low
        return picked

    def _is_kept(self, stretch: _Stretch) -> bool:
        """Whether its slice is still there: retention goes on meanwhile."""
        return any(part.name == stretch.name for part in self._shelf.slices)

    def _cycles(self, stretch: _Stretch, plan: _Plan) -> Batch | None:
        """All cycles of the group in a stretch, with the times of the chosen rank."""
        if not self._is_kept(stretch):
            return None
        name, rank = stretch.name, self._choice.rank

        def known(column: str) -> str:
            there = self._shelf.database.has(name, "ranks", column)
            return f"coalesce(r.{column}::BIGINT, 0)" if there else "0::BIGINT"

        return self._shelf.database.columns(
            "SELECT c.id, c.number, r.start_ns, r.end_ns - r.start_ns AS took_ns, "
            "c.batch_size AS batch, c.steps, c.topk, c.draft_tokens, "
            f"({code('c.kind', [kind.value for kind in KINDS])})::BIGINT AS kind, "
            f"({code('r.mode', [mode.value for mode in MODES])})::BIGINT AS mode, "
            f"(r.incomplete OR r.ended_idle)::BIGINT + {known('late_switch')} AS untimed, "
            f"{known('device_incomplete')} AS device_incomplete, "
            f"greatest(0, least({known('clock_error_ns')}, {_MOST_ERROR_NS})) AS error_ns "
            f"FROM (SELECT * FROM {name}.cycles WHERE run_id = $1 AND group_name = $2 "
            f"AND number >= $3 AND id BETWEEN $4 AND $5 AND start_ns >= $6 AND {SOUND_CYCLE}) c "
            f"JOIN (SELECT * FROM {name}.ranks WHERE id BETWEEN $4 AND $5 AND {SOUND} "
            f"AND {'place = $7' if rank is None else 'rank = $7'}) r ON c.id = r.id",
            [
                *self._key,
                plan.warm_up.until,
                stretch.low,
                stretch.high,
                plan.since_ns,
                0 if rank is None else rank,
            ],
        )

    def _rows(self, stretch: _Stretch) -> tuple[Batch, Batch] | None:
        """The phases of the chosen rank and the requests verified, of all ids of a stretch."""
        if not self._is_kept(stretch):
            return None
        rank = self._choice.rank
        part = (
            f"({code('lane', [lane.value for lane in LANES])}) * {LANE_STEP} + "
            f"({code('name', [phase.value for phase in PHASES])})"
        )
        phases = self._shelf.database.columns(
            f"SELECT id, ({part})::BIGINT AS part, start_ns, end_ns FROM {stretch.name}.phases "
            f"WHERE id BETWEEN ? AND ? AND {'rank_place = ?' if rank is None else 'rank = ?'} "
            f"AND {SOUND}",
            [stretch.low, stretch.high, 0 if rank is None else rank],
        )
        rows = self._shelf.database.columns(
            "SELECT id, correct_drafts AS correct, output_tokens AS delivered "
            f"FROM {stretch.name}.requests WHERE id BETWEEN ? AND ? "
            "AND correct_drafts IS NOT NULL AND NOT overshoot AND NOT health_check",
            [stretch.low, stretch.high],
        )
        return phases, rows
