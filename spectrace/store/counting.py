"""Counts all cycles and requests of a run by what they have in common, each in its newest version.

One number stands for the columns by which is grouped, bit by bit: a database groups by one number
several times as fast as by ten.
"""

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

BLOCKS = 200  # equal stretches of a group, for what changes over time
_CHUNK = 1_000_000  # ids that are counted at once: as many DuckDB joins without a hash table
_FEWEST = 25  # cycles of a block
_SPARSE = 64  # numbers for each cycle, above which these are no count
# How many bits each column has; what would need more is as large as they allow.
_ALIKE = {"block": 8, "kind": 3, "steps": 10, "topk": 9, "draft_tokens": 12, "batch": 14}
_TIMED = {"mode": 2, "timed": 1}
_OF_ROW = {"correct": 13, "delivered": 13, "overshoot": 1, "health_check": 1}  # correct is one more
# What a sender can get wrong: times before 1970 or after 2190, phases that end before they begin or
# last for more than ten days, cycles that take no time.
SOUND = (
    "start_ns BETWEEN 0 AND 7_000_000_000_000_000_000 "
    "AND end_ns BETWEEN start_ns AND start_ns + 1_000_000_000_000_000"
)
SOUND_CYCLE = f"{SOUND} AND end_ns > start_ns"
_DECODING = tuple(KINDS.index(kind) for kind in (CycleKind.SPECULATIVE, CycleKind.DECODE))


class Group(NamedTuple):
    """A group of ranks: its name, the numbers of its cycles, and how many versions there are."""

    name: str
    first_n: int
    last_n: int
    versions: int


class WarmUp(NamedTuple):
    """The first cycles of a group, which do not count: up to which number, and how many."""

    until: int
    cycles: int


