"""The tables of a slice or a recording, the same in both; docs/files.md describes them."""

from __future__ import annotations

from typing import NamedTuple

FORMAT = "spectrace"
VERSION = 5


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: As in SQL.
        type: DuckDB's type: BIGINT, BOOLEAN or VARCHAR.
        since: Version of the format that brought it.
        default: What it holds in the rows of an older file, in SQL.
        nullable: Whether it may hold nothing in a row, NULL.
    """

    name: str
    type: str
    since: int = 1
    default: str = "NULL"
    nullable: bool = False


# `id` counts the versions of all cycles in the order in which they came: a cycle that was
# amended has several, and the highest counts. Times are UNIX ns. `place` numbers the rows
# of a cycle in the order in which they stand in it, and the spans of others, which belong to
# no cycle, in the order in which they came: of one that came again the lowest counts.
# The `place` of a look numbers all that a store ever had, and `look` is that of the look that saw
# a kernel; kernels whose look is missing were left by a write that failed, and count for nothing.
# Names of kernels may have thousands of characters and stand once for each look.
TABLES = {
    "cycles": (
        Column("id", "BIGINT"),
        Column("run_id", "VARCHAR"),
        Column("group_name", "VARCHAR"),
        Column("number", "BIGINT"),
        Column("kind", "VARCHAR"),
        Column("batch_size", "BIGINT"),
        Column("steps", "BIGINT"),
        Column("topk", "BIGINT"),
        Column("draft_tokens", "BIGINT"),
        Column("start_ns", "BIGINT"),
        Column("end_ns", "BIGINT"),
        Column("has_requests", "BOOLEAN"),
        Column("padded_batch", "BIGINT", since=2, nullable=True),
        Column("context_tokens_sum", "BIGINT", since=2, nullable=True),
        Column("context_tokens_max", "BIGINT", since=2, nullable=True),
        Column("queued", "BIGINT", since=2, nullable=True),
        Column("running", "BIGINT", since=2, nullable=True),
    ),
    "ranks": (
        Column("id", "BIGINT"),
        Column("place", "BIGINT"),
        Column("rank", "VARCHAR"),
        Column("start_ns", "BIGINT"),
        Column("end_ns", "BIGINT"),
        Column("mode", "VARCHAR"),
        Column("probe_ns", "BIGINT"),
        Column("ended_idle", "BOOLEAN"),
        Column("incomplete", "BOOLEAN"),
        Column("asked_mode", "VARCHAR", since=2, default="''"),  # empty where it is `mode`
        Column("late_switch", "BOOLEAN", since=2, default="false"),
        Column("clock_error_ns", "BIGINT", since=2, nullable=True),
        Column("device_incomplete", "BOOLEAN", since=2, default="false"),
    ),
    "phases": (
        Column("id", "BIGINT"),
        Column("rank_place", "BIGINT"),
        Column("place", "BIGINT"),
        Column("rank", "VARCHAR"),
        Column("lane", "VARCHAR"),
        Column("name", "VARCHAR"),
        Column("start_ns", "BIGINT"),
        Column("end_ns", "BIGINT"),
        Column("of_cycle", "BIGINT"),
        Column("graph", "BIGINT", since=2, nullable=True),  # 1: CUDA graph, 0: eager
    ),
    "requests": (
        Column("id", "BIGINT"),
        Column("place", "BIGINT"),
        Column("request_id", "VARCHAR"),
        Column("correct_drafts", "BIGINT", nullable=True),
        Column("output_tokens", "BIGINT"),
        Column("overshoot", "BOOLEAN"),
        Column("health_check", "BOOLEAN"),
        Column("span", "VARCHAR", since=3, default="''"),  # empty where there is none
    ),
    "spans": (
        Column("place", "BIGINT", since=4),
        Column("trace_id", "VARCHAR", since=4),
        Column("span_id", "VARCHAR", since=4),
        Column("parent_id", "VARCHAR", since=4),
        Column("service", "VARCHAR", since=4),
        Column("name", "VARCHAR", since=4),
        Column("start_ns", "BIGINT", since=4),
        Column("end_ns", "BIGINT", since=4),
        Column("request_id", "VARCHAR", since=4),
        Column("failed", "BOOLEAN", since=4),
    ),
    "looks": (
        Column("run_id", "VARCHAR", since=5),
        Column("place", "BIGINT", since=5),
        Column("start_ns", "BIGINT", since=5),
        Column("end_ns", "BIGINT", since=5),
        Column("json", "VARCHAR", since=5),
    ),
    "kernels": (
        Column("run_id", "VARCHAR", since=5),
        Column("look", "BIGINT", since=5),
        Column("rank", "VARCHAR", since=5),
        Column("group_name", "VARCHAR", since=5),
        Column("number", "BIGINT", since=5),
        Column("phase", "VARCHAR", since=5),
        Column("start_ns", "BIGINT", since=5),
        Column("end_ns", "BIGINT", since=5),
        Column("stream", "BIGINT", since=5),
        Column("kernel", "BIGINT", since=5),
        Column("graph", "BIGINT", since=5),
    ),
    "kernel_names": (
        Column("look", "BIGINT", since=5),
        Column("place", "BIGINT", since=5),
        Column("name", "VARCHAR", since=5),
        Column("class", "VARCHAR", since=5),
    ),
}
# A run is one JSON text: it is read whole, and its fields are for people, not for queries.
OTHER_TABLES = {
    "runs": (Column("run_id", "VARCHAR"), Column("json", "VARCHAR")),
    "format": (Column("name", "VARCHAR"), Column("version", "BIGINT")),
}


def create_statements(database: str) -> list[str]:
    """The SQL that makes an empty slice of the attached `database`."""
    statements = [
        f"CREATE TABLE {database}.{table} ({_definitions(columns)})"
        for table, columns in (TABLES | OTHER_TABLES).items()
    ]
    # No input from outside: the name and the version are constants of this file.
    mark = f"INSERT INTO {database}.format VALUES ('{FORMAT}', {VERSION})"  # noqa: S608
    return [*statements, mark]


def _definitions(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in columns)


def has(version: int, table: str) -> bool:
    """Whether a file of a version has a table of `TABLES`: it came with its first column."""
    return TABLES[table][0].since <= version


def selection(table: str, version: int) -> str:
    """The columns of a table for a SELECT, as this version has them.

    Args:
        table: One of `TABLES`.
        version: Of the file that is read; what it lacks gets its default.
    """
    return ", ".join(
        column.name
        if column.since <= version
        else f"{column.default}::{column.type} AS {column.name}"
        for column in TABLES[table]
    )
