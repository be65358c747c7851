"""Writes OTLP as JSON lines, the format of OpenTelemetry's own file exporters.

Published rules: opentelemetry.io/docs/specs/otel/protocol/file-exporter.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from spectrace.otlp.encode_json import JsonEncoder
from spectrace_exporters import Recorded
from spectrace_exporters._spans import batches

_LINE_SPANS = 512


class OtlpLines:
    """One `TracesData` per line, with whole traces of one run."""

    suffix = ".otlp.jsonl"

    def write(self, recorded: Recorded, path: Path) -> None:
        """As `FileExporter.write`."""
        encoder = JsonEncoder()
        with path.open("wb") as out:
            for run, traces in batches(recorded, _LINE_SPANS):
                out.write(msgspec.json.encode(encoder.data(run, traces)) + b"\n")
