"""Writes the JSON that Jaeger's page takes under "Upload": one trace per cycle.

The format is that of Jaeger's `/api/traces`: times are whole µs. Both ends of a span are cut to
µs, so that spans that touch or nest in ns still do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext
from opentelemetry.util.types import Attributes

from spectrace.otlp import names
from spectrace_exporters import Recorded
from spectrace_exporters._spans import bounds_ns, span_id_of, trace_id_of, traces

_NS_PER_US = 1000
_SAMPLED = 1


class JaegerFile:
    """All cycles of a recording in one file."""

    suffix = ".jaeger.json"

    def write(self, recorded: Recorded, path: Path) -> None:
        """As `FileExporter.write`."""
        with path.open("wb") as out:
            out.write(b'{"data":[')
            for place, spans in enumerate(traces(recorded)):
                out.write(b",\n" if place else b"\n")
                out.write(msgspec.json.encode(trace_of(spans)))
            out.write(b"\n]}\n")


def trace_of(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """One trace with its processes: a resource is a process."""
    process_ids: dict[Resource, str] = {}
    for span in spans:
        process_ids.setdefault(span.resource, f"p{len(process_ids) + 1}")
    return {
        "traceID": trace_id_of(spans[0]),
        "spans": [_span(span, process_ids[span.resource]) for span in spans],
        "processes": {name: _process(resource) for resource, name in process_ids.items()},
        "warnings": None,
    }


def _process(resource: Resource) -> dict[str, Any]:
    attributes = dict(resource.attributes)
    return {
        "serviceName": attributes.pop(names.SERVICE_NAME),
        "tags": _tags(attributes),
    }


def _span(span: ReadableSpan, process_id: str) -> dict[str, Any]:
    start_us, end_us = (time_ns // _NS_PER_US for time_ns in bounds_ns(span))
    return {
        "traceID": trace_id_of(span),
        "spanID": span_id_of(span),
        "operationName": span.name,
        "references": _references(span),
        "startTime": start_us,
        "duration": end_us - start_us,
        "tags": _tags(span.attributes),
        "logs": [],
        "processID": process_id,
        "flags": _SAMPLED,
        "warnings": None,
    }


def _references(span: ReadableSpan) -> list[dict[str, str]]:
    parents = [] if span.parent is None else [_reference("CHILD_OF", span.parent)]
    return parents + [_reference("FOLLOWS_FROM", link.context) for link in span.links]


def _reference(kind: str, context: SpanContext) -> dict[str, str]:
    return {
        "refType": kind,
        "traceID": f"{context.trace_id:032x}",
        "spanID": f"{context.span_id:016x}",
    }


def _tags(attributes: Attributes) -> list[dict[str, Any]]:
    return [_tag(name, value) for name, value in (attributes or {}).items()]


def _tag(name: str, value: object) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"key": name, "type": "bool", "value": value}
    if isinstance(value, int):
        return {"key": name, "type": "int64", "value": value}
    if isinstance(value, str):
        return {"key": name, "type": "string", "value": value}
    # Jaeger has no arrays: it holds those of OTLP as JSON texts.
    return {"key": name, "type": "string", "value": msgspec.json.encode(value).decode()}
