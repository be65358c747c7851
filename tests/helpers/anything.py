"""A Run and Cycles of which a test says only what it is about."""

from __future__ import annotations

from typing import Any

from spectrace.model import Cycle, CycleKind, Rank, RankCycle, Run, TimingMode


def any_run(*ranks: str, **over: Any) -> Run:
    """Server 70 of host `node`, with the ranks of these names or TP0: processes 71, 72 and on."""
    fields: dict[str, Any] = {
        "run_id": "0123456789abcdef" * 2,
        "host": "node",
        "server_pid": 70,
        "command": ("python",),
        "ranks": tuple(
            Rank(name=name, pid=pid) for pid, name in enumerate(ranks or ("TP0",), start=71)
        ),
        "anchor_unix_ns": 0,
        "anchor_monotonic_ns": 0,
    }
    return Run(**fields | over)


def any_rank(name: str = "TP0", **over: Any) -> RankCycle:
    """A rank's share of a cycle from 100 to 120 ns, without phases."""
    fields: dict[str, Any] = {
        "rank": name,
        "start_ns": 100,
        "end_ns": 120,
        "phases": (),
        "mode": TimingMode.HOST,
        "probe_ns": 3,
    }
    return RankCycle(**fields | over)


def any_cycle(number: int, *ranks: RankCycle, **over: Any) -> Cycle:
    """A cycle of `any_run` that drafts in three steps for one request, of which it has no row."""
    fields: dict[str, Any] = {
        "run_id": any_run().run_id,
        "group": "",
        "number": number,
        "kind": CycleKind.SPECULATIVE,
        "batch_size": 1,
        "steps": 3,
        "topk": 1,
        "draft_tokens": 4,
        "ranks": ranks,
        "requests": (),
    }
    return Cycle(**fields | over)
