"""Cuts spans down to what the person allows by OpenTelemetry's limits; resources have none."""

from __future__ import annotations

from itertools import islice

import msgspec
from msgspec.structs import replace

from spectrace.otlp.shape import MAX_LINKS, PlainSpan, Trace, Value


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a span may hold; None where there is no limit.

    Attributes:
        attributes: Attributes of a span.
        text: Characters of an attribute's value, and of each text of an array.
        links: Links of a span.
    """

    attributes: int | None = None
    text: int | None = None
    links: int = MAX_LINKS

    def apply(self, trace: Trace) -> Trace:
        """The trace within the limits; what is left out is counted in its spans."""
        if self == _NONE:
            return trace
        return Trace(trace.trace_id, [self._span(span) for span in trace.spans])

    def _span(self, span: PlainSpan) -> PlainSpan:
        kept = dict(islice(span.attributes.items(), self.attributes))
        return replace(
            span,
            attributes={name: self._value(value) for name, value in kept.items()},
            dropped_attributes=len(span.attributes) - len(kept),
            links=span.links[: self.links],
            dropped_links=span.dropped_links + max(0, len(span.links) - self.links),
        )

    def _value(self, value: Value) -> Value:
        if self.text is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return value[: self.text]
        return [one[: self.text] for one in value if isinstance(one, str)] or value


_NONE = Limits()
