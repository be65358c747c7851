"""A store of any number of cycles, made by the database itself, with figures that are known.

Writing ten million Cycles one by one would take hours; what is read back does not depend on who
wrote it. Its cycles are those of one rank, or of several that are alike: mostly five draft steps at
batch sizes 1 and 2, a stretch of two steps, and one of plain decode.
"""

# ruff: noqa: S608 - the names of tables in the queries are our own

from __future__ import annotations

from pathlib import Path

import duckdb
import msgspec

from spectrace.store import schema
from tests.helpers.recorded import run_of

CYCLE_NS = {"speculative": 30_000_000, "decode": 11_000_000}
_PARTS = (
    ("host", "resolve", 0.00, 0.02),
    ("host", "draft", 0.02, 0.05),
    ("host", "verify.prepare", 0.05, 0.08),
    ("host", "verify.forward", 0.08, 0.80),
    ("host", "verify.sample", 0.80, 0.85),
    ("host", "verify.commit", 0.85, 0.90),
    ("host", "draft_extend", 0.90, 0.96),
    ("host", "result", 0.96, 0.98),
    ("host", "schedule", 0.98, 1.00),
    ("device", "draft", 0.04, 0.14),
    ("device", "verify.forward", 0.14, 0.90),
    ("device", "draft_extend", 0.90, 0.98),
)


def make(directory: Path, cycles: int, slices: int = 10, *, ranks: int = 1) -> None:
    """Fills a new directory as a store would have that ended.

    Args:
        directory: Is made.
        cycles: How many; the first half of the last tenth has two steps, the rest of it none.
        slices: Into how many files.
        ranks: How many there are.
    """
    directory.mkdir(mode=0o700)
    run = run_of(ranks)
    each = -(-cycles // slices)
    for number in range(slices):
        first, last = number * each, min(cycles, (number + 1) * each)
        database = duckdb.connect(config={"threads": 2})
        path = directory / f"slice-{number:08}.duckdb"
        database.execute(f"ATTACH '{path}' AS part (BLOCK_SIZE 16384, STORAGE_VERSION 'v1.0.0')")
        for statement in schema.create_statements("part"):
            database.execute(statement)
        text = msgspec.json.encode(run).decode()
        database.execute("INSERT INTO part.runs VALUES (?, ?)", [run.run_id, text])
        for statement in _statements(run.run_id, first, last, cycles, ranks):
            database.execute(statement)
        database.execute("CHECKPOINT part")
        database.close()


def _statements(run_id: str, first: int, last: int, cycles: int, ranks: int) -> list[str]:
    plain, two = cycles * 95 // 100, cycles * 90 // 100
    source = (
        f"(SELECT i AS id, i + 100 AS number, i >= {plain} AS plain, "
        f"CASE WHEN i >= {plain} THEN 0 WHEN i >= {two} THEN 2 ELSE 5 END AS steps, "
        "1 + (i // 1000) % 2 AS batch, 1700000000000000000 + i * 30000000 AS start_ns, "
        f"CASE WHEN i >= {plain} THEN 11000000 ELSE 30000000 END + hash(i) % 300000 AS took "
        f"FROM range({first}, {last}) t(i))"
    )
    phases = ", ".join(
        f"({place}, '{lane}', '{name}', {begin}, {end})"
        for place, (lane, name, begin, end) in enumerate(_PARTS)
    )
    draws = ["least(steps, (hash(id, place) % 7)::BIGINT)"]
    return [
        (
            f"INSERT INTO part.cycles SELECT id, '{run_id}', '', number, "
            "CASE WHEN plain THEN 'decode' ELSE 'speculative' END, batch, steps, "
            "CASE WHEN plain THEN 0 ELSE 1 END, CASE WHEN plain THEN 0 ELSE steps + 1 END, "
            f"start_ns, start_ns + took, true, batch, 1000 * batch, 1000, 0, batch FROM {source}"
        ),
        (
            "INSERT INTO part.ranks SELECT id, r, 'TP' || r, start_ns, start_ns + took, 'device', "
            f"40000, false, false, '', false, 900, false FROM {source}, range({ranks}) o(r)"
        ),
        (
            "INSERT INTO part.phases SELECT id, r, place, 'TP' || r, lane, name, "
            "start_ns + (a * took)::BIGINT, start_ns + (z * took)::BIGINT, number, 1 "
            f" FROM {source}, range({ranks}) o(r), (VALUES {phases}) p(place, lane, name, a, z) "
            "WHERE NOT plain OR name IN ('resolve', 'verify.forward', 'result', 'schedule') "
        ),
        (
            "INSERT INTO part.requests SELECT id, place, 'request-' || ((id // 200) * 2 + place), "
            f"CASE WHEN plain THEN NULL ELSE {draws[0]} END, "
            f"CASE WHEN plain THEN 1 ELSE {draws[0]} + 1 END, false, false, '' "
            f" FROM {source}, range(2) p(place) WHERE place < batch"
        ),
    ]
