"""Reads a request that was sent as JSON, by OTLP's own rules, which differ from protobuf's.

Ids are hexadecimal in either case and not base64, enums are integers only, names are in
lowerCamelCase only, unknown fields mean nothing, and a number may also be a text of digits
(OTLP 1.x, "JSON Protobuf Encoding").
"""

from __future__ import annotations

import re
from base64 import b64decode
from typing import TypeAlias

import msgspec
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

MAX_OBJECTS = 1_000_000
"""Objects in one body; an empty one takes three bytes there and hundreds once it is read."""

_DIGITS = re.compile(r"-?[0-9]{1,20}")
_DOUBLE = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|NaN|-?Infinity")
_URL_SAFE = str.maketrans("-_", "+/")
_UINT32 = (0, (1 << 32) - 1)
_UINT64 = (0, (1 << 64) - 1)
_INT32 = (-(1 << 31), (1 << 31) - 1)
_INT64 = (-(1 << 63), (1 << 63) - 1)

_Number: TypeAlias = int | float | str | None


class NotOtlpError(ValueError):
    """A body that breaks the rules; the message says where and which."""


class _Message(msgspec.Struct, rename="camel"):
    """What all messages share: names in lowerCamelCase; null stands for what is not there."""


class _Value(_Message):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: _Number = None
    double_value: float | str | None = None
    array_value: _Array | None = None
    kvlist_value: _Pairs | None = None
    bytes_value: str | None = None


class _Array(_Message):
    values: list[_Value] | None = None


class _Pair(_Message):
    key: str | None = None
    value: _Value | None = None


class _Pairs(_Message):
    values: list[_Pair] | None = None


class _Holder(_Message):
    """A message with attributes."""

    attributes: list[_Pair] | None = None
    dropped_attributes_count: _Number = None


class _Resource(_Holder):
    pass


class _Scope(_Holder):
    name: str | None = None
    version: str | None = None


class _Event(_Holder):
    time_unix_nano: _Number = None
    name: str | None = None


class _Link(_Holder):
    trace_id: str | None = None
    span_id: str | None = None
    trace_state: str | None = None
    flags: _Number = None


class _Status(_Message):
    message: str | None = None
    code: int | None = None


class _Span(_Holder):
    trace_id: str | None = None
    span_id: str | None = None
    trace_state: str | None = None
    parent_span_id: str | None = None
    flags: _Number = None
    name: str | None = None
    kind: int | None = None
    start_time_unix_nano: _Number = None
    end_time_unix_nano: _Number = None
    events: list[_Event] | None = None
    dropped_events_count: _Number = None
    links: list[_Link] | None = None
    dropped_links_count: _Number = None
    status: _Status | None = None


class _ScopeSpans(_Message):
    scope: _Scope | None = None
    spans: list[_Span] | None = None
    schema_url: str | None = None


class _ResourceSpans(_Message):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] | None = None
    schema_url: str | None = None


class _Request(_Message):
    resource_spans: list[_ResourceSpans] | None = None


_DECODER = msgspec.json.Decoder(_Request)


def parse(body: bytes) -> ExportTraceServiceRequest:
    """The request that the JSON text `body` says.

    Raises:
        NotOtlpError: It is no JSON, breaks a rule of OTLP, or holds too many objects.
    """
    if body.count(b"{") > MAX_OBJECTS:
        raise NotOtlpError(f"it holds more than {MAX_OBJECTS} objects: send fewer spans at a time")
    request = ExportTraceServiceRequest()
    try:
        for group in _DECODER.decode(body).resource_spans or ():
            _fill_resource_spans(request.resource_spans.add(), group)
    except RecursionError:
        raise NotOtlpError("it is nested too deeply") from None
    except msgspec.DecodeError as error:
        raise NotOtlpError(str(error)) from None
    return request


# Messages are filled where they stand: one that is made apart and then copied takes twice the
# time, and memory of its own.


def _fill_resource_spans(to: ResourceSpans, group: _ResourceSpans) -> None:
    to.schema_url = group.schema_url or ""
    if group.resource is not None:
        to.resource.SetInParent()
        _fill_attributes(to.resource, group.resource)
    for spans in group.scope_spans or ():
        _fill_scope_spans(to.scope_spans.add(), spans)


def _fill_scope_spans(to: ScopeSpans, group: _ScopeSpans) -> None:
    to.schema_url = group.schema_url or ""
    if group.scope is not None:
        to.scope.SetInParent()
        to.scope.name = group.scope.name or ""
        to.scope.version = group.scope.version or ""
        _fill_attributes(to.scope, group.scope)
    for span in group.spans or ():
        _fill_span(to.spans.add(), span)


