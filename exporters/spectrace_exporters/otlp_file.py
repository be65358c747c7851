"""Writes OTLP as JSON lines, the format of OpenTelemetry's own file exporters.

Published rules: opentelemetry.io/docs/specs/otel/protocol/file-exporter and, for JSON,
opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding: ids in hexadecimal, enums as integers,
names in lowerCamelCase, 64-bit integers as text.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from google.protobuf.json_format import MessageToDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from spectrace_exporters import Recorded
from spectrace_exporters._spans import batches

_LINE_SPANS = 512
_IDS = ("traceId", "spanId", "parentSpanId")


class OtlpLines:
    """One `TracesData` per line, with whole traces."""

    suffix = ".otlp.jsonl"

    def write(self, recorded: Recorded, path: Path) -> None:
        """As `FileExporter.write`."""
        with path.open("wb") as out:
            for spans in batches(recorded, _LINE_SPANS):
                out.write(msgspec.json.encode(traces_data(spans)) + b"\n")


def traces_data(spans: Sequence[ReadableSpan]) -> dict[str, Any]:
    """The spans as OTLP writes them in JSON."""
    data: dict[str, Any] = MessageToDict(encode_spans(spans), use_integers_for_enums=True)
    for resource in data["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                span.update(_hexadecimal(span))
    return data


def _hexadecimal(span: dict[str, Any]) -> dict[str, str]:
    """The ids, which protobuf's own JSON writes in base64."""
    return {name: base64.b64decode(span[name]).hex() for name in _IDS if name in span}
