"""Generates bad OTLP messages of every kind, with the answer that each must get."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import grpc

from spectrace.otlp.body import JSON, MAX_BODY_BYTES, PROTOBUF
from tests.helpers.otlp_in_speed import BATCH_SPANS, bodies_of, encode_json_spans, encode_protobuf

FINAL = frozenset({200, 400, 413})
"""What may be said of a damaged body: some of it is whole, none is, or it says it is too long."""


class Bad(NamedTuple):
    """A message that somebody sends.

    Attributes:
        what: How it was made.
        body: Its bytes.
        headers: Beside its length.
        statuses: HTTP statuses of which one must come.
    """

    what: str
    body: bytes
    headers: dict[str, str]
    statuses: frozenset[int]


class BadCall(NamedTuple):
    """The same over gRPC.

    Attributes:
        what: How it was made.
        message: Its bytes.
        method: Which is called.
        codes: Of which one must come; None is success.
    """

    what: str
    message: bytes
    method: str
    codes: frozenset[grpc.StatusCode | None]


@cache
def good(kind: str) -> bytes:
    """The spans of one cycle of one rank, fewer than `BATCH_SPANS`."""
    encode = encode_protobuf if kind == PROTOBUF else encode_json_spans
    [body], spans = bodies_of(1, encode, ranks=1)
    assert spans < BATCH_SPANS
    return body


@cache
def bomb(size: int) -> bytes:
    """Zeros that decompress to more than is taken."""
    return gzip.compress(bytes(size))


def any_bad(choose: random.Random) -> Bad:
    """A bad message, or one that may still be good in part."""
    return choose.choice(_WAYS)(choose, choose.choice((PROTOBUF, JSON)))


def _cut(choose: random.Random, kind: str) -> Bad:
    body = good(kind)[: choose.randrange(len(good(kind)))]
    statuses = frozenset({400}) if kind == JSON else FINAL
    return Bad("cut", body, {"content-type": kind}, statuses)


def _flipped(choose: random.Random, kind: str) -> Bad:
    return Bad("flipped", flip(choose, good(kind)), {"content-type": kind}, FINAL)


def flip(choose: random.Random, body: bytes) -> bytes:
    """The body with one to eight bits turned over."""
    changed = bytearray(body)
    for _ in range(choose.randint(1, 8)):
        changed[choose.randrange(len(changed))] ^= 1 << choose.randrange(8)
    return bytes(changed)


def _random(choose: random.Random, kind: str) -> Bad:
    body = choose.randbytes(choose.randrange(1, 300))
    statuses = frozenset({400}) if kind == JSON else FINAL
    return Bad("random", b"\x07" + body, {"content-type": kind}, statuses)


def _bomb(choose: random.Random, kind: str) -> Bad:
    body = bomb(MAX_BODY_BYTES + choose.choice((1, 1 << 20, 100 << 20)))
    return Bad("bomb", body, {"content-type": kind, "content-encoding": "gzip"}, frozenset({413}))


def _cut_gzip(choose: random.Random, kind: str) -> Bad:
    packed = gzip.compress(good(kind))
    body = packed[: choose.randrange(len(packed))]
    headers = {"content-type": kind, "content-encoding": "gzip"}
    return Bad("cut gzip", body, headers, frozenset({400}))


def _no_gzip(choose: random.Random, kind: str) -> Bad:
    headers = {"content-type": kind, "content-encoding": "gzip"}
    del choose
    return Bad("no gzip", good(kind), headers, frozenset({400}))


def _wrong_type(choose: random.Random, kind: str) -> Bad:
    named = choose.choice(("text/plain", "application/grpc", "image/png", "", "application/xml"))
    return Bad("wrong type", good(kind), {"content-type": named}, frozenset({415}))


def _wrong_encoding(choose: random.Random, kind: str) -> Bad:
    named = choose.choice(("br", "deflate", "zstd", "gzip, gzip", "x"))
    headers = {"content-type": kind, "content-encoding": named}
    return Bad("wrong encoding", good(kind), headers, frozenset({415}))


def _other_kind(choose: random.Random, kind: str) -> Bad:
    other = JSON if kind == PROTOBUF else PROTOBUF
    del choose
    return Bad("of the other type", good(other), {"content-type": kind}, frozenset({400}))


def _claims_a_gibibyte(choose: random.Random, kind: str) -> Bad:
    """Within the message: a length that nothing follows."""
    del choose
    body = b"\x0a\x80\x80\x80\x80\x04" if kind == PROTOBUF else b'{"resourceSpans": "' + b"9" * 99
    return Bad("1 GiB claimed", body, {"content-type": kind}, frozenset({400}))


def ten_million_attributes() -> bytes:
    """One resource with empty attributes; 20 MB, of which gzip makes 19 KB."""
    return _field(1, _field(1, b"\x0a\x00" * 10_000_000))


def _empty_spans(choose: random.Random, kind: str) -> Bad:
    """Many more than can be: two or three bytes each."""
    count = choose.choice((500_000, 1_100_000))
    if kind == JSON:
        body = b'{"resourceSpans": [' + b"{}," * 1_100_000 + b"{}]}"
        return Bad("empty objects", body, {"content-type": kind}, frozenset({400}))
    scope = _field(2, b"\x12\x00" * max(count, 600_000))
    body = _field(1, scope)
    return Bad("empty spans", body, {"content-type": kind}, frozenset({413}))


def _nested(choose: random.Random, kind: str) -> Bad:
    depth = choose.choice((200, 2000, 20_000))
    if kind == JSON:
        text = '{"newer":' + "[" * depth * 10 + "]" * depth * 10 + "}"
        return Bad("nested", text.encode(), {"content-type": kind}, frozenset({200, 400}))
    value = b""
    for _ in range(min(depth, 2000)):
        value = _field(5, _field(1, value))
    body = _field(1, _field(1, _field(1, _field(2, value))))
    return Bad("nested", body, {"content-type": kind}, frozenset({400}))


def _wrong_values(choose: random.Random, kind: str) -> Bad:
    """JSON that is none of OTLP's; of protobuf the same is damage."""
    if kind == PROTOBUF:
        return _flipped(choose, kind)
    spans: tuple[dict[str, object], ...] = (
        {"traceId": "x" * 32},
        {"kind": "SPAN_KIND_SERVER"},
        {"startTimeUnixNano": "later"},
        {"endTimeUnixNano": 1 << 70},
        {"attributes": {"a": 1}},
        {"attributes": [{"key": "a", "value": {"intValue": "1", "boolValue": True}}]},
        {"name": 1},
        {"status": []},
    )
    span = choose.choice(spans)
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()
    return Bad("wrong values", body, {"content-type": kind}, frozenset({400}))


