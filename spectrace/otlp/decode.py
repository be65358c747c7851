"""Reads spans that somebody sent: which are ours, what they say, and which are refused and why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

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
from spectrace.otlp import ids, names
from spectrace.otlp.attributes import (
    MAX_ARGUMENT,
    MAX_DRAFTS,
    MAX_INT32,
    MAX_VALUES,
    Attributes,
    RefusedError,
    choice,
)
from spectrace.otlp.checks import check_ids, check_link, check_times
from spectrace.otlp.others import OtherReader

_RUN_ID = re.compile("[0-9a-f]{32}")
_NOT_VERIFIED = -1


class RootSpan(msgspec.Struct, frozen=True):
    """What the root of a trace says.

    Attributes:
        trace: Trace id.
        run: The run, as far as the sender knows it.
        cycle: The cycle, without its ranks.
        ranks: Names of the ranks that the sender will send or has sent.
    """

    trace: int
    run: Run
    cycle: Cycle
    ranks: tuple[str, ...]


class RankSpan(msgspec.Struct, frozen=True):
    """What the span of a rank says.

    Attributes:
        trace: Trace id.
        rank: The rank's share of the cycle, without its phases.
        phases: How many phases belong to it.
    """

    trace: int
    rank: RankCycle
    phases: int


class PhaseSpan(msgspec.Struct, frozen=True):
    """What the span of a phase says.

    Attributes:
        trace: Trace id.
        rank: Name of its rank.
        index: Its place among the phases of the rank.
        phase: The phase; its `of_cycle` is `THIS_CYCLE` where it does not name another.
    """

    trace: int
    rank: str
    index: int
    phase: Phase


THIS_CYCLE = -1
"""Stands for the number of the span's own cycle, which only its root knows."""


class SpanBatch(msgspec.Struct):
    """The spans of one request.

    Attributes:
        roots: Ours, of cycles.
        ranks: Ours, of ranks.
        phases: Ours, of phases.
        others: Those of other people.
        refused: How many were refused, by reason.
    """

    roots: list[RootSpan] = msgspec.field(default_factory=list)
    ranks: list[RankSpan] = msgspec.field(default_factory=list)
    phases: list[PhaseSpan] = msgspec.field(default_factory=list)
    others: list[OtherSpan] = msgspec.field(default_factory=list)
    refused: Counter[str] = msgspec.field(default_factory=Counter)


def read_spans(request: ExportTraceServiceRequest) -> SpanBatch:
    """Sorts the spans of a request and checks each on its own; raises nothing."""
    batch = SpanBatch()
    for group in request.resource_spans:
        attributes = Attributes(group.resource.attributes)
        for scoped in group.scope_spans:
            _read_group(batch, attributes, scoped.scope.name == names.SCOPE, scoped.spans)
    return batch


def _read_group(
    batch: SpanBatch, resource: Attributes, is_ours: bool, spans: Iterable[Span]
) -> None:
    reader: _Reader
    try:
        if not is_ours:
            reader = _OtherReader(resource)
        elif names.RANK in resource:
            reader = _RankReader(resource)
        else:
            reader = _RootReader(resource)
    except RefusedError as reason:
        batch.refused[str(reason)] += sum(1 for _ in spans)
        return
    for span in spans:
        _read_span(batch, reader, span)


def _read_span(batch: SpanBatch, reader: _Reader, span: Span) -> None:
    try:
        reader.add(batch, span)
    except RefusedError as reason:
        batch.refused[str(reason)] += 1


class _Reader(Protocol):
    """Reads the spans of one resource."""

    def add(self, batch: SpanBatch, span: Span) -> None:
        """Adds what a span says to `batch`, or raises a RefusedError."""


class _OtherReader(OtherReader):
    """Reads spans of somebody else into a batch."""

    def add(self, batch: SpanBatch, span: Span) -> None:
        """Adds a span to `batch`.

        Raises:
            RefusedError: It has no ids, or its times are none.
        """
        batch.others.append(self.read(span))


