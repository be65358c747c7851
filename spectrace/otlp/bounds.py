"""Counts the parts of a protobuf body without reading them, to know what reading would take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

MAX_SPANS = 400_000
"""Spans, scopes and resources in one body: more do not fit into it if each has its two ids, its
two times and a name. An empty one takes two bytes there and two hundred once it is read."""
MAX_PARTS = 1_000_000
"""Those and all else that a body has lists of: attributes, events, links, values of arrays. An
empty one takes two bytes there too; a body of JSON may have as many objects."""
MAX_FIELDS = 5_000_000
"""Fields in one body, of lists or not: counting them takes longer than reading what they are."""

_VARINT, _FIXED64, _LENGTH_DELIMITED, _GROUP, _GROUP_END, _FIXED32 = range(6)
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_GROUP_STEPS = {_GROUP: 1, _GROUP_END: -1}
_MORE = 0x80  # the bit of a byte that says that more of the number follows
_MAX_DEPTH = 100  # of messages in messages; protobuf reads no deeper

_Fields: TypeAlias = "dict[int, tuple[bool, str]]"
MESSAGES: dict[str, _Fields] = {
    "ExportTraceServiceRequest": {1: (True, "ResourceSpans")},
    "ResourceSpans": {1: (False, "Resource"), 2: (True, "ScopeSpans")},
    "Resource": {1: (True, "KeyValue"), 3: (True, "EntityRef")},
    "EntityRef": {3: (True, ""), 4: (True, "")},
    "ScopeSpans": {1: (False, "InstrumentationScope"), 2: (True, "Span")},
    "InstrumentationScope": {3: (True, "KeyValue")},
    "Span": {
        9: (True, "KeyValue"),
        11: (True, "Event"),
        13: (True, "Link"),
        15: (False, "Status"),
    },
    "Event": {3: (True, "KeyValue")},
    "Link": {4: (True, "KeyValue")},
    "Status": {},
    "KeyValue": {2: (False, "AnyValue")},
    "AnyValue": {5: (False, "ArrayValue"), 6: (False, "KeyValueList")},
    "ArrayValue": {1: (True, "AnyValue")},
    "KeyValueList": {1: (True, "KeyValue")},
}
"""The fields of each message of OTLP that are lists or messages, by number: whether it is a list,
and the message that it holds, empty for a text."""

_NOTHING = (False, "")
_TOO_MANY = "fields"
_OF_SPANS = {"ResourceSpans", "ScopeSpans", "Span"}
_TAGS = {
    number << 3 | _LENGTH_DELIMITED
    for fields in MESSAGES.values()
    for number, (is_list, _) in fields.items()
    if is_list
}
_TAG_BYTES = bytes(_TAGS | {tag | _MORE for tag in _TAGS})  # a number may be written too long


def excess(body: bytes) -> str:
    """What of a body is too much, such as `400000 spans`; empty where nothing is.

    What follows a malformed byte does not count: a parser gets no further either.
    """
    if _most_parts(body) <= min(MAX_SPANS, MAX_PARTS):
        return ""
    spans = 0
    for place, name in enumerate(_parts(body), 1):
        if name == _TOO_MANY:
            return f"{MAX_FIELDS} fields"
        spans += name in _OF_SPANS
        if spans > MAX_SPANS:
            return f"{MAX_SPANS} spans"
        if place > MAX_PARTS:
            return f"{MAX_PARTS} attributes, events, links and values"
    return ""


def _most_parts(body: bytes) -> int:
    """As many parts as there are at most: each has a byte of its own that says what it is."""
    return len(body) - len(body.translate(None, _TAG_BYTES))


def _parts(body: bytes) -> Iterator[str]:
    """The message of each element of a list, in the order of the body, up to a malformed byte.

    The last one is `_TOO_MANY` where there are more than `MAX_FIELDS`.
    """
    place = groups = seen = 0
    outer: list[tuple[_Fields, int]] = []
    fields, end = MESSAGES["ExportTraceServiceRequest"], len(body)
    while outer or place < end:
        if place >= end:
            fields, end = outer.pop()
            continue
        seen += 1
        if seen > MAX_FIELDS:
            yield _TOO_MANY
            return
        tag, place = _varint(body, place, end)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, place = _varint(body, place, end)
            if place + size > end:
                return
            is_list, name = _NOTHING if groups else fields.get(tag >> 3, _NOTHING)
            if is_list:
                yield name
            if name and len(outer) < _MAX_DEPTH:
                outer.append((fields, end))
                fields, end = MESSAGES[name], place + size
            else:
                place += size
        elif kind in _GROUP_STEPS:  # OTLP has none, but a parser reads past them
            groups += _GROUP_STEPS[kind]
        else:
            place = _past_number(body, kind, place, end)


def _past_number(body: bytes, kind: int, place: int, end: int) -> int:
    """Where the field after a number begins; the end of the message for a kind there is not."""
    if kind == _VARINT:
        return _varint(body, place, end)[1]
    return min(end, place + _FIXED_BYTES[kind]) if kind in _FIXED_BYTES else end


def _varint(body: bytes, place: int, end: int) -> tuple[int, int]:
    """A number and where it ends; it is the end of everything if it is cut off."""
    if place < end and body[place] < _MORE:  # as most are
        return body[place], place + 1
    value = shift = 0
    while place < end:
        byte = body[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < _MORE:
            return value, place
        shift += 7
    return 0, end
