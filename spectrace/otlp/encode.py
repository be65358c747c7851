"""Writes a Cycle as spans: one trace per cycle, in the shape that `names` shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, TraceFlags
from opentelemetry.util.types import Attributes, AttributeValue

from spectrace import __version__
from spectrace.model import Cycle, Lane, Phase, PhaseName, RankCycle, RequestRow, Run
from spectrace.otlp import ids, names

_SCOPE = InstrumentationScope(names.SCOPE, __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NOT_VERIFIED = -1


def span_count(cycle: Cycle) -> int:
    """As how many spans a cycle is written, at most: spans drawn around others are estimated."""
    return 1 + sum(_SPANS_AROUND_PHASES + len(rank.phases) for rank in cycle.ranks)


_SPANS_AROUND_PHASES = 5  # the rank, its two lanes, a `verify` on each


class Encoder:
    """Writes the Cycles of a run as spans; the same Cycle always gives the same spans.

    Args:
        service: What `service.name` begins with; the lane is added.
        attributes: Resource attributes to add to every span. Those of `names` win, and none
            begins with `spectrace.`.
    """

    def __init__(
        self,
        service: str = "spectrace",
        attributes: Mapping[str, AttributeValue] | None = None,
    ) -> None:
        self._service = service
        self._attributes = {
            name: value
            for name, value in (attributes or {}).items()
            if not name.startswith(f"{names.SCOPE}.")
        }
        self._resources: _Resources | None = None

    def spans(self, run: Run, cycle: Cycle) -> list[ReadableSpan]:
        """The spans of `cycle`, the root first.

        Raises:
            ValueError: The cycle has no rank, or a rank has more than `ids.MAX_PHASES` phases.
        """
        if not cycle.ranks:
            raise ValueError(f"Cycle {cycle.number} has no rank.")
        trace = ids.trace_id(cycle.run_id, cycle.group, cycle.number)
        resources = self._resources_of(run)
        root = ReadableSpan(
            names.ROOT_SPAN,
            context=_context(trace, ids.root_span_id(trace)),
            resource=resources.run_resource,
            attributes=_root_attributes(cycle),
            start_time=cycle.start_ns,
            end_time=cycle.end_ns,
            instrumentation_scope=_SCOPE,
        )
        spans = [root]
        for rank in cycle.ranks:
            spans += _RankSpans(resources, root, rank, cycle.number).all()
        return spans

    def _resources_of(self, run: Run) -> _Resources:
        if self._resources is None or self._resources.run is not run:
            self._resources = _Resources(run, self._service, self._attributes)
        return self._resources


class _SharedResource(Resource):
    """A Resource that many spans share: hashed once, where the SDK's writes itself as JSON."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)


class _Resources:
    """The resources of a run, each made once.

    Args:
        run: The run.
        service: What `service.name` begins with.
        attributes: Attributes to add to each.
    """

    def __init__(self, run: Run, service: str, attributes: dict[str, AttributeValue]) -> None:
        self.run = run
        self._service = service
        self._attributes = attributes
        self._pids = {rank.name: rank.pid for rank in run.ranks}
        self._of_ranks: dict[tuple[str, Lane], Resource] = {}

    def of_rank(self, rank: str, lane: Lane) -> Resource:
        """The resource of one lane of one rank."""
        key = (rank, lane)
        if key not in self._of_ranks:
            self._of_ranks[key] = self._rank_resource(rank, lane)
        return self._of_ranks[key]

    def _rank_resource(self, rank: str, lane: Lane) -> Resource:
        pid = self._pids.get(rank)
        return _SharedResource(
            {
                **self._common(lane, rank),
                **({} if pid is None else {names.PROCESS_PID: pid}),
                names.RANK: _text(rank),
                names.LANE: lane.value,
            }
        )

    @cached_property
    def run_resource(self) -> Resource:
        """The resource of the root: everything that is known of the run."""
        run = self.run
        return _SharedResource(
            {
                **self._common(Lane.HOST),
                names.PROCESS_PID: run.server_pid,
                names.PROCESS_COMMAND_ARGS: _texts(run.command),
                names.ENGINE: _text(run.engine),
                names.ANCHOR_UNIX_NS: run.anchor_unix_ns,
                names.ANCHOR_MONOTONIC_NS: run.anchor_monotonic_ns,
                names.RUN_RANKS: _texts(rank.name for rank in run.ranks),
                names.RUN_RANK_PIDS: [rank.pid for rank in run.ranks],
            }
        )

    def _common(self, lane: Lane, *place: str) -> dict[str, AttributeValue]:
        instance = "/".join((self.run.host, self.run.run_id, *place))
        return {
            **self._attributes,
            names.SERVICE_NAME: f"{self._service}-{lane.value}",
            names.SERVICE_INSTANCE_ID: _text(instance),
            names.HOST_NAME: _text(self.run.host),
            names.RUN_ID: self.run.run_id,
        }


