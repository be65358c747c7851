"""Puts spans of other people together by trace: the requests that are shown beside the cycles."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from spectrace.model import OtherSpan
from spectrace.store.source import OtherTrace

MAX_REQUESTS = 500
"""So many are kept, and so much of each: beyond it the oldest goes, the rest is only counted."""
MAX_SPANS = 200
_MAX_SEEN = 200_000  # spans of all requests whose repetition would be noticed
_MAX_SEEN_OF_ONE = 20_000


class WireSpan(msgspec.Struct, frozen=True, array_like=True):
    """A span as `[name, depth, start, end, failed]`, in ns from the request's `t0`."""

    name: str
    depth: int
    start: int
    end: int
    failed: bool


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the page gets it.

    Attributes:
        trace: Id of its trace, 32 hexadecimal digits.
        ids: The engine's ids of it, as its spans name them; a trace may hold several.
        service: Whose spans they are.
        name: Of its topmost span.
        t0: Its start, UNIX ns in decimal digits.
        length: Its length in ns, as far as it is known.
        failed: A span of it failed.
        spans: By their starts, not many more than `MAX_SPANS`.
        more: Spans that are left out.
    """

    trace: str
    ids: tuple[str, ...]
    service: str
    name: str
    t0: str
    length: int
    failed: bool
    spans: tuple[WireSpan, ...]
    more: int


class Taken(NamedTuple):
    """What spans that came have brought.

    Attributes:
        fresh: Those that were not there already, as far as that can be remembered.
        changed: The JSON of the requests that are others now, the oldest change first.
    """

    fresh: list[OtherSpan]
    changed: list[bytes]


class Requests:
    """The newest requests; it belongs to the event loop.

    Args:
        clock_ns: UNIX time in ns.

    Attributes:
        changed_ns: When something new came last, by this clock; 0 before that.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.time_ns) -> None:
        self.changed_ns = 0
        self._clock_ns = clock_ns
        self._by_trace: dict[str, _Request] = {}
        self._seen = 0

    def add(self, spans: Iterable[OtherSpan]) -> Taken:
        """Takes in spans; one that is there already counts once."""
        fresh = [span for span in spans if self._is_fresh(span)]
        changed = dict.fromkeys(span.trace_id for span in fresh)
        if changed:
            self.changed_ns = self._clock_ns()
        for trace_id in changed:
            request = self._by_trace[trace_id] = self._by_trace.pop(trace_id)
            request.changed_ns = self.changed_ns
        self._make_room()
        kept = [self._by_trace[key] for key in changed if key in self._by_trace]
        return Taken(fresh, [request.encoded() for request in kept])

    def _is_fresh(self, span: OtherSpan) -> bool:
        request = self._by_trace.get(span.trace_id)
        if request is None:
            request = self._by_trace[span.trace_id] = _Request(span.trace_id)
        before = request.seen
        is_fresh = request.add(span)
        self._seen += request.seen - before
        return is_fresh

    def _make_room(self) -> None:
        self._forget_while(lambda _: len(self._by_trace) > MAX_REQUESTS or self._seen > _MAX_SEEN)

    def forget(self, before_ns: int) -> None:
        """Forgets the requests of which nothing has come since a UNIX time in ns."""
        self._forget_while(lambda oldest: oldest.changed_ns < before_ns)

    def _forget_while(self, is_due: Callable[[_Request], bool]) -> None:
        # A list of them: the first key of a dict is the slower to find the more went before it.
        for trace_id, oldest in list(self._by_trace.items()):
            if not is_due(oldest):
                return
            del self._by_trace[trace_id]
            self._seen -= oldest.seen

    def newest(self, count: int) -> list[bytes]:
        """The JSON of the requests that changed last, the oldest change first."""
        return [request.encoded() for request in list(self._by_trace.values())[-count:]]


def encode_stored(trace: OtherTrace) -> bytes:
    """The JSON of a request that lies in the store, as far as its spans were read."""
    request = _Request(trace.trace_id)
    for span in trace.spans:
        request.add(span)
    request.put_sums(trace)
    return request.encoded()


class _Request:
    """The spans of one trace.

    Attributes:
        changed_ns: When something new of it came last.
    """

    def __init__(self, trace_id: str) -> None:
        self._trace_id = trace_id
        self._seen: set[str] = set()
        self._spans: dict[str, OtherSpan] = {}
        self._top: OtherSpan | None = None
        self._ids: dict[str, None] = {}
        self.changed_ns = 0
        self._end_ns = 0
        self._more = 0
        self._failed = False

    @property
    def seen(self) -> int:
        """How many spans it has had."""
        return len(self._seen)

    def add(self, span: OtherSpan) -> bool:
        """Takes in a span.

        Returns:
            Whether it is a new one; of a request beyond all measure every one is.
        """
        if span.span_id in self._seen:
            return False
        if len(self._seen) >= _MAX_SEEN_OF_ONE:
            self._more += 1
            return True
        self._seen.add(span.span_id)
        if span.request_id and len(self._ids) < MAX_SPANS:
            self._ids[span.request_id] = None
        self._end_ns = max(self._end_ns, span.end_ns)
        self._failed |= span.failed
        if self._top is None or _rank(span) < _rank(self._top):
            self._top = span
        if len(self._spans) < MAX_SPANS or span is self._top:  # which often comes last
            self._spans[span.span_id] = span
        else:
            self._more += 1
        return True

    def put_sums(self, trace: OtherTrace) -> None:
        """Takes in what is known of all its spans, where not all of them are here."""
        self._end_ns = max(self._end_ns, trace.last_ns)
        self._failed |= trace.failed
        self._more = max(0, trace.count - len(self._spans))

    def encoded(self) -> bytes:
        """The JSON of its `WireRequest`."""
        spans = sorted(self._spans.values(), key=lambda span: (span.start_ns, -span.end_ns))
        top = self._top or spans[0]
        t0 = min(top.start_ns, spans[0].start_ns)
        return msgspec.json.encode(
            WireRequest(
                trace=self._trace_id,
                ids=tuple(self._ids),
                service=top.service,
                name=top.name,
                t0=str(t0),
                length=self._end_ns - t0,
                failed=self._failed,
                spans=tuple(self._wire(span, t0) for span in spans),
                more=self._more,
            )
        )

    def _wire(self, span: OtherSpan, t0: int) -> WireSpan:
        return WireSpan(
            span.name, self._depth(span), span.start_ns - t0, span.end_ns - t0, span.failed
        )

    def _depth(self, span: OtherSpan) -> int:
        """How many spans are above it; a circle ends where it closes."""
        above = {span.span_id}
        while span.parent_id in self._spans and span.parent_id not in above:
            above.add(span.parent_id)
            span = self._spans[span.parent_id]
        return len(above) - 1


def _rank(span: OtherSpan) -> tuple[bool, int, int]:
    """The lowest is the topmost span: one without a parent, else the one that begins first."""
    return bool(span.parent_id), span.start_ns, -span.end_ns
