"""Reads from the files of a store what the statistics of a run rest on (`measures.Measures`)."""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrace.errors import SpectraceError
from spectrace.measures import (
    KINDS,
    LANES,
    MODES,
    NONE,
    PHASES,
    WARM_UP_CYCLES,
    LeftOut,
    Measures,
)
from spectrace.model import CycleKind, Run
from spectrace.store.columns import Batch
from spectrace.store.database import Database
from spectrace.store.windows import SAMPLE, Window, plan

BLOCKS = 200  # equal stretches of a group, for what changes over time
_CHUNK = 500_000  # ids that are counted at once
_SPARSE = 64  # numbers for each cycle, above which these are no count
_FEWEST = 25  # cycles of a block
_PHASE_ROWS = 3_000_000  # that are read at most, about
_COUNTED = ("group", "block", "kind", "steps", "topk", "draft_tokens", "batch")
_DECODING = tuple(KINDS.index(kind) for kind in (CycleKind.SPECULATIVE, CycleKind.DECODE))


class _Group(NamedTuple):
    """A group of ranks: its name and the numbers of its cycles."""

    name: str
    first_n: int
    last_n: int
    cycles: int


def measure(database: Database, names: Sequence[str], run: Run, sample: int = SAMPLE) -> Measures:
    """What the files hold of one run.

    Args:
        database: To which they are attached.
        names: As what, the oldest first.
        run: The run.
        sample: Of how many cycles the phases are read, about.

    Raises:
        SpectraceError: There are no cycles of this run.
    """
    return _Reading(database, names, run).measures(sample)


