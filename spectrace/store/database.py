"""Talks to DuckDB: one small instance to which the files of a store are attached."""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import msgspec

from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Run
from spectrace.store import schema
from spectrace.store.columns import Batch, Row, batch, cycles_of
from spectrace.store.recent import GroupKey

_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "memory_limit": "128MB",
    "wal_autocheckpoint": "2MB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "preserve_insertion_order": False,
}
_BLOCK_BYTES = 16_384  # DuckDB's smallest: a slice of a few seconds would fill few larger ones
_ORDER = {
    "cycles": "id",
    "ranks": "id, place",
    "phases": "id, rank_place, place",
    "requests": "id, place",
}


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


class Database:
    """The files of one directory, attached under names that we choose.

    Nothing outside the directory can be read or written through it, whatever a file says.
    It belongs to one thread.

    Args:
        directory: Where the files lie, an absolute path.
    """

    def __init__(self, directory: Path) -> None:
        self._connection = duckdb.connect(":memory:", config=_SETTINGS)
        self._connection.execute(f"SET temp_directory = {_text(directory / 'spill')}")
        self._connection.execute(f"SET allowed_directories = [{_text(directory)}]")
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")

    def create(self, path: Path, name: str) -> None:
        """Makes a new file with empty tables.

        Raises:
            duckdb.Error: The disk is full; no file is left.
        """
        try:
            self._connection.execute(f"ATTACH {_text(path)} AS {name} (BLOCK_SIZE {_BLOCK_BYTES})")
            for statement in schema.create_statements(name):
                self._connection.execute(statement)
            self._connection.execute(f"CHECKPOINT {name}")
        except duckdb.Error:
            self._connection.execute(f"DETACH DATABASE IF EXISTS {name}")
            for file in (path, log_of(path)):
                file.unlink(missing_ok=True)
            raise

    def attach(self, path: Path, name: str, *, read_only: bool) -> None:
        """Opens an existing file.

        Raises:
            SpectraceError: It is in use, damaged, or none of spectrace's.
        """
        option = " (READ_ONLY)" if read_only else ""
        try:
            self._connection.execute(f"ATTACH {_text(path)} AS {name}{option}")
            version = self._version(name)
        except duckdb.Error as error:
            raise SpectraceError(_why_not(path, error)) from error
        if version != schema.VERSION:
            raise SpectraceError(
                f"{path} has version {version} of the format and this spectrace reads version "
                f"{schema.VERSION}: use the spectrace that wrote it."
            )

    def _version(self, name: str) -> Any:
        # A view in the place of a table would run what its author thought of.
        tables = {
            table
            for (table,) in self._rows(
                "SELECT table_name FROM duckdb_tables() WHERE database_name = ?", [name]
            )
        }
        if not tables >= {*schema.TABLES, *schema.OTHER_TABLES}:
            raise duckdb.CatalogException("its tables are not those of spectrace")
        [(mark, version)] = self._rows(f"SELECT name, version FROM {name}.format", []) or [("", 0)]
        if mark != schema.FORMAT:
            raise duckdb.CatalogException("it does not carry spectrace's mark")
        return version

    def detach(self, name: str) -> None:
        """Closes a file, with all that was written in it."""
        self._connection.execute(f"DETACH {name}")

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
            self._connection.execute("ROLLBACK")
            raise

    def _insert(self, table: str, columns: Batch) -> None:
        self._connection.register("batch", columns)
        try:
            self._connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM batch")
        finally:
            self._connection.unregister("batch")

    def put_runs(self, name: str, runs: Iterable[Run]) -> None:
        """Writes down what is known about runs; of a run that is there twice the last counts."""
        rows = [(run.run_id, msgspec.json.encode(run).decode()) for run in runs]
        if rows:
            self.insert(name, {"runs": batch(schema.OTHER_TABLES["runs"], rows)})

    def runs(self, name: str) -> list[Run]:
        """The runs in a file, each once, in the order in which they came."""
        rows = self._rows(f"SELECT run_id, json FROM {name}.runs ORDER BY rowid", [])
        newest: dict[str, str] = dict(rows)
        return [msgspec.json.decode(text, type=Run) for text in newest.values()]

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
        """The cycles with these ids."""
        if not ids:
            return {}
        bounds = [min(ids), max(ids), list(ids)]
        rows = {
            table: self._rows(
                # The bounds let DuckDB skip all blocks but the few that hold the rows.
                f"SELECT * FROM {name}.{table} WHERE id BETWEEN ? AND ? "
                f"AND id IN (SELECT unnest(?::BIGINT[])) ORDER BY {order}",
                bounds,
            )
            for table, order in _ORDER.items()
        }
        return cycles_of(rows)

    def copy_newest(self, names: Collection[str], target: str) -> None:
        """Copies the newest version of every cycle of several files into another one."""
        every = " UNION ALL ".join(
            f"SELECT run_id, group_name, number, id FROM {name}.cycles" for name in names
        )
        if not every:
            return
        self._connection.execute(
            f"CREATE OR REPLACE TEMP TABLE newest AS SELECT max(id) AS id FROM ({every}) "
            "GROUP BY run_id, group_name, number"
        )
        for name in names:
            for table, order in _ORDER.items():
                self._connection.execute(
                    f"INSERT INTO {target}.{table} SELECT * FROM {name}.{table} "
                    f"SEMI JOIN newest USING (id) ORDER BY {order}"
                )
        self._connection.execute("DROP TABLE temp.newest")

    def _rows(self, query: str, parameters: list[Any]) -> list[Row]:
        return self._connection.execute(query, parameters).fetchall()

    def close(self) -> None:
        """Closes all files."""
        self._connection.close()


def log_of(path: Path) -> Path:
    """DuckDB's write-ahead log beside a file."""
    return path.with_name(path.name + ".wal")


def _text(value: Path) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _why_not(path: Path, error: duckdb.Error) -> str:
    reason = str(error).splitlines()[0]
    if "lock on file" in reason:
        return f"{path} is in use by another process: ask its owner, or wait until it has ended."
    if not path.exists():
        return f"There is no file {path}."
    return (
        f"{path} is no recording of spectrace, or it is damaged ({reason}): "
        "choose another file, or delete it."
    )
