"""A request that is sent as JSON says the same as the protobuf, by OTLP's rules for JSON."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spectrace.otlp.json_body import MAX_OBJECTS, NotOtlpError, parse

IDS = {"traceId", "spanId", "parentSpanId"}

texts = st.text(max_size=8)
uint32 = st.integers(0, (1 << 32) - 1)
uint64 = st.integers(0, (1 << 64) - 1)
scalars = st.one_of(
    st.just(AnyValue()),
    st.builds(AnyValue, string_value=texts),
    st.builds(AnyValue, bool_value=st.booleans()),
    st.builds(AnyValue, int_value=st.integers(-(1 << 63), (1 << 63) - 1)),
    st.builds(AnyValue, double_value=st.floats(allow_nan=False)),
    st.builds(AnyValue, bytes_value=st.binary(max_size=8)),
)


def pairs(values: st.SearchStrategy[AnyValue]) -> st.SearchStrategy[list[KeyValue]]:
    """Some attributes."""
    return st.lists(st.builds(KeyValue, key=texts, value=values), max_size=3)


values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.builds(AnyValue, array_value=st.builds(ArrayValue, values=st.lists(inner, max_size=3))),
        st.builds(AnyValue, kvlist_value=st.builds(KeyValueList, values=pairs(inner))),
    ),
    max_leaves=5,
)
spans = st.builds(
    Span,
    trace_id=st.binary(max_size=16),
    span_id=st.binary(max_size=8),
    parent_span_id=st.binary(max_size=8),
    trace_state=texts,
    flags=uint32,
    name=texts,
    kind=st.integers(0, 9),
    start_time_unix_nano=uint64,
    end_time_unix_nano=uint64,
    attributes=pairs(values),
    dropped_attributes_count=uint32,
    events=st.lists(
        st.builds(Span.Event, time_unix_nano=uint64, name=texts, attributes=pairs(scalars)),
        max_size=2,
    ),
    links=st.lists(
        st.builds(Span.Link, trace_id=st.binary(max_size=16), flags=uint32, trace_state=texts),
        max_size=2,
    ),
)


@st.composite
def requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    """Any request, with or without resource, scope and status."""
    request = ExportTraceServiceRequest()
    for _ in range(draw(st.integers(0, 2))):
        group = request.resource_spans.add(schema_url=draw(texts))
        group.resource.attributes.extend(draw(pairs(values)))
        scoped = group.scope_spans.add()
        scoped.scope.name = draw(texts)
        scoped.spans.extend(draw(st.lists(spans, max_size=3)))
        for span in scoped.spans:
            if draw(st.booleans()):
                span.status.code = draw(st.integers(0, 2))  # type: ignore[assignment]  # an enum
                span.status.message = draw(texts)
    return request


def to_json(message: ExportTraceServiceRequest) -> Any:
    """The message by protobuf's own JSON mapping, with ids as OTLP has them."""
    return _hexadecimal(json_format.MessageToDict(message, use_integers_for_enums=True))


def _hexadecimal(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: base64.b64decode(one).hex() if key in IDS else _hexadecimal(one)
            for key, one in value.items()
        }
    return [_hexadecimal(one) for one in value] if isinstance(value, list) else value


def sent(span: dict[str, Any]) -> bytes:
    """A body with one span."""
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def read(span: dict[str, Any]) -> Span:
    """What a span in JSON says."""
    [group] = parse(sent(span)).resource_spans
    return group.scope_spans[0].spans[0]


def value_of(value: dict[str, Any]) -> AnyValue:
    """What an attribute's value in JSON says."""
    return read({"attributes": [{"key": "a", "value": value}]}).attributes[0].value


@settings(max_examples=60)
@given(message=requests())
def test_any_request_comes_through_the_same(message: ExportTraceServiceRequest) -> None:
    """Every field of every message, and every type of value."""
    assert parse(json.dumps(to_json(message)).encode()) == message


@pytest.mark.parametrize("text", ["0af7651916cd43dd", "0AF7651916CD43DD", "0aF7651916Cd43dD"])
def test_ids_are_hexadecimal_in_either_case(text: str) -> None:
    """And not base64, as protobuf's own mapping would have it."""
    assert read({"spanId": text}).span_id == bytes.fromhex("0af7651916cd43dd")


@pytest.mark.parametrize("value", [7, "7", 7.0])
def test_a_number_may_be_a_text(value: float | str) -> None:
    """64-bit ones are texts as a rule, since JavaScript's numbers are too short for them."""
    span = read({"startTimeUnixNano": value, "flags": value})
    assert (span.start_time_unix_nano, span.flags) == (7, 7)
    assert value_of({"intValue": value}).int_value == 7


