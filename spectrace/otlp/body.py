"""From the bytes that somebody sent to a request: bounds, gzip, protobuf and JSON."""

from __future__ import annotations

import zlib

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spectrace.otlp import json_body
from spectrace.otlp.bounds import excess

MAX_BODY_BYTES = 20 * 1024 * 1024
"""A body may be so long, as sent and after decompression."""

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
MEDIA_TYPES = (PROTOBUF, JSON)

_GZIP = 16 + zlib.MAX_WBITS
_SUSPECT_BYTES = 1024 * 1024  # shorter bodies hold too little to take much memory


class BodyError(ValueError):
    """A body that is not read; the message says why and what to do.

    Args:
        status: The HTTP status for it: 400, 413 or 415.
        message: What is wrong; it holds nothing that was sent.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def read_body(
    body: bytes, media_type: str, encoding: str | None = None
) -> ExportTraceServiceRequest:
    """The request that a body holds.

    Args:
        body: As it came.
        media_type: In lower case and without parameters.
        encoding: `gzip`, or empty, None or `identity` for none.

    Raises:
        BodyError: It is of another type or encoding, too long, or malformed.
    """
    if media_type not in MEDIA_TYPES:
        raise BodyError(415, f"Only the content types {PROTOBUF} and {JSON} are understood.")
    plain = _decompress(body, (encoding or "").strip().lower())
    return _parse_json(plain) if media_type == JSON else _parse_protobuf(plain)


def too_long() -> BodyError:
    """What is said of a body of more than `MAX_BODY_BYTES`."""
    return BodyError(
        413, f"The body is longer than {MAX_BODY_BYTES} bytes: send fewer spans at a time."
    )


def _decompress(body: bytes, encoding: str) -> bytes:
    if encoding not in {"", "identity", "gzip"}:
        raise BodyError(415, "Only content encodings gzip and identity are understood.")
    if len(body) > MAX_BODY_BYTES:
        raise too_long()
    return _gunzip(body) if encoding == "gzip" else body


def _gunzip(body: bytes) -> bytes:
    """Decompresses no further than the bound, and only one member, as all senders write."""
    stream = zlib.decompressobj(_GZIP)
    try:
        plain = stream.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error:
        raise BodyError(400, "The body is no gzip although its encoding says so.") from None
    if len(plain) > MAX_BODY_BYTES:
        raise too_long()
    if not stream.eof or stream.unused_data:
        raise BodyError(400, "The gzip body is cut off, or something follows it.")
    return plain


def _parse_protobuf(body: bytes) -> ExportTraceServiceRequest:
    if len(body) > _SUSPECT_BYTES and (what := excess(body)):
        raise BodyError(413, f"The body holds more than {what}: send fewer spans at a time.")
    try:
        return ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise BodyError(400, "The body is no ExportTraceServiceRequest.") from None


def _parse_json(body: bytes) -> ExportTraceServiceRequest:
    try:
        return json_body.parse(body)
    except json_body.NotOtlpError as error:
        raise BodyError(400, f"The body is no ExportTraceServiceRequest as JSON: {error}") from None
