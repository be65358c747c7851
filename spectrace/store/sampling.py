"""Reads stretches of a run in full: its cycles, all of their ranks and phases, and requests."""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrace.measures import KINDS, LANES, MODES, NONE, PHASES
from spectrace.store.columns import Batch
from spectrace.store.counting import SOUND, SOUND_CYCLE, Group, code
from spectrace.store.database import Database
from spectrace.store.windows import Window

_LACKING = 1.5  # numbers for each cycle of a window that lacks many
_SOME = 0.05  # of the windows: fewer lack cycles that were lost
_EDGES = 2


class Tables(NamedTuple):
    """The sampled cycles, as in `Measures`."""

    cycles: Batch
    ranks: Batch
    phases: Batch
    rows: Batch
    rank_names: tuple[str, ...]
    request_ids: tuple[str, ...]


class Sampling:
    """Reads windows in full.

    Args:
        database: To which the files are attached.
        run_id: The run.
        groups: Its groups, by their places.
    """

    def __init__(self, database: Database, run_id: str, groups: Sequence[Group]) -> None:
        self._database = database
        self._run_id = run_id
        self._groups = groups

    def tables(self, windows: Sequence[Window]) -> Tables:
        """What the windows hold, each cycle in its newest version; at least one cycle."""
        parts = [
            part for number, window in enumerate(windows) for part in self._window(number, window)
        ]
        joined: dict[str, Batch] = {}
        for table in ("cycles", "ranks", "phases", "rows"):
            found = [part[table] for part in parts]
            joined[table] = {
                key: np.concatenate([np.asarray(batch[key]) for batch in found]) for key in found[0]
            }
        return _numbered(joined)

    def _window(self, number: int, window: Window) -> Iterator[dict[str, Batch]]:
        """The rows of a window from every file that holds newest versions of its cycles."""
        group = self._groups[window.group]
        newest: dict[int, tuple[int, str]] = {}
        for name, (first_n, last_n) in group.files.items():
            if last_n < window.first_n or window.last_n < first_n:
                continue
            columns = self._database.columns(
                f"SELECT number, max(id) AS id FROM {name}.cycles WHERE run_id = ? "
                f"AND group_name = ? AND number BETWEEN ? AND ? AND {SOUND_CYCLE} GROUP BY number",
                [self._run_id, group.name, window.first_n, window.last_n],
            )
            for n, key in zip(columns["number"].tolist(), columns["id"].tolist(), strict=True):
                if n not in newest or newest[n][0] < key:
                    newest[n] = key, name
        for name in dict.fromkeys(name for _, name in newest.values()):
            ids = sorted(key for key, place in newest.values() if place == name)
            yield {
                table: self._rows(
                    name, table, self._columns(name, table, number, window.group), ids
                )
                for table in ("cycles", "ranks", "phases", "rows")
            }

    def _rows(self, name: str, table: str, columns: str, ids: Sequence[int]) -> Batch:
        """Columns of the rows of some cycles, whose ids ascend."""
        query = (
            f"SELECT {columns} FROM {name}.{'requests' if table == 'rows' else table} "
            f"WHERE id BETWEEN ? AND ?{f' AND {SOUND}' if table == 'phases' else ''}"
        )
        if ids[-1] - ids[0] + 1 == len(ids):  # a list of them would take longer than the rest
            return self._database.columns(query, [ids[0], ids[-1]])
        query += " AND id IN (SELECT unnest(?::BIGINT[]))"
        return self._database.columns(query, [ids[0], ids[-1], list(ids)])

    def _columns(self, name: str, table: str, window: int, group: int) -> str:
        def known(of: str, column: str, otherwise: str = str(NONE)) -> str:
            if not self._database.has(name, of, column):
                return f"{otherwise} AS {column}"
            return f"coalesce({column}::BIGINT, {otherwise}) AS {column}"

        if table == "cycles":
            return (
                f'id, {window} AS "window", {group} AS "group", number, start_ns, end_ns, '
                f"{code('kind', [kind.value for kind in KINDS])} AS kind, steps, topk, "
                "draft_tokens, batch_size AS batch, has_requests, "
                f"{known('cycles', 'padded_batch')}, {known('cycles', 'context_tokens_sum')}, "
                f"{known('cycles', 'context_tokens_max')}, {known('cycles', 'queued')}, "
                f"{known('cycles', 'running')}"
            )
        if table == "ranks":
            return (
                "id, place, rank, start_ns, end_ns, "
                f"{code('mode', [mode.value for mode in MODES])} AS mode, probe_ns, ended_idle, "
                f"incomplete, {known('ranks', 'late_switch', '0')}, "
                f"{known('ranks', 'clock_error_ns')}, {known('ranks', 'device_incomplete', '0')}"
            )
        if table == "phases":
            return (
                f"id, rank_place AS place, {code('lane', [lane.value for lane in LANES])} "
                f"AS lane, {code('name', [phase.value for phase in PHASES])} AS phase, start_ns, "
                f"end_ns, of_cycle, {known('phases', 'graph')}"
            )
        return (
            f"id, request_id, coalesce(correct_drafts, {NONE}) AS correct, "
            "output_tokens AS delivered, overshoot, health_check"
        )


