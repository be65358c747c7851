"""Reads spans that are not ours, such as SGLang's own of each request, as far as we show them."""

from __future__ import annotations

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from spectrace.model import OtherSpan
from spectrace.otlp import names
from spectrace.otlp.attributes import Attributes
from spectrace.otlp.checks import check_ids, check_times

REQUEST_IDS = ("rid", "gen_ai.request.id")
"""Attributes that hold a request's id: SGLang's, vLLM's."""
_SHOWN = 256  # characters of a name or an id


class OtherReader:
    """Reads spans of one resource of somebody else.

    Args:
        resource: Attributes of the resource.
    """

    def __init__(self, resource: Attributes) -> None:
        self._service = resource.shown(names.SERVICE_NAME, _SHOWN)

    def read(self, span: Span) -> OtherSpan:
        """What a span says; one that ends before it starts has no length.

        Raises:
            RefusedError: It has no ids, or its times are none.
        """
        check_ids(span)
        start_ns = span.start_time_unix_nano
        end_ns = max(start_ns, span.end_time_unix_nano)
        check_times(start_ns, end_ns)
        attributes = Attributes(span.attributes)
        ids = (attributes.shown(name, _SHOWN) for name in REQUEST_IDS)
        return OtherSpan(
            trace_id=span.trace_id.hex(),
            span_id=span.span_id.hex(),
            parent_id=span.parent_span_id.hex(),
            service=self._service,
            name=span.name[:_SHOWN].strip(),
            start_ns=start_ns,
            end_ns=end_ns,
            request_id=next(filter(None, ids), ""),
            failed=span.status.code == Status.STATUS_CODE_ERROR,
        )
