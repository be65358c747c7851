"""Looks at kernels: some with times by arithmetic, or any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from hypothesis import strategies as st

from spectrace.kernels import (
    ClassTime,
    KernelLook,
    LookSource,
    PhaseWork,
    Seen,
    SeenKernels,
    WindowCost,
    WindowLoss,
)

# Rank, group, number, phase, begin, end, stream, name, class, graph.
Row: TypeAlias = tuple[str, str, int, str, int, int, int, str, str, int]
COLUMNS = ("number", "phase", "start_ns", "end_ns", "stream", "name", "graph")
NAMES = {"nvjet_tst_64x8": "matmul", "flash_fwd_kernel": "attention", "ncclDevKernel": "other"}


def kernels_of(rank: str, rows: Sequence[Row]) -> SeenKernels:
    """The kernels of one rank and group out of rows, in their order."""
    phases = list(dict.fromkeys(row[3] for row in rows))
    named = list(dict.fromkeys(row[7:9] for row in rows))
    columns = [
        (row[2], phases.index(row[3]), row[4], row[5], row[6], named.index(row[7:9]), row[9])
        for row in rows
    ]
    table = np.array(columns, dtype=np.int64).reshape(-1, len(COLUMNS))
    return SeenKernels(
        rank=rank,
        group=rows[0][1] if rows else "",
        phases=phases,
        names=[name for name, _ in named],
        classes=[kind for _, kind in named],
        **dict(zip(COLUMNS, table.T, strict=True)),
    )


def rows_of(kernels: Iterable[SeenKernels]) -> list[Row]:
    """Kernels as rows, in their order."""
    return [
        (
            *(one.rank, one.group, number, one.phases[phase], start_ns, end_ns, stream),
            *(one.names[name], one.classes[name], graph),
        )
        for one in kernels
        for number, phase, start_ns, end_ns, stream, name, graph in zip(
            *(getattr(one, column).tolist() for column in COLUMNS), strict=True
        )
    ]


def look_of(start_ns: int, end_ns: int, **over: Any) -> KernelLook:
    """A look with something of everything that it can tell."""
    work = PhaseWork(
        rank="TP0",
        phase="verify.forward",
        cycles=3,
        device_ms=2.5,
        busy_ms=2.0,
        gap_ms=0.5,
        kernels=12.0,
        launches=1.0,
        replays=1.0,
        replay_ms=2.25,
        replays_seen=2,
    )
    time = ClassTime(rank="TP0", phase="draft", kernel_class="matmul", time_ms=1.5, kernels=6)
    cost = WindowCost(
        rank="TP0",
        loading_ms=80.0,
        switching_ms=1.0,
        flushing_ms=0.5,
        taking_ms=0.25,
        before_ms=None,
        graphs_ms=10.5,
        kernels_ms=11.0,
        after_ms=10.0,
    )
    fields: dict[str, Any] = {
        "source": LookSource.WINDOW,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "cycles": 4,
        "cycles_seen": {"TP0": 3},
        "phases": (work,),
        "kernels": (time,),
        "communication": {"TP0": 0.25},
        "costs": (cost,),
        "losses": (WindowLoss(rank="TP0", records=50, torn=1),),
    }
    return KernelLook(**fields | over)


def seen_at(
    starts_ns: dict[int, int], ranks: Sequence[str] = ("TP0",), each: int = 4, took_ns: int = 1000
) -> Seen:
    """A look that saw some cycles whole: in each of them so many kernels, one behind the other.

    Args:
        starts_ns: When each cycle began, by number.
        ranks: Names of the ranks.
        each: Kernels of a rank in a cycle.
        took_ns: How long each kernel took.
    """
    rows = [
        (rank, number, start_ns + place * took_ns, place)
        for rank in ranks
        for number, start_ns in starts_ns.items()
        for place in range(each)
    ]
    kernels = [
        kernels_of(
            rank,
            [
                (
                    *(of, "", number, ("draft", "verify.forward")[place % 2], begin_ns),
                    *(begin_ns + took_ns, 7, *list(NAMES.items())[place % 3], place % 2),
                )
                for of, number, begin_ns, place in rows
                if of == rank
            ],
        )
        for rank in ranks
    ]
    last_ns = max(starts_ns.values()) + each * took_ns
    return Seen(look_of(min(starts_ns.values()), last_ns), kernels)


_INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


def rows(ranks: Sequence[str], groups: Sequence[str], numbers: Sequence[int]) -> Any:
    """Any rows of these ranks, groups and cycles."""
    return st.lists(
        st.tuples(
            st.sampled_from(ranks),
            st.sampled_from(groups),
            st.sampled_from(numbers),
            st.text(max_size=4),
            _INT64,
            _INT64,
            _INT64,
            st.text(max_size=6),
            st.text(max_size=3),
            st.sampled_from((0, 1)),
        ),
        max_size=12,
    )


def seen_of_rows(look: KernelLook, some: Sequence[Row]) -> Seen:
    """A look with these kernels, those of each rank and group in the order of their begins."""
    whose = dict.fromkeys(row[:2] for row in some)
    ordered = sorted(some, key=lambda row: row[4])
    return Seen(
        look,
        [
            kernels_of(rank, [row for row in ordered if row[:2] == (rank, group)])
            for rank, group in whose
        ],
    )