def _fill_span(to: Span, span: _Span) -> None:
    to.trace_id = _id(span.trace_id)
    to.span_id = _id(span.span_id)
    to.parent_span_id = _id(span.parent_span_id)
    to.trace_state = span.trace_state or ""
    to.flags = _number(span.flags, _UINT32)
    to.name = span.name or ""
    to.kind = _number(span.kind, _INT32)  # type: ignore[assignment]  # unknown ones are kept
    to.start_time_unix_nano = _number(span.start_time_unix_nano, _UINT64)
    to.end_time_unix_nano = _number(span.end_time_unix_nano, _UINT64)
    to.dropped_events_count = _number(span.dropped_events_count, _UINT32)
    to.dropped_links_count = _number(span.dropped_links_count, _UINT32)
    _fill_attributes(to, span)
    for event in span.events or ():
        _fill_event(to.events.add(), event)
    for link in span.links or ():
        _fill_link(to.links.add(), link)
    if span.status is not None:
        to.status.SetInParent()
        to.status.message = span.status.message or ""
        to.status.code = _number(span.status.code, _INT32)  # type: ignore[assignment]  # likewise


def _fill_event(to: Span.Event, event: _Event) -> None:
    to.time_unix_nano = _number(event.time_unix_nano, _UINT64)
    to.name = event.name or ""
    _fill_attributes(to, event)


def _fill_link(to: Span.Link, link: _Link) -> None:
    to.trace_id = _id(link.trace_id)
    to.span_id = _id(link.span_id)
    to.trace_state = link.trace_state or ""
    to.flags = _number(link.flags, _UINT32)
    _fill_attributes(to, link)


def _fill_attributes(
    to: Resource | InstrumentationScope | Span | Span.Event | Span.Link, holder: _Holder
) -> None:
    to.dropped_attributes_count = _number(holder.dropped_attributes_count, _UINT32)
    for pair in holder.attributes or ():
        _fill_pair(to.attributes.add(), pair)


def _fill_pair(to: KeyValue, pair: _Pair) -> None:
    to.key = pair.key or ""
    if pair.value is not None:
        to.value.SetInParent()
        _fill_value(to.value, pair.value)


def _fill_value(to: AnyValue, value: _Value) -> None:
    if value.string_value is not None:
        to.string_value = value.string_value
    if value.int_value is not None:
        to.int_value = _number(value.int_value, _INT64)
    if value.bool_value is not None:
        to.bool_value = value.bool_value
    if value.double_value is not None:
        to.double_value = _double(value.double_value)
    if value.bytes_value is not None:
        to.bytes_value = _bytes(value.bytes_value)
    _fill_nested(to, value)
    if sum(each is not None for each in msgspec.structs.astuple(value)) > 1:
        raise NotOtlpError("a value has two types")


def _fill_nested(to: AnyValue, value: _Value) -> None:
    if value.array_value is not None:
        to.array_value.SetInParent()
        for one in value.array_value.values or ():
            _fill_value(to.array_value.values.add(), one)
    if value.kvlist_value is not None:
        to.kvlist_value.SetInParent()
        for pair in value.kvlist_value.values or ():
            _fill_pair(to.kvlist_value.values.add(), pair)


def _id(text: str | None) -> bytes:
    if not text:
        return b""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if 2 * len(found) != len(text):  # fromhex skips spaces
        raise NotOtlpError("an id is not hexadecimal")
    return found


def _number(value: _Number, bounds: tuple[int, int]) -> int:
    """An integer, also where it stands in quotation marks or as 1e3; 0 where there is none."""
    if value is None:
        return 0
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int):
        raise NotOtlpError("a number is no integer")
    if not bounds[0] <= value <= bounds[1]:
        raise NotOtlpError("a number is out of bounds")
    return value


def _double(value: float | str) -> float:
    """A number; NaN and the infinities can only be written as texts."""
    if isinstance(value, str) and not _DOUBLE.fullmatch(value):
        raise NotOtlpError("a number is none")
    return float(value)


def _bytes(text: str) -> bytes:
    """Base64 of either alphabet, with or without its padding."""
    padded = text.translate(_URL_SAFE).rstrip("=")
    try:
        return b64decode(padded + "=" * (-len(padded) % 4), validate=True)
    except ValueError:
        raise NotOtlpError("bytes are not base64") from None
