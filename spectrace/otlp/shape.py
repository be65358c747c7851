"""What spans a Cycle is written as, in plain values: one trace, in the shape that `names` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

import msgspec

from spectrace.model import Cycle, Lane, Phase, PhaseName, RankCycle, RequestRow
from spectrace.otlp import ids, names

Value: TypeAlias = "str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int]"
Place: TypeAlias = "tuple[str, Lane] | None"
"""Whose resource a span has: a lane of a rank, None for the root."""

MAX_LINKS = 128
"""Links of one span: as many as OpenTelemetry keeps by default, and as Jaeger shows."""

_NOTHING: dict[str, Value] = {}
_NOT_VERIFIED = -1


class PlainLink(msgspec.Struct, frozen=True, gc=False):
    """A link to the span of one request.

    Attributes:
        trace_id: 128 bits.
        span_id: 64 bits.
        request_id: The server's id of the request.
    """

    trace_id: int
    span_id: int
    request_id: str


class PlainSpan(msgspec.Struct, frozen=True):
    """One span of a trace.

    Attributes:
        name: Its name.
        span_id: 64 bits.
        parent_id: 64 bits, 0 for the root.
        place: Whose resource it has.
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns.
        attributes: Its attributes by name.
        links: Spans of other traces.
        dropped_links: Links for which there was no room.
        dropped_attributes: Attributes likewise.
    """

    name: str
    span_id: int
    parent_id: int
    place: Place
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value] = _NOTHING
    links: Sequence[PlainLink] = ()
    dropped_links: int = 0
    dropped_attributes: int = 0


class Trace(msgspec.Struct, frozen=True):
    """The trace of one cycle.

    Attributes:
        trace_id: 128 bits.
        spans: The root first, parents before their children.
    """

    trace_id: int
    spans: list[PlainSpan]


def trace_of(cycle: Cycle) -> Trace:
    """The trace of a cycle; the same Cycle always gives the same.

    Raises:
        ValueError: The cycle has no rank, or a rank has more than `ids.MAX_PHASES` phases.
    """
    if not cycle.ranks:
        raise ValueError(f"Cycle {cycle.number} has no rank.")
    trace_id = ids.trace_id(cycle.run_id, cycle.group, cycle.number)
    spans = [_root(cycle, ids.root_span_id(trace_id))]
    for rank in cycle.ranks:
        spans += _RankSpans(rank, trace_id, spans[0].span_id, cycle.number).all()
    return Trace(trace_id, spans)


def span_count(cycle: Cycle) -> int:
    """As how many spans a cycle is written."""
    return 1 + sum(1 + _below(rank.phases) for rank in cycle.ranks)


def _below(phases: Sequence[Phase]) -> int:
    """Spans below a rank: its phases, the lanes that they are on, and those around parts."""
    count = len(phases)
    for lane in Lane:
        before: PhaseName | None = None
        parents = [phase.name.parent for phase in phases if phase.lane is lane]
        count += bool(parents)
        for parent in parents:
            count += parent is not None and parent is not before
            before = parent
    return count


def _root(cycle: Cycle, span_id: int) -> PlainSpan:
    links = [link for link in map(_link, cycle.requests or ()) if link is not None]
    return PlainSpan(
        names.ROOT_SPAN,
        span_id,
        0,
        None,
        cycle.start_ns,
        cycle.end_ns,
        _root_attributes(cycle),
        links[:MAX_LINKS],
        max(0, len(links) - MAX_LINKS),
    )


def _link(row: RequestRow) -> PlainLink | None:
    if row.span is None:
        return None
    trace_id, _, span_id = row.span.partition("-")
    return PlainLink(int(trace_id, 16), int(span_id, 16), as_text(row.request_id))


class _RankSpans:
    """The spans of one rank in one cycle.

    Args:
        rank: What the rank reported.
        trace_id: Of the cycle.
        root_id: Of the cycle's span.
        number: Of the cycle.
    """

    def __init__(self, rank: RankCycle, trace_id: int, root_id: int, number: int) -> None:
        if len(rank.phases) > ids.MAX_PHASES:
            raise ValueError(f"Rank {rank.rank} has {len(rank.phases)} phases in one cycle.")
        self._rank = rank
        self._root_id = root_id
        self._number = number
        self._id = ids.rank_span_id(trace_id, rank.rank)

    def all(self) -> Iterator[PlainSpan]:
        """The rank's own span, then each lane that has phases, with all below it."""
        rank = self._rank
        yield PlainSpan(
            f"{names.RANK_SPAN_PREFIX}{as_text(rank.rank)}",
            self._id,
            self._root_id,
            (rank.rank, Lane.HOST),
            rank.start_ns,
            rank.end_ns,
            _rank_attributes(rank),
        )
        for lane in Lane:
            phases = [(i, phase) for i, phase in enumerate(rank.phases) if phase.lane is lane]
            if phases:
                yield from self._lane(lane, phases)

    def _lane(self, lane: Lane, phases: Sequence[tuple[int, Phase]]) -> Iterator[PlainSpan]:
        rank = self._rank
        span_id = ids.lane_span_id(self._id, lane)
        place = (rank.rank, lane)
        bounds = _bounds(phases) if lane is Lane.DEVICE else (rank.start_ns, rank.end_ns)
        yield PlainSpan(lane.value, span_id, self._id, place, *bounds)
        for name, siblings in groupby(phases, lambda item: item[1].name.parent):
            yield from self._siblings(name, list(siblings), span_id, place)

    def _siblings(
        self,
        name: PhaseName | None,
        phases: Sequence[tuple[int, Phase]],
        parent_id: int,
        place: Place,
    ) -> Iterator[PlainSpan]:
        """Phases that follow each other, with the span drawn around them if they are parts."""
        if name is not None:
            around = ids.parent_span_id(self._id, phases[0][0])
            yield PlainSpan(name.value, around, parent_id, place, *_bounds(phases))
            parent_id = around
        for index, phase in phases:
            yield PlainSpan(
                phase.name.value,
                ids.phase_span_id(self._id, index),
                parent_id,
                place,
                phase.start_ns,
                phase.end_ns,
                self._phase_attributes(phase),
            )

    def _phase_attributes(self, phase: Phase) -> Mapping[str, Value]:
        of_another = phase.of_cycle != self._number
        if phase.graph is None:
            return {names.OF_CYCLE: phase.of_cycle} if of_another else _NOTHING
        if of_another:
            return {names.OF_CYCLE: phase.of_cycle, names.GRAPH: phase.graph}
        return _RAN_AS_GRAPH[phase.graph]


