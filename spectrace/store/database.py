"""Talks to DuckDB: one small instance to which the files of a store are attached."""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import duckdb
import msgspec
import numpy as np

from spectrace.errors import SpectraceError
from spectrace.kernels import KernelLook
from spectrace.model import Cycle, OtherSpan, Run
from spectrace.store import schema
from spectrace.store.columns import Batch, Row, batch, cycles_of, span_of
from spectrace.store.recent import GroupKey
from spectrace.store.source import Cut, OtherTrace, TraceKey

if TYPE_CHECKING:  # it takes long to import, and most readers need none of it
    from pyarrow import RecordBatch, RecordBatchReader

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "128MB",
    "wal_autocheckpoint": "2MB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "preserve_insertion_order": False,
}
_ROOMY: dict[str, str | bool | int | float | list[str]] = {
    "threads": 2,
    "memory_limit": "256MB",
    "preserve_insertion_order": True,  # of two threads as of one, and cheaper than to sort
}
_BLOCK_BYTES = 16_384  # DuckDB's smallest: a slice of a few seconds would fill few larger ones
_STORAGE = "v1.0.0"  # of DuckDB; newer releases read it, older ones read nothing that is newer
_ORDER = {
    "cycles": "id",
    "ranks": "id, place",
    "phases": "id, rank_place, place",
    "requests": "id, place",
    "spans": "place",
    "looks": "place",
    "kernel_names": "look, place",
}
_OF_CYCLES = ("cycles", "ranks", "phases", "requests")
_SPANS, _LOOKS, _KERNELS, _NAMES = "spans", "looks", "kernels", "kernel_names"
_OF_CYCLE = "run_id, group_name, number"
# What a receiver writes is whole and short; a file that somebody else made may hold anything.
_MOST_SHOWN = 256  # characters of a text
_DEFAULTS = {
    "VARCHAR": f"coalesce(left({{0}}, {_MOST_SHOWN}), '')",
    "BIGINT": "coalesce({0}, 0)",
    "BOOLEAN": "coalesce({0}, false)",
}
_SHOWN_SPAN = ", ".join(
    _DEFAULTS[column.type].format(column.name) for column in schema.TABLES[_SPANS]
)
# By cycle; overshoot and the server's own health checks are in no figure of acceptance.
_COUNTED_ROWS = (
    "SELECT id, sum(output_tokens) FILTER (NOT health_check) AS tokens, "
    "count(*) FILTER (counts) AS verifies, sum(correct_drafts) FILTER (counts) AS correct_drafts "
    "FROM (SELECT *, correct_drafts IS NOT NULL AND NOT overshoot AND NOT health_check AS counts "
    "FROM ({})) GROUP BY id"
)
KERNEL_ROWS = 122_880
"""As many kernels at most are written at once: a row group of DuckDB's, for the disk as it is."""
_NOT_OURS = "its tables are not those of spectrace"
# What DuckDB raises at bytes that nobody wrote: most of it is its own, some that of C++ below it.
_AT_DAMAGE = (duckdb.Error, RuntimeError, MemoryError, ValueError)
_FULL_DISK = ("No space left", "File too large", "Could not write", "Failed to write")

_T = TypeVar("_T")


class Span(msgspec.Struct, kw_only=True):
    """What one slice holds of one group.

    Attributes:
        cycles: Cycles, amended ones counted once.
        first_n: The lowest number.
        last_n: The highest number.
        first_ns: UNIX time in ns at which the oldest began.
        last_ns: UNIX time in ns at which the newest ended.
    """

    cycles: int
    first_n: int
    last_n: int
    first_ns: int
    last_ns: int


class Looked(NamedTuple):
    """When a look at the kernels of a run was, UNIX times in ns."""

    run_id: str
    start_ns: int
    end_ns: int