class _RootReader:
    """Reads spans whose resource is a run.

    Args:
        resource: Attributes of the resource.

    Raises:
        RefusedError: The resource describes no run.
    """

    def __init__(self, resource: Attributes) -> None:
        self._run = _read_run(resource)

    def add(self, batch: SpanBatch, span: Span) -> None:
        """Adds what a span says to `batch`.

        Raises:
            RefusedError: It is not the root of the cycle that it speaks of.
        """
        _check_span(span)
        if span.name != names.ROOT_SPAN:
            raise RefusedError(f"the span is no {names.ROOT_SPAN} and names no rank")
        attributes = Attributes(span.attributes)
        cycle = _read_cycle(self._run.run_id, attributes, _linked_spans(span.links))
        trace = int.from_bytes(span.trace_id, "big")
        if trace != ids.trace_id(cycle.run_id, cycle.group, cycle.number):
            raise RefusedError("the trace id is not that of the cycle")
        ranks = attributes.texts(names.RANKS)
        batch.roots.append(RootSpan(trace, self._run, cycle, ranks))


class _RankReader:
    """Reads spans whose resource is one lane of a rank.

    Args:
        resource: Attributes of the resource.

    Raises:
        RefusedError: The resource describes no lane of a rank.
    """

    def __init__(self, resource: Attributes) -> None:
        _read_run_id(resource)
        self._rank = resource.text(names.RANK)
        self._lane = resource.choice(names.LANE, Lane)

    def add(self, batch: SpanBatch, span: Span) -> None:
        """Adds what a span says to `batch`: a rank, a phase, or nothing if it only holds others.

        Raises:
            RefusedError: It is not what its id says.
        """
        _check_span(span)
        trace = int.from_bytes(span.trace_id, "big")
        span_id = int.from_bytes(span.span_id, "big")
        rank_span = ids.rank_span_id(trace, self._rank)
        if ids.rank_span_of(span_id) != rank_span:
            raise RefusedError("the span id is not one of the rank")
        if span_id == rank_span:
            batch.ranks.append(self._read_rank(trace, span))
        elif (index := ids.phase_index_of(span_id)) is not None:
            phase = _read_phase(self._lane, span)
            batch.phases.append(PhaseSpan(trace, self._rank, index, phase))

    def _read_rank(self, trace: int, span: Span) -> RankSpan:
        attributes = Attributes(span.attributes)
        rank = RankCycle(
            rank=self._rank,
            start_ns=span.start_time_unix_nano,
            end_ns=span.end_time_unix_nano,
            phases=(),
            mode=attributes.choice(names.TIMING_MODE, TimingMode),
            probe_ns=attributes.integer(names.PROBE_NS),
            ended_idle=attributes.flag(names.ENDED_IDLE),
            incomplete=attributes.flag(names.INCOMPLETE),
            asked_mode=(
                attributes.choice(names.ASKED_MODE, TimingMode)
                if names.ASKED_MODE in attributes
                else None
            ),
            late_switch=attributes.flag(names.LATE_SWITCH),
            clock_error_ns=attributes.optional_integer(names.CLOCK_ERROR_NS),
            device_incomplete=attributes.flag(names.DEVICE_INCOMPLETE),
        )
        return RankSpan(trace, rank, attributes.integer(names.PHASES, high=ids.MAX_PHASES))


def _check_span(span: Span) -> None:
    """Refuses a span that no receiver could store."""
    check_ids(span)
    check_times(span.start_time_unix_nano, span.end_time_unix_nano)


def _read_phase(lane: Lane, span: Span) -> Phase:
    of_cycle, graph = THIS_CYCLE, None
    if span.attributes:
        attributes = Attributes(span.attributes)
        if names.OF_CYCLE in attributes:
            of_cycle = attributes.integer(names.OF_CYCLE)
        if names.GRAPH in attributes:
            graph = attributes.flag(names.GRAPH)
    return Phase(
        name=choice("the name of the phase", span.name, PhaseName),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        of_cycle=of_cycle,
        lane=lane,
        graph=graph,
    )


def _read_run_id(attributes: Attributes) -> str:
    run_id = attributes.text(names.RUN_ID)
    if not _RUN_ID.fullmatch(run_id):
        raise RefusedError(f"{names.RUN_ID} is not 32 lower-case hexadecimal digits")
    return run_id


