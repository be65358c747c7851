"""What every span must have to be stored, whoever made it."""

from __future__ import annotations

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spectrace.otlp.attributes import MAX_INT64, RefusedError

_TRACE_ID_BYTES = 16
_SPAN_ID_BYTES = 8
_NO_TRACE = bytes(_TRACE_ID_BYTES)
_NO_SPAN = bytes(_SPAN_ID_BYTES)


def check_ids(span: Span) -> None:
    """Checks the ids of a span.

    Raises:
        RefusedError: One of them is none.
    """
    _check_place(span.trace_id, span.span_id, "the")
    if len(span.parent_span_id) not in {0, _SPAN_ID_BYTES}:
        raise RefusedError(f"the parent's span id is not {_SPAN_ID_BYTES} bytes")


def check_link(link: Span.Link) -> None:
    """Checks the ids of a link.

    Raises:
        RefusedError: One of them is none.
    """
    _check_place(link.trace_id, link.span_id, "a link's")


def _check_place(trace_id: bytes, span_id: bytes, whose: str) -> None:
    if len(trace_id) != _TRACE_ID_BYTES or trace_id == _NO_TRACE:
        raise RefusedError(f"{whose} trace id is not {_TRACE_ID_BYTES} bytes, or all zero")
    if len(span_id) != _SPAN_ID_BYTES or span_id == _NO_SPAN:
        raise RefusedError(f"{whose} span id is not {_SPAN_ID_BYTES} bytes, or all zero")


def check_times(start_ns: int, end_ns: int) -> None:
    """Checks the times of a span, both UNIX ns.

    Raises:
        RefusedError: It has no start, ends before it, or they are out of bounds.
    """
    if not 0 < start_ns <= end_ns <= MAX_INT64:
        raise RefusedError("the span has no start, ends before it, or its times are out of bounds")
