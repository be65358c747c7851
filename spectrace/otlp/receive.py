"""What a receiver of OTLP answers to one request, over HTTP or gRPC, without a socket in sight."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from spectrace.otlp.body import JSON, PROTOBUF, BodyError, read_body, too_long
from spectrace.otlp.decode import SpanBatch, read_spans

_INVALID_ARGUMENT = 3  # of google.rpc.Code: the request will not succeed if repeated
# Likewise: no valid token, method not implemented, too late, unavailable for now.
_CODES = {401: 16, 405: 12, 408: 4, 503: 14}
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


def receive(body: bytes, content_type: str | None, content_encoding: str | None) -> Answer:
    """Answers a POST to `/v1/traces`; raises nothing.

    Args:
        body: As it came. A caller stops reading after `MAX_BODY_BYTES` + 1.
        content_type: The header, None where it is missing.
        content_encoding: The header, None where it is missing.

    Returns:
        200 with the spans that were understood, and in the body how many were not and why;
        400 for a body that is not of its type, 413 for one that is too long, 415 for another
        type or encoding. The body is of the type of the request.
    """
    media_type = _media_type(content_type)
    try:
        batch = read_spans(read_body(body, media_type, content_encoding))
    except BodyError as error:
        return failure(error.status, str(error), content_type)
    return Answer(200, media_type, _encoded(response(batch), media_type), batch)


def failure(status: int, message: str, content_type: str | None) -> Answer:
    """The answer to a request that fails, a google.rpc.Status in the type of the request."""
    code = _CODES.get(status, _INVALID_ARGUMENT)
    if _media_type(content_type) == JSON:
        body = json.dumps({"code": code, "message": message}).encode()
        return Answer(status, JSON, body)
    return Answer(status, PROTOBUF, Status(code=code, message=message).SerializeToString())


def body_too_long(content_type: str | None) -> Answer:
    """The answer to a body of more than `MAX_BODY_BYTES`, which need not be read to its end."""
    error = too_long()
    return failure(error.status, str(error), content_type)


def response(batch: SpanBatch) -> ExportTraceServiceResponse:
    """What is said of spans that were received: nothing, or how many were refused and why."""
    if not batch.refused:
        return ExportTraceServiceResponse()
    partial = ExportTracePartialSuccess(
        rejected_spans=batch.refused.total(), error_message=reasons_of(batch.refused)
    )
    return ExportTraceServiceResponse(partial_success=partial)


def _media_type(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _encoded(answer: ExportTraceServiceResponse, media_type: str) -> bytes:
    if media_type == PROTOBUF:
        return answer.SerializeToString()
    if not answer.HasField("partial_success"):
        return b"{}"
    partial = answer.partial_success
    said = {"rejectedSpans": str(partial.rejected_spans), "errorMessage": partial.error_message}
    return json.dumps({"partialSuccess": said}).encode()


def reasons_of(refused: Counter[str]) -> str:
    """One sentence on why spans were refused, the most frequent reasons first; empty for none."""
    if not refused:
        return ""
    reasons = refused.most_common()
    parts = [f"{reason} ({count})" for reason, count in reasons[:_REASONS_SHOWN]]
    if len(reasons) > _REASONS_SHOWN:
        parts.append(f"{len(reasons) - _REASONS_SHOWN} more reasons")
    return "Not stored: " + "; ".join(parts) + "."
