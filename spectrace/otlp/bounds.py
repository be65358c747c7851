"""Counts the spans of a protobuf body without reading them, to know what reading would take."""

from __future__ import annotations

from collections.abc import Iterator

MAX_SPANS = 400_000
"""Spans, scopes and resources in one body: more do not fit into it if each has its two ids, its
two times and a name. An empty one takes two bytes there and two hundred once it is read."""

_LENGTH_DELIMITED = 2
_FIXED_BYTES = {1: 8, 5: 4}
_PATH = (1, 2, 2)  # resource_spans, scope_spans, spans: their numbers in the messages of OTLP


def has_too_many_spans(body: bytes) -> bool:
    """Whether there are more than `MAX_SPANS`; stops where the body is malformed."""
    return any(place >= MAX_SPANS for place, _ in enumerate(_walk(body, 0, len(body), 0)))


def _walk(body: bytes, start: int, end: int, depth: int) -> Iterator[None]:
    for field_start, field_end in _fields(body, start, end, _PATH[depth]):
        yield
        if depth + 1 < len(_PATH):
            yield from _walk(body, field_start, field_end, depth + 1)


def _fields(body: bytes, start: int, end: int, wanted: int) -> Iterator[tuple[int, int]]:
    """Where the messages with a field number begin and end, up to the first malformed byte."""
    place = start
    while place < end:
        tag, place = _varint(body, place, end)
        kind = tag & 7
        if kind == _LENGTH_DELIMITED:
            size, place = _varint(body, place, end)
            if tag >> 3 == wanted and place + size <= end:
                yield place, place + size
            place += size
        elif kind in _FIXED_BYTES:
            place += _FIXED_BYTES[kind]
        elif kind == 0:
            _, place = _varint(body, place, end)
        else:  # groups, which OTLP has none of
            return


def _varint(body: bytes, place: int, end: int) -> tuple[int, int]:
    """A number and where it ends; it is the end of everything if it is cut off."""
    value = shift = 0
    while place < end:
        byte = body[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the highest bit says that more follows
            return value, place
        shift += 7
    return 0, end
