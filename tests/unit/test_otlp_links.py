"""Links to the server's own spans of its requests, out and in again."""

from __future__ import annotations

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spectrace.model import Cycle, RequestRow
from spectrace.otlp.body import PROTOBUF
from spectrace.otlp.encode_protobuf import ProtobufEncoder
from spectrace.otlp.join import CycleCollector
from spectrace.otlp.receive import receive
from spectrace.otlp.shape import trace_of
from tests.helpers.recorded import cycle_of, run_of

SPANS = (f"{0xABC:032x}-{0xDEF:016x}", None, f"{1:032x}-{2:016x}")


def linked() -> Cycle:
    """A cycle of three requests, of which the server traces two."""
    rows = tuple(
        RequestRow(request_id=f"r{place}", correct_drafts=2, output_tokens=3, span=span)
        for place, span in enumerate(SPANS)
    )
    return msgspec.structs.replace(cycle_of(1), batch_size=3, requests=rows)


def request_of(cycle: Cycle) -> ExportTraceServiceRequest:
    """Its trace."""
    return ProtobufEncoder().request(run_of(), [trace_of(cycle)])


def test_a_cycle_keeps_the_spans_of_its_requests() -> None:
    """Each row has the span that the link of its request names, and one without has none."""
    answer = receive(request_of(linked()).SerializeToString(), PROTOBUF, None)
    assert answer.batch is not None
    (received,) = CycleCollector().add(answer.batch, 0.0)
    assert received.cycle == linked()


def test_a_link_to_nothing_is_refused() -> None:
    """With its span alone, in words."""
    request = request_of(linked())
    spans = [span for group in request.resource_spans for span in group.scope_spans[0].spans]
    (root,) = (span for span in spans if span.links)
    root.links[0].span_id = bytes(8)
    answer = receive(request.SerializeToString(), PROTOBUF, None)
    assert answer.batch is not None
    assert dict(answer.batch.refused) == {"a link's span id is not 8 bytes, or all zero": 1}
