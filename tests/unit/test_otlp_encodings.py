"""All encodings of a trace say the same, and what the official one says."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spectrace.model import Cycle, RequestRow, Run
from spectrace.otlp import ids, names
from spectrace.otlp.encode import Encoder
from spectrace.otlp.encode_json import JsonEncoder
from spectrace.otlp.encode_protobuf import ProtobufEncoder
from spectrace.otlp.limits import Limits
from spectrace.otlp.shape import MAX_LINKS, Trace, span_count, trace_of
from tests.helpers.otlp_endpoint import from_json
from tests.helpers.recorded import cycle_of, run_of
from tests.integration.test_otlp_roundtrip import traffic

ADDED = {"deployment.environment": "test"}
spans = st.none() | st.builds(
    "{:032x}-{:016x}".format, st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1)
)


@st.composite
def linked_traffic(draw: st.DrawFn) -> tuple[Run, list[Cycle]]:
    """Cycles of a run, of whose requests some have spans of the server's own."""
    run, cycles = draw(traffic())
    return run, [
        replace(cycle, requests=tuple(replace(row, span=draw(spans)) for row in cycle.requests))
        if cycle.requests
        else cycle
        for cycle in cycles
    ]


@settings(max_examples=60)
@given(linked_traffic())
def test_what_is_written_directly_is_what_the_official_encoder_writes(
    given: tuple[Run, list[Cycle]],
) -> None:
    """Message by message, links and all; the SDK's own limit of links lies above ours."""
    run, cycles = given
    official = encode_spans(
        [span for cycle in cycles for span in Encoder("a", ADDED).spans(run, cycle)]
    )
    traces = [trace_of(cycle) for cycle in cycles]

    assert ProtobufEncoder("a", ADDED).request(run, traces) == official


@settings(max_examples=60)
@given(linked_traffic())
def test_json_says_what_protobuf_says(given: tuple[Run, list[Cycle]]) -> None:
    """Read by protobuf's own reader of JSON, after it was text."""
    run, cycles = given
    traces = [trace_of(cycle) for cycle in cycles]
    text = msgspec.json.encode(JsonEncoder().data(run, traces))

    assert from_json(text) == ProtobufEncoder().request(run, traces)


@settings(max_examples=60)
@given(traffic())
def test_spans_are_counted_exactly_without_being_made(given: tuple[Run, list[Cycle]]) -> None:
    """Losses are told by the count, so that it may not be an estimate."""
    _, cycles = given
    assert [span_count(cycle) for cycle in cycles] == [len(trace_of(c).spans) for c in cycles]


def batch_of(count: int) -> Cycle:
    """A cycle of so many requests, each with a span that has the request's number."""
    rows = tuple(
        RequestRow(
            request_id=f"r{number}",
            correct_drafts=1,
            output_tokens=2,
            span=f"{number:032x}-{number:016x}",
        )
        for number in range(1, count + 1)
    )
    return replace(cycle_of(1), requests=rows)


def root_of(trace: Trace) -> Span:
    """The root as protobuf has it."""
    request = ProtobufEncoder().request(run_of(), [trace])
    return request.resource_spans[0].scope_spans[0].spans[0]


def test_a_cycle_is_linked_to_the_servers_own_spans_of_its_requests() -> None:
    """Each link leads to another trace and says whose it is; requests without one have none."""
    cycle = batch_of(2)
    nameless = RequestRow(request_id="r3", correct_drafts=1, output_tokens=2)
    root = root_of(trace_of(replace(cycle, requests=(*(cycle.requests or ()), nameless))))

    assert [(link.trace_id[-1], link.span_id[-1]) for link in root.links] == [(1, 1), (2, 2)]
    named = [(pair.key, pair.value.string_value) for link in root.links for pair in link.attributes]
    assert named == [(names.LINKED_REQUEST, "r1"), (names.LINKED_REQUEST, "r2")]
    assert root.trace_id == ids.trace_id(cycle.run_id, cycle.group, 1).to_bytes(16, "big")


def test_a_span_has_no_more_links_than_jaeger_shows() -> None:
    """Of 130 the first 128 stand, and the others are counted."""
    root = root_of(trace_of(batch_of(MAX_LINKS + 2)))

    assert (len(root.links), root.dropped_links_count) == (128, 2)


@pytest.mark.parametrize("encoder", [ProtobufEncoder, JsonEncoder])
def test_limits_cut_spans_and_count_what_is_cut(encoder: type) -> None:
    """Attributes, links, and the length of texts, also within arrays; resources stay whole."""
    limits = Limits(attributes=9, text=3, links=1)
    trace = limits.apply(trace_of(batch_of(3)))
    if encoder is JsonEncoder:
        request = from_json(msgspec.json.encode(JsonEncoder().data(run_of(), [trace])))
    else:
        request = ProtobufEncoder().request(run_of(), [trace])
    group = request.resource_spans[0]
    root = group.scope_spans[0].spans[0]

    assert len(root.attributes) == 9
    assert root.dropped_attributes_count == len(trace_of(batch_of(3)).spans[0].attributes) - 9
    assert (len(root.links), root.dropped_links_count) == (1, 2)
    values = {pair.key: pair.value for pair in root.attributes}
    assert values[names.KIND].string_value == "spe"
    assert values[names.RANKS].array_value.values[0].string_value == "TP0"
    run_id = next(p.value for p in group.resource.attributes if p.key == names.RUN_ID)
    assert len(run_id.string_value) == 32


def test_a_trace_within_the_limits_is_the_same_object() -> None:
    """Without limits nothing is made anew."""
    trace = trace_of(cycle_of(1))
    assert Limits().apply(trace) is trace
