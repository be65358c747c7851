"""Puts cycles on tracks on which no slice crosses another: for timeline viewers.

A rank has a track per lane. On it stands one slice per cycle, and in this its phases, the parts
of `verify` in a slice of their own. What does not fit between its neighbours (a late or foreign
record, a device clock that was set anew) goes to a further track of the same lane as it is:
no time is ever changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple, TypeAlias

from spectrace.model import Cycle, Lane, Phase, RankCycle, RequestRow

Value: TypeAlias = "bool | int | str"


class Track(NamedTuple):
    """Where slices stand.

    Attributes:
        run_id: The run.
        rank: Name of the rank.
        lane: Whose time it is.
        row: 0, or higher for what would cross.
    """

    run_id: str
    rank: str
    lane: Lane
    row: int

    @property
    def name(self) -> str:
        """What a viewer shows."""
        return f"{self.lane.value} ({self.row + 1})" if self.row else self.lane.value


@dataclass(frozen=True)
class Slice:
    """A stretch of time, with those within it.

    Attributes:
        name: What is shown.
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns.
        details: What is shown when it is selected.
        parts: Within its bounds, in order, none begins before the one before it has ended.
    """

    name: str
    start_ns: int
    end_ns: int
    details: Mapping[str, Value] = field(default_factory=dict)
    parts: Sequence[Slice] = ()


class Tracks:
    """Knows how far each track is filled."""

    def __init__(self) -> None:
        self._ends_ns: dict[tuple[str, str, Lane], list[int]] = {}

    def place(self, cycle: Cycle) -> Iterator[tuple[Track, Slice]]:
        """The slices of a cycle, each with its track, where it is the last so far.

        Args:
            cycle: None of it ends before it begins.
        """
        for first, rank in enumerate(cycle.ranks):
            for lane in Lane:
                for piece in _pieces(cycle, rank, lane, is_first=not first):
                    yield self._track(cycle.run_id, rank.rank, lane, piece), piece

    def _track(self, run_id: str, rank: str, lane: Lane, piece: Slice) -> Track:
        ends_ns = self._ends_ns.setdefault((run_id, rank, lane), [])
        free = (row for row, end_ns in enumerate(ends_ns) if end_ns <= piece.start_ns)
        row = next(free, len(ends_ns))
        ends_ns[row : row + 1] = [piece.end_ns]
        return Track(run_id, rank, lane, row)


def _pieces(cycle: Cycle, rank: RankCycle, lane: Lane, *, is_first: bool) -> Iterator[Slice]:
    """The cycle on one lane, then each phase that does not fit into it."""
    phases = sorted(
        (phase for phase in rank.phases if phase.lane is lane),
        key=lambda phase: (phase.start_ns, phase.end_ns),
    )
    if lane is Lane.DEVICE and not phases:
        return
    start_ns, end_ns = rank.start_ns, rank.end_ns
    if lane is Lane.DEVICE:
        start_ns, end_ns = phases[0].start_ns, max(phase.end_ns for phase in phases)
    fitting, others = _fitting(phases, start_ns, end_ns)
    yield Slice(
        name=f"cycle {cycle.number}",
        start_ns=start_ns,
        end_ns=end_ns,
        details=_cycle_details(cycle, rank, with_results=is_first and lane is Lane.HOST),
        parts=list(_grouped(fitting, cycle.number)),
    )
    for phase in others:
        yield _phase_slice(phase, cycle.number)


def _fitting(
    phases: Sequence[Phase], start_ns: int, end_ns: int
) -> tuple[list[Phase], list[Phase]]:
    """The phases that follow each other within the bounds, and the others."""
    fitting: list[Phase] = []
    others: list[Phase] = []
    for phase in phases:
        fits = start_ns <= phase.start_ns and phase.end_ns <= end_ns
        (fitting if fits else others).append(phase)
        start_ns = phase.end_ns if fits else start_ns
    return fitting, others


def _grouped(phases: Sequence[Phase], number: int) -> Iterator[Slice]:
    for parent, group in groupby(phases, lambda phase: phase.name.parent):
        parts = [_phase_slice(phase, number) for phase in group]
        if parent is None:
            yield from parts
        else:
            yield Slice(parent.value, parts[0].start_ns, parts[-1].end_ns, parts=parts)


def _phase_slice(phase: Phase, number: int) -> Slice:
    details: dict[str, Value] = {}
    if phase.of_cycle != number:
        details["of_cycle"] = phase.of_cycle
    if phase.graph is not None:
        details["graph"] = phase.graph
    return Slice(phase.name.value, phase.start_ns, phase.end_ns, details)


def _cycle_details(cycle: Cycle, rank: RankCycle, *, with_results: bool) -> dict[str, Value]:
    details: dict[str, Value] = {
        "number": cycle.number,
        "kind": cycle.kind.value,
        "batch_size": cycle.batch_size,
        "steps": cycle.steps,
        "topk": cycle.topk,
        "draft_tokens": cycle.draft_tokens,
        "timing": rank.mode.value,
    }
    if rank.clock_error_ns is not None:
        details["clock_error_ns"] = rank.clock_error_ns
    if rank.incomplete:
        details["incomplete"] = True
    if with_results:
        details |= {f"request {row.request_id}": _result(row) for row in cycle.requests or ()}
    return details


def _result(row: RequestRow) -> str:
    drafts = "" if row.correct_drafts is None else f", {row.correct_drafts} drafts correct"
    return f"{row.output_tokens} tokens{drafts}"


def edges(piece: Slice) -> Iterator[tuple[int, Slice | None]]:
    """Begins and ends in their order, as (UNIX time in ns, the slice that begins or None)."""
    yield piece.start_ns, piece
    for part in piece.parts:
        yield from edges(part)
    yield piece.end_ns, None
