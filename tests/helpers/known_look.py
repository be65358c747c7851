"""A look at kernels of which every figure is known: verify of 28.7 ms, a draft of 2 ms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spectrace.kernels import ClassTime, KernelLook, LookSource, PhaseWork, WindowCost
from tests.helpers.recorded import T0_NS

CYCLES = 10
VERIFY = {"matmul": 17.2, "attention": 4.1, "communication": 3.4, "norm": 2.0}  # ms a cycle: 26.7
DRAFT = {"matmul": 1.2, "attention": 0.4}


def work(rank: str, phase: str, device_ms: float, gap_ms: float, **over: Any) -> PhaseWork:
    """A phase that launches one graph in every cycle."""
    fields: dict[str, Any] = {
        "rank": rank,
        "phase": phase,
        "cycles": CYCLES,
        "device_ms": device_ms,
        "busy_ms": device_ms - gap_ms,
        "gap_ms": gap_ms,
        "kernels": 412.0,
        "launches": 3.0,
        "replays": 1.0,
    }
    return PhaseWork(**fields | over)


def times(rank: str, phase: str, by_class: Mapping[str, float]) -> tuple[ClassTime, ...]:
    """Over all cycles, from the times of a cycle in ms."""
    return tuple(
        ClassTime(
            rank=rank,
            phase=phase,
            kernel_class=kind,
            time_ms=CYCLES * time_ms,
            kernels=CYCLES,
        )
        for kind, time_ms in by_class.items()
    )


def cost(rank: str) -> WindowCost:
    """A window in which cycles took 34 ms, and 30.1 ms before and after."""
    return WindowCost(
        rank=rank,
        loading_ms=80.0,
        switching_ms=1.0,
        flushing_ms=2.0,
        taking_ms=0.5,
        before_ms=30.1,
        graphs_ms=30.2,
        kernels_ms=34.0,
        after_ms=30.1,
    )


def look(verify: Mapping[str, Mapping[str, float]] | None = None, **over: Any) -> KernelLook:
    """A look at ranks that draft alike.

    Args:
        verify: By rank what verify's kernels take in a cycle, by class in ms; of TP0 alone if not
            given.
        over: Fields that are to be different.
    """
    by_rank = {"TP0": VERIFY} if verify is None else verify
    phases: list[PhaseWork] = []
    kernels: list[ClassTime] = []
    for rank, by_class in by_rank.items():
        whole_ms = sum(by_class.values()) + 2.0
        phases += [
            work(rank, "verify.forward", whole_ms, 2.0, replay_ms=26.0, replays_seen=5),
            work(rank, "draft", 2.0, 0.4, replays=5.0),
        ]
        kernels += [*times(rank, "verify.forward", by_class), *times(rank, "draft", DRAFT)]
        kernels += times(rank, "", {"copy": 7.0})  # of no phase: in none of the figures
    fields: dict[str, Any] = {
        "source": LookSource.WINDOW,
        "start_ns": T0_NS,
        "end_ns": T0_NS + 1_000_000_000,
        "cycles": 20,
        "cycles_seen": dict.fromkeys(by_rank, CYCLES),
        "phases": tuple(phases),
        "kernels": tuple(kernels),
        "communication": {
            rank: by_class.get("communication", 0.0)
            / (sum(by_class.values()) + sum(DRAFT.values()))
            for rank, by_class in by_rank.items()
        },
        "costs": tuple(cost(rank) for rank in by_rank),
    }
    return KernelLook(**fields | over)


def of_nothing(ranks: Sequence[str] = ("TP0",)) -> KernelLook:
    """A look that saw no kernel of any phase."""
    return look({}, cycles_seen=dict.fromkeys(ranks, 0), communication=dict.fromkeys(ranks, 0.0))
