"""Tells readers which spans of the server's own its requests have.

Loaded only where the server traces its requests itself (`--enable-trace`). It reads attributes
that SGLang and OpenTelemetry keep anyway, and calls nothing but the one that gives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .layout import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .ring import RingWriter

_MOST_KNOWN = 4096  # requests; past that all are looked at again


class RequestSpans:
    """The spans of the requests that were seen, by request id; empty where one has none."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def look(self, requests: Iterable[tuple[Any, int, bool]]) -> None:
        """Takes in the requests of a batch, whatever stands beside them; each once."""
        known = self._known
        for request, _, _ in requests:
            if request.rid not in known:
                if len(known) >= _MOST_KNOWN:
                    known.clear()
                known[request.rid] = span_of(request)

    def send(self, ring: RingWriter, interned: int, request_id: str) -> None:
        """Writes the span of a request, if it has one, before the record of its id."""
        span = self._known.get(request_id)
        if span:
            ring.text(RecordType.SPAN, interned, span)


def span_of(request: Any) -> str:
    """Trace id and span id of a request's root span, as `model.RequestRow.span`; else empty."""
    context = getattr(getattr(request, "time_stats", None), "trace_ctx", None)
    # A context of OpenTelemetry is a dict: of its values one is the span.
    root = getattr(context, "root_span_context", None)
    for value in root.values() if isinstance(root, dict) else ():
        get = getattr(value, "get_span_context", None)
        found = get() if get is not None else None
        trace_id, span_id = getattr(found, "trace_id", 0), getattr(found, "span_id", 0)
        if trace_id and span_id and isinstance(trace_id, int) and isinstance(span_id, int):
            return f"{trace_id:032x}-{span_id:016x}"
    return ""
