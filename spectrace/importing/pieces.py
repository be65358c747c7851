"""Cuts the JSON text of a trace into its events, without holding the text or a tree of it.

The array of events is decoded in pieces of a few MB by msgspec. A piece ends at a `}` with a
comma behind it; only where the text up to there is a whole list does it decode, so that a cut
in the midst of an event cannot pass. What does not decode is walked through bracket by bracket,
and every event of it tried alone. Where brackets do not match, what begins as Kineto's events
do is tried.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import re
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from spectrace.errors import SpectraceError
from spectrace.importing.columns import FURTHEST_NS
from spectrace.importing.faults import Fault, Faults

_PIECE_BYTES = 4 << 20
_MOST_HEAD_BYTES = 64 << 20
_MOST_EVENT_BYTES = 16 << 20
_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_TOKENS = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)
_EVENT = re.compile(rb'\{\s*"ph"')
_END = re.compile(rb"\}\s*,")
_OPENING = {ord("{"): ord("}"), ord("["): ord("]")}


# Columns have 64 bits, and so has the store.
_Integer = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_Base = Annotated[int, msgspec.Meta(ge=-FURTHEST_NS, le=FURTHEST_NS)]


class Arguments(msgspec.Struct, rename={"external_id": "External id"}):
    """Of what an event carries, that which is used."""

    correlation: _Integer | None = None
    external_id: _Integer | None = None
    stream: int | str | None = None
    device: int | str | None = None
    name: str | None = None
    finished: bool | None = None


class Event(msgspec.Struct):
    """One event of a trace; times in µs from the trace's base."""

    ph: str
    name: str = ""
    cat: str = ""
    pid: _Integer | str = 0
    tid: int | str = 0
    ts: float | None = None
    dur: float | None = None
    args: Arguments | None = None


class Head(msgspec.Struct, rename={"base_ns": "baseTimeNanoseconds"}):
    """Of what stands around the events, that which is used."""

    base_ns: _Base = 0
    host_name: str = ""


_events = msgspec.json.Decoder(list[Event])
_event = msgspec.json.Decoder(Event)


