"""What the receiver answers to good, malformed, oversized and wrongly typed requests."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable
from typing import TypeAlias

import pytest
from google.protobuf.descriptor import Descriptor
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from spectrace.model import (
    OtherSpan,
    Phase,
    PhaseName,
    RequestRow,
)
from spectrace.otlp import body as body_module
from spectrace.otlp import bounds, names
from spectrace.otlp.body import JSON, MAX_BODY_BYTES, PROTOBUF
from spectrace.otlp.bounds import MESSAGES
from spectrace.otlp.decode import SpanBatch
from spectrace.otlp.encode import Encoder
from spectrace.otlp.receive import Answer, receive
from tests.helpers.anything import any_cycle, any_rank, any_run

Spoil: TypeAlias = Callable[[Span], object]

RUN = any_run()
CYCLE = any_cycle(
    7,
    any_rank(phases=(Phase(name=PhaseName.DRAFT, start_ns=100, end_ns=120, of_cycle=6),)),
    requests=(RequestRow(request_id="a", correct_drafts=2, output_tokens=3),),
)


def request() -> ExportTraceServiceRequest:
    """The cycle as the official exporter encodes it: a root, a rank, a lane and a draft."""
    return encode_spans(Encoder().spans(RUN, CYCLE))


def span_of(message: ExportTraceServiceRequest, name: str) -> tuple[Resource, Span]:
    """The span of this name, and its resource."""
    return next(
        (group.resource, span)
        for group in message.resource_spans
        for scoped in group.scope_spans
        for span in scoped.spans
        if span.name == name
    )


def post(message: ExportTraceServiceRequest) -> Answer:
    """Posts a message as it should be."""
    return receive(message.SerializeToString(), PROTOBUF, None)


def rejected(answer: Answer) -> tuple[int, str]:
    """How many spans the answer rejects, and why."""
    partial = ExportTraceServiceResponse.FromString(answer.body).partial_success
    return partial.rejected_spans, partial.error_message


def stored(answer: Answer) -> tuple[int, int, int]:
    """How many roots, ranks and phases there are to store."""
    batch = answer.batch or SpanBatch()
    return len(batch.roots), len(batch.ranks), len(batch.phases)


def error(answer: Answer) -> str:
    """The message of a failed request."""
    message: str = Status.FromString(answer.body).message
    return message


def put(name: str, value: AnyValue) -> Spoil:
    """Sets an attribute of a span to something else."""

    def spoil(span: Span) -> None:
        kept = [pair for pair in span.attributes if pair.key != name]
        del span.attributes[:]
        span.attributes.extend([*kept, KeyValue(key=name, value=value)])

    return spoil


def drop(name: str) -> Spoil:
    """Takes an attribute of a span away."""

    def spoil(span: Span) -> None:
        kept = [pair for pair in span.attributes if pair.key != name]
        del span.attributes[:]
        span.attributes.extend(kept)

    return spoil


def setting(field: str, value: object) -> Spoil:
    """Sets a field of a span to something else."""
    return lambda span: setattr(span, field, value)


def field(number: int, payload: bytes) -> bytes:
    """A field of a protobuf message with up to 16 KiB of payload, as it goes over the wire."""
    low, high = len(payload) & 0x7F, len(payload) >> 7
    return bytes([number << 3 | 2, low | 0x80, high]) + payload


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def array(*values: AnyValue) -> AnyValue:
    """An array."""
    return AnyValue(array_value=ArrayValue(values=values))


def test_a_good_request_is_taken_whole() -> None:
    """200, an empty response of the right type, and all that counts."""
    answer = post(request())

    assert (answer.status, answer.headers) == (200, {"content-type": PROTOBUF})
    assert rejected(answer) == (0, "")
    assert stored(answer) == (1, 1, 1)


def test_an_empty_request_is_fine() -> None:
    """An exporter may send nothing."""
    answer = receive(b"", PROTOBUF, None)

    assert (answer.status, answer.body, stored(answer)) == (200, b"", (0, 0, 0))


@pytest.mark.parametrize("content_type", [f"{PROTOBUF}; charset=utf-8", "Application/X-Protobuf"])
def test_the_type_may_be_written_in_other_ways(content_type: str) -> None:
    """Case and parameters of a content type mean nothing."""
    assert receive(request().SerializeToString(), content_type, "identity").status == 200


def test_gzip_is_understood() -> None:
    """A compressed body says the same."""
    answer = receive(gzip.compress(request().SerializeToString()), PROTOBUF, "GZIP")

    assert (answer.status, stored(answer)) == (200, (1, 1, 1))


@pytest.mark.parametrize("content_type", [None, "", "text/plain", "application/protobuf"])
def test_another_type_is_refused(content_type: str | None) -> None:
    """415, and the answer names the types that are understood."""
    answer = receive(request().SerializeToString(), content_type, None)

    assert (answer.status, answer.content_type, answer.batch) == (415, PROTOBUF, None)
    assert PROTOBUF in error(answer)
    assert JSON in error(answer)


def test_json_is_answered_in_json() -> None:
    """What is refused of it is said there too, with the count as a text, as protobuf has it."""
    span = {"traceId": "AB" * 16, "spanId": "cd" * 7, "startTimeUnixNano": "1"}
    sent = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    good = receive(b'{"resourceSpans": []}', "application/json; charset=utf-8", None)
    partial = receive(json.dumps(sent).encode(), JSON, None)

    assert (good.status, good.content_type, good.body) == (200, JSON, b"{}")
    assert (partial.status, partial.content_type) == (200, JSON)
    said = json.loads(partial.body)["partialSuccess"]
    assert said["rejectedSpans"] == "1"
    assert "span id" in said["errorMessage"]


@pytest.mark.parametrize(("body", "encoding"), [(b"[]", None), (b"{}", "gzip"), (b"{", None)])
def test_bad_json_is_refused_in_json(body: bytes, encoding: str | None) -> None:
    """The error comes in the type of the request: a google.rpc.Status as JSON, with its code."""
    answer = receive(body, JSON, encoding)

    assert (answer.status, answer.content_type, answer.batch) == (400, JSON, None)
    assert json.loads(answer.body)["code"] == 3


@pytest.mark.parametrize("encoding", ["deflate", "br", "gzip, gzip"])
def test_another_encoding_is_refused(encoding: str) -> None:
    """415 for what cannot be decompressed."""
    answer = receive(request().SerializeToString(), PROTOBUF, encoding)

    assert (answer.status, answer.batch) == (415, None)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (request().SerializeToString()[:-1], None),
        (b"\xff" * 100, None),
        (b"\x0a\x02\x0a\xff", None),
        (b"[]", None),
        (b"\x0a\x04\x1a\x02\xc3\x28", None),  # a schema URL that is no UTF-8
        (request().SerializeToString(), "gzip"),
        (gzip.compress(request().SerializeToString(), mtime=0)[:-1], "gzip"),
        (gzip.compress(b"", mtime=0) * 2, "gzip"),
        (gzip.compress(b"", mtime=0) + b"x", "gzip"),
        (b"", "gzip"),
    ],
)
def test_a_malformed_body_is_refused(body: bytes, encoding: str | None) -> None:
    """400, which tells a sender not to try again."""
    answer = receive(body, PROTOBUF, encoding)

    assert (answer.status, answer.content_type, answer.batch) == (400, PROTOBUF, None)
    assert error(answer)


def test_attributes_in_attributes_end_somewhere() -> None:
    """A resource attribute nested 1000 times is malformed, not a stack overflow."""
    value = b""
    for _ in range(1000):
        value = field(5, field(1, value))  # AnyValue.array_value of ArrayValue.values
    attribute = field(1, field(2, value))  # Resource.attributes of KeyValue.value

    assert receive(field(1, field(1, attribute)), PROTOBUF, None).status == 400


def test_a_long_body_is_refused() -> None:
    """413 for one byte more than 20 MiB."""
    answer = receive(bytes(MAX_BODY_BYTES + 1), PROTOBUF, None)

    assert (answer.status, answer.batch) == (413, None)


@pytest.mark.parametrize("mebibytes", [21, 200])
def test_a_body_that_grows_too_long_is_refused(mebibytes: int) -> None:
    """413 for a gzip bomb: no more than the bound is ever decompressed."""
    packer = zlib.compressobj(9, wbits=31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(mebibytes)) + packer.flush()
    answer = receive(bomb, PROTOBUF, "gzip")

    assert len(bomb) < 2 << 20
    assert (answer.status, answer.batch) == (413, None)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (setting("trace_id", b"\1" * 15), "trace id"),
        (setting("trace_id", bytes(16)), "trace id"),
        (setting("trace_id", b"\1" * 16), "trace id is not that of the cycle"),
        (setting("span_id", b"\1" * 16), "span id"),
        (setting("span_id", bytes(8)), "span id"),
        (setting("parent_span_id", b"\1"), "parent"),
        (setting("start_time_unix_nano", 121), "ends before"),
        (setting("start_time_unix_nano", 0), "no start"),
        (setting("end_time_unix_nano", (1 << 64) - 1), "out of bounds"),
        (setting("name", "something"), "decode_cycle"),
        (put(names.NUMBER, AnyValue(string_value="7")), "cycle.number is no integer"),
        (put(names.NUMBER, AnyValue(double_value=math.nan)), "cycle.number is no integer"),
        (put(names.NUMBER, AnyValue(bool_value=True)), "cycle.number is no integer"),
        (put(names.NUMBER, AnyValue()), "cycle.number is no integer"),
        (put(names.NUMBER, AnyValue(int_value=-1)), "cycle.number is not between"),
        (put(names.NUMBER, AnyValue(int_value=8)), "trace id is not that of the cycle"),
        (put(names.BATCH_SIZE, AnyValue(int_value=1 << 31)), "batch_size is not between"),
        (put(names.BATCH_SIZE, AnyValue(int_value=65_537)), "batch_size is not between"),
        (put(names.STEPS, AnyValue(int_value=4097)), "steps is not between 0 and 4096"),
        (put(names.TOPK, AnyValue(int_value=4097)), "topk is not between"),
        (put(names.DRAFT_TOKENS, AnyValue(int_value=4097)), "draft_tokens is not between"),
        (put(names.CORRECT_DRAFTS, array(AnyValue(int_value=4097))), "correct_drafts is not"),
        (put(names.OUTPUT_TOKENS, array(AnyValue(int_value=1 << 30))), "output_tokens is not"),
        (put(names.KIND, AnyValue(string_value="guess")), "cycle.kind is none"),
        (put(names.GROUP, AnyValue(bytes_value=b"")), "group is no text"),
        (put(names.GROUP, AnyValue(string_value="x" * 4097)), "group has more than 4096"),
        (put(names.RANKS, AnyValue(string_value="TP0")), "ranks is no array"),
        (put(names.RANKS, array(AnyValue(int_value=0))), "ranks is no text"),
        (put(names.REQUEST_IDS, array()), "differ in length"),
        (put(names.REQUEST_IDS, array(array())), "requests.ids is no text"),
        (put(names.CORRECT_DRAFTS, array(AnyValue(int_value=-2))), "correct_drafts is not between"),
        (put(names.CORRECT_DRAFTS, array(AnyValue())), "correct_drafts is no integer"),
        (put(names.OVERSHOOT, AnyValue(bool_value=True)), "overshoot is no array"),
        (put(names.OVERSHOOT, array(AnyValue(int_value=1))), "overshoot is no boolean"),
        (put(names.OVERSHOOT, array()), "differ in length"),
        (drop(names.STEPS), "steps is missing"),
    ],
)
def test_a_wrong_root_is_rejected(spoil: Spoil, reason: str) -> None:
    """200 with a partial success that gives the reason; nothing of the root is stored."""
    message = request()
    spoil(span_of(message, "decode_cycle")[1])
    answer = post(message)

    assert answer.status == 200
    assert stored(answer)[0] == 0
    assert rejected(answer)[0] == 1
    assert reason in rejected(answer)[1]


def test_an_array_has_a_bound() -> None:
    """One value more than 65,536 is refused."""
    message = request()
    values = array(*[AnyValue(int_value=1)] * 65_537)
    put(names.OUTPUT_TOKENS, values)(span_of(message, "decode_cycle")[1])

    assert rejected(post(message)) == (
        1,
        "Not stored: spectrace.requests.output_tokens has more than 65536 values (1).",
    )


@pytest.mark.parametrize(
    ("name", "spoil", "reason", "left"),
    [
        ("rank TP0", put(names.TIMING_MODE, AnyValue(int_value=1)), "timing_mode", (1, 0, 1)),
        ("rank TP0", put(names.INCOMPLETE, AnyValue(int_value=1)), "incomplete", (1, 0, 1)),
        ("rank TP0", put(names.PHASES, AnyValue(int_value=1 << 40)), "phases", (1, 0, 1)),
        ("rank TP0", setting("span_id", b"\1" * 8), "not one of the rank", (1, 0, 1)),
        ("draft", put(names.OF_CYCLE, AnyValue(string_value="6")), "of_cycle", (1, 1, 0)),
        ("draft", setting("name", "nap"), "phase", (1, 1, 0)),
        ("draft", setting("end_time_unix_nano", 99), "ends before", (1, 1, 0)),
    ],
)
def test_a_wrong_span_leaves_the_others_alone(
    name: str, spoil: Spoil, reason: str, left: tuple[int, int, int]
) -> None:
    """Only the span that is wrong is rejected."""
    message = request()
    spoil(span_of(message, name)[1])
    answer = post(message)

    assert (answer.status, stored(answer)) == (200, left)
    assert rejected(answer)[0] == 1
    assert reason in rejected(answer)[1]


@pytest.mark.parametrize(
    ("span", "name", "value", "count"),
    [
        ("decode_cycle", names.RUN_ID, "../../etc/passwd", 1),
        ("decode_cycle", names.RUN_ID, "A" * 32, 1),
        ("decode_cycle", names.PROCESS_PID, "70", 1),
        ("decode_cycle", names.RANK, "TP0", 1),
        ("draft", names.LANE, "sideways", 3),
        ("draft", names.RANK, "TP1", 3),
    ],
)
def test_a_wrong_resource_rejects_its_spans(span: str, name: str, value: str, count: int) -> None:
    """A run id could become a path, so that only hexadecimal digits are one."""
    message = request()
    resource, _ = span_of(message, span)
    kept = [pair for pair in resource.attributes if pair.key != name]
    del resource.attributes[:]
    resource.attributes.extend([*kept, KeyValue(key=name, value=AnyValue(string_value=value))])

    assert rejected(post(message))[0] == count


def foreign() -> tuple[ExportTraceServiceRequest, Span]:
    """A request with one span as SGLang makes it, and that span."""
    message = ExportTraceServiceRequest()
    group = message.resource_spans.add()
    service = KeyValue(key="service.name", value=AnyValue(string_value="sglang"))
    group.resource.attributes.append(service)
    scoped = group.scope_spans.add()
    scoped.scope.name = "sglang server"
    span = scoped.spans.add(
        trace_id=b"\0" * 8 + b"\1" * 8,
        span_id=b"\2" * 8,
        name=" Req 0123abcd",
        start_time_unix_nano=5,
        end_time_unix_nano=9,
    )
    put("rid", AnyValue(string_value="0123abcd-4567"))(span)
    return message, span


def test_spans_of_others_are_kept_as_they_are() -> None:
    """Whose they are, what they are called, and which request they speak of."""
    message, _ = foreign()
    answer = post(message)

    assert rejected(answer) == (0, "")
    assert answer.batch is not None
    assert answer.batch.others == [
        OtherSpan(
            trace_id="00" * 8 + "01" * 8,
            span_id="02" * 8,
            parent_id="",
            service="sglang",
            name="Req 0123abcd",
            start_ns=5,
            end_ns=9,
            request_id="0123abcd-4567",
        )
    ]


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (setting("trace_id", bytes(16)), "trace id"),
        (setting("span_id", b"\1"), "span id"),
        (setting("start_time_unix_nano", 0), "no start"),
        (setting("end_time_unix_nano", (1 << 64) - 1), "out of bounds"),
    ],
)
def test_a_span_of_others_without_ids_or_times_is_refused(spoil: Spoil, reason: str) -> None:
    """It is told back as one of ours would be."""
    message, span = foreign()
    spoil(span)

    count, text = rejected(post(message))
    assert count == 1
    assert reason in text


def test_a_span_of_others_that_ends_before_it_starts_has_no_length() -> None:
    """Clocks of others are theirs to mend."""
    message, span = foreign()
    span.end_time_unix_nano = 4
    batch = post(message).batch

    assert batch is not None
    assert [(one.start_ns, one.end_ns) for one in batch.others] == [(5, 5)]


def test_millions_of_empty_spans_are_refused_before_they_are_read() -> None:
    """413: each would take two bytes in the body and two hundred in memory."""
    inner = b"\x12\x00" * 1_000_000
    scope = b"\x12" + varint(len(inner)) + inner
    answer = receive(b"\x0a" + varint(len(scope)) + scope, PROTOBUF, None)

    assert (answer.status, answer.batch) == (413, None)


def wrapped(inner: bytes, *numbers: int) -> bytes:
    """A message within messages, each the only field of the one around it."""
    for number in reversed(numbers):
        inner = bytes([number << 3 | 2]) + varint(len(inner)) + inner
    return inner


def empties(number: int, count: int = 1_001) -> bytes:
    """So many empty elements of the list with this number."""
    return bytes([number << 3 | 2, 0]) * count


@pytest.fixture
def bounds_of_a_thousandth(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a body of each shape is made and counted in no time; others meet the true ones."""
    for name in ("MAX_SPANS", "MAX_PARTS", "MAX_FIELDS"):
        monkeypatch.setattr(bounds, name, getattr(bounds, name) // 1000)
    monkeypatch.setattr(body_module, "_SUSPECT_BYTES", 0)


SPAN = (1, 2, 2)
VALUE = (*SPAN, 9, 2)  # of an attribute of a span


@pytest.mark.parametrize(
    "body",
    [
        wrapped(empties(1), 1, 1),  # attributes of a resource
        wrapped(empties(3), 1, 1, 3),  # texts of what a resource refers to
        wrapped(empties(3), 1, 2, 1),  # attributes of a scope
        wrapped(empties(9), *SPAN),
        wrapped(empties(11), *SPAN),  # events
        wrapped(empties(13), *SPAN),  # links
        wrapped(empties(3), *SPAN, 11),  # their attributes
        wrapped(empties(4), *SPAN, 13),
        wrapped(empties(1), *VALUE, 5),  # values of an array
        wrapped(empties(1), *VALUE, 6),  # pairs of a list of them
        wrapped(empties(1), *VALUE, *(5, 1) * 20, 6),
        wrapped(b"\x0a\x00" * 500, 1, 1) + wrapped(b"\x4a\x00" * 500, *SPAN),
        wrapped(b"\x8a\x00\x00" * 1_001, 1, 1),  # each tag is a byte longer than need be
        b"\x0b\x0c" + wrapped(empties(1), 1, 1),  # behind a group, which is skipped
        wrapped(b"\x0a\x00" * 1_001 + b"\xff", 1, 1),  # malformed in the end
    ],
)
@pytest.mark.usefixtures("bounds_of_a_thousandth")
def test_too_many_empty_parts_are_refused_before_they_are_read(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """413 wherever they are in the body and however it says so; protobuf never sees it."""
    monkeypatch.setattr(body_module, "ExportTraceServiceRequest", None)
    answer = receive(body, PROTOBUF, None)

    assert (answer.status, answer.batch) == (413, None)
    assert "more than 1000 attributes" in error(answer)


AGAIN = [(b"\x0a\x00", (1,)), (b"\x12\x00", (1, 1, 1))]  # one resource, one value


@pytest.mark.parametrize(("again", "numbers"), AGAIN)
@pytest.mark.usefixtures("bounds_of_a_thousandth")
def test_counting_ends_somewhere(
    again: bytes, numbers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """413 for many fields in no list: one resource, or one value, again and again."""
    monkeypatch.setattr(body_module, "ExportTraceServiceRequest", None)
    answer = receive(wrapped(again * 5_001, *numbers), PROTOBUF, None)

    assert (answer.status, answer.batch) == (413, None)
    assert "more than 5000 fields" in error(answer)


def test_counting_ends_after_five_million_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound as it is."""
    monkeypatch.setattr(body_module, "ExportTraceServiceRequest", None)
    [(again, numbers), _] = AGAIN

    assert "more than 5000000 fields" in error(
        receive(wrapped(again * 5_000_001, *numbers), PROTOBUF, None)
    )


def test_as_many_parts_as_there_may_be_are_read() -> None:
    """A million: the messages around them, three, count where they are in lists."""
    body = wrapped(empties(9, 1_000_000 - 3), *SPAN)

    assert receive(body, PROTOBUF, None).status == 200
    assert receive(body + b"\x0a\x00", PROTOBUF, None).status == 413


def test_every_list_of_otlp_is_counted() -> None:
    """The table of lists and messages is that of the protocol, as its own package has it."""
    found: dict[str, dict[int, str]] = {}

    def look(message: Descriptor) -> None:
        if message.name not in found:
            inner = {one.number: one.message_type for one in message.fields if one.message_type}
            found[message.name] = {number: of.name for number, of in inner.items()}
            for one in inner.values():
                look(one)

    look(ExportTraceServiceRequest.DESCRIPTOR)
    known = {
        message: {number: name for number, (_, name) in fields.items() if name}
        for message, fields in MESSAGES.items()
    }
    assert {name: known[name] for name in found} == found


def test_a_body_with_as_many_spans_as_fit_is_read() -> None:
    """More than a mebibyte of spans is nothing to be afraid of."""
    message = request()
    spans = message.resource_spans[0].scope_spans[0].spans
    while message.ByteSize() < 3 << 20:
        spans.extend([spans[0]] * 1000)
    answer = post(message)

    assert (answer.status, rejected(answer)) == (200, (0, ""))


def test_many_reasons_are_cut() -> None:
    """A message stays short: the three most frequent reasons, then a count."""
    message = request()
    root = span_of(message, "decode_cycle")[1]
    group = message.resource_spans[0].scope_spans[0]
    for name in (names.STEPS, names.TOPK, names.KIND, names.GROUP):
        spoiled = group.spans.add()
        spoiled.CopyFrom(root)
        drop(name)(spoiled)

    count, text = rejected(post(message))
    assert count == 4
    assert text.endswith("1 more reasons.")


@given(body=st.binary(max_size=200))
def test_random_bytes_never_raise(body: bytes) -> None:
    """Whatever comes is answered, and what is no protobuf stores nothing."""
    answer = receive(body, PROTOBUF, None)

    assert answer.status in {200, 400}
    assert stored(answer) == (0, 0, 0)


@given(data=st.data())
def test_a_damaged_body_never_raises(data: st.DataObject) -> None:
    """A good body with some bytes changed or cut off is answered like any other."""
    body = bytearray(request().SerializeToString())
    for place in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=5)):
        body[place] = data.draw(st.integers(0, 255))
    answer = receive(bytes(body[: data.draw(st.integers(0, len(body)))]), PROTOBUF, None)

    assert answer.status in {200, 400}
    assert (answer.batch is None) == (answer.status == 400)
