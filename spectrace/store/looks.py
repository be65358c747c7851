"""Reads the looks at the kernels of a run, and the kernels of one of its cycles."""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spectrace.kernels import Column, KernelLook, SeenKernels
from spectrace.store.columns import Batch
from spectrace.store.database import Database
from spectrace.store.shelf import Shelf, Slice

_HERE = "WHERE run_id = $1 AND group_name = $2 AND number = $3 AND look = $4"
# To hand over the texts of each row takes three times as long. Those of one cycle are some hundred,
# of which two have the same hash once in 10^14 cycles.
_KEY = "hash(rank, phase) AS key"
_NUMBERS = ("start_ns", "end_ns", "stream", "graph")


def looks(shelf: Shelf, run_id: str) -> list[KernelLook]:
    """As `CycleSource.looks`."""
    kept = shelf.looks(run_id)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, part in kept:
        places[part.name].append(place)
    found: dict[int, KernelLook] = {}
    for name, some in places.items():
        found |= shelf.database.looks(name, run_id, some)
    return [found[place] for place, _ in kept]


def kernels(shelf: Shelf, run_id: str, group: str, number: int) -> list[SeenKernels]:
    """As `CycleSource.kernels`."""
    version = shelf.version(run_id, group, number)
    if version is None:
        return []
    key, part = version
    ranks = shelf.database.columns(
        f"SELECT rank, start_ns, end_ns FROM {part.name}.ranks WHERE id = $1 ORDER BY place", [key]
    )
    for place, held in _seeing(shelf, run_id, ranks):
        found = _read(
            shelf.database, held.name, (run_id, group, number, place), ranks["rank"].tolist()
        )
        if found:
            return found
    return []


def _seeing(shelf: Shelf, run_id: str, ranks: Batch) -> list[tuple[int, Slice]]:
    """The looks that share time with a cycle, and where they are; the newest first."""
    if not len(ranks["rank"]):
        return []
    first_ns, last_ns = ranks["start_ns"].min(), ranks["end_ns"].max()
    return sorted(
        (
            (place, part)
            for place, part in shelf.looks(run_id)
            if part.looks[place].start_ns <= last_ns and part.looks[place].end_ns >= first_ns
        ),
        key=lambda one: -one[0],
    )


class _Coded(NamedTuple):
    """The kernels of a cycle as columns, with `rank`, `phase` and `name` as places in texts."""

    columns: Batch
    ranks: list[str]
    phases: list[str]
    named: list[tuple[str, str]]


def _read(
    database: Database, name: str, where: tuple[str, str, int, int], order: Sequence[str]
) -> list[SeenKernels]:
    """The kernels of a cycle in one look, rank by rank."""
    table = database.table(name, "kernels", _HERE)
    told = database.columns(f"SELECT DISTINCT rank, phase, {_KEY} FROM {table}", where)
    rows = database.columns(f"SELECT {', '.join(_NUMBERS)}, kernel, {_KEY} FROM {table}", where)
    kernels, which = np.unique(rows.pop("kernel"), return_inverse=True)
    rows["name"] = which.reshape(-1)
    coded = _coded(told, rows, order)._replace(named=_names(database, name, where[3], kernels))
    begins = coded.columns["rank"]
    edges = np.searchsorted(begins, np.arange(len(coded.ranks) + 1)).tolist()
    return [
        _of_rank(coded, slice(*edge), rank, where)
        for rank, edge in zip(coded.ranks, itertools.pairwise(edges), strict=True)
    ]


def _names(database: Database, name: str, look: int, kernels: Column) -> list[tuple[str, str]]:
    """The names of kernels with their classes.

    Raises:
        SpectraceError: One has none.
    """
    rows = database.columns(
        f"SELECT place, name, class FROM {database.table(name, 'kernel_names')} "
        "WHERE look = $1 AND place IN (SELECT unnest($2::BIGINT[]))",
        [look, kernels.tolist()],
    )
    named = dict(
        zip(rows["place"].tolist(), zip(rows["name"], rows["class"], strict=True), strict=True)
    )
    try:
        return [named[kernel] for kernel in kernels.tolist()]
    except KeyError as error:
        raise database.damaged("a kernel has no name") from error


def _coded(told: Batch, rows: Batch, order: Sequence[str]) -> _Coded:
    """Puts rows and texts together, by rank and begin; unknown ranks come last."""
    by_key = np.argsort(told["key"])
    text = by_key[np.searchsorted(told["key"], rows["key"], sorter=by_key)]
    known = {rank: place for place, rank in enumerate(order)}
    ranks = sorted(set(told["rank"]), key=lambda rank: (known.get(rank, len(known)), rank))
    phases = sorted(set(told["phase"]))
    columns = {column: rows[column].astype(np.int64) for column in (*_NUMBERS, "name")}
    columns["rank"] = _places(told["rank"].tolist(), ranks)[text]
    columns["phase"] = _places(told["phase"].tolist(), phases)[text]
    ordered = np.lexsort((columns["stream"], columns["start_ns"], columns["rank"]))
    return _Coded({column: cells[ordered] for column, cells in columns.items()}, ranks, phases, [])


def _of_rank(
    coded: _Coded, part: slice, rank: str, where: tuple[str, str, int, int]
) -> SeenKernels:
    own = {column: cells[part] for column, cells in coded.columns.items()}
    phases, phase = _used(own["phase"])
    names, name = _used(own["name"])
    return SeenKernels(
        rank=rank,
        group=where[1],
        number=np.full(len(phase), where[2], dtype=np.int64),
        phase=phase,
        name=name,
        phases=[coded.phases[one] for one in phases],
        names=[coded.named[one][0] for one in names],
        classes=[coded.named[one][1] for one in names],
        **{column: own[column] for column in _NUMBERS},
    )


def _places(cells: Sequence[str], among: Sequence[str]) -> Column:
    """The place of each among some others."""
    places = {one: place for place, one in enumerate(among)}
    return np.array([places[cell] for cell in cells], dtype=np.int64)


def _used(places: Column) -> tuple[list[int], Column]:
    """The places that occur, and for each row which of these it has."""
    used, which = np.unique(places, return_inverse=True)
    return used.tolist(), which.reshape(-1).astype(np.int64)