class _Reading:
    """The files of one run while they are read."""

    def __init__(self, database: Database, names: Sequence[str], run: Run) -> None:
        self._database = database
        self._names = names
        self._run = run
        self._groups = self._find_groups()
        if not self._groups:
            raise self._nothing()
        self._note_groups()

    def _nothing(self) -> SpectraceError:
        return SpectraceError(
            f"There are no cycles of the run {self._run.run_id[:8]} to report on, but for "
            "warm-up: record it while the server answers requests."
        )

    def measures(self, sample: int) -> Measures:
        counted, lines = [], []
        for name, low, high in self._chunks():
            self._note_superseded(name, low, high)
            counted.append(self._database.columns(self._cycles_query(name), [low, high]))
            lines.append(self._database.columns(self._rows_query(name), [low, high]))
        sums = ("cycles", "total_ns", "unknown")
        cycle_counts = _folded(counted, ("mode", "timed"), sums, numbered=True)
        unknown = cycle_counts.pop("unknown")[np.isin(cycle_counts["kind"], _DECODING)]
        row_counts, left = _told_apart(lines)
        if not len(cycle_counts["cycles"]):
            raise self._nothing()
        ranks = self._most_ranks()
        most = min(sample, max(1000, _PHASE_ROWS // (16 * ranks)))
        windows = plan(cycle_counts, most)
        read = _Sample(self._database, self._names, self._run.run_id, self._groups)
        tables = read.tables(windows)
        return Measures(
            run=self._run,
            groups=tuple(group.name for group in self._groups),
            rank_names=tables.rank_names,
            request_ids=tables.request_ids,
            cycle_counts=cycle_counts,
            row_counts=row_counts,
            cycles=tables.cycles,
            ranks=tables.ranks,
            phases=tables.phases,
            rows=tables.rows,
            left_out=LeftOut(
                warm_up_cycles=sum(min(WARM_UP_CYCLES, group.cycles) for group in self._groups),
                unknown_cycles=int(unknown.sum()),
                **left,
            ),
            numbers_step=_usual_step(tables.cycles),
        )

    def _find_groups(self) -> list[_Group]:
        found: dict[str, list[tuple[int, int, int]]] = {}
        for name in self._names:
            columns = self._database.columns(
                "SELECT group_name, min(number) AS first_n, max(number) AS last_n, "
                f"count(*) AS cycles FROM {name}.cycles WHERE run_id = ? GROUP BY group_name",
                [self._run.run_id],
            )
            for group, *span in zip(
                *(columns[key].tolist() for key in ("group_name", "first_n", "last_n", "cycles")),
                strict=True,
            ):
                found.setdefault(group, []).append((span[0], span[1], span[2]))
        return [
            _Group(
                group,
                min(span[0] for span in spans),
                max(span[1] for span in spans),
                sum(span[2] for span in spans),
            )
            for group, spans in sorted(found.items())
        ]

    def _note_groups(self) -> None:
        """Writes down where warm-up ends and how long a block is, for the counting queries."""
        rows = []
        for place, group in enumerate(self._groups):
            blocks = max(1, min(BLOCKS, group.cycles // _FEWEST))
            length = max(1, -(-(group.last_n - group.first_n + 1) // blocks))
            # The numbers of sampled cycles are far apart: the first ten are not the next ten.
            rows.append((place, group.name, self._warm_until(group), group.first_n, length))
        self._database.note("counted_groups", ("place", "name", "from_n", "first_n", "len"), rows)

    def _warm_until(self, group: _Group) -> int:
        """The number from which cycles count."""
        found: set[int] = set()
        for name in self._names:
            columns = self._database.columns(
                f"SELECT DISTINCT number FROM {name}.cycles "
                "WHERE run_id = ? AND group_name = ? AND number < ? ORDER BY number LIMIT ?",
                [self._run.run_id, group.name, group.first_n + 1000, WARM_UP_CYCLES + 1],
            )
            found.update(columns["number"].tolist())
        first = sorted(found)[: WARM_UP_CYCLES + 1]
        return first[-1] if len(first) > WARM_UP_CYCLES else first[-1] + 1

    def _chunks(self) -> Iterator[tuple[str, int, int]]:
        """Files and ids, the newest first, so that a newer version is met before an older one."""
        self._seen = {group.name: _Seen(group) for group in self._groups}
        for name in reversed(self._names):
            low, high = self._database.ids(name)
            for begin in range(high, low - 1, -_CHUNK):
                yield name, max(low, begin - _CHUNK + 1), begin

    def _note_superseded(self, name: str, low: int, high: int) -> None:
        """Notes which of these ids are older versions of cycles that come again later."""
        older: list[int] = []
        for group in self._groups:
            columns = self._database.columns(
                f"SELECT id, number FROM {name}.cycles "
                "WHERE run_id = ? AND group_name = ? AND id BETWEEN ? AND ?",
                [self._run.run_id, group.name, low, high],
            )
            older += self._seen[group.name].older(columns["id"], columns["number"])
        self._database.note("superseded", ("id",), [(key,) for key in older])

    def _chosen(self, name: str) -> str:
        """The cycles that count, of one range of ids; it is bound twice by what joins it."""
        run = self._run.run_id.replace("'", "''")
        return (
            "SELECT c.id, g.place AS group_place, (c.number - g.first_n) // g.len AS block, "
            f"{_code('c.kind', [kind.value for kind in KINDS])} AS kind, c.steps, c.topk, "
            "c.draft_tokens, c.batch_size AS batch, c.number, c.end_ns - c.start_ns AS took_ns, "
            f"c.has_requests FROM {name}.cycles c JOIN counted_groups g ON c.group_name = g.name "
            f"WHERE c.run_id = '{run}' AND c.number >= g.from_n AND c.id BETWEEN $1 AND $2 "
            "AND c.id NOT IN (SELECT id FROM superseded)"
        )

    def _cycles_query(self, name: str) -> str:
        late = "r.late_switch" if self._database.has(name, "ranks", "late_switch") else "false"
        return (
            'SELECT group_place AS "group", block, kind, steps, topk, draft_tokens, batch, '
            f"{_code('r.mode', [mode.value for mode in MODES])} AS mode, "
            f"NOT (r.incomplete OR r.ended_idle OR {late}) AS timed, count(*) AS cycles, "
            "sum(took_ns)::BIGINT AS total_ns, "
            "sum((NOT has_requests)::BIGINT)::BIGINT AS unknown, "
            "min(number) AS first_n, max(number) AS last_n "
            f"FROM ({self._chosen(name)}) c JOIN {name}.ranks r ON c.id = r.id "
            "WHERE r.place = 0 AND r.id BETWEEN $1 AND $2 GROUP BY ALL"
        )

    def _rows_query(self, name: str) -> str:
        """Counts the rows of requests."""
        return (
            'SELECT group_place AS "group", block, kind, steps, topk, draft_tokens, batch, '
            f"coalesce(r.correct_drafts, {NONE}) AS correct, "
            "r.output_tokens AS delivered, r.overshoot, r.health_check, count(*) AS rows "
            f"FROM ({self._chosen(name)}) c JOIN {name}.requests r ON c.id = r.id "
            "WHERE r.id BETWEEN $1 AND $2 GROUP BY ALL"
        )

    def _most_ranks(self) -> int:
        return max(1, len(self._run.ranks) // max(1, len(self._groups)))


def _code(column: str, words: Sequence[str]) -> str:
    """The place of a text in a list, in SQL; of none of them the last."""
    cases = " ".join(f"WHEN '{word}' THEN {place}" for place, word in enumerate(words))
    return f"CASE {column} {cases} ELSE {len(words) - 1} END"


class _Seen:
    """Which numbers of a group were met, from the newest version back.

    A bit for each number, as long as they are about as many as cycles; a sender can number its
    cycles as it likes.

    Args:
        group: The group.
    """

    def __init__(self, group: _Group) -> None:
        length = group.last_n - group.first_n + 1
        dense = length <= _SPARSE * group.cycles + _CHUNK
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
    parts: Sequence[Batch], keys: tuple[str, ...], sums: tuple[str, ...], *, numbered: bool
) -> Batch:
    """Counts of several chunks put together: rows with the same key become one."""
    names = _COUNTED + keys
    joined = {key: np.concatenate([np.asarray(part[key]) for part in parts]) for key in parts[0]}
    table = np.stack([joined[key].astype(np.int64) for key in names], axis=1)
    unique, places = np.unique(table, axis=0, return_inverse=True)
    places = places.reshape(-1)
    folded: Batch = {key: unique[:, at].copy() for at, key in enumerate(names)}
    for key in sums:
        folded[key] = np.zeros(len(unique), dtype=np.int64)
        np.add.at(folded[key], places, joined[key].astype(np.int64))
    if numbered:
        folded["first_n"] = np.full(len(unique), np.iinfo(np.int64).max)
        folded["last_n"] = np.full(len(unique), np.iinfo(np.int64).min)
        np.minimum.at(folded["first_n"], places, joined["first_n"])
        np.maximum.at(folded["last_n"], places, joined["last_n"])
        folded["timed"] = folded["timed"].astype(np.bool_)
    return folded


def _told_apart(parts: Sequence[Batch]) -> tuple[Batch, dict[str, int]]:
    """The rows that count, and how many do not."""
    keys = ("correct", "delivered", "overshoot", "health_check")
    every = _folded(parts, keys, ("rows",), numbered=False)
    health, over = every["health_check"] > 0, every["overshoot"] > 0
    counts = ~(health | over)
    left = {
        "health_check_rows": int(every["rows"][health].sum()),
        "overshoot_rows": int(every["rows"][over & ~health].sum()),
    }
    kept = (*_COUNTED, "correct", "delivered", "rows")
    return {key: every[key][counts] for key in kept}, left


class _Tables(NamedTuple):
    """The sampled cycles, as in `Measures`."""

    cycles: Batch
    ranks: Batch
    phases: Batch
    rows: Batch
    rank_names: tuple[str, ...]
    request_ids: tuple[str, ...]


class _Sample:
    """Reads windows in full."""

    def __init__(
        self, database: Database, names: Sequence[str], run_id: str, groups: Sequence[_Group]
    ) -> None:
        self._database = database
        self._names = names
        self._run_id = run_id
        self._groups = groups

    def tables(self, windows: Sequence[Window]) -> _Tables:
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
        newest: dict[int, tuple[int, str]] = {}
        for name in self._names:
            columns = self._database.columns(
                f"SELECT number, max(id) AS id FROM {name}.cycles WHERE run_id = ? "
                "AND group_name = ? AND number BETWEEN ? AND ? GROUP BY number",
                [
                    self._run_id,
                    self._groups[window.group].name,
                    window.first_n,
                    window.last_n,
                ],
            )
            for n, key in zip(columns["number"].tolist(), columns["id"].tolist(), strict=True):
                if n not in newest or newest[n][0] < key:
                    newest[n] = key, name
        for name in dict.fromkeys(name for _, name in newest.values()):
            ids = sorted(key for key, place in newest.values() if place == name)
            yield {
                table: self._database.columns(
                    f"SELECT {self._columns(name, table, number, window.group)} "
                    f"FROM {name}.{'requests' if table == 'rows' else table} "
                    "WHERE id BETWEEN ? AND ? AND id IN (SELECT unnest(?::BIGINT[]))",
                    [ids[0], ids[-1], ids],
                )
                for table in ("cycles", "ranks", "phases", "rows")
            }

    def _columns(self, name: str, table: str, window: int, group: int) -> str:
        def known(of: str, column: str, otherwise: str = str(NONE)) -> str:
            if not self._database.has(name, of, column):
                return f"{otherwise} AS {column}"
            return f"coalesce({column}::BIGINT, {otherwise}) AS {column}"

        if table == "cycles":
            return (
                f'id, {window} AS "window", {group} AS "group", number, start_ns, end_ns, '
                f"{_code('kind', [kind.value for kind in KINDS])} AS kind, steps, topk, "
                "draft_tokens, batch_size AS batch, has_requests, "
                f"{known('cycles', 'padded_batch')}, {known('cycles', 'context_tokens_sum')}, "
                f"{known('cycles', 'context_tokens_max')}, {known('cycles', 'queued')}, "
                f"{known('cycles', 'running')}"
            )
        if table == "ranks":
            return (
                "id, place, rank, start_ns, end_ns, "
                f"{_code('mode', [mode.value for mode in MODES])} AS mode, probe_ns, ended_idle, "
                f"incomplete, {known('ranks', 'late_switch', '0')}, "
                f"{known('ranks', 'clock_error_ns')}, {known('ranks', 'device_incomplete', '0')}"
            )
        if table == "phases":
            return (
                f"id, rank_place AS place, {_code('lane', [lane.value for lane in LANES])} "
                f"AS lane, {_code('name', [phase.value for phase in PHASES])} AS phase, start_ns, "
                f"end_ns, of_cycle, {known('phases', 'graph')}"
            )
        return (
            f"id, request_id, coalesce(correct_drafts, {NONE}) AS correct, "
            "output_tokens AS delivered, overshoot, health_check"
        )


def _numbered(joined: dict[str, Batch]) -> _Tables:
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
    rank_names, ranks["rank"] = np.unique(ranks["rank"].astype(str), return_inverse=True)
    request_ids, rows["request"] = np.unique(
        rows.pop("request_id").astype(str), return_inverse=True
    )
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
    return _Tables(
        cycles, ranks, phases, rows, tuple(rank_names.tolist()), tuple(request_ids.tolist())
    )


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


def _usual_step(cycles: Batch) -> int:
    same = (np.diff(cycles["window"]) == 0) & (np.diff(cycles["group"]) == 0)
    steps = np.diff(cycles["number"])[same]
    return int(np.median(steps)) if len(steps) else 1