def _numbered(joined: dict[str, Batch]) -> Tables:
    """The tables with places of cycles in place of ids, and of names in place of these."""
    cycles = joined["cycles"]
    order = np.lexsort((cycles["number"], cycles["group"]))
    cycles = {key: column[order] for key, column in cycles.items()}
    ids = cycles.pop("id")
    ascending = np.argsort(ids)
    for table in ("ranks", "phases", "rows"):
        batch = joined[table]
        where = np.searchsorted(ids[ascending], batch.pop("id"))
        batch["cycle"] = ascending[where]
    ranks, phases, rows = (
        _sorted(joined[table], by)
        for table, by in (
            ("ranks", ("place", "cycle")),
            ("phases", ("start_ns", "lane", "place", "cycle")),
            ("rows", ("cycle",)),
        )
    )
    rank_names, ranks["rank"] = _coded(ranks["rank"])
    request_ids, rows["request"] = _coded(rows.pop("request_id"))
    for batch, flags in (
        (ranks, ("ended_idle", "incomplete", "late_switch", "device_incomplete")),
        (rows, ("overshoot", "health_check")),
    ):
        for key in flags:
            batch[key] = batch[key].astype(np.bool_)
    for new, old in (("context_sum", "context_tokens_sum"), ("context_max", "context_tokens_max")):
        cycles[new] = cycles.pop(old)
    first = ranks["place"] == 0
    cycles["mode"] = np.zeros(len(ids), dtype=np.int64)
    cycles["mode"][ranks["cycle"][first]] = ranks["mode"][first]
    cycles["timed"] = np.zeros(len(ids), dtype=np.bool_)
    cycles["timed"][ranks["cycle"][first]] = ~(
        ranks["incomplete"] | ranks["ended_idle"] | ranks["late_switch"]
    )[first]
    cycles["graph"] = _graph(phases, len(ids))
    return Tables(cycles, ranks, phases, rows, rank_names, request_ids)


def _coded(texts: NDArray[np.object_]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Each text once, in their order, and the place of every text among them.

    Of millions few differ: to sort them all would take ten times as long, and a GB.
    """
    every = texts.tolist()
    names = sorted(set(every))
    places = {name: place for place, name in enumerate(names)}
    found = np.fromiter(map(places.__getitem__, every), dtype=np.int64, count=len(every))
    return tuple(names), found


def _sorted(batch: Batch, by: tuple[str, ...]) -> Batch:
    order = np.lexsort([batch[key] for key in by])
    return {key: column[order] for key, column in batch.items()}


def _graph(phases: Batch, cycles: int) -> NDArray[np.int64]:
    """Whether the first rank's target model ran as a graph, by cycle."""
    target = [at for at, name in enumerate(PHASES) if name.value in {"verify.forward", "forward"}]
    here = (phases["place"] == 0) & np.isin(phases["phase"], target) & (phases["graph"] != NONE)
    found = np.full(cycles, NONE, dtype=np.int64)
    found[phases["cycle"][here]] = phases["graph"][here]
    return found


def is_sampled(cycles: Batch, windows: Sequence[Window]) -> bool:
    """Whether cycles are left out between others, in all of a run or in a part of it.

    Sampling may have been switched on for a while alone; where nobody traced there is a hole, which
    has two edges, and a few cycles are lost now and then.

    Args:
        cycles: Those in the windows.
        windows: At least one.
    """
    numbers = np.array([window.last_n - window.first_n + 1 for window in windows])
    found = np.bincount(cycles["window"], minlength=len(windows))
    each = numbers[found > 0] / found[found > 0]
    lacking = int((each > _LACKING).sum())
    some = max(_EDGES + 1, _SOME * len(each))
    return lacking > 0 and lacking >= min(some, len(each))
