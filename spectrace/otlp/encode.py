"""Writes a Cycle as the span objects of OpenTelemetry's SDK: one trace per cycle."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, TraceFlags

from spectrace import __version__
from spectrace.model import Cycle, Run
from spectrace.otlp import names
from spectrace.otlp.resources import Resources
from spectrace.otlp.shape import PlainLink, PlainSpan, Value, trace_of

_SCOPE = InstrumentationScope(names.SCOPE, __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Encoder:
    """Writes the Cycles of a run as spans; the same Cycle always gives the same spans.

    Args:
        service: What `service.name` begins with; the lane is added.
        attributes: Resource attributes to add to every span, as `Resources` takes them.
    """

    def __init__(
        self, service: str = "spectrace", attributes: Mapping[str, Value] | None = None
    ) -> None:
        self._resources: Resources[Resource] = Resources(_SharedResource, service, attributes)

    def spans(self, run: Run, cycle: Cycle) -> list[ReadableSpan]:
        """The spans of `cycle`, the root first.

        Raises:
            ValueError: As `trace_of`.
        """
        trace = trace_of(cycle)
        return [self._span(run, trace.trace_id, span) for span in trace.spans]

    def _span(self, run: Run, trace_id: int, span: PlainSpan) -> ReadableSpan:
        return ReadableSpan(
            span.name,
            context=_context(trace_id, span.span_id),
            parent=_context(trace_id, span.parent_id) if span.parent_id else None,
            resource=self._resources.of(run, span.place),
            attributes=span.attributes or None,
            links=[_link(link) for link in span.links],
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=_SCOPE,
        )


class _SharedResource(Resource):
    """A Resource that many spans share: hashed once, where the SDK's writes itself as JSON."""

    @cached_property
    def _hash(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)


def _context(trace_id: int, span_id: int, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=is_remote, trace_flags=_SAMPLED)


def _link(link: PlainLink) -> Link:
    context = _context(link.trace_id, link.span_id, is_remote=True)
    return Link(context, {names.LINKED_REQUEST: link.request_id})
