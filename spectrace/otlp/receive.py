"""What a receiver of OTLP over HTTP answers to one POST, without a socket in sight."""

from __future__ import annotations

import json
import zlib

import msgspec
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from spectrace.otlp.decode import SpanBatch, read_spans

MAX_BODY_BYTES = 20 * 1024 * 1024
"""A body may be so long, as sent and after decompression."""

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

_GZIP = 16 + zlib.MAX_WBITS
_INVALID_ARGUMENT = 3  # of google.rpc.Code: the request will not succeed if repeated
_CODES = {408: 4, 405: 12, 503: 14}  # likewise: late, not implemented, unavailable for now
_REASONS_SHOWN = 3


class Answer(msgspec.Struct, frozen=True):
    """What to answer, and what arrived.

    Attributes:
        status: HTTP status.
        content_type: Of `body`.
        body: An ExportTraceServiceResponse, or a google.rpc.Status where the request failed.
        batch: The spans to store; None where the request failed.
    """

    status: int
    content_type: str
    body: bytes
    batch: SpanBatch | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers of the answer."""
        return {"content-type": self.content_type}


class _FailedError(Exception):
    """The request fails as a whole.

    Args:
        status: HTTP status.
        message: What is wrong and what to do.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def receive(body: bytes, content_type: str | None, content_encoding: str | None) -> Answer:
    """Answers a POST to `/v1/traces`; raises nothing.

    Args:
        body: As it came. A caller stops reading after `MAX_BODY_BYTES` + 1.
        content_type: The header, None where it is missing.
        content_encoding: The header, None where it is missing.

    Returns:
        200 with the spans that were understood, and in the body how many were not and why;
        400 for a body that is no protobuf, 413 for one that is too long, 415 for another
        type or encoding.
    """
    media_type = _media_type(content_type)
    try:
        _check_type(media_type)
        batch = read_spans(_parse(_decompress(body, content_encoding)))
    except _FailedError as failure:
        return _failure(failure, media_type)
    return Answer(200, PROTOBUF, _response(batch), batch)


def failure(status: int, message: str, content_type: str | None) -> Answer:
    """The answer to a request that fails for a reason outside its body, in the request's type."""
    return _failure(_FailedError(status, message), _media_type(content_type))


def too_long(content_type: str | None) -> Answer:
    """The answer to a body of more than `MAX_BODY_BYTES`, which need not be read to its end."""
    return _failure(_too_long(), _media_type(content_type))


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _check_type(media_type: str) -> None:
    if media_type == JSON:
        raise _FailedError(
            415, f"OTLP as JSON is not understood: send {PROTOBUF} (protocol http/protobuf)."
        )
    if media_type != PROTOBUF:
        raise _FailedError(415, f"Only content type {PROTOBUF} is understood.")


def _decompress(body: bytes, content_encoding: str | None) -> bytes:
    encoding = (content_encoding or "").strip().lower()
    if encoding not in {"", "identity", "gzip"}:
        raise _FailedError(415, "Only content encodings gzip and identity are understood.")
    if len(body) > MAX_BODY_BYTES:
        raise _too_long()
    return _gunzip(body) if encoding == "gzip" else body


def _gunzip(body: bytes) -> bytes:
    """Decompresses no further than the bound, and only one member, as all senders write."""
    stream = zlib.decompressobj(_GZIP)
    try:
        plain = stream.decompress(body, MAX_BODY_BYTES + 1)
    except zlib.error:
        raise _FailedError(400, "The body is no gzip although its encoding says so.") from None
    if len(plain) > MAX_BODY_BYTES:
        raise _too_long()
    if not stream.eof or stream.unused_data:
        raise _FailedError(400, "The gzip body is cut off, or something follows it.")
    return plain


def _too_long() -> _FailedError:
    return _FailedError(
        413, f"The body is longer than {MAX_BODY_BYTES} bytes: send fewer spans at a time."
    )


def _parse(body: bytes) -> ExportTraceServiceRequest:
    try:
        return ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        raise _FailedError(400, "The body is no ExportTraceServiceRequest.") from None


def _failure(failure: _FailedError, media_type: str) -> Answer:
    """The answer in the type of the request, as OTLP wants it."""
    message, code = str(failure), _CODES.get(failure.status, _INVALID_ARGUMENT)
    if media_type == JSON:
        body = json.dumps({"code": code, "message": message}).encode()
        return Answer(failure.status, JSON, body)
    body = Status(code=code, message=message).SerializeToString()
    return Answer(failure.status, PROTOBUF, body)


def _response(batch: SpanBatch) -> bytes:
    if not batch.not_stored:
        return ExportTraceServiceResponse().SerializeToString()
    partial = ExportTracePartialSuccess(
        rejected_spans=batch.not_stored, error_message=_message(batch)
    )
    return ExportTraceServiceResponse(partial_success=partial).SerializeToString()


def _message(batch: SpanBatch) -> str:
    reasons = batch.refused.most_common()
    parts = [f"{reason} ({count})" for reason, count in reasons[:_REASONS_SHOWN]]
    if len(reasons) > _REASONS_SHOWN:
        parts.append(f"{len(reasons) - _REASONS_SHOWN} more reasons")
    if batch.foreign:
        parts.append(f"not a span of spectrace ({batch.foreign})")
    return "Not stored: " + "; ".join(parts) + "."