def test_the_largest_numbers_keep_their_last_digit() -> None:
    """As text and as number."""
    most = (1 << 64) - 1
    span = read({"startTimeUnixNano": str(most), "endTimeUnixNano": most})
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (most, most)
    assert value_of({"intValue": str(-(1 << 63))}).int_value == -(1 << 63)


def test_numbers_that_json_has_no_word_for_are_texts() -> None:
    """NaN and the infinities; a plain number may be a text too."""
    assert math.isnan(value_of({"doubleValue": "NaN"}).double_value)
    assert value_of({"doubleValue": "-Infinity"}).double_value == -math.inf
    assert value_of({"doubleValue": "1.5e3"}).double_value == 1500


@pytest.mark.parametrize("text", ["-_8=", "-_8", "+/8=", "+/8"])
def test_bytes_are_base64_of_either_alphabet(text: str) -> None:
    """With or without padding: all four are the bytes FB FF."""
    assert value_of({"bytesValue": text}).bytes_value == b"\xfb\xff"


def test_unknown_names_mean_nothing() -> None:
    """A newer sender may know more; a name with underscores is unknown too."""
    span = read({"name": "a", "newer": {"deep": [1, {}]}, "span_id": "0af7651916cd43dd"})
    assert (span.name, span.span_id) == ("a", b"")


def test_null_is_what_is_not_there() -> None:
    """Everywhere but within a list."""
    span = read({"name": None, "attributes": None, "status": None, "kind": None, "traceId": None})
    assert span == Span()


@pytest.mark.parametrize(
    "span",
    [
        {"traceId": "CvdlGRbNQ92ESOshHIAxnA=="},
        {"traceId": "0af7651916cd43d"},
        {"traceId": "0af7 651916cd43d"},
        {"traceId": 7},
        {"kind": "SPAN_KIND_CLIENT"},
        {"kind": "3"},
        {"kind": 1 << 31},
        {"status": {"code": "STATUS_CODE_ERROR"}},
        {"name": 7},
        {"name": ["a"]},
        {"startTimeUnixNano": "1.5"},
        {"startTimeUnixNano": 1.5},
        {"startTimeUnixNano": -1},
        {"startTimeUnixNano": 1 << 64},
        {"startTimeUnixNano": "9" * 5000},
        {"startTimeUnixNano": " 1"},
        {"startTimeUnixNano": True},
        {"flags": 1 << 32},
        {"attributes": {}},
        {"attributes": [None]},
        {"attributes": [{"key": "a", "value": {"intValue": 1 << 63}}]},
        {"attributes": [{"key": "a", "value": {"doubleValue": "1_0"}}]},
        {"attributes": [{"key": "a", "value": {"doubleValue": "nan"}}]},
        {"attributes": [{"key": "a", "value": {"bytesValue": "?"}}]},
        {"attributes": [{"key": "a", "value": {"bytesValue": "é"}}]},
        {"attributes": [{"key": "a", "value": {"boolValue": "true"}}]},
        {"attributes": [{"key": "a", "value": {"intValue": 1, "stringValue": "1"}}]},
    ],
)
def test_what_breaks_a_rule_is_refused(span: dict[str, Any]) -> None:
    """The whole body: what else is in it cannot be trusted either."""
    with pytest.raises(NotOtlpError):
        parse(sent(span))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"{}{}",
        b"\xef\xbb\xbf{}",
        b'{"resourceSpans": {}}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "\\ud800"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "\xff"}]}]}]}',
        b'{"newer": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"resourceSpans": [' + b"{}," * MAX_OBJECTS + b"{}]}",
    ],
    ids=lambda body: str(body[:24]),
)
def test_what_is_no_request_is_refused(body: bytes) -> None:
    """No JSON, JSON of something else, no Unicode, nested without end, or too many objects."""
    with pytest.raises(NotOtlpError):
        parse(body)


def test_values_in_values_end_somewhere() -> None:
    """An attribute that is nested 10,000 times is malformed, not a stack overflow."""
    depth = 10_000
    value = '{"arrayValue":{"values":[' * depth + "]}}" * depth
    body = f'{{"resourceSpans":[{{"resource":{{"attributes":[{{"value":{value}}}]}}}}]}}'
    with pytest.raises(NotOtlpError, match="deep"):
        parse(body.encode())