class Counts(NamedTuple):
    """What was counted, as in `Measures`.

    Attributes:
        cycles: `cycle_counts`.
        rows: `row_counts`.
        overshoot_rows: Rows that do not count.
        health_check_rows: Likewise.
        unknown_cycles: Cycles without results.
    """

    cycles: Batch
    rows: Batch
    overshoot_rows: int
    health_check_rows: int
    unknown_cycles: int


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
        self.groups = self._find_groups()

    def counts(self) -> Counts:
        """Counts everything."""
        cycles: list[Batch] = []
        rows: list[Batch] = []
        for place, group in enumerate(self.groups):
            seen = _Seen(group)
            warm_until = self._warm_until(group)
            for name, low, high in self._chunks():
                but = self._but(name, low, high)
                if self._note_older(name, group, seen, low, high):
                    but += " AND id NOT IN (SELECT id FROM older_versions)"
                chosen = self._chosen(name, group, warm_until, but)
                bounds = [low, high, group.name]
                for found, query in (
                    (cycles, self._cycles_query(name, chosen, low, high)),
                    (rows, self._rows_query(name, chosen)),
                ):
                    batch = self._database.columns(query, bounds)
                    batch["group"] = np.full(len(batch["alike"]), place, dtype=np.int64)
                    found.append(batch)
        counted = _folded(
            cycles, {"alike": _ALIKE, "how": _TIMED}, ("cycles", "total_ns", "unknown")
        )
        counted["timed"] = counted["timed"].astype(np.bool_)
        unknown = counted.pop("unknown")[np.isin(counted["kind"], _DECODING)]
        return _told_apart(
            counted,
            _folded(rows, {"alike": _ALIKE, "what": _OF_ROW}, ("rows",)),
            int(unknown.sum()),
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
            for one in map(Group, *(columns[key].tolist() for key in columns)):
                other = found.get(one.name, one._replace(versions=0))
                found[one.name] = Group(
                    one.name,
                    min(one.first_n, other.first_n),
                    max(one.last_n, other.last_n),
                    one.versions + other.versions,
                )
        return sorted(found.values())

    def _warm_until(self, group: Group) -> int:
        """The number from which cycles count."""
        key = self._run_id, group.name
        return warm_up(self._database, self._names, key, group.first_n).until

    def _chunks(self) -> Iterator[tuple[str, int, int]]:
        """Files and ids, the newest first, so that a newer version is met before an older one."""
        for name in reversed(self._names):
            low, high = self._database.ids(name)
            for begin in range(high, low - 1, -_CHUNK):
                yield name, max(low, begin - _CHUNK + 1), begin

    def _note_older(self, name: str, group: Group, seen: _Seen, low: int, high: int) -> bool:
        """Notes which of these ids are older versions of cycles; whether there are any."""
        columns = self._database.columns(
            f"SELECT id, number FROM {name}.cycles "
            "WHERE run_id = ? AND group_name = ? AND number >= 0 AND id BETWEEN ? AND ?",
            [self._run_id, group.name, low, high],
        )
        older = seen.older(columns["id"], columns["number"])
        if older:
            self._database.note("older_versions", ("id",), [(key,) for key in older])
        return bool(older)

    def _but(self, name: str, low: int, high: int) -> str:
        """The condition that leaves out impossible times; looking is cheaper than leaving out."""
        wrong = self._database.columns(
            f"SELECT count(*) AS wrong FROM {name}.cycles "
            f"WHERE id BETWEEN ? AND ? AND NOT ({SOUND_CYCLE})",
            [low, high],
        )
        return f" AND {SOUND_CYCLE}" if wrong["wrong"][0] else ""

    def _chosen(self, name: str, group: Group, warm_until: int, but: str) -> str:
        """The cycles that count, of one range of ids and one group: parameters 1 to 3."""
        run_id = self._run_id.replace("'", "''")
        blocks = max(1, min(BLOCKS, group.versions // _FEWEST))
        length = -(-(group.last_n - group.first_n + 1) // blocks)
        fields = {
            "block": f"(number - {group.first_n}) // {length}",
            "kind": code("kind", [kind.value for kind in KINDS]),
            "batch": "batch_size",
        }
        return (
            f"SELECT id, {_packed(_ALIKE, fields)} AS alike, number, end_ns - start_ns AS took_ns, "
            f"has_requests FROM {name}.cycles WHERE run_id = '{run_id}' AND group_name = $3 "
            f"AND number >= {warm_until} AND id BETWEEN $1 AND $2{but}"
        )

    def _cycles_query(self, name: str, chosen: str, low: int, high: int) -> str:
        """Counts cycles; almost all were timed alike, and only the others are looked up."""
        late = "late_switch" if self._database.has(name, "ranks", "late_switch") else "false"
        fields = {
            "mode": code("mode", [mode.value for mode in MODES]),
            "timed": f"(NOT (incomplete OR ended_idle OR {late}))::BIGINT",
        }
        first = (
            f"SELECT id, {_packed(_TIMED, fields)} AS how FROM {name}.ranks "
            f"WHERE place = 0 AND id BETWEEN {low} AND {high}"
        )
        usual = self._database.columns(
            f"SELECT how FROM ({first}) GROUP BY how ORDER BY count(*) DESC LIMIT 1", []
        )["how"].tolist()
        most = int(usual[0]) if usual else 0
        return (
            f"SELECT alike, coalesce(how, {most}) AS how, count(*) AS cycles, "
            "sum(took_ns)::BIGINT AS total_ns, "
            "sum((NOT has_requests)::BIGINT)::BIGINT AS unknown, "
            "min(number) AS first_n, max(number) AS last_n "
            f"FROM ({chosen}) c LEFT JOIN (SELECT * FROM ({first}) WHERE how <> {most}) r "
            "ON c.id = r.id GROUP BY ALL"
        )

    def _rows_query(self, name: str, chosen: str) -> str:
        fields = {
            "correct": "coalesce(correct_drafts, -1) + 1",
            "delivered": "output_tokens",
            "overshoot": "overshoot::BIGINT",
            "health_check": "health_check::BIGINT",
        }
        return (
            f"SELECT alike, {_packed(_OF_ROW, fields)} AS what, count(*) AS rows "
            f"FROM ({chosen}) c JOIN {name}.requests r ON c.id = r.id "
            "WHERE r.id BETWEEN $1 AND $2 GROUP BY ALL"
        )


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


def _packed(bits: Mapping[str, int], fields: Mapping[str, str]) -> str:
    """Several columns in one number, in SQL.

    Args:
        bits: How many each has, the highest first.
        fields: What stands for a column that is not itself one of the table.
    """
    packed = "0::BIGINT"
    for name, wide in bits.items():
        most = (1 << wide) - 1
        packed = f"({packed} * {1 << wide} + greatest(0, least({fields.get(name, name)}, {most})))"
    return packed


def _unpacked(packed: NDArray[np.int64], bits: Mapping[str, int]) -> Batch:
    """The columns in such numbers."""
    found: Batch = {}
    for name, wide in reversed(list(bits.items())):
        found[name] = packed & ((1 << wide) - 1)
        packed = packed >> wide
    return found


class _Seen:
    """Which numbers of a group were met, from the newest version back.

    A bit for each number, as long as they are about as many as cycles; a sender can number its
    cycles as it likes.

    Args:
        group: The group.
    """

    def __init__(self, group: Group) -> None:
        length = group.last_n - group.first_n + 1
        dense = length <= _SPARSE * group.versions + _CHUNK
        self._first_n = group.first_n
        self._bits = np.zeros(length, dtype=np.bool_) if dense else None
        self._numbers: set[int] = set()

    def older(self, ids: NDArray[np.int64], numbers: NDArray[np.int64]) -> list[int]:
        """The ids of older versions among cycles that came before all that were met."""
        order = np.argsort(ids)
        ids, numbers = ids[order], numbers[order]
        if self._bits is None:
            old = np.array([number in self._numbers for number in numbers.tolist()], dtype=np.bool_)
            self._numbers.update(numbers.tolist())
        else:
            old = self._bits[numbers - self._first_n]
            self._bits[numbers - self._first_n] = True
        if (np.diff(numbers) <= 0).any():
            _, newest = np.unique(numbers[::-1], return_index=True)
            repeated = np.ones(len(ids), dtype=np.bool_)
            repeated[len(ids) - 1 - newest] = False
            old |= repeated
        return [int(key) for key in ids[old]]


def _folded(
    parts: Sequence[Batch], packed: Mapping[str, Mapping[str, int]], sums: Sequence[str]
) -> Batch:
    """Counts of several chunks put together: rows with the same key become one.

    Args:
        parts: As the database gave them.
        packed: The columns that hold several, and how these are packed.
        sums: What is added up.
    """
    joined = {key: np.concatenate([np.asarray(part[key]) for part in parts]) for key in parts[0]}
    table = np.stack([joined[key] for key in ("group", *packed)], axis=1)
    unique, places = np.unique(table, axis=0, return_inverse=True)
    places = places.reshape(-1)
    folded: Batch = {"group": unique[:, 0].copy()}
    for at, bits in enumerate(packed.values(), 1):
        folded |= _unpacked(unique[:, at], bits)
    for key in sums:
        folded[key] = np.zeros(len(unique), dtype=np.int64)
        np.add.at(folded[key], places, joined[key].astype(np.int64))
    if "first_n" in joined:
        folded["first_n"] = np.full(len(unique), np.iinfo(np.int64).max)
        folded["last_n"] = np.full(len(unique), np.iinfo(np.int64).min)
        np.minimum.at(folded["first_n"], places, joined["first_n"])
        np.maximum.at(folded["last_n"], places, joined["last_n"])
    return folded


def _told_apart(cycles: Batch, every: Batch, unknown: int) -> Counts:
    """The rows that count, and how many do not."""
    every["correct"] -= 1
    health, over = every.pop("health_check") > 0, every.pop("overshoot") > 0
    counts = ~(health | over)
    return Counts(
        cycles=cycles,
        rows={key: column[counts] for key, column in every.items()},
        overshoot_rows=int(every["rows"][over & ~health].sum()),
        health_check_rows=int(every["rows"][health].sum()),
        unknown_cycles=unknown,
    )
