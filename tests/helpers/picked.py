"""Runs whose times are known to the nanosecond, to be picked from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spectrace.chosen import Choice
from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    PhaseName,
    RankCycle,
    RequestRow,
    TimingMode,
)
from tests.helpers.recorded import T0_NS, run_of

WARM_UP = 10
SPACING_NS = 100_000_000
"""From the start of a cycle to that of the next one."""
LEADS_NS = 1_000_000
"""From the start of a cycle on the host to its first phase on the device."""

Parts = Sequence[tuple[PhaseName, int]]


def choice(**over: Any) -> Choice:
    """What is picked of the run."""
    return Choice(run_id=run_of().run_id, **over)


def lane(name: Lane, begin_ns: int, parts: Parts, number: int) -> Iterable[Phase]:
    """Phases of so many ns that touch."""
    for phase, took_ns in parts:
        end_ns = begin_ns + took_ns
        yield Phase(name=phase, start_ns=begin_ns, end_ns=end_ns, of_cycle=number, lane=name)
        begin_ns = end_ns


def rank(number: int, host: Parts, device: Parts = (), **over: Any) -> RankCycle:
    """A rank's share of a cycle; its host's phases are all that it does."""
    start_ns = T0_NS + number * SPACING_NS
    fields: dict[str, Any] = {
        "rank": "TP0",
        "start_ns": start_ns,
        "end_ns": start_ns + sum(took_ns for _, took_ns in host),
        "phases": (
            *lane(Lane.HOST, start_ns, host, number),
            *lane(Lane.DEVICE, start_ns + LEADS_NS, device, number),
        ),
        "mode": TimingMode.DEVICE,
        "probe_ns": 40_000,
        "clock_error_ns": 0,
    }
    return RankCycle(**fields | over)


def cycle(number: int, *ranks: RankCycle, correct: Sequence[int] = (), **over: Any) -> Cycle:
    """A cycle of five steps; of each request so many drafts were correct."""
    fields: dict[str, Any] = {
        "run_id": run_of().run_id,
        "group": "",
        "number": number,
        "kind": CycleKind.SPECULATIVE,
        "batch_size": 1,
        "steps": 5,
        "topk": 1,
        "draft_tokens": 6,
        "ranks": ranks,
        "requests": tuple(
            RequestRow(request_id=f"r{row}", correct_drafts=count, output_tokens=count + 1)
            for row, count in enumerate(correct)
        ),
    }
    return Cycle(**fields | over)


def forward(number: int, took_ns: int, **over: Any) -> Cycle:
    """A cycle that is one phase of so many ns."""
    return cycle(number, rank(number, [(PhaseName.FORWARD, took_ns)]), **over)
