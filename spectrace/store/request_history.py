"""Reads which requests the cycles of a run served, and the cycles of one of them."""

# ruff: noqa: S608 - the names of tables and databases in the queries are our own

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectrace.measures import NONE
from spectrace.store.columns import Batch
from spectrace.store.counting import SOUND_CYCLE
from spectrace.store.recent import GroupKey
from spectrace.store.shelf import Shelf
from spectrace.store.source import RequestCycle, RequestHistory, RequestKey, ServedRequest

MOST_CYCLES = 500_000  # that are looked at, the newest
MOST_ID = 256  # characters of a request's id; a file that somebody else made may hold anything
_MOST = (1 << 63) - 1
_ID = f"left(request_id, {MOST_ID})"
_COUNTS = "correct_drafts IS NOT NULL AND NOT overshoot"
_MOST_COUNT = 1_000_000  # of one row: what a sender gets wrong must not break the sums of others
_SUMS = (
    f"count(*) AS cycles, count(*) FILTER ({_COUNTS}) AS verifies, "
    f"coalesce(sum(greatest(0, least(correct_drafts, {_MOST_COUNT}))) FILTER ({_COUNTS}), 0)"
    "::BIGINT AS correct_drafts, "
    f"coalesce(sum(greatest(0, least(output_tokens, {_MOST_COUNT}))), 0)::BIGINT "
    "AS output_tokens, min(number) AS first_n, "
    "max(number) AS last_n, min(start_ns) AS first_ns, max(end_ns) AS last_ns"
)


def served_requests(
    shelf: Shelf, key: GroupKey, before: RequestKey | None, limit: int
) -> list[ServedRequest]:
    """As `CycleSource.served_requests`."""
    names, bounds = _where(shelf, key)
    if not names:
        return []
    found = shelf.database.columns(
        f"{_rows(names, 'true')} SELECT {_ID} AS request_id, {_SUMS} FROM served "
        "WHERE NOT health_check GROUP BY ALL "
        "HAVING last_n < $4 OR (last_n = $4 AND request_id < $5) "
        "ORDER BY last_n DESC, request_id DESC LIMIT $6",
        [*bounds, *(before or (_MOST, "")), limit],
    )
    return [ServedRequest(**row) for row in _by_row(found)]


def request_history(
    shelf: Shelf, key: GroupKey, request_id: str, before: int | None, limit: int
) -> RequestHistory | None:
    """As `CycleSource.request_history`."""
    names, bounds = _where(shelf, key)
    if not names:
        return None
    rows = _rows(names, f"{_ID} = $4")
    sums = _by_row(
        shelf.database.columns(
            f"{rows} SELECT {_SUMS} FROM served HAVING cycles > 0", [*bounds, request_id]
        )
    )
    if not sums:
        return None
    found = shelf.database.columns(
        f"{rows} SELECT number, start_ns, end_ns - start_ns AS took_ns, batch_size AS batch, "
        f"steps, coalesce(correct_drafts, {NONE}) AS correct_drafts, output_tokens, overshoot "
        "FROM served WHERE number < $5 ORDER BY number DESC LIMIT $6",
        [*bounds, request_id, _MOST if before is None else before, limit],
    )
    return RequestHistory(
        request=ServedRequest(request_id=request_id, **sums[0]),
        cycles=[
            RequestCycle(**row | {"correct_drafts": _known(row["correct_drafts"])})
            for row in _by_row(found)
        ],
    )


def _where(shelf: Shelf, key: GroupKey) -> tuple[list[str], list[str | int]]:
    """Slices that hold the group, and the parameters 1 to 3 of `_rows`."""
    spans = [(part.name, part.spans[key]) for part in shelf.slices if key in part.spans]
    last_n = max((span.last_n for _, span in spans), default=0)
    return [name for name, _ in spans], [*key, max(0, last_n - MOST_CYCLES + 1)]


def _rows(names: Sequence[str], wanted: str) -> str:
    """What cycles in their newest versions gave to requests, as `served`."""
    every = " UNION ALL ".join(
        f"SELECT number, id, start_ns, end_ns, batch_size, steps FROM {name}.cycles "
        f"WHERE run_id = $1 AND group_name = $2 AND number >= $3 AND {SOUND_CYCLE}"
        for name in names
    )
    rows = " UNION ALL ".join(
        "SELECT id, request_id, correct_drafts, output_tokens, overshoot, health_check "
        f"FROM {name}.requests WHERE {wanted}"
        for name in names
    )
    return (
        f"WITH every AS ({every}), "
        "newest AS (SELECT * FROM every SEMI JOIN "
        "(SELECT max(id) AS id FROM every GROUP BY number) USING (id)), "
        f"served AS (SELECT * FROM newest JOIN ({rows}) USING (id))"
    )


def _by_row(columns: Batch) -> list[dict[str, Any]]:
    cells = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*cells, strict=True)]


def _known(value: int) -> int | None:
    return None if value == NONE else value