_WAYS: tuple[Callable[[random.Random, str], Bad], ...] = (
    *[_cut, _flipped, _random, _wrong_values] * 20,  # the rest takes long, or is soon told
    *[_cut_gzip, _no_gzip, _wrong_type, _wrong_encoding, _other_kind] * 8,
    *[_claims_a_gibibyte, _nested] * 4,
    _bomb,
    _empty_spans,
)


def any_bad_call(choose: random.Random, method: str) -> BadCall:
    """A bad call of gRPC."""
    body = good(PROTOBUF)
    bad = frozenset({grpc.StatusCode.INVALID_ARGUMENT})
    final = frozenset({None, grpc.StatusCode.INVALID_ARGUMENT})
    unknown = frozenset({grpc.StatusCode.UNIMPLEMENTED})
    ways = (
        BadCall("cut", body[: choose.randrange(len(body))], method, final),
        BadCall("flipped", flip(choose, body), method, final),
        BadCall("random", b"\x07" + choose.randbytes(choose.randrange(300)), method, final),
        BadCall("of the other type", good(JSON), method, bad),
        BadCall("1 GiB claimed", b"\x0a\x80\x80\x80\x80\x04", method, bad),
        BadCall("no such method", body, method + "s", unknown),
    )
    return choose.choice(ways)


def _field(number: int, payload: bytes) -> bytes:
    """A message within a message, as protobuf writes it."""
    size, length = len(payload), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + payload