@dataclass(frozen=True)
class _RankSpans:
    """The spans of one rank in one cycle.

    Attributes:
        resources: The run's.
        root: Span of the cycle.
        rank: What the rank reported.
        number: Of the cycle.
    """

    resources: _Resources
    root: ReadableSpan
    rank: RankCycle
    number: int

    def all(self) -> Iterator[ReadableSpan]:
        """The rank's own span, then each lane that has phases, with all below it."""
        rank = self.rank
        if len(rank.phases) > ids.MAX_PHASES:
            raise ValueError(f"Rank {rank.rank} has {len(rank.phases)} phases in one cycle.")
        rank_span = self._span(
            f"{names.RANK_SPAN_PREFIX}{_text(rank.rank)}",
            self._id,
            self.root.get_span_context(),
            Lane.HOST,
            (rank.start_ns, rank.end_ns),
            _rank_attributes(rank),
        )
        yield rank_span
        for lane in Lane:
            phases = [(i, phase) for i, phase in enumerate(rank.phases) if phase.lane is lane]
            if phases:
                yield from self._lane(lane, phases, rank_span.get_span_context())

    @cached_property
    def _id(self) -> int:
        return ids.rank_span_id(self._trace, self.rank.rank)

    @cached_property
    def _trace(self) -> int:
        context = self.root.get_span_context()
        return context.trace_id if context else 0

    def _lane(
        self, lane: Lane, phases: Sequence[tuple[int, Phase]], parent: SpanContext | None
    ) -> Iterator[ReadableSpan]:
        span = self._span(
            lane.value,
            ids.lane_span_id(self._id, lane),
            parent,
            lane,
            _bounds(phases) if lane is Lane.DEVICE else (self.rank.start_ns, self.rank.end_ns),
        )
        yield span
        for name, siblings in groupby(phases, lambda item: item[1].name.parent):
            yield from self._siblings(name, list(siblings), span.get_span_context())

    def _siblings(
        self,
        name: PhaseName | None,
        phases: Sequence[tuple[int, Phase]],
        parent: SpanContext | None,
    ) -> Iterator[ReadableSpan]:
        """Phases that follow each other, with the span drawn around them if they are parts."""
        first, phase = phases[0]
        if name is not None:
            place = ids.parent_span_id(self._id, first)
            span = self._span(name.value, place, parent, phase.lane, _bounds(phases))
            yield span
            parent = span.get_span_context()
        for index, phase in phases:
            yield self._span(
                phase.name.value,
                ids.phase_span_id(self._id, index),
                parent,
                phase.lane,
                (phase.start_ns, phase.end_ns),
                _phase_attributes(phase, self.number),
            )

    def _span(  # noqa: PLR0913, PLR0917  # what makes a span a span; called from here alone
        self,
        name: str,
        span_id: int,
        parent: SpanContext | None,
        lane: Lane,
        bounds_ns: tuple[int, int],
        attributes: Attributes = None,
    ) -> ReadableSpan:
        return ReadableSpan(
            name,
            context=_context(self._trace, span_id),
            parent=parent,
            resource=self.resources.of_rank(self.rank.rank, lane),
            attributes=attributes,
            start_time=bounds_ns[0],
            end_time=bounds_ns[1],
            instrumentation_scope=_SCOPE,
        )


def _context(trace: int, span: int) -> SpanContext:
    return SpanContext(trace, span, is_remote=False, trace_flags=_SAMPLED)


def _bounds(phases: Sequence[tuple[int, Phase]]) -> tuple[int, int]:
    """UNIX times in ns of the first start and the last end."""
    return min(phase.start_ns for _, phase in phases), max(phase.end_ns for _, phase in phases)


def _root_attributes(cycle: Cycle) -> dict[str, AttributeValue]:
    return {
        names.GROUP: _text(cycle.group),
        names.NUMBER: cycle.number,
        names.KIND: cycle.kind.value,
        names.BATCH_SIZE: cycle.batch_size,
        names.STEPS: cycle.steps,
        names.TOPK: cycle.topk,
        names.DRAFT_TOKENS: cycle.draft_tokens,
        names.RANKS: _texts(rank.rank for rank in cycle.ranks),
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


def _known(values: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    return {name: value for name, value in values.items() if value is not None}


def _phase_attributes(phase: Phase, number: int) -> Attributes:
    of_cycle = None if phase.of_cycle == number else phase.of_cycle
    return _known({names.OF_CYCLE: of_cycle, names.GRAPH: phase.graph}) or None


def _request_attributes(rows: Sequence[RequestRow]) -> dict[str, AttributeValue]:
    drafts = [_NOT_VERIFIED if row.correct_drafts is None else row.correct_drafts for row in rows]
    attributes: dict[str, AttributeValue] = {
        names.REQUEST_IDS: _texts(row.request_id for row in rows),
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


def _rank_attributes(rank: RankCycle) -> dict[str, AttributeValue]:
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


def _text(text: str) -> str:
    """The text as UTF-8 can carry it: a command line may hold bytes that are no text."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _texts(texts: Iterator[str] | Sequence[str]) -> list[str]:
    return [_text(text) for text in texts]
