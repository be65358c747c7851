"""Puts the columns of picked cycles together (`chosen.Chosen`) out of the rows of stretches."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.chosen import Choice, Columns, Part, Seen, Times
from spectrace.measures import KINDS, LANES, MODES, NONE, PHASES
from spectrace.model import CycleKind, Lane
from spectrace.store.columns import Batch

LANE_STEP = 64  # more than there are phases: a part is a lane times this and a phase
_BLOCKS = 25
_DECODING = (CycleKind.SPECULATIVE, CycleKind.DECODE)
_PARENTS = np.array(
    [
        NONE if name is None or name.parent is None else PHASES.index(name.parent)
        for _ in LANES
        for name in (*PHASES, *[None] * (LANE_STEP - len(PHASES)))
    ]
)
# How many bits each column of a row has; what would need more is as large as they allow.
_BITS = {"block": 5, "steps": 10, "topk": 9, "draft_tokens": 12, "correct": 13, "delivered": 13}
_SETTING = ("steps", "topk", "draft_tokens")
_OF_CYCLE = ("number", "start_ns", "took_ns", "batch", "steps")
_MOST_VALUES = 200  # that are offered; those of fewer cycles are not
_OLDEST = np.iinfo(np.int64).min
_NEWEST = np.iinfo(np.int64).max
_E = TypeVar("_E", bound=Enum)


class Columned(NamedTuple):
    """The columns of a `Chosen`."""

    cycles: Columns
    parts: dict[Part, Times]
    rows: Columns


def joined(parts: Sequence[Batch]) -> Batch:
    """The rows of several batches."""
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def where(columns: Batch, here: NDArray[Any]) -> Batch:
    """Some of the rows."""
    return {key: column[here] for key, column in columns.items()}


def newest(versions: Batch) -> Batch:
    """Of each cycle the version with the highest id, by number."""
    order = np.lexsort((-versions["id"], versions["number"]))
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = np.diff(versions["number"][order]) > 0
    return where(versions, order[first])


def settled(choice: Choice, every: Batch, ranks: tuple[str, ...]) -> tuple[Choice, Seen]:
    """The choice with what was left open, and what there is to choose from."""
    kinds = _counted(KINDS, every["kind"])
    decoding = {kind: kinds[kind] for kind in _DECODING if kind in kinds} or kinds
    kind = choice.kind or _most(decoding)
    of_kind = where(every, every["kind"] == _place(KINDS, kind))
    modes = _counted(MODES, of_kind["mode"])
    mode = choice.mode or _most(modes)
    of_mode = where(of_kind, of_kind["mode"] == _place(MODES, mode))
    seen = Seen(
        kinds=kinds,
        modes=modes,
        batches=_numbers(of_mode["batch"]),
        steps=_numbers(of_mode["steps"]),
        ranks=ranks,
    )
    rank = choice.rank or next(iter(ranks), None)
    return msgspec.structs.replace(choice, kind=kind, mode=mode, rank=rank), seen


def fitting(choice: Choice, every: Batch) -> NDArray[np.bool_]:
    """Which cycles are those of a settled choice."""
    fits = every["kind"] == _place(KINDS, choice.kind)
    fits &= every["mode"] == _place(MODES, choice.mode)
    for key, value in (("batch", choice.batch), ("steps", choice.steps)):
        if value is not None:
            fits &= every[key] == value
    return np.asarray(fits)


class Picked:
    """What was read of the picked cycles so far.

    Args:
        cycles: All of them, by number.

    Attributes:
        from_id: The lowest id up to which everything was read.
    """

    def __init__(self, cycles: Batch) -> None:
        self.from_id = int(_NEWEST)
        self._cycles = cycles
        self._order = np.argsort(cycles["id"])
        self._ids = cycles["id"][self._order]
        self._packed = _packed_settings(cycles)
        self._first_ns = np.full(len(self._ids), _NEWEST)
        self._last_ns = np.full(len(self._ids), _OLDEST)
        self._parts: dict[int, list[Times]] = {}
        self._rows: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def has_any(self, low: int, high: int) -> bool:
        """Whether any of the cycles has an id from `low` to `high`."""
        begin, end = np.searchsorted(self._ids, [low, high + 1])
        return bool(end > begin)

    def take(self, phases: Batch, rows: Batch) -> None:
        """Takes in the rows of a stretch; those of cycles that were not picked are left out.

        Args:
            phases: Of the chosen rank: `id`, `part`, `start_ns`, `end_ns`.
            rows: Requests verified: `id`, `correct`, `delivered`.
        """
        at, here = self._places(phases["id"])
        part, begun, ended = (phases[key][here] for key in ("part", "start_ns", "end_ns"))
        on_device = part >= LANE_STEP * LANES.index(Lane.DEVICE)
        np.minimum.at(self._first_ns, at[on_device], begun[on_device])
        np.maximum.at(self._last_ns, at[on_device], ended[on_device])
        above = _PARENTS[part]
        inside = above != NONE
        keys = np.concatenate([part, (part // LANE_STEP * LANE_STEP + above)[inside]])
        at = np.concatenate([at, at[inside]])
        took = np.concatenate([ended - begun, (ended - begun)[inside]])
        for key in np.unique(keys).tolist():
            these = keys == key
            places, index = np.unique(at[these], return_inverse=True)
            # Sums of whole ns are exact in floats: a sound phase takes less than 2^50 of them.
            sums = np.bincount(index.reshape(-1), weights=took[these]).astype(np.int64)
            self._parts.setdefault(key, []).append(Times(places, sums))
        self._take_rows(rows)

    def _take_rows(self, rows: Batch) -> None:
        at, here = self._places(rows["id"])
        packed = self._packed[at]
        for name in ("correct", "delivered"):
            packed = _pushed(packed, name, rows[name][here])
        self._rows.append(np.unique(packed, return_counts=True))

    def _places(self, ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Places of the cycles of some rows, and which of the rows are of picked cycles."""
        if not len(self._ids):
            return np.zeros(0, dtype=np.int64), np.zeros(len(ids), dtype=np.bool_)
        near = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        here = self._ids[near] == ids
        return self._order[near[here]], here

    def columns(self) -> Columned:
        """The columns of what was read; cycles with lower ids are left out."""
        kept = self._cycles["id"] >= self.from_id
        whole = kept & (self._last_ns != _OLDEST) & (self._cycles["device_incomplete"] == 0)
        device = {
            "first_ns": np.where(whole, self._first_ns, NONE),
            "last_ns": np.where(whole, self._last_ns, NONE),
            "error_ns": np.where(whole, self._cycles["error_ns"], NONE),
        }
        cycles = where({key: self._cycles[key] for key in _OF_CYCLE} | device, kept)
        moved = np.cumsum(kept) - 1
        parts: dict[Part, Times] = {}
        for key in sorted(self._parts):
            lane, phase = LANES[key // LANE_STEP], PHASES[key % LANE_STEP]
            times = _together(self._parts[key], whole if lane is Lane.DEVICE else kept)
            if len(times.at):
                parts[lane, phase] = Times(moved[times.at], times.took_ns)
        return Columned(cycles, parts, _folded(self._rows))


def _together(times: Sequence[Times], wanted: NDArray[np.bool_]) -> Times:
    """Those of wanted cycles, by place."""
    at, took_ns = (np.concatenate(columns) for columns in zip(*times, strict=True))
    order = np.argsort(at)
    order = order[wanted[at[order]]]
    return Times(at[order].astype(np.int32), took_ns[order])


def _folded(parts: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> Columns:
    """Counts of several stretches put together and unpacked."""
    packed = np.concatenate([np.zeros(0, dtype=np.int64), *(keys for keys, _ in parts)])
    counts = np.concatenate([np.zeros(0, dtype=np.int64), *(count for _, count in parts)])
    unique, places = np.unique(packed, return_inverse=True)
    sums = np.bincount(places.reshape(-1), weights=counts, minlength=len(unique))
    columns: Batch = {"rows": sums.astype(np.int64)}
    for name, bits in reversed(_BITS.items()):
        columns[name] = unique & ((1 << bits) - 1)
        unique = unique >> bits
    return columns


def _packed_settings(cycles: Batch) -> NDArray[Any]:
    """A number for each cycle that holds its block and its setting."""
    numbers = cycles["number"]
    span = int(numbers[-1] - numbers[0]) + 1 if len(numbers) else 1
    packed = np.zeros(len(numbers), dtype=np.int64)
    packed = _pushed(packed, "block", (numbers - numbers[:1]) // -(-span // _BLOCKS))
    for name in _SETTING:
        packed = _pushed(packed, name, cycles[name])
    return packed


def _pushed(packed: NDArray[Any], name: str, column: NDArray[Any]) -> NDArray[Any]:
    bits = _BITS[name]
    return np.asarray((packed << bits) | np.clip(column, 0, (1 << bits) - 1))


def _counted(values: Sequence[_E], places: NDArray[Any]) -> dict[_E, int]:
    counts = np.bincount(places, minlength=len(values)).tolist()
    return {value: count for value, count in zip(values, counts, strict=True) if count}


def _numbers(column: NDArray[Any]) -> dict[int, int]:
    values, counts = np.unique(column, return_counts=True)
    usual = np.sort(np.argsort(-counts, kind="stable")[:_MOST_VALUES])
    return dict(zip(values[usual].tolist(), counts[usual].tolist(), strict=True))


def _most(counts: dict[_E, int]) -> _E | None:
    return max(counts, key=lambda value: counts[value], default=None)


def _place(values: Sequence[_E], value: _E | None) -> int:
    return NONE if value is None else values.index(value)