class EventText:
    """The events of one trace, in batches; to be read once.

    Args:
        pieces: The text, decompressed.
        name: Of the file, for what is said.
        faults: Where it is counted what cannot be read.
    """

    def __init__(self, pieces: Iterator[bytes], name: str, faults: Faults) -> None:
        self._pieces = pieces
        self._name = name
        self._faults = faults
        self._head = b""
        self._text = bytearray()
        self._drained = False  # no more text will come
        self._ended = False  # the array's end was seen, or there is none
        self._tail = bytearray()

    def batches(self) -> Iterator[list[Event]]:
        """The events, some thousands at a time, in the order of the file.

        Raises:
            SpectraceError: The file is no trace.
        """
        self._find_array()
        while not self._ended and self._fill(_PIECE_BYTES):
            yield self._next_piece()
        self._drained = True
        while not self._ended:
            yield self._walked()
        while self._fill(_PIECE_BYTES, into=self._tail):
            if len(self._tail) > _MOST_HEAD_BYTES:
                break

    def head(self) -> Head:
        """What stands around the events; to be called after all of them were read."""
        for tail in (bytes(self._tail), b"}"):
            try:
                return msgspec.json.decode(self._head + b"]" + tail, type=Head)
            except msgspec.DecodeError:  # noqa: PERF203 - two tries
                continue
        return Head()

    def _fill(self, size: int, into: bytearray | None = None) -> bool:
        """Reads until there are so many bytes more; False where the file is at its end."""
        text = self._text if into is None else into
        wanted = len(text) + size
        for piece in self._pieces:
            text += piece
            if len(text) >= wanted:
                return True
        return False

    def _find_array(self) -> None:
        more = True
        while more:
            more = self._fill(1 << 16)
            found = _ARRAY.search(self._text)
            start = self._text.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
            if found or start == b"[":
                end = found.end() if found and start != b"[" else self._text.index(b"[") + 1
                self._head = bytes(self._text[:end]) if start != b"[" else b'{"traceEvents":['
                del self._text[:end]
                return
            if (start and start != b"{") or len(self._text) > _MOST_HEAD_BYTES:
                break
        raise SpectraceError(
            f"{self._name} is no trace of the torch profiler: it has no traceEvents. Give a file "
            "that SGLang's /start_profile wrote, or what `nsys export --type sqlite` made."
        )

    def _next_piece(self) -> list[Event]:
        cut = self._last_cut()
        if cut:
            try:
                batch = _events.decode(b"[" + self._text[:cut] + b"]")
            except (msgspec.DecodeError, UnicodeDecodeError):
                return self._walked()
            del self._text[: self._text.index(b",", cut) + 1]
            return batch
        return self._walked()

    def _last_cut(self) -> int:
        """Behind the last `}` that a comma follows; 0 without one."""
        at = len(self._text)
        while (at := self._text.rfind(b"}", 0, at)) >= 0:
            if _END.match(self._text, at):
                return at + 1
        return 0

    def _walked(self) -> list[Event]:
        """Takes what whole events there are, one by one."""
        batch: list[Event] = []
        spans, end, begun, broken = walk(self._text)
        for start, stop in spans:
            event = self._tried(bytes(self._text[start:stop]))
            if event is not None:
                batch.append(event)
        if end is not None:
            self._ended = True
            self._tail += self._text[end + 1 :]
            self._text.clear()
            return batch
        del self._text[:begun]
        if broken or self._drained or len(self._text) > _MOST_EVENT_BYTES:
            batch += self._resumed()
        return batch

    def _resumed(self) -> list[Event]:
        """Goes on after an event that does not end, at what looks like the begin of others.

        Each of them is tried alone but for the last, which may end in text to come.
        """
        begins = [0, *(found.start() for found in _EVENT.finditer(self._text, 1))]
        parts = [
            bytes(self._text[start:stop]).rstrip(b", \t\r\n")
            for start, stop in itertools.pairwise(begins)
        ]
        if parts:
            del self._text[: begins[-1]]
        elif self._drained:
            self._faults.add(Fault.CUT_OFF)
            self._ended = True
        elif len(self._text) > _MOST_EVENT_BYTES:
            self._faults.add(Fault.UNREADABLE)
            self._text.clear()
        return [event for event in map(self._tried, parts) if event is not None]

    def _tried(self, text: bytes) -> Event | None:
        try:
            return _event.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass
        try:
            plain = json.loads(text.decode(errors="replace"), strict=False)
            event = msgspec.convert(_usable(plain), Event, strict=False)
        except (ValueError, TypeError, RecursionError):
            self._faults.add(Fault.UNREADABLE)
            return None
        if all(time is None or math.isfinite(time) for time in (event.ts, event.dur)):
            return event
        self._faults.add(Fault.NOT_A_NUMBER)
        return None


def walk(text: bytes | bytearray) -> tuple[list[tuple[int, int]], int | None, int, bool]:
    """Finds the elements of a JSON array of objects whose begin is not in the text.

    Returns:
        Begin and end of each whole one; where the array's `]` stands, None if it does not; from
        where on nothing whole follows; and whether that is because brackets do not match.
    """
    spans: list[tuple[int, int]] = []
    closing: list[int] = []
    start = behind = 0
    for token in _TOKENS.finditer(text):
        at = token.start()
        mark = text[at]
        if mark in _OPENING:
            if not closing:
                start = at
            closing.append(_OPENING[mark])
        elif mark == ord('"'):
            continue
        elif not closing:
            if mark == ord("]"):
                return spans, at, at, False
        elif closing[-1] != mark:  # an event that lost a bracket: nothing behind it is sure
            return spans, None, start, True
        else:
            closing.pop()
            if not closing:
                behind = token.end()
                spans.append((start, behind))
    return spans, None, start if closing else behind, False


def _usable(plain: Any) -> Any:
    """An event as JSON has it, without arguments of another type than those that are used."""
    if not isinstance(plain, dict):
        return plain
    args = plain.get("args")
    kept = {}
    for name, value in args.items() if isinstance(args, dict) else ():
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.convert({name: value}, Arguments)
            kept[name] = value
    return {**plain, "args": kept}
