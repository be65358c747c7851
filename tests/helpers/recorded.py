"""Recordings of a simulated server: both lanes of any number of ranks, to the nanosecond."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from spectrace.kernels import Seen
from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    OtherSpan,
    Phase,
    PhaseName,
    Rank,
    RankCycle,
    RequestRow,
    Run,
    TimingMode,
)
from spectrace.store.store import CycleStore

T0_NS = 1_700_000_000_123_456_789
CYCLE_NS = 10_000_001
PARTS = (
    PhaseName.RESOLVE,
    PhaseName.DRAFT,
    PhaseName.VERIFY_PREPARE,
    PhaseName.VERIFY_FORWARD,
    PhaseName.VERIFY_SAMPLE,
    PhaseName.VERIFY_COMMIT,
    PhaseName.DRAFT_EXTEND,
    PhaseName.RESULT,
)
DEVICE_PARTS = (PhaseName.DRAFT, PhaseName.VERIFY_FORWARD, PhaseName.DRAFT_EXTEND)


def run_of(ranks: int = 8) -> Run:
    """A run of so many ranks."""
    return Run(
        run_id="0123456789abcdef" * 2,
        host="node",
        server_pid=10,
        command=("python", "-m", "sglang.launch_server"),
        ranks=tuple(Rank(name=f"TP{rank}", pid=100 + rank) for rank in range(ranks)),
        anchor_unix_ns=T0_NS,
        anchor_monotonic_ns=5,
        engine="sglang 0.5.23",
    )


def rank_cycle(rank: int, number: int) -> RankCycle:
    """A rank that began `rank` ns after the first; its device ends after its host does."""
    start_ns = T0_NS + number * CYCLE_NS + rank
    step_ns = CYCLE_NS // len(PARTS)
    marks_ns = [start_ns + place * step_ns for place in range(len(PARTS))] + [start_ns + CYCLE_NS]
    host = [
        Phase(name=name, start_ns=begin, end_ns=end, of_cycle=number - (name is PhaseName.RESULT))
        for name, begin, end in zip(PARTS, marks_ns, marks_ns[1:], strict=False)
    ]
    device = [
        Phase(
            name=name,
            start_ns=start_ns + 4_000_000 + place * 3_000_000,
            end_ns=start_ns + 6_999_999 + place * 3_000_000,
            of_cycle=number,
            lane=Lane.DEVICE,
            graph=True,
        )
        for place, name in enumerate(DEVICE_PARTS)
    ]
    return RankCycle(
        rank=f"TP{rank}",
        start_ns=start_ns,
        end_ns=start_ns + CYCLE_NS,
        phases=(*host, *device),
        mode=TimingMode.DEVICE,
        probe_ns=40_000,
        clock_error_ns=900,
    )


def cycle_of(number: int, ranks: int = 8) -> Cycle:
    """A cycle that drafted five tokens for two requests, and found 2 and 3 of them correct."""
    rows = (
        RequestRow(request_id=f"r{row}", correct_drafts=row, output_tokens=row + 1)
        for row in (2, 3)
    )
    return Cycle(
        run_id=run_of().run_id,
        group="",
        number=number,
        kind=CycleKind.SPECULATIVE,
        batch_size=2,
        steps=5,
        topk=1,
        draft_tokens=6,
        ranks=tuple(rank_cycle(rank, number) for rank in range(ranks)),
        requests=tuple(rows),
        queued=1,
    )


def other_span(number: int, parent: int = 0, trace: int = 1, **over: Any) -> OtherSpan:
    """A span of somebody else from 100 + number to 200 + number ns, below the span `parent`."""
    fields: dict[str, Any] = {
        "trace_id": f"{trace:032x}",
        "span_id": f"{number:016x}",
        "parent_id": f"{parent:016x}" if parent else "",
        "service": "sglang",
        "name": f"span {number}",
        "start_ns": 100 + number,
        "end_ns": 200 + number,
    }
    return OtherSpan(**fields | over)


def record(
    path: Path,
    cycles: Iterable[Cycle],
    run: Run | Sequence[Run] | None = None,
    spans: Iterable[OtherSpan] = (),
    looks: Iterable[Seen] = (),
) -> Path:
    """Writes a recording as `spectrace record` does, of one run or several; looks at the first."""
    store = path.with_name(f"{path.name}-store")
    with closing(CycleStore(store, retain_s=1e9, max_bytes=1 << 30)) as kept:
        runs = [run or run_of()] if isinstance(run, Run | None) else run
        for one in runs:
            kept.put_run(one)
        kept.add(cycles)
        kept.add_spans(spans)
        for look in looks:
            kept.add_look(runs[0].run_id, look)
        kept.save(path)
    return path
