"""Stores, and what is put into them: Cycles of one rank that are told by their number, or any."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st

from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    PhaseName,
    Rank,
    RankCycle,
    RequestRow,
    Run,
    TimingMode,
)
from spectrace.store.store import CycleStore

S = 1_000_000_000
T0_NS = 1_700_000_000 * S
RUN_A = "a" * 32
RUN_B = "b" * 32
_LEAVES = (
    PhaseName.RESOLVE,
    PhaseName.DRAFT,
    PhaseName.VERIFY_PREPARE,
    PhaseName.VERIFY_FORWARD,
    PhaseName.VERIFY_SAMPLE,
    PhaseName.VERIFY_COMMIT,
    PhaseName.DRAFT_EXTEND,
    PhaseName.SCHEDULE,
    PhaseName.WAIT,
    PhaseName.RESULT,
    PhaseName.SCHEDULE,
    PhaseName.RESOLVE,
)


def run_of(run_id: str = RUN_A, engine: str = "") -> Run:
    """A run of one rank."""
    return Run(
        run_id=run_id,
        host="host",
        server_pid=10,
        command=("python", "-m", "sglang.launch_server"),
        ranks=(Rank(name="TP0", pid=11),),
        anchor_unix_ns=T0_NS,
        anchor_monotonic_ns=0,
        engine=engine,
    )


def cycle_of(
    number: int,
    *,
    run_id: str = RUN_A,
    group: str = "",
    start_ns: int | None = None,
    requests: int = 4,
) -> Cycle:
    """A cycle of 10 ms with twelve phases; number N begins N * 10 ms after `T0_NS`."""
    start_ns = T0_NS + number * S // 100 if start_ns is None else start_ns
    ends_ns = [start_ns + place * 800_000 for place in range(len(_LEAVES))] + [start_ns + S // 100]
    phases = tuple(
        Phase(name=name, start_ns=ends_ns[place], end_ns=ends_ns[place + 1], of_cycle=number)
        for place, name in enumerate(_LEAVES)
    )
    rank = RankCycle(
        rank="TP0",
        start_ns=start_ns,
        end_ns=ends_ns[-1],
        phases=phases,
        mode=TimingMode.HOST,
        probe_ns=49_000,
    )
    rows = (
        RequestRow(request_id=f"request-{row}", correct_drafts=row, output_tokens=row + 1)
        for row in range(requests)
    )
    return Cycle(
        run_id=run_id,
        group=group,
        number=number,
        kind=CycleKind.SPECULATIVE,
        batch_size=requests,
        steps=5,
        topk=1,
        draft_tokens=6,
        ranks=(rank,),
        requests=tuple(rows),
    )


@contextmanager
def open_store(
    directory: Path, *, retain_s: float = 1e6, slice_s: float = 100, max_bytes: int = 1 << 30
) -> Iterator[CycleStore]:
    """A store that is closed at the end."""
    store = CycleStore(directory, retain_s=retain_s, slice_s=slice_s, max_bytes=max_bytes)
    try:
        yield store
    finally:
        store.close()


_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
_TIMES = st.integers(T0_NS, T0_NS + 1000 * S)
_PHASES = st.builds(
    Phase,
    name=st.sampled_from(PhaseName),
    start_ns=_INT64,
    end_ns=_INT64,
    of_cycle=_INT64,
    lane=st.sampled_from(Lane),
    graph=st.none() | st.booleans(),
)
_RANKS = st.builds(
    RankCycle,
    rank=st.text(max_size=5),
    start_ns=_TIMES,
    end_ns=_TIMES,
    phases=st.lists(_PHASES, max_size=4).map(tuple),
    mode=st.sampled_from(TimingMode),
    probe_ns=_INT64,
    ended_idle=st.booleans(),
    incomplete=st.booleans(),
    asked_mode=st.none() | st.sampled_from(TimingMode),
    late_switch=st.booleans(),
    clock_error_ns=st.none() | _INT64,
    device_incomplete=st.booleans(),
)
_ROWS = st.builds(
    RequestRow,
    request_id=st.text(max_size=5),
    correct_drafts=st.none() | _INT64,
    output_tokens=_INT64,
    overshoot=st.booleans(),
    health_check=st.booleans(),
)
CYCLES = st.builds(
    Cycle,
    run_id=st.sampled_from([RUN_A, RUN_B]),
    group=st.sampled_from(["", "DP1"]),
    number=st.integers(0, 12),
    kind=st.sampled_from(CycleKind),
    batch_size=_INT64,
    steps=_INT64,
    topk=_INT64,
    draft_tokens=_INT64,
    ranks=st.lists(_RANKS, min_size=1, max_size=3).map(tuple),
    requests=st.none() | st.lists(_ROWS, max_size=3).map(tuple),
    padded_batch=st.none() | _INT64,
    context_tokens_sum=st.none() | _INT64,
    context_tokens_max=st.none() | _INT64,
    queued=st.none() | _INT64,
    running=st.none() | _INT64,
)