def _read_run(attributes: Attributes) -> Run:
    ranks = attributes.texts(names.RUN_RANKS)
    pids = attributes.integers(names.RUN_RANK_PIDS, high=MAX_INT32)
    hosts = ("",) * len(ranks)
    if names.RUN_RANK_HOSTS in attributes:
        hosts = attributes.texts(names.RUN_RANK_HOSTS)
    _check_lengths(len(ranks), pids, hosts)
    return Run(
        run_id=_read_run_id(attributes),
        host=attributes.text(names.HOST_NAME),
        server_pid=attributes.integer(names.PROCESS_PID, high=MAX_INT32),
        command=attributes.texts(names.PROCESS_COMMAND_ARGS, MAX_ARGUMENT),
        ranks=tuple(
            Rank(name=name, pid=pid, host=host)
            for name, pid, host in zip(ranks, pids, hosts, strict=True)
        ),
        anchor_unix_ns=attributes.integer(names.ANCHOR_UNIX_NS),
        anchor_monotonic_ns=attributes.integer(names.ANCHOR_MONOTONIC_NS),
        engine=attributes.text(names.ENGINE),
    )


def _read_cycle(run_id: str, attributes: Attributes, spans: Mapping[str, str]) -> Cycle:
    return Cycle(
        run_id=run_id,
        group=attributes.text(names.GROUP),
        number=attributes.integer(names.NUMBER),
        kind=attributes.choice(names.KIND, CycleKind),
        batch_size=attributes.integer(names.BATCH_SIZE, high=MAX_VALUES),
        steps=attributes.integer(names.STEPS, high=MAX_DRAFTS),
        topk=attributes.integer(names.TOPK, high=MAX_DRAFTS),
        draft_tokens=attributes.integer(names.DRAFT_TOKENS, high=MAX_DRAFTS),
        ranks=(),
        requests=_read_requests(attributes, spans) if names.REQUEST_IDS in attributes else None,
        padded_batch=attributes.optional_integer(names.PADDED_BATCH, high=MAX_INT32),
        context_tokens_sum=attributes.optional_integer(names.CONTEXT_TOKENS_SUM),
        context_tokens_max=attributes.optional_integer(names.CONTEXT_TOKENS_MAX),
        queued=attributes.optional_integer(names.QUEUED, high=MAX_INT32),
        running=attributes.optional_integer(names.RUNNING, high=MAX_INT32),
    )


def _read_requests(attributes: Attributes, spans: Mapping[str, str]) -> tuple[RequestRow, ...]:
    request_ids = attributes.texts(names.REQUEST_IDS)
    count = len(request_ids)
    drafts = attributes.integers(names.CORRECT_DRAFTS, low=_NOT_VERIFIED, high=MAX_DRAFTS)
    output = attributes.integers(names.OUTPUT_TOKENS, high=MAX_VALUES)
    overshoot = attributes.flags(names.OVERSHOOT, count)
    health_check = attributes.flags(names.HEALTH_CHECK, count)
    _check_lengths(count, drafts, output, overshoot, health_check)
    return tuple(
        RequestRow(
            request_id=request_id,
            correct_drafts=None if correct_drafts == _NOT_VERIFIED else correct_drafts,
            output_tokens=output_tokens,
            overshoot=is_overshoot,
            health_check=is_health_check,
            span=spans.get(request_id),
        )
        for request_id, correct_drafts, output_tokens, is_overshoot, is_health_check in zip(
            request_ids, drafts, output, overshoot, health_check, strict=True
        )
    )


def _linked_spans(links: Iterable[Span.Link]) -> dict[str, str]:
    """The server's own spans of requests, by request id, as `RequestRow.span` has them."""
    spans = {}
    for link in links:
        attributes = Attributes(link.attributes)
        if names.LINKED_REQUEST in attributes:
            check_link(link)
            request_id = attributes.text(names.LINKED_REQUEST)
            spans[request_id] = f"{link.trace_id.hex()}-{link.span_id.hex()}"
    return spans


def _check_lengths(length: int, *arrays: Sequence[object]) -> None:
    if any(len(array) != length for array in arrays):
        raise RefusedError("arrays that belong together differ in length")
