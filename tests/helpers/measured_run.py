"""Measures of runs whose truth is known: Cycles made of lanes in ms, and put into columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrace.measures import KINDS, LANES, MODES, NONE, PHASES, Columns, LeftOut, Measures
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

T0_NS = 1_700_000_000_000_000_000
MS = 1_000_000
Stretch = tuple[PhaseName, float, float]  # a phase, its start and its end in ms

RUN = Run(
    run_id="d" * 32,
    host="node",
    server_pid=10,
    command=("python", "-m", "sglang.launch_server"),
    ranks=(Rank(name="TP0", pid=11),),
    anchor_unix_ns=T0_NS,
    anchor_monotonic_ns=0,
    engine="sglang 0.5.23",
)


def touching(first_ms: float, **lengths_ms: float) -> list[Stretch]:
    """Phases that touch, from a moment on; `verify_forward` stands for `verify.forward`."""
    names = [name if name == "draft_extend" else name.replace("_", ".") for name in lengths_ms]
    edges = np.cumsum([first_ms, *lengths_ms.values()]).tolist()
    return [
        (PhaseName(name), start, end)
        for name, (start, end) in zip(names, pairwise(edges), strict=True)
    ]


def rank_of(  # noqa: PLR0913 - each is what some test varies
    number: int,
    host: Sequence[Stretch],
    device: Sequence[Stretch] = (),
    *,
    rank: str = "TP0",
    clock_error_ms: float = 0.001,
    mode: TimingMode = TimingMode.DEVICE,
    graph: bool | None = None,
    **over: Any,
) -> RankCycle:
    """A rank's share of a cycle, whose host lane goes from its start to its end."""
    phases = [
        Phase(
            name=name, start_ns=_ns(start), end_ns=_ns(end), of_cycle=number, lane=lane, graph=graph
        )
        for lane, stretches in ((Lane.HOST, host), (Lane.DEVICE, device))
        for name, start, end in stretches
    ]
    return RankCycle(
        rank=rank,
        start_ns=_ns(host[0][1]),
        end_ns=_ns(host[-1][2]),
        phases=tuple(phases),
        mode=mode,
        probe_ns=20_000,
        clock_error_ns=round(clock_error_ms * MS) if device else None,
        **over,
    )


def _ns(ms: float) -> int:
    return T0_NS + round(ms * MS)


def cycle_of(
    number: int,
    *ranks: RankCycle,
    correct: Sequence[int] = (1,),
    kind: CycleKind = CycleKind.SPECULATIVE,
    steps: int = 5,
    context: int = 100,
) -> Cycle:
    """A cycle whose requests got these correct drafts, and the bonus token."""
    drafts = kind is CycleKind.SPECULATIVE
    rows = tuple(
        RequestRow(
            request_id=f"r{place}",
            correct_drafts=count if drafts else None,
            output_tokens=count + 1 if drafts else 1,
        )
        for place, count in enumerate(correct)
    )
    return Cycle(
        run_id=RUN.run_id,
        group="",
        number=number,
        kind=kind,
        batch_size=len(correct),
        steps=steps if drafts else 0,
        topk=1 if drafts else 0,
        draft_tokens=steps + 1 if drafts else 0,
        ranks=ranks,
        requests=rows,
        context_tokens_sum=context * len(correct),
        context_tokens_max=context,
    )


def measures_of(cycles: Sequence[Cycle], *, window: int = 25, run: Run = RUN) -> Measures:
    """The cycles as the store gives those of a short run: all of them are in the sample."""
    names = sorted({rank.rank for cycle in cycles for rank in cycle.ranks})
    groups = sorted({cycle.group for cycle in cycles})
    ordered = sorted(cycles, key=lambda cycle: (cycle.group, cycle.number))
    tables = _Tables(names, groups, window)
    for place, cycle in enumerate(ordered):
        tables.add(place, cycle)
    counts = {"cycles": np.ones(len(ordered), dtype=np.int64)}
    return Measures(
        run=run,
        groups=tuple(groups),
        rank_names=tuple(names),
        request_ids=tuple(tables.request_ids),
        cycle_counts=counts,
        row_counts={},
        cycles=_columns(tables.cycles),
        ranks=_columns(tables.ranks),
        phases=_columns(tables.phases),
        rows=_columns(tables.rows),
        left_out=LeftOut(),
    )


_FLAGS = (
    "timed", "ended_idle", "incomplete", "late_switch", "device_incomplete", "overshoot",
    "health_check",
)  # fmt: skip


class _Tables:
    """The rows of all tables, as they come."""

    def __init__(self, names: Sequence[str], groups: Sequence[str], window: int) -> None:
        self._names = {name: place for place, name in enumerate(names)}
        self._groups = {name: place for place, name in enumerate(groups)}
        self._window = window
        self.cycles: list[Mapping[str, int]] = []
        self.ranks: list[Mapping[str, int]] = []
        self.phases: list[Mapping[str, int]] = []
        self.rows: list[Mapping[str, int]] = []
        self.request_ids: dict[str, int] = {}

    def add(self, place: int, cycle: Cycle) -> None:
        first = cycle.ranks[0]
        self.cycles.append(
            {
                "group": self._groups[cycle.group],
                "window": place // self._window,
                "number": cycle.number,
                "start_ns": cycle.start_ns,
                "end_ns": cycle.end_ns,
                "kind": KINDS.index(cycle.kind),
                "steps": cycle.steps,
                "topk": cycle.topk,
                "draft_tokens": cycle.draft_tokens,
                "batch": cycle.batch_size,
                "context_sum": _or_none(cycle.context_tokens_sum),
                "context_max": _or_none(cycle.context_tokens_max),
                "mode": MODES.index(first.mode),
                "timed": not (first.incomplete or first.ended_idle or first.late_switch),
            }
        )
        for at, rank in enumerate(cycle.ranks):
            self._add_rank(place, at, rank)
        for row in cycle.requests or ():
            self.rows.append(
                {
                    "cycle": place,
                    "request": self.request_ids.setdefault(row.request_id, len(self.request_ids)),
                    "correct": _or_none(row.correct_drafts),
                    "delivered": row.output_tokens,
                    "overshoot": row.overshoot,
                    "health_check": row.health_check,
                }
            )

    def _add_rank(self, cycle: int, place: int, rank: RankCycle) -> None:
        self.ranks.append(
            {
                "cycle": cycle,
                "place": place,
                "rank": self._names[rank.rank],
                "start_ns": rank.start_ns,
                "end_ns": rank.end_ns,
                "mode": MODES.index(rank.mode),
                "probe_ns": rank.probe_ns,
                "ended_idle": rank.ended_idle,
                "incomplete": rank.incomplete,
                "late_switch": rank.late_switch,
                "clock_error_ns": _or_none(rank.clock_error_ns),
                "device_incomplete": rank.device_incomplete,
            }
        )
        self.phases += [
            {
                "cycle": cycle,
                "place": place,
                "lane": LANES.index(phase.lane),
                "phase": PHASES.index(phase.name),
                "start_ns": phase.start_ns,
                "end_ns": phase.end_ns,
                "of_cycle": phase.of_cycle,
                "graph": NONE if phase.graph is None else int(phase.graph),
            }
            for phase in rank.phases
        ]


def _or_none(value: int | None) -> int:
    return NONE if value is None else value


def _columns(rows: Sequence[Mapping[str, int]]) -> Columns:
    names = rows[0].keys() if rows else ()
    found: dict[str, NDArray[Any]] = {}
    for name in names:
        values = [row[name] for row in rows]
        found[name] = np.array(values, dtype=np.bool_ if name in _FLAGS else np.int64)
    return found
