"""Counts all cycles and requests of a run by what they have in common, in their newest versions."""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrace.measures import KINDS, MODES, WARM_UP_CYCLES
from spectrace.model import CycleKind
from spectrace.store.columns import Batch
from spectrace.store.database import Database
from spectrace.store.tally import (
    ALIKE,
    OF_CYCLE,
    OF_ROW,
    SETTING,
    TIMED,
    UNKNOWN,
    Known,
    folded,
    packed,
    stretches,
    summed,
    width,
)

BLOCKS = 200  # equal stretches of a group, for what changes over time
_CHUNK = 500_000  # ids that are counted at once
_ROWS = 1_000_000  # requests that are, about
_FEWEST = 25  # cycles of a block
_SPARSE = 64  # numbers for each cycle, above which these are no count
# What a sender can get wrong: times before 1970 or after 2190, phases that end before they begin or
# last for more than ten days, cycles that take no time.
SOUND = (
    "start_ns BETWEEN 0 AND 7_000_000_000_000_000_000 "
    "AND end_ns BETWEEN start_ns AND start_ns + 1_000_000_000_000_000"
)
SOUND_CYCLE = f"{SOUND} AND end_ns > start_ns"
_DECODING = tuple(KINDS.index(kind) for kind in (CycleKind.SPECULATIVE, CycleKind.DECODE))


class Group(NamedTuple):
    """A group of ranks.

    Attributes:
        name: Its name.
        first_n: The lowest number of its cycles.
        last_n: The highest.
        versions: How many versions of cycles there are.
        files: The lowest and the highest number in each file that has any.
    """

    name: str
    first_n: int
    last_n: int
    versions: int
    files: Mapping[str, tuple[int, int]]


class WarmUp(NamedTuple):
    """The first cycles of a group, which do not count: up to which number, and how many."""

    until: int
    cycles: int


class Counts(NamedTuple):
    """What was counted, as in `Measures`.

    Attributes:
        cycles: `cycle_counts`.
        rows: `row_counts`.
        overshoot: `overshoot_counts`.
        overshoot_rows: Rows that do not count.
        health_check_rows: Likewise.
        unknown_cycles: Cycles without results.
    """

    cycles: Batch
    rows: Batch
    overshoot: Batch
    overshoot_rows: int
    health_check_rows: int
    unknown_cycles: int


class _Chunk(NamedTuple):
    """A stretch of ids of one file."""

    name: str
    low: int
    high: int


