"""The tables of a slice or a recording, the same in both."""

from __future__ import annotations

from typing import NamedTuple

FORMAT = "spectrace"
VERSION = 2


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: As in SQL.
        type: DuckDB's type: BIGINT, BOOLEAN or VARCHAR.
    """

    name: str
    type: str


# `id` counts the versions of all cycles in the order in which they came: a cycle that was
# amended has several, and the highest counts. Times are UNIX ns. `place` numbers the rows
# of a cycle in the order in which they stand in it.
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
        Column("padded_batch", "BIGINT"),
        Column("context_tokens_sum", "BIGINT"),
        Column("context_tokens_max", "BIGINT"),
        Column("queued", "BIGINT"),
        Column("running", "BIGINT"),
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
        Column("asked_mode", "VARCHAR"),  # empty where it is `mode`
        Column("late_switch", "BOOLEAN"),
        Column("clock_error_ns", "BIGINT"),
        Column("device_incomplete", "BOOLEAN"),
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
        Column("graph", "BIGINT"),  # 1 as a CUDA graph, 0 eagerly, NULL not known
    ),
    "requests": (
        Column("id", "BIGINT"),
        Column("place", "BIGINT"),
        Column("request_id", "VARCHAR"),
        Column("correct_drafts", "BIGINT"),
        Column("output_tokens", "BIGINT"),
        Column("overshoot", "BOOLEAN"),
        Column("health_check", "BOOLEAN"),
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
        f"CREATE TABLE {database}.{table} ({', '.join(' '.join(column) for column in columns)})"
        for table, columns in (TABLES | OTHER_TABLES).items()
    ]
    # No input from outside: the name and the version are constants of this file.
    mark = f"INSERT INTO {database}.format VALUES ('{FORMAT}', {VERSION})"  # noqa: S608
    return [*statements, mark]