class Database:
    """The files of one directory, attached under names that we choose.

    Nothing outside the directory can be read or written through it, whatever a file says.
    It belongs to one thread.

    Args:
        directory: Where the files lie, an absolute path.
        roomy: Nobody waits for this process: it may take two cores and more memory.
        scratch: Another directory in which files may be made; it need not exist yet.
    """

    def __init__(
        self, directory: Path, *, roomy: bool = False, scratch: Path | None = None
    ) -> None:
        settings = _SETTINGS | (_ROOMY if roomy else {})
        self._connection = duckdb.connect(":memory:", config=settings)
        self._connection.execute(f"SET temp_directory = {_text(directory / 'spill')}")
        allowed = ", ".join(map(_text, filter(None, (directory, scratch))))
        self._connection.execute(f"SET allowed_directories = [{allowed}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._versions: dict[str, int] = {}
        self._directory = directory
        self._paths: dict[str, Path] = {}

    def create(self, path: Path, name: str) -> None:
        """Makes a new file with empty tables.

        Raises:
            duckdb.Error: The disk is full; no file is left.
        """
        try:
            self._connection.execute(
                f"ATTACH {_text(path)} AS {name} "
                f"(BLOCK_SIZE {_BLOCK_BYTES}, STORAGE_VERSION '{_STORAGE}')"
            )
            for statement in schema.create_statements(name):
                self._connection.execute(statement)
            self._connection.execute(f"CHECKPOINT {name}")
            self._versions[name] = schema.VERSION
            self._paths[name] = path
        except duckdb.Error:
            self._connection.execute(f"DETACH DATABASE IF EXISTS {name}")
            for file in (path, log_of(path)):
                file.unlink(missing_ok=True)
            raise

    def attach(self, path: Path, name: str, *, read_only: bool) -> None:
        """Opens an existing file, of this version of the format or of an older one.

        Raises:
            SpectraceError: It is in use, damaged, or none of spectrace's.
            KeyboardInterrupt: Somebody pressed Ctrl-C meanwhile.
        """
        option = " (READ_ONLY)" if read_only else ""
        try:
            with _interruptible():
                self._connection.execute(f"ATTACH {_text(path)} AS {name}{option}")
                version = self._version(name)
        except _AT_DAMAGE as error:
            raise SpectraceError(_why_not(path, error)) from error
        if version not in range(1, schema.VERSION + 1):
            raise SpectraceError(
                f"{path} has version {version} of the format and this spectrace reads up to "
                f"version {schema.VERSION}: use the spectrace that wrote it, or a newer one."
            )
        self._versions[name] = version
        self._paths[name] = path
        try:
            with _interruptible():
                self._check_columns(name)
        except _AT_DAMAGE as error:
            raise SpectraceError(_why_not(path, error)) from error

    def _version(self, name: str) -> Any:
        # A view in the place of a table would run what its author thought of.
        tables = {
            table
            for (table,) in self._connection.execute(
                "SELECT table_name FROM duckdb_tables() "
                "WHERE database_name = ? AND schema_name = 'main'",
                [name],
            ).fetchall()
        }
        if not tables >= {*schema.OTHER_TABLES, *_OF_CYCLES}:
            raise duckdb.CatalogException(_NOT_OURS)
        marks = self._connection.execute(f"SELECT name, version FROM {name}.format").fetchall()
        [(mark, version)] = marks or [("", 0)]
        if mark != schema.FORMAT:
            raise duckdb.CatalogException("it does not carry spectrace's mark")
        if isinstance(version, int):
            expected = {table for table in schema.TABLES if schema.has(version, table)}
            if not tables >= expected:
                raise duckdb.CatalogException(_NOT_OURS)
        return version

    def _check_columns(self, name: str) -> None:
        """Looks whether a file's columns are what those of its version are.

        DuckDB knows of each column whether it has any NULL, so that no row has to be read.
        """
        found = {
            (table, column): kind
            for table, column, kind in self._connection.execute(
                "SELECT table_name, column_name, data_type FROM duckdb_columns() "
                "WHERE database_name = ? AND schema_name = 'main'",
                [name],
            ).fetchall()
        }
        expected = [
            (table, column)
            for table, columns in (schema.TABLES | schema.OTHER_TABLES).items()
            for column in columns
            if column.since <= self._versions[name]
        ]
        for table, column in expected:
            kind = found.get((table, column.name))
            if kind != column.type:
                raise duckdb.CatalogException(
                    f"{table}.{column.name} is {kind or 'missing'} and should be {column.type}"
                )
        filled = [
            f"SELECT '{table}.{column.name}' FROM {name}.{table} WHERE {column.name} IS NULL"
            for table, column in expected
            if table != _SPANS and not column.nullable  # those of others are read with care
        ]
        empty = self._connection.execute(f"{' UNION ALL '.join(filled)} LIMIT 1").fetchall()
        if empty:
            raise duckdb.ConstraintException(f"{empty[0][0]} is NULL in a row")

    def detach(self, name: str) -> None:
        """Closes a file, with all that was written in it."""
        self._connection.execute(f"DETACH {name}")
        self._paths.pop(name, None)

    def checkpoint(self, name: str) -> None:
        """Moves what stands in the file's log into the file."""
        self._connection.execute(f"CHECKPOINT {name}")

    def insert(self, name: str, tables: Mapping[str, Batch]) -> None:
        """Adds rows to several tables, all of them or none.

        Raises:
            duckdb.Error: The disk is full, or the file cannot be written.
        """
        self._connection.execute("BEGIN")
        try:
            for table, columns in tables.items():
                self._insert(f"{name}.{table}", columns)
            self._connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(duckdb.TransactionException):  # its end may be what failed
                self._connection.execute("ROLLBACK")
            raise

    def _insert(self, table: str, columns: Batch) -> None:
        self._connection.register("batch", columns)
        try:
            self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
        finally:
            self._connection.unregister("batch")

    def insert_told(
        self,
        table: str,
        columns: Batch,
        texts: Mapping[str, Sequence[str]],
        alike: Mapping[str, str | int],
    ) -> None:
        """Adds rows whose texts are told by their places, all of them or none.

        A text that millions of rows have is so handed over once.

        Args:
            table: With the name of the file before it.
            columns: Whole numbers; where the column is one of `texts`, places in them.
            texts: Of some columns, as DuckDB can hold them.
            alike: What all rows have in common, by column.

        Raises:
            duckdb.Error: The disk is full, or the file cannot be written.
        """
        parameters = [*alike.values(), *map(list, texts.values())]
        numbered = [f"${place}" for place in range(1, len(parameters) + 1)]
        told = [f"{cell} AS {column}" for cell, column in zip(numbered, alike, strict=False)]
        # By its place in a list and not by a join, which need not keep the rows in order.
        told += [
            f"({cell}::VARCHAR[])[{column} + 1] AS {column}"
            for cell, column in zip(numbered[len(alike) :], texts, strict=True)
        ]
        numbers = [column for column in columns if column not in texts]
        self._connection.register("batch", columns)
        try:
            self._connection.execute(
                f"INSERT INTO {table} BY NAME SELECT {', '.join((*told, *numbers))} FROM batch",
                parameters,
            )
        finally:
            self._connection.unregister("batch")

    def put_runs(self, name: str, runs: Iterable[Run]) -> None:
        """Writes down what is known about runs; of a run that is there twice the last counts."""
        rows = [(run.run_id, msgspec.json.encode(run).decode()) for run in runs]
        if rows:
            self.insert(name, {"runs": batch(schema.OTHER_TABLES["runs"], rows)})

    def runs(self, name: str) -> list[Run]:
        """The runs in a file, each once, in the order in which they came.

        Raises:
            SpectraceError: The file is damaged.
        """
        rows = self._rows(f"SELECT run_id, json FROM {name}.runs ORDER BY rowid", [])
        newest: dict[str, str] = dict(rows)
        return [self._decoded(text, Run, "run") for text in newest.values()]

    def looked(self, name: str) -> dict[int, Looked]:
        """When the looks of a file were, by their places."""
        rows = self._rows(
            f"SELECT place, run_id, start_ns, end_ns FROM {self.table(name, _LOOKS)}", []
        )
        return {place: Looked(*values) for place, *values in rows}

    def looks(self, name: str, run_id: str, places: Collection[int]) -> dict[int, KernelLook]:
        """Looks of a file, by their places.

        Raises:
            SpectraceError: The file is damaged.
        """
        rows = self._rows(
            f"SELECT place, json FROM {self.table(name, _LOOKS)} "
            "WHERE run_id = $1 AND place IN (SELECT unnest($2::BIGINT[]))",
            [run_id, list(places)],
        )
        return {place: self._decoded(text, KernelLook, "look") for place, text in rows}

    def _decoded(self, text: str, kind: type[_T], what: str) -> _T:
        try:
            return msgspec.json.decode(text, type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise self.damaged(f"a {what} is none: {error}") from error

    def spans(self, name: str) -> dict[GroupKey, Span]:
        """What a file holds of each group."""
        rows = self._rows(
            "SELECT run_id, group_name, count(DISTINCT number), min(number), max(number), "
            f"min(start_ns), max(end_ns) FROM {name}.cycles GROUP BY ALL ORDER BY min(id)",
            [],
        )
        fields = ("cycles", "first_n", "last_n", "first_ns", "last_ns")
        return {
            (run_id, group): Span(**dict(zip(fields, values, strict=True)))
            for run_id, group, *values in rows
        }

    def last_id(self, name: str) -> int:
        """The highest id in a file, -1 if it is empty."""
        [(last,)] = self._rows(f"SELECT coalesce(max(id), -1) FROM {name}.cycles", [])
        return int(last)

    def stretches(self, name: str, most: int) -> Iterator[tuple[int, int]]:
        """Stretches of ids of a file, the highest first, that have all of its cycles.

        Ids may lie as far apart as whoever wrote the file liked: of a hole none are given.

        Args:
            name: The file.
            most: Ids of a stretch.

        Returns:
            The lowest and the highest id of each.
        """
        [(low, high)] = self._rows(f"SELECT min(id), max(id) FROM {name}.cycles", [])
        while high is not None:
            begin = max(low, high - most + 1)
            yield begin, high
            high = self._highest_id(name, begin)

    def _highest_id(self, name: str, below: int) -> int | None:
        """The highest id in a file that is less than another one; None if there is none."""
        # Almost always it is the next, which is found without looking at all of them.
        for query in (
            "SELECT id FROM {} WHERE id = $1 - 1",
            "SELECT max(id) FROM {} WHERE id < $1",
        ):
            found = self._rows(query.format(f"{name}.cycles"), [below])
            if found and found[0][0] is not None:
                return int(found[0][0])
        return None

    def has(self, name: str, table: str, column: str) -> bool:
        """Whether a file has a column of a table: an older one may lack it."""
        since = {one.name: one.since for one in schema.TABLES[table]}[column]
        return since <= self._versions[name]

    def table(self, name: str, table: str, where: str = "") -> str:
        """A table of a file for a FROM; an older file that lacks it has no rows of it.

        Args:
            name: The file.
            table: One of `schema.TABLES`.
            where: A WHERE of SQL, for some of its rows.
        """
        if schema.has(self._versions[name], table):
            return f"(SELECT {self._selection(name, table)} FROM {name}.{table} {where})"
        return f"(SELECT {self._selection(name, table)} WHERE false)"

    def columns(self, query: str, parameters: Sequence[Any]) -> Batch:
        """What a query gives, column by column.

        Raises:
            SpectraceError: A file is damaged, or NULL is among it.
        """
        with self._reading():
            columns = dict(self._connection.execute(query, parameters).fetchnumpy())
        for column, cells in columns.items():
            if np.ma.is_masked(cells):
                raise self.damaged(f"{column} is NULL in a row")
        return columns

    def note(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> None:
        """Makes a table of rows for the queries that follow, in place of one of that name.

        Args:
            table: Its name; files are not touched.
            columns: Names of the columns; the one called `name` holds text, the others whole
                numbers.
            rows: The rows.
        """
        types = ", ".join(
            f"{column} {'VARCHAR' if column == 'name' else 'BIGINT'}" for column in columns
        )
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({types})")
        if rows:
            kinds = [schema.Column(c, "VARCHAR" if c == "name" else "BIGINT") for c in columns]
            self._insert(f"temp.{table}", batch(kinds, rows))

    def last_place(self, name: str) -> int:
        """The highest place of a span of others in a file, -1 if there is none."""
        [(last,)] = self._rows(
            f"SELECT coalesce(max(place), -1) FROM {self.table(name, _SPANS)}", []
        )
        return int(last)

    def last_look(self, name: str) -> int:
        """The highest place of a look in a file, also of one of which kernels alone are there."""
        [(last,)] = self._rows(
            f"SELECT coalesce(max(place), -1) FROM (SELECT place FROM {self.table(name, _LOOKS)} "
            f"UNION ALL SELECT look FROM {self.table(name, _KERNELS)} "
            f"UNION ALL SELECT look FROM {self.table(name, _NAMES)})",
            [],
        )
        return int(last)

    def last_span_ns(self, name: str) -> int:
        """UNIX time in ns at which the last span of others in a file ended, 0 if there is none."""
        [(last,)] = self._rows(
            f"SELECT coalesce(max(end_ns), 0) FROM {self.table(name, _SPANS)}", []
        )
        return int(last)

    def other_spans(self, name: str, above: int, limit: int) -> list[OtherSpan]:
        """The `limit` last spans of others in a file that have places above `above`, by these."""
        query = (
            f"SELECT {_SHOWN_SPAN} FROM {self.table(name, _SPANS)} WHERE place > ? "
            "ORDER BY place DESC LIMIT ?"
        )
        return [span_of(row) for row in reversed(self._rows(query, [above, limit]))]

    def other_traces(
        self, names: Sequence[str], before: TraceKey, limit: int, spans: int
    ) -> list[OtherTrace]:
        """The traces of several files as `CycleSource.other_traces` gives them."""
        if not names:
            return []
        every = " UNION ALL ".join(f"SELECT * FROM {self.table(name, _SPANS)}" for name in names)
        keys = self._rows(
            f"SELECT trace_id, min(start_ns) AS first_ns FROM ({every}) "
            "WHERE start_ns >= 0 AND length(trace_id) = 32 GROUP BY trace_id "
            "HAVING (first_ns < $1 OR (first_ns = $1 AND trace_id < $2)) "
            "AND regexp_full_match(trace_id, '[0-9a-f]+') "
            "ORDER BY first_ns DESC, trace_id DESC LIMIT $3",
            [*before, limit],
        )
        chosen = f"({every}) WHERE trace_id IN (SELECT unnest($1::VARCHAR[]))"
        ids = [trace_id for trace_id, _ in keys]
        sums = {
            trace_id: values
            for trace_id, *values in self._rows(
                "SELECT trace_id, coalesce(max(end_ns), 0), coalesce(bool_or(failed), false), "
                f"count(DISTINCT span_id) FROM {chosen} GROUP BY trace_id",
                [ids],
            )
        }
        found: dict[str, list[OtherSpan]] = {trace_id: [] for trace_id in ids}
        for row in self._rows(
            f"SELECT {_SHOWN_SPAN} FROM {chosen} QUALIFY row_number() OVER "
            "(PARTITION BY trace_id ORDER BY parent_id <> '', place) <= $2 ORDER BY place",
            [ids, spans],
        ):
            span = span_of(row)
            found[span.trace_id].append(span)
        return [
            OtherTrace(
                trace_id=trace_id,
                first_ns=first_ns,
                last_ns=sums[trace_id][0],
                failed=sums[trace_id][1],
                count=sums[trace_id][2],
                spans=found[trace_id],
            )
            for trace_id, first_ns in keys
        ]

    def versions(self, name: str, key: GroupKey, below: int, limit: int) -> list[tuple[int, int]]:
        """Numbers below `below` and the id of their newest version, the highest number first."""
        return self._rows(
            f"SELECT number, max(id) FROM {name}.cycles "
            "WHERE run_id = ? AND group_name = ? AND number < ? "
            "GROUP BY number ORDER BY number DESC LIMIT ?",
            [*key, below, limit],
        )

    def version(self, name: str, key: GroupKey, number: int) -> int | None:
        """The id of the newest version of one cycle."""
        [(found,)] = self._rows(
            f"SELECT max(id) FROM {name}.cycles WHERE run_id = ? AND group_name = ? AND number = ?",
            [*key, number],
        )
        return None if found is None else int(found)

    def load(self, name: str, ids: Collection[int]) -> dict[int, Cycle]:
        """The cycles with these ids.

        Raises:
            SpectraceError: The file is damaged.
        """
        if not ids:
            return {}
        bounds = [min(ids), max(ids), list(ids)]
        rows = {
            table: self._rows(
                # The bounds let DuckDB skip all blocks but the few that hold the rows.
                f"SELECT {self._selection(name, table)} FROM {name}.{table} "
                "WHERE id BETWEEN ? AND ? "
                f"AND id IN (SELECT unnest(?::BIGINT[])) ORDER BY {_ORDER[table]}",
                bounds,
            )
            for table in _OF_CYCLES
        }
        try:
            return cycles_of(rows)
        except KeyError as error:
            raise self.damaged("a cycle has no ranks") from error
        except ValueError as error:  # a word of a newer version, or of nobody
            raise self.damaged(str(error)) from error

    def copy_newest(self, names: Sequence[str], target: str) -> None:
        """Copies all of several files: every cycle in its newest version, and every span once."""
        if not names:
            return
        self.note_newest(names)
        for name in names:
            for table in _OF_CYCLES:
                self._copy(name, table, target)
            for low, high in self.kernel_stretches(name):
                self.copy_kernels(name, target, low, high)
            self.copy_others(name, target)

    def copy_stretch(self, name: str, target: str, low: int, high: int) -> None:
        """Copies the cycles of a file that were noted and have these ids, both of them included."""
        for table in _OF_CYCLES:
            self._copy(name, table, target, f"WHERE id BETWEEN {low} AND {high}")

    def kernel_stretches(self, name: str) -> list[tuple[int, int]]:
        """Stretches of rows of a file that have all kernels of the looks that were noted.

        Returns:
            The first and the last row of each; none where no look was noted.
        """
        if not self._rows("SELECT 1 FROM temp.noted_looks WHERE file = $1 LIMIT 1", [name]):
            return []
        [(last,)] = self._rows(f"SELECT coalesce(max(rowid), -1) FROM {name}.{_KERNELS}", [])
        return [(first, first + KERNEL_ROWS - 1) for first in range(0, int(last) + 1, KERNEL_ROWS)]

    def copy_kernels(self, name: str, target: str, low: int, high: int) -> None:
        """Copies the kernels of a file that were noted, of one of its `kernel_stretches`."""
        rows = (
            f"(SELECT {self._selection(name, _KERNELS)}, rowid AS row FROM {name}.{_KERNELS} "
            f"WHERE rowid BETWEEN {low} AND {high})"
        )
        self._connection.execute(
            f"INSERT INTO {target}.{_KERNELS} SELECT * EXCLUDE (row) "
            f"FROM {rows} {self._noted(name, 'look')} SEMI JOIN noted_kernels USING ({_OF_CYCLE}) "
            "ORDER BY row"
        )

    def copy_others(self, name: str, target: str) -> None:
        """Copies the spans of others and the looks of a file that were noted."""
        for table in (_SPANS, _LOOKS, _NAMES):
            self._copy(name, table, target)

    def _copy(self, name: str, table: str, target: str, where: str = "") -> None:
        order = _ORDER[table]
        self._connection.execute(
            f"INSERT INTO {target}.{table} {self._newest_of(name, table, where)} ORDER BY {order}"
        )

    def note_newest(
        self, names: Sequence[str], limit: int | None = None, cut: Cut | None = None
    ) -> int:
        """Notes the newest version of every cycle of several files, for what reads them next.

        And every span of others, once; and the looks that share any time with these cycles, with
        the kernels of these cycles.

        Args:
            names: The files.
            limit: As many at most, the oldest cycles first, and of spans what began by then.
            cut: A part of them; None for all.

        Returns:
            How many there are.
        """
        every = " UNION ALL ".join(
            f"SELECT run_id, group_name, number, id, start_ns, end_ns, {place} AS file "
            f"FROM {name}.cycles"
            for place, name in enumerate(names)
        )
        self._rows(
            "CREATE OR REPLACE TEMP TABLE newest AS "
            "SELECT max(id) AS id, arg_max(start_ns, id) AS start_ns, arg_max(file, id) AS file, "
            f"arg_max(end_ns, id) AS end_ns FROM ({every}) WHERE coalesce(run_id = $1, true) "
            "GROUP BY run_id, group_name, number "
            "HAVING coalesce(arg_max(end_ns, id) > $2, true) "
            "AND coalesce(arg_max(start_ns, id) < $3, true) ORDER BY start_ns, id LIMIT $4",
            [*_bounds(cut), limit],
        )
        self._note_spans(names, *self._span_bounds(limit, cut))
        self._note_looks(names)
        [(count,)] = self._rows("SELECT count(*) FROM temp.newest", [])
        return int(count)

    def _span_bounds(self, limit: int | None, cut: Cut | None) -> tuple[int | None, int | None]:
        """When spans of others end at the earliest and begin at the latest that go with cycles."""
        [(start_ns, last_start_ns, end_ns)] = self._rows(
            "SELECT min(start_ns), max(start_ns), max(end_ns) FROM temp.newest", []
        )
        if cut is None:
            return None, (None if limit is None else last_start_ns)
        return (
            start_ns if cut.first_ns is None else cut.first_ns,
            end_ns if cut.last_ns is None else cut.last_ns,
        )

    def _note_spans(self, names: Sequence[str], since_ns: int | None, until_ns: int | None) -> None:
        every = " UNION ALL ".join(
            f"SELECT trace_id, span_id, place, start_ns, end_ns FROM {self.table(name, _SPANS)}"
            for name in names
        )
        self._rows(
            "CREATE OR REPLACE TEMP TABLE noted_spans AS SELECT min(place) AS place "
            f"FROM ({every}) WHERE ($1 IS NULL OR end_ns >= $1) "
            "AND ($2 IS NULL OR start_ns <= $2) GROUP BY trace_id, span_id",
            [since_ns, until_ns],
        )

    def _note_looks(self, names: Sequence[str]) -> None:
        looks = " UNION ALL ".join(
            f"SELECT run_id, place, start_ns, end_ns, '{name}' AS file "
            f"FROM {self.table(name, _LOOKS)}"
            for name in names
        )
        cycles = " UNION ALL ".join(
            f"SELECT {_OF_CYCLE}, start_ns, end_ns FROM {name}.cycles SEMI JOIN newest USING (id)"
            for name in names
        )
        kernels = " UNION ALL ".join(
            f"SELECT {_OF_CYCLE} FROM {self.table(name, _KERNELS)} "
            "SEMI JOIN noted_looks ON look = place"
            for name in names
        )
        # Few files have looks, and to go through all cycles once more takes its time.
        any_look = bool(self._rows(f"SELECT 1 FROM ({looks}) LIMIT 1", []))
        self._rows(
            "CREATE OR REPLACE TEMP TABLE noted_looks AS "
            f"SELECT place, min(file) AS file FROM ({looks}) JOIN ("
            "SELECT run_id, min(start_ns) AS first_ns, max(end_ns) AS last_ns "
            f"FROM ({cycles}) WHERE $1 GROUP BY run_id) USING (run_id) "
            "WHERE end_ns >= first_ns AND start_ns <= last_ns GROUP BY place",
            [any_look],
        )
        self._rows(
            f"CREATE OR REPLACE TEMP TABLE noted_kernels AS SELECT DISTINCT {_OF_CYCLE} "
            f"FROM ({cycles}) SEMI JOIN (SELECT DISTINCT {_OF_CYCLE} FROM ({kernels})) seen "
            f"USING ({_OF_CYCLE}) WHERE $1",
            [any_look],
        )

    def stream_newest(self, names: Sequence[str], chunk: int) -> Iterator[Cycle]:
        """The cycles that were noted, by their starts; `chunk` of them are in memory at once."""
        columns = self.columns("SELECT id, file FROM temp.newest ORDER BY start_ns, id", [])
        for first in range(0, len(columns["id"]), chunk):
            ids, files = (columns[key][first : first + chunk].tolist() for key in ("id", "file"))
            cycles: dict[int, Cycle] = {}
            for place in set(files):
                here = [key for key, file in zip(ids, files, strict=True) if file == place]
                cycles |= self.load(names[place], here)
            yield from (cycles[key] for key in ids)

    def read_newest(self, names: Sequence[str], table: str, rows: int) -> RecordBatchReader:
        """A table's rows of what was noted, as Arrow, `rows` of them at a time.

        Nothing else may be asked of the database until the reader is at its end.
        """
        import pyarrow as pa  # noqa: PLC0415 - takes long, and most readers need none of it

        every = " UNION ALL ".join(self._newest_of(name, table) for name in names)
        with self._reading():
            reader: RecordBatchReader = self._connection.sql(every).to_arrow_reader(rows)

        def batches() -> Iterator[RecordBatch]:
            while True:
                with self._reading():
                    batch = next(reader, None)
                if batch is None:
                    return
                yield batch

        return pa.RecordBatchReader.from_batches(reader.schema, batches())

    def served_of_newest(self, names: Sequence[str]) -> Batch:
        """Of every cycle that was noted its time and what it gave to requests, by their ends."""
        every = " UNION ALL ".join(
            "SELECT c.*, r.mode, r.probe_ns, r.ended_idle, r.incomplete, "
            "coalesce(q.tokens, 0) AS tokens, coalesce(q.verifies, 0) AS verifies, "
            "coalesce(q.correct_drafts, 0) AS correct_drafts "
            f"FROM ({self._newest_of(name, 'cycles')}) c "
            f"JOIN ({self._newest_of(name, 'ranks')}) r ON r.id = c.id AND r.place = 0 "
            f"LEFT JOIN ({_COUNTED_ROWS.format(self._newest_of(name, 'requests'))}) q "
            "ON q.id = c.id"
            for name in names
        )
        return self.columns(
            "SELECT group_name, kind, batch_size, steps, topk, draft_tokens, start_ns, end_ns, "
            "mode, probe_ns, ended_idle, incomplete, tokens::BIGINT AS tokens, verifies, "
            f"correct_drafts::BIGINT AS correct_drafts FROM ({every}) ORDER BY end_ns",
            [],
        )

    def count_newest(self, names: Sequence[str], table: str) -> int:
        """How many rows of a table belong to what was noted."""
        every = " UNION ALL ".join(self._newest_of(name, table) for name in names)
        [(count,)] = self._rows(f"SELECT count(*) FROM ({every})", [])
        return int(count)

    def first_ns_of_newest(self, names: Sequence[str]) -> int:
        """UNIX time in ns at which the first rank or phase of what was noted began; 0 or more."""
        every = " UNION ALL ".join(
            f"SELECT start_ns FROM ({self._newest_of(name, table)})"
            for table in ("ranks", "phases")
            for name in names
        )
        [(first,)] = self._rows(
            f"SELECT coalesce(min(start_ns), 0) FROM ({every}) WHERE start_ns >= 0", []
        )
        return int(first)

    def _newest_of(self, name: str, table: str, where: str = "") -> str:
        if table == _SPANS:
            return f"SELECT * FROM {self.table(name, _SPANS)} SEMI JOIN noted_spans USING (place)"
        if table in {_LOOKS, _NAMES}:
            column = "place" if table == _LOOKS else "look"
            return f"SELECT * FROM {self.table(name, table)} {self._noted(name, column)}"
        if table == _KERNELS:
            return (
                f"SELECT * FROM {self.table(name, table)} {self._noted(name, 'look')} "
                f"SEMI JOIN noted_kernels USING ({_OF_CYCLE})"
            )
        newest = f"(SELECT id FROM newest {where}) newest" if where else "newest"
        return (
            f"SELECT {self._selection(name, table)} FROM {name}.{table} "
            f"SEMI JOIN {newest} USING (id) {where}"
        )

    def _noted(self, name: str, column: str) -> str:
        """Keeps the rows of a file alone whose column has the place of a look that was noted."""
        return (
            f"SEMI JOIN (SELECT place AS {column} FROM noted_looks WHERE file = '{name}') looked "
            f"USING ({column})"
        )

    def _selection(self, name: str, table: str) -> str:
        return schema.selection(table, self._versions[name])

    def _rows(self, query: str, parameters: list[Any]) -> list[Row]:
        with self._reading():
            return self._connection.execute(query, parameters).fetchall()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """All reads go through here: what a damaged file does to them becomes a sentence.

        Raises:
            SpectraceError: A file is damaged, or there is no room on the disk to read it.
            KeyboardInterrupt: Somebody pressed Ctrl-C meanwhile.
        """
        try:
            with _interruptible():
                yield
        except duckdb.OutOfMemoryException as error:
            raise SpectraceError(
                f"What was asked of the store does not fit into {_SETTINGS['memory_limit']}: one "
                "of its files is damaged, or none that spectrace wrote."
            ) from error
        except (*_AT_DAMAGE, OSError) as error:  # OSError is what Arrow makes of them
            reason = _first_line(error)
            if any(words in reason for words in _FULL_DISK):
                raise SpectraceError(
                    f"{self._whose()} cannot be read, since there is no room beside it "
                    f"({reason}): make room on that disk."
                ) from error
            raise self.damaged(reason) from error

    def damaged(self, reason: str) -> SpectraceError:
        """What is to be raised where a file holds what spectrace does not write."""
        return SpectraceError(
            f"{self._whose()} is damaged ({reason}): choose another file, or delete it."
        )

    def _whose(self) -> str:
        paths = list(self._paths.values())
        return str(paths[0]) if len(paths) == 1 else f"One of the files in {self._directory}"

    def close(self) -> None:
        """Closes all files."""
        self._connection.close()


def _bounds(cut: Cut | None) -> tuple[str | None, int | None, int | None]:
    return (None, None, None) if cut is None else (cut.run_id, cut.first_ns, cut.last_ns)


def log_of(path: Path) -> Path:
    """DuckDB's write-ahead log beside a file."""
    return path.with_name(path.name + ".wal")


def _text(value: Path) -> str:
    return "'" + str(value).replace("'", "''") + "'"


@contextmanager
def _interruptible() -> Iterator[None]:
    """Lets Ctrl-C during a query end it as it ends anything else: DuckDB has its own errors."""
    try:
        yield
    except duckdb.InterruptException as error:
        raise KeyboardInterrupt from error
    except (RuntimeError, OSError) as error:  # OSError where Arrow asked
        if "Query interrupted" in str(error) or "INTERRUPT Error" in str(error):
            raise KeyboardInterrupt from error
        raise


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _why_not(path: Path, error: Exception) -> str:
    reason = _first_line(error)
    if "lock on file" in reason:
        return f"{path} is in use by another process: ask its owner, or wait until it has ended."
    if not path.exists():
        return f"There is no file {path}."
    return (
        f"{path} is no recording of spectrace, or it is damaged ({reason}): "
        "choose another file, or delete it."
    )