class Counting:
    """Counts the cycles of one run in several files.

    Args:
        database: To which the files are attached.
        names: As what, the oldest first.
        run_id: The run.

    Attributes:
        groups: Those that have cycles, by name.
    """

    def __init__(self, database: Database, names: Sequence[str], run_id: str) -> None:
        self._database = database
        self._names = names
        self._run_id = run_id
        self._usual: int | None = None  # how the first rank was timed, in most cycles
        self.groups = self._find_groups()

    def counts(self) -> Counts | None:
        """Counts everything; None where there are no cycles, but for warm-up."""
        cycles: list[Batch] = []
        rows: list[Batch] = []
        seen = [_Seen(group, self._warm_until(group)) for group in self.groups]
        for chunk in self._chunks():
            how = self._how(chunk)
            known = Known(chunk.high - chunk.low + 1)
            for place, group in enumerate(self.groups):
                at, found = seen[place].counting(self._cycles(chunk, group))
                if len(at):
                    alike = stretches(_keys(found, how[at], group))
                    cycles.append(summed(found, alike, place))
                    known.note(at, alike, place)
            rows += self._rows(chunk, known)
        if not cycles:
            return None
        counted = folded(cycles, {"key": ALIKE | TIMED})
        counted["timed"] = counted["timed"].astype(np.bool_)
        unknown = counted.pop("unknown")[np.isin(counted["kind"], _DECODING)]
        return _told_apart(
            counted, folded(rows, {"alike": OF_CYCLE, "what": OF_ROW}), int(unknown.sum())
        )

    def _find_groups(self) -> list[Group]:
        found: dict[str, Group] = {}
        for name in self._names:
            columns = self._database.columns(
                "SELECT group_name, min(number) AS first_n, max(number) AS last_n, "
                f"count(*) AS versions FROM {name}.cycles WHERE run_id = ? AND number >= 0 "
                "GROUP BY group_name",
                [self._run_id],
            )
            rows = zip(*(columns[key].tolist() for key in columns), strict=True)
            for group, first_n, last_n, versions in rows:
                other = found.get(group, Group(group, first_n, last_n, 0, {}))
                found[group] = Group(
                    group,
                    min(first_n, other.first_n),
                    max(last_n, other.last_n),
                    versions + other.versions,
                    {**other.files, name: (first_n, last_n)},
                )
        return [found[name] for name in sorted(found)]

    def _warm_until(self, group: Group) -> int:
        """The number from which cycles count."""
        key = self._run_id, group.name
        return warm_up(self._database, self._names, key, group.first_n).until

    def _chunks(self) -> Iterator[_Chunk]:
        """The newest first, so that a newer version is met before an older one."""
        for name in reversed(self._names):
            for low, high in self._database.stretches(name, _CHUNK):
                yield _Chunk(name, low, high)

    def _cycles(self, chunk: _Chunk, group: Group) -> Batch:
        """All versions of the cycles of a group.

        `at` is the place of the id in the chunk, `took_ns` below 0 where the times are impossible.
        """
        fields = {
            "kind": code("kind", [kind.value for kind in KINDS]),
            "batch": "batch_size",
            "unknown": "(NOT has_requests)::BIGINT",
        }
        setting = packed(SETTING | UNKNOWN, fields, ["kind", "unknown"])
        found = self._database.columns(
            f"SELECT id - {chunk.low} AS at, number, {setting} AS setting, "
            f"CASE WHEN {SOUND_CYCLE} THEN end_ns - start_ns ELSE -1 END AS took_ns "
            f"FROM {chunk.name}.cycles "
            "WHERE run_id = ? AND group_name = ? AND number >= 0 AND id BETWEEN ? AND ?",
            [self._run_id, group.name, chunk.low, chunk.high],
        )
        found["unknown"] = found["setting"] & 1  # a column less to fetch, which is what takes time
        found["setting"] >>= 1
        return found

    def _how(self, chunk: _Chunk) -> NDArray[np.int64]:
        """How the first rank of each id was timed; almost all alike, so that few are fetched."""
        late = "late_switch" if self._database.has(chunk.name, "ranks", "late_switch") else "false"
        fields = {
            "mode": code("mode", [mode.value for mode in MODES]),
            "timed": f"(NOT (incomplete OR ended_idle OR {late}))::BIGINT",
        }
        first = (
            f"SELECT id - {chunk.low} AS at, {packed(TIMED, fields, TIMED)} AS how "
            f"FROM {chunk.name}.ranks WHERE place = 0 AND id BETWEEN {chunk.low} AND {chunk.high}"
        )
        if self._usual is None:
            usual = self._database.columns(
                f"SELECT how FROM ({first}) GROUP BY how ORDER BY count(*) DESC LIMIT 1", []
            )["how"].tolist()
            self._usual = int(usual[0]) if usual else 0
        found = np.full(chunk.high - chunk.low + 1, self._usual, dtype=np.int64)
        others = self._database.columns(f"SELECT * FROM ({first}) WHERE how <> {self._usual}", [])
        found[others["at"]] = others["how"]
        return found

    def _rows(self, chunk: _Chunk, known: Known) -> Iterator[Batch]:
        """The requests of the cycles that count, some ids at a time."""
        [count] = self._database.columns(
            f"SELECT count(*) AS rows FROM {chunk.name}.requests WHERE id BETWEEN ? AND ?",
            [chunk.low, chunk.high],
        )["rows"].tolist()
        most = (1 << OF_ROW["correct"]) - 2
        fields = {
            "correct": f"CASE WHEN correct_drafts BETWEEN 0 AND {most} THEN correct_drafts + 1 "
            f"WHEN correct_drafts > {most} THEN {most + 1} ELSE 0 END",
            "delivered": "output_tokens",
            "overshoot": "overshoot::BIGINT",
            "health_check": "health_check::BIGINT",
        }
        wide = width(OF_ROW)
        what = packed(OF_ROW, fields, ["correct", "overshoot", "health_check"])
        length = max(1, _CHUNK * _ROWS // max(_ROWS, count))
        for low in range(chunk.low, chunk.high + 1, length):
            rows = self._database.columns(
                f"SELECT (id - {chunk.low}) * {1 << wide} + {what} AS packed "
                f"FROM {chunk.name}.requests WHERE id BETWEEN ? AND ?",
                [low, min(chunk.high, low + length - 1)],
            )["packed"]
            yield known.counted(rows >> wide, rows & ((1 << wide) - 1))


def warm_up(database: Database, names: Sequence[str], key: tuple[str, str], first_n: int) -> WarmUp:
    """Which cycles of a group are warm-up.

    Args:
        database: To which the files are attached.
        names: As what.
        key: The run and the group.
        first_n: The lowest number of the group.
    """
    found: set[int] = set()
    for name in names:
        columns = database.columns(
            f"SELECT DISTINCT number FROM {name}.cycles WHERE run_id = ? AND group_name = ? "
            "AND number BETWEEN ? AND ? ORDER BY number LIMIT ?",
            [*key, first_n, first_n + 999, WARM_UP_CYCLES + 1],
        )
        found.update(columns["number"].tolist())
    first = sorted(found)[: WARM_UP_CYCLES + 1]
    if len(first) > WARM_UP_CYCLES:
        return WarmUp(first[-1], WARM_UP_CYCLES)
    return WarmUp(first[-1] + 1 if first else first_n, len(first))


def code(column: str, words: Sequence[str]) -> str:
    """The place of a text in a list, in SQL; of none of them the last."""
    cases = " ".join(f"WHEN '{word}' THEN {place}" for place, word in enumerate(words))
    return f"CASE {column} {cases} ELSE {len(words) - 1} END"


class _Seen:
    """Which numbers of a group were met, from the newest version back.

    A bit for each number, as long as they are about as many as cycles; a sender can number its
    cycles as it likes.

    Args:
        group: The group.
        warm_until: The number from which its cycles count.
    """

    def __init__(self, group: Group, warm_until: int) -> None:
        length = group.last_n - group.first_n + 1
        dense = length <= _SPARSE * group.versions
        self._first_n = group.first_n
        self._warm_until = warm_until
        self._bits = np.zeros(length, dtype=np.bool_) if dense else None
        self._numbers: set[int] = set()

    def counting(self, cycles: Batch) -> tuple[NDArray[np.int64], Batch]:
        """Those that count of cycles that came before all that were met: their `at`, and the rest.

        Without older versions, warm-up and impossible times; in the order of their ids.
        """
        at = cycles.pop("at")
        if (np.diff(at) < 0).any():
            order = np.argsort(at, kind="stable")
            at, cycles = at[order], {key: column[order] for key, column in cycles.items()}
        counts = ~self._older(cycles["number"])
        counts &= (cycles["number"] >= self._warm_until) & (cycles["took_ns"] >= 0)
        if counts.all():
            return at, cycles
        return at[counts], {key: column[counts] for key, column in cycles.items()}

    def _older(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which are older versions; they are in the order in which they came."""
        if self._bits is None:
            old = np.array([number in self._numbers for number in numbers.tolist()], dtype=np.bool_)
            self._numbers.update(numbers.tolist())
        else:
            old = self._bits[numbers - self._first_n]
            self._bits[numbers - self._first_n] = True
        if (np.diff(numbers) <= 0).any():
            _, newest = np.unique(numbers[::-1], return_index=True)
            repeated = np.ones(len(numbers), dtype=np.bool_)
            repeated[len(numbers) - 1 - newest] = False
            old |= repeated
        return old


def _keys(cycles: Batch, how: NDArray[np.int64], group: Group) -> NDArray[np.int64]:
    """All by which cycles are told apart, `ALIKE` and `TIMED`, packed."""
    blocks = max(1, min(BLOCKS, group.versions // _FEWEST))
    length = min(-(-(group.last_n - group.first_n + 1) // blocks), np.iinfo(np.int64).max)
    block = (cycles["number"] - group.first_n) // length
    return (((block << width(SETTING)) | cycles["setting"]) << width(TIMED)) | how


def _told_apart(cycles: Batch, every: Batch, unknown: int) -> Counts:
    """The rows that count, and how many do not."""
    every["correct"] -= 1
    health, over = every.pop("health_check") > 0, every.pop("overshoot") > 0
    counts, timed = ~(health | over), every.pop("timed") > 0
    late = {key: column[over & ~health & timed] for key, column in every.items()}
    return Counts(
        cycles=cycles,
        rows={key: column[counts] for key, column in every.items()},
        overshoot={
            key: column for key, column in late.items() if key not in {"correct", "delivered"}
        },
        overshoot_rows=int(every["rows"][over & ~health].sum()),
        health_check_rows=int(every["rows"][health].sum()),
        unknown_cycles=unknown,
    )
