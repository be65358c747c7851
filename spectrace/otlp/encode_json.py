"""Writes traces as OTLP's JSON: opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding.

Ids in hexadecimal, enums as integers, names in lowerCamelCase, 64-bit integers as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spectrace import __version__
from spectrace.model import Run
from spectrace.otlp import names
from spectrace.otlp.resources import Resources
from spectrace.otlp.shape import Place, PlainLink, PlainSpan, Trace, Value

_SCOPE = {"name": names.SCOPE, "version": __version__}
_INTERNAL = 1
_LOCAL = 0x100  # the parent's being remote is known, and it is not
_REMOTE = 0x300

Json = dict[str, Any]


class JsonEncoder:
    """Writes the traces of a run as one `TracesData`, which is a request's body as well.

    Args:
        service: What `service.name` begins with; the lane is added.
        attributes: Resource attributes to add to every span, as `Resources` takes them.
    """

    def __init__(
        self, service: str = "spectrace", attributes: Mapping[str, Value] | None = None
    ) -> None:
        self._resources: Resources[Json] = Resources(_resource, service, attributes)

    def data(self, run: Run, traces: Iterable[Trace]) -> Json:
        """The traces, their spans put together by resource."""
        groups: dict[Place, list[Json]] = {}
        for trace in traces:
            trace_id = f"{trace.trace_id:032x}"
            for span in trace.spans:
                groups.setdefault(span.place, []).append(_span(trace_id, span))
        return {
            "resourceSpans": [
                {
                    "resource": self._resources.of(run, place),
                    "scopeSpans": [{"scope": _SCOPE, "spans": spans}],
                }
                for place, spans in groups.items()
            ]
        }


def _span(trace_id: str, span: PlainSpan) -> Json:
    written: Json = {
        "traceId": trace_id,
        "spanId": f"{span.span_id:016x}",
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "flags": _LOCAL,
        "status": {},
    }
    if span.parent_id:
        written["parentSpanId"] = f"{span.parent_id:016x}"
    if span.attributes:
        written["attributes"] = _pairs(span.attributes)
    if span.dropped_attributes:
        written["droppedAttributesCount"] = span.dropped_attributes
    if span.links:
        written["links"] = [_link(link) for link in span.links]
    if span.dropped_links:
        written["droppedLinksCount"] = span.dropped_links
    return written


def _link(link: PlainLink) -> Json:
    return {
        "traceId": f"{link.trace_id:032x}",
        "spanId": f"{link.span_id:016x}",
        "attributes": _pairs({names.LINKED_REQUEST: link.request_id}),
        "flags": _REMOTE,
    }


def _resource(attributes: Mapping[str, Value]) -> Json:
    return {"attributes": _pairs(attributes)}


def _pairs(attributes: Mapping[str, Value]) -> list[Json]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items()]


def _value(value: Value) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"arrayValue": {"values": [_value(one) for one in value]}}