_RAN_AS_GRAPH: dict[bool, dict[str, Value]] = {ran: {names.GRAPH: ran} for ran in (False, True)}


def _bounds(phases: Sequence[tuple[int, Phase]]) -> tuple[int, int]:
    """UNIX times in ns of the first start and the last end."""
    return min(phase.start_ns for _, phase in phases), max(phase.end_ns for _, phase in phases)


def _root_attributes(cycle: Cycle) -> dict[str, Value]:
    return {
        names.GROUP: as_text(cycle.group),
        names.NUMBER: cycle.number,
        names.KIND: cycle.kind.value,
        names.BATCH_SIZE: cycle.batch_size,
        names.STEPS: cycle.steps,
        names.TOPK: cycle.topk,
        names.DRAFT_TOKENS: cycle.draft_tokens,
        names.RANKS: as_texts(rank.rank for rank in cycle.ranks),
        **_known(
            {
                names.PADDED_BATCH: cycle.padded_batch,
                names.CONTEXT_TOKENS_SUM: cycle.context_tokens_sum,
                names.CONTEXT_TOKENS_MAX: cycle.context_tokens_max,
                names.QUEUED: cycle.queued,
                names.RUNNING: cycle.running,
            }
        ),
        **({} if cycle.requests is None else _request_attributes(cycle.requests)),
    }


def _known(values: Mapping[str, Value | None]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if value is not None}


def _request_attributes(rows: Sequence[RequestRow]) -> dict[str, Value]:
    drafts = [_NOT_VERIFIED if row.correct_drafts is None else row.correct_drafts for row in rows]
    attributes: dict[str, Value] = {
        names.REQUEST_IDS: as_texts(row.request_id for row in rows),
        names.CORRECT_DRAFTS: drafts,
        names.OUTPUT_TOKENS: [row.output_tokens for row in rows],
    }
    if any(row.counts for row in rows):
        accepted = sum(row.correct_drafts or 0 for row in rows if row.counts)
        attributes[names.ACCEPTED_TOKENS] = accepted
    if any(row.overshoot for row in rows):
        attributes[names.OVERSHOOT] = [row.overshoot for row in rows]
    if any(row.health_check for row in rows):
        attributes[names.HEALTH_CHECK] = [row.health_check for row in rows]
    return attributes


def _rank_attributes(rank: RankCycle) -> dict[str, Value]:
    flags = {
        names.ENDED_IDLE: rank.ended_idle,
        names.INCOMPLETE: rank.incomplete,
        names.LATE_SWITCH: rank.late_switch,
        names.DEVICE_INCOMPLETE: rank.device_incomplete,
    }
    asked = None if rank.asked_mode is None else rank.asked_mode.value
    return {
        names.TIMING_MODE: rank.mode.value,
        names.PROBE_NS: rank.probe_ns,
        names.PHASES: len(rank.phases),
        **{name: True for name, is_set in flags.items() if is_set},
        **_known({names.ASKED_MODE: asked, names.CLOCK_ERROR_NS: rank.clock_error_ns}),
    }


def as_text(text: str) -> str:
    """The text as UTF-8 can carry it: a command line may hold bytes that are no text."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def as_texts(texts: Iterator[str] | Sequence[str]) -> list[str]:
    """Each text as `as_text`."""
    return [as_text(text) for text in texts]
