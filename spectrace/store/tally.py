"""Adds up cycles and requests by what they have in common, which one number stands for, bit by bit.

The database only makes these numbers. Cycles that are alike follow each other and are added up by
stretches, and the cycle of a request is looked up by its id: a fraction of the time that grouping
and joining take there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrace.store.columns import Batch

# How many bits each column has, the highest first; what would need more is as large as they allow.
SETTING = {"kind": 3, "steps": 10, "topk": 9, "draft_tokens": 12, "batch": 14}
ALIKE = {"block": 8} | SETTING
UNKNOWN = {"unknown": 1}
TIMED = {"mode": 2, "timed": 1}
OF_CYCLE = ALIKE | {"timed": 1}  # by which the requests of a cycle are counted
OF_ROW = {"correct": 13, "delivered": 13, "overshoot": 1, "health_check": 1}  # correct is one more
_MOST_BINS = 1_000_000  # of a table of counts; above it sorting is quicker


def width(bits: Mapping[str, int]) -> int:
    """How many bits several columns have together."""
    return sum(bits.values())


_CORRECT_FROM = width(OF_ROW) - OF_ROW["correct"]


def packed(bits: Mapping[str, int], fields: Mapping[str, str], within: Collection[str] = ()) -> str:
    """Several columns in one number, in SQL.

    Args:
        bits: How many each has, the highest first; at most 63.
        fields: What stands for a column that is not itself one of the table.
        within: Columns that never need more bits; the others are bounded.
    """
    free = width(bits)
    terms = []
    for name, wide in bits.items():
        free -= wide
        field, most = fields.get(name, name), (1 << wide) - 1
        # The least of the greatest would take DuckDB several times as long.
        bounded = (
            field
            if name in within
            else f"CASE WHEN {field} BETWEEN 0 AND {most} THEN {field} WHEN {field} < 0 THEN 0 "
            f"ELSE {most} END"
        )
        terms.append(f"({bounded}) * {1 << free}::BIGINT")
    return " + ".join(terms)


def unpacked(numbers: NDArray[np.int64], bits: Mapping[str, int]) -> Batch:
    """The columns in such numbers."""
    found: Batch = {}
    for name, wide in reversed(list(bits.items())):
        found[name] = numbers & ((1 << wide) - 1)
        numbers = numbers >> wide
    return found


class Stretches(NamedTuple):
    """Cycles that follow each other and have the same key.

    Attributes:
        starts: Where each begins.
        lengths: How many cycles it has.
        keys: The keys that occur, each once.
        places: Which of them each stretch has.
    """

    starts: NDArray[np.intp]
    lengths: NDArray[np.intp]
    keys: NDArray[np.int64]
    places: NDArray[np.intp]


def stretches(keys: NDArray[np.int64]) -> Stretches:
    """The stretches of cycles with these keys, at least one."""
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    found, places = np.unique(keys[starts], return_inverse=True)
    return Stretches(starts, np.diff(starts, append=len(keys)), found, places.reshape(-1))


def summed(cycles: Batch, found: Stretches, group: int) -> Batch:
    """Cycles by their keys.

    Args:
        cycles: `number`, `took_ns` and `unknown` of each.
        found: Their stretches.
        group: The place of their group.

    Returns:
        Of each key `group`, `key`, `cycles`, `total_ns`, `unknown`, `first_n` and `last_n`.
    """
    parts = {
        "cycles": found.lengths.astype(np.int64),
        "total_ns": np.add.reduceat(cycles["took_ns"], found.starts),
        "unknown": np.add.reduceat(cycles["unknown"], found.starts),
        "first_n": np.minimum.reduceat(cycles["number"], found.starts),
        "last_n": np.maximum.reduceat(cycles["number"], found.starts),
    }
    joined = _joined(parts, found.places, len(found.keys))
    return {"group": np.full(len(found.keys), group), "key": found.keys} | joined


class Known:
    """The cycles of a stretch of ids: by what the requests of each are counted.

    Args:
        length: How many ids.
    """

    def __init__(self, length: int) -> None:
        self._kinds = np.full(length, -1, dtype=np.int32)
        self._keys: list[tuple[int, int]] = []

    def note(self, at: NDArray[np.int64], found: Stretches, group: int) -> None:
        """Takes in cycles that count.

        Args:
            at: The places of their ids.
            found: Their stretches.
            group: The place of their group.
        """
        first = len(self._keys)
        self._kinds[at] = first + np.repeat(found.places, found.lengths)
        alike, timed = found.keys >> width(TIMED), found.keys & 1
        self._keys += [(group, key) for key in ((alike << 1) | timed).tolist()]

    def counted(self, at: NDArray[np.int64], what: NDArray[np.int64]) -> Batch:
        """Requests by `group`, `alike` (`OF_CYCLE`) and `what`: `rows` of each.

        Those of other cycles are left out.

        Args:
            at: The places of the ids of their cycles.
            what: The columns of each, packed.
        """
        every = self._kinds[at]
        here = every >= 0
        if not here.all():
            every, what = every[here], what[here]
        kinds, what, rows = _pairs(every.astype(np.int64), what)
        keys = np.array(self._keys, dtype=np.int64).reshape(-1, 2)[kinds]
        return {"group": keys[:, 0], "alike": keys[:, 1], "what": what, "rows": rows}


def _pairs(
    kinds: NDArray[np.int64], what: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Which pairs occur, and how often."""
    correct, rest = what >> _CORRECT_FROM, what & ((1 << _CORRECT_FROM) - 1)
    shape = [int(column.max(initial=0)) + 1 for column in (kinds, correct, rest)]
    if np.prod(shape, dtype=np.float64) > _MOST_BINS:
        wide = width(OF_ROW)
        pairs, rows = np.unique((kinds << wide) | what, return_counts=True)
        return pairs >> wide, pairs & ((1 << wide) - 1), rows.astype(np.int64)
    counts = np.bincount((kinds * shape[1] + correct) * shape[2] + rest)
    bins = np.flatnonzero(counts).astype(np.int64)
    pair, rest = np.divmod(bins, shape[2])
    kinds, correct = np.divmod(pair, shape[1])
    return kinds, (correct << _CORRECT_FROM) | rest, counts[bins].astype(np.int64)


def folded(parts: Sequence[Batch], packs: Mapping[str, Mapping[str, int]]) -> Batch:
    """Counts of several chunks put together: rows with the same key become one.

    Args:
        parts: Of each chunk, with `group`, the packed columns, and what is joined.
        packs: The packed columns, and what each holds.
    """
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    table = np.stack([joined.pop(key) for key in ("group", *packs)], axis=1)
    unique, places = np.unique(table, axis=0, return_inverse=True)
    found: Batch = {"group": unique[:, 0].copy()}
    for at, bits in enumerate(packs.values(), 1):
        found |= unpacked(unique[:, at], bits)
    return found | _joined(joined, places.reshape(-1), len(unique))


def _joined(columns: Batch, places: NDArray[np.intp], count: int) -> Batch:
    """Rows that fall into one put together: of `first_n` the lowest, of `last_n` the highest.

    All else is added up.
    """
    lowest, highest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    found: Batch = {}
    for name, column in columns.items():
        at_first = {"first_n": highest, "last_n": lowest}.get(name, 0)
        how = {"first_n": np.minimum, "last_n": np.maximum}.get(name, np.add)
        found[name] = np.full(count, at_first, dtype=np.int64)
        how.at(found[name], places, column)
    return found
