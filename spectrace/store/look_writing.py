"""Writes a look and the kernels that it saw into a slice, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from spectrace.kernels import Column, KernelLook, SeenKernels
from spectrace.store.columns import Batch, batch
from spectrace.store.database import KERNEL_ROWS, Database, Looked
from spectrace.store.schema import TABLES
from spectrace.store.shelf import Slice

_NAMES = 1000  # that are written at once; each may be long
_NUMBERS = ("number", "start_ns", "end_ns", "stream", "graph")


class _Piece(NamedTuple):
    """Kernels of one rank that follow each other: which rank, and from where to where."""

    rank: int
    first: int
    last: int


class LookRows:
    """The kernels of a look as rows of their table, those of the same cycles near each other.

    Args:
        kernels: Of each rank.

    Attributes:
        texts: By column all texts that are told by their places.
    """

    def __init__(self, kernels: Sequence[SeenKernels]) -> None:
        kernels = [one for one in kernels if len(one.start_ns)]
        self._kernels = kernels
        self._orders = [np.argsort(one.number, kind="stable") for one in kernels]
        named = {
            pair: place
            for place, pair in enumerate(
                dict.fromkeys(pair for one in kernels for pair in _named(one))
            )
        }
        phases = {
            text: place
            for place, text in enumerate(dict.fromkeys(p for one in kernels for p in one.phases))
        }
        self._names = [np.array([named[pair] for pair in _named(one)]) for one in kernels]
        self._phases = [np.array([phases[text] for text in one.phases]) for one in kernels]
        self._named = list(named)
        texts = {
            "phase": list(phases),
            "rank": [one.rank for one in kernels],
            "group_name": [one.group for one in kernels],
        }
        self.texts = {column: list(map(_clean, some)) for column, some in texts.items()}

    def names(self) -> Iterator[list[tuple[int, str, str]]]:
        """The names with their places and classes, some at a time."""
        for first in range(0, len(self._named), _NAMES):
            some = self._named[first : first + _NAMES]
            yield [
                (place, _clean(name), _clean(kind))
                for place, (name, kind) in enumerate(some, first)
            ]

    def parts(self) -> Iterator[Batch]:
        """The rows, as many at a time as can be written at once."""
        waiting: list[_Piece] = []
        room = KERNEL_ROWS
        for piece in self._pieces():
            left = piece
            while left.last - left.first >= room:
                split = left.first + room
                yield self._columns([*waiting, left._replace(last=split)])
                left, waiting, room = left._replace(first=split), [], KERNEL_ROWS
            if left.first < left.last:
                waiting.append(left)
                room -= left.last - left.first
        if waiting:
            yield self._columns(waiting)

    def _pieces(self) -> Iterator[_Piece]:
        """Rank by rank for stretches of cycles, with about as many as are written at once."""
        if not self._kernels:
            return
        counts = [np.unique(one.number, return_counts=True) for one in self._kernels]
        numbers, places = np.unique(
            np.concatenate([some for some, _ in counts]), return_inverse=True
        )
        each = np.bincount(places.reshape(-1), weights=np.concatenate([many for _, many in counts]))
        stretch = np.cumsum(each).astype(np.int64) // KERNEL_ROWS
        begins = numbers[np.flatnonzero(np.diff(stretch, prepend=-1))]
        edges = [
            [*np.searchsorted(one.number[order], begins).tolist(), len(order)]
            for one, order in zip(self._kernels, self._orders, strict=True)
        ]
        for place in range(len(begins)):
            for rank, of_rank in enumerate(edges):
                yield _Piece(rank, of_rank[place], of_rank[place + 1])

    def _columns(self, pieces: Sequence[_Piece]) -> Batch:
        columns: dict[str, list[Column]] = {}
        for rank, first, last in pieces:
            kernels, rows = self._kernels[rank], self._orders[rank][first:last]
            told = {
                **{column: getattr(kernels, column)[rows] for column in _NUMBERS},
                "kernel": self._names[rank][kernels.name[rows]],
                "phase": self._phases[rank][kernels.phase[rows]],
                "rank": np.full(len(rows), rank),
                "group_name": np.full(len(rows), rank),
            }
            for column, cells in told.items():
                columns.setdefault(column, []).append(cells)
        return {column: np.concatenate(some).astype(np.int64) for column, some in columns.items()}


class LookWriting(NamedTuple):
    """A look on its way into a slice.

    The look itself comes last: kernels without it count for nothing.

    Attributes:
        database: To which the slice is attached; all that is written is by its thread.
        held: The slice.
        place: Of the look among all that the store ever had.
        looked: When the look was, and at which run.
    """

    database: Database
    held: Slice
    place: int
    looked: Looked

    def write_kernels(self, rows: Batch, texts: Mapping[str, Sequence[str]]) -> None:
        """Writes some of `LookRows.parts`.

        Raises:
            duckdb.Error: The disk is full, or the file cannot be written.
        """
        alike: dict[str, str | int] = {"run_id": self.looked.run_id, "look": self.place}
        self.database.insert_told(f"{self.held.name}.kernels", rows, texts, alike)

    def write_names(self, names: Sequence[tuple[int, str, str]]) -> None:
        """Writes some of `LookRows.names`.

        Raises:
            duckdb.Error: The disk is full, or the file cannot be written.
        """
        rows = [(self.place, *name) for name in names]
        self.database.insert(self.held.name, {"kernel_names": batch(TABLES["kernel_names"], rows)})

    def write_look(self, look: KernelLook) -> None:
        """Writes the look.

        Raises:
            duckdb.Error: The disk is full, or the file cannot be written.
        """
        json = msgspec.json.encode(look).decode()
        row = (self.looked.run_id, self.place, self.looked.start_ns, self.looked.end_ns, json)
        self.database.insert(self.held.name, {"looks": batch(TABLES["looks"], [row])})


def _named(kernels: SeenKernels) -> list[tuple[str, str]]:
    """Names with their classes."""
    return list(zip(kernels.names, kernels.classes, strict=True))


def _clean(text: str) -> str:
    """A name without what is no Unicode: it comes from a server's memory, or from a trace."""
    return text.encode(errors="replace").decode()
