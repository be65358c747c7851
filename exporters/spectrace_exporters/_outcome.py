"""What came of one try to deliver spans, told by what the other side answered."""

from __future__ import annotations

import msgspec
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from spectrace.shown import words
from spectrace_exporters._answer import MAX_ANSWER_BYTES

NO_ANSWER = "no answer"
_REDIRECTS = 300
_NO_SUCCESS = 400
_RETRYABLE = (429, 502, 503, 504)
_TO_DO = {
    401: "set the token with OTEL_EXPORTER_OTLP_HEADERS",
    403: "look at the token in OTEL_EXPORTER_OTLP_HEADERS",
    404: "look at the path of the address",
    405: "look at the path of the address",
    413: "set OTEL_BSP_MAX_EXPORT_BATCH_SIZE to fewer spans",
    415: "choose another --otlp-protocol",
}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one try.

    Attributes:
        taken: The other side took the request.
        rejected: Spans of it that it then did not store, as it says.
        reason: What went wrong, empty if nothing did.
        again: It may be tried again.
        wait_s: Not before so many seconds; None where the other side says nothing of it.
        answered: There was an answer of any kind.
    """

    taken: bool
    rejected: int = 0
    reason: str = ""
    again: bool = False
    wait_s: float | None = None
    answered: bool = True


def unanswered(reason: str) -> Outcome:
    """Nobody answered: there may be somebody later."""
    return Outcome(taken=False, reason=reason, again=True, answered=False)


def of_response(response: ExportTraceServiceResponse) -> Outcome:
    """The other side says that it took the request."""
    partial = response.partial_success
    return Outcome(taken=True, rejected=partial.rejected_spans, reason=words(partial.error_message))


def of_http(status: int, why: str, kind: str, body: bytes, wait_s: float | None = None) -> Outcome:
    """What an answer over HTTP means.

    Args:
        status: HTTP status.
        why: Its reason phrase.
        kind: Header Content-Type.
        body: The answer's body; of one that is too long no more than tells so.
        wait_s: What its header Retry-After says, in s.
    """
    if status >= _NO_SUCCESS:
        to_do = f": {_TO_DO[status]}" if status in _TO_DO else ""
        return Outcome(
            taken=False,
            reason=f"{status} {words(why)}".strip() + to_do,
            again=status in _RETRYABLE,
            wait_s=wait_s,
        )
    response = _read(status, kind.partition(";")[0].strip().lower(), body)
    if response is None:
        return Outcome(
            taken=False,
            reason=f"the answer ({status}, {words(kind) or 'no type'}) is not that of an OTLP "
            "receiver: look at the address, and for a proxy",
        )
    return of_response(response)


def _read(status: int, kind: str, body: bytes) -> ExportTraceServiceResponse | None:
    """The answer of a receiver; None for a page, a redirect, and what is too long or unreadable."""
    answer = ExportTraceServiceResponse()
    too_long = len(body) > MAX_ANSWER_BYTES
    if status >= _REDIRECTS or kind.startswith("text/") or too_long:
        return None
    try:
        if kind == "application/json":
            json_format.Parse(body or b"{}", answer, ignore_unknown_fields=True)
        else:
            answer.ParseFromString(body)
    except (DecodeError, json_format.ParseError):
        return None
    return answer
