"""Writes records and header words into the ring, without ever waiting for a reader."""

from __future__ import annotations

import struct
from json import dumps
from typing import TYPE_CHECKING, Any
from zlib import crc32

from .layout import (
    ABANDONED_NS,
    CYCLE,
    DEVICE,
    HEAD,
    HEADER_BYTES,
    INFO_BYTES,
    INFO_OFFSET,
    LOW_HALF,
    MAX_MARKS,
    PATH_BYTES,
    PATH_OFFSET,
    QUIET_NS,
    ROW,
    ROWS,
    ROWS_PER_RECORD,
    SEAL,
    SKIPPED,
    TEXT,
    TEXT_BYTES,
    UNIT_BYTES,
    Command,
    RecordType,
    Word,
    mark_shift,
    units_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from mmap import mmap


class _ByCount(dict[int, tuple["Callable[..., bytes]", int]]):
    """How to pack a record up to its seal, and its units, by how many items follow its body.

    Each is made when first needed: beforehand they would take a tenth of the time that loading
    the probe may take.
    """

    def __init__(self, body: struct.Struct, item: str) -> None:
        super().__init__()
        self._body = body
        self._item = item

    def __missing__(self, count: int) -> tuple[Callable[..., bytes], int]:
        item = self._item  # one letter may have a count before it, and of bytes it must
        tail = f"{count}{item}" if len(item) == 1 else item * count
        whole = f"{HEAD.format}{self._body.format[1:]}{tail}"
        used = struct.calcsize(whole)
        units = units_of(used - HEAD.size)
        padding = units * UNIT_BYTES - SEAL.size - used
        made = self[count] = (struct.Struct(f"{whole}{padding}x").pack, units)
        return made


_CYCLE = _ByCount(CYCLE, "I")
_DEVICE = _ByCount(DEVICE, "I")
_ROWS = _ByCount(ROWS, ROW.format[1:])
_TEXT = _ByCount(TEXT, "s")
_SKIPPED = _ByCount(SKIPPED, "")
_HEAD, _RECORDS = Word.HEAD, Word.RECORDS  # written with every record: looked up once
_COMMAND, _HEARTBEAT_NS = Word.COMMAND, Word.HEARTBEAT_NS  # read at every cycle
_seal = SEAL.pack
_VALUES_PER_ROW = len(ROW.unpack(bytes(ROW.size)))


def _fitting(fields: tuple[int, ...]) -> tuple[int, ...]:
    """The fields of a cycle, each at most what its place holds."""
    most = [(1 << 8 * struct.calcsize(letter)) - 1 for letter in CYCLE.format[1:]]
    return tuple(max(0, min(pair)) for pair in zip(fields, most))  # noqa: B905 - as many


class RingWriter:
    """The one writer of a ring.

    Args:
        ring: The mapped ring file, with its header filled in.
    """

    __slots__ = (
        "_base",
        "_bytes",
        "_doubted_ns",
        "_end",
        "_map",
        "_number",
        "_position",
        "_silent_since_ns",
        "_units",
        "words",
    )

    def __init__(self, ring: mmap) -> None:
        self._map = ring
        self._bytes = memoryview(ring)
        self.words = self._bytes[:HEADER_BYTES].cast("Q")
        self._units = self.words[Word.UNITS]
        self._base = self.words[Word.UNITS_OFFSET]
        self._end = self._base + self._units * UNIT_BYTES
        self._position = self.words[Word.HEAD] + 1  # of the next record
        self._number = (self.words[Word.RECORDS] + 1) & LOW_HALF
        self._doubted_ns = self._silent_since_ns = 0

    def is_wanted(self, time_ns: int) -> bool:
        """Whether anybody still reads; asked at every cycle.

        Args:
            time_ns: CLOCK_MONOTONIC.
        """
        words = self.words
        if words[_COMMAND] == Command.DETACH:
            return False
        heartbeat_ns = words[_HEARTBEAT_NS]
        return time_ns - heartbeat_ns <= ABANDONED_NS or self._may_come_back(heartbeat_ns, time_ns)

    def _may_come_back(self, heartbeat_ns: int, time_ns: int) -> bool:
        """Whether readers that gave no sign of life for long may still give one.

        Where a container was frozen or a virtual machine moved, they stood still just as the
        server did: they have a moment from when the server itself first missed them.
        """
        if heartbeat_ns != self._doubted_ns:
            self._doubted_ns, self._silent_since_ns = heartbeat_ns, time_ns
        return time_ns - self._silent_since_ns <= QUIET_NS

    def _publish(self, record: bytes, units: int) -> None:
        """Seals a record and copies it into the ring.

        Args:
            record: All of it but the seal.
            units: What it fills.
        """
        position = self._position
        whole = record + _seal(crc32(record), position & LOW_HALF)
        start = self._base + position % self._units * UNIT_BYTES
        end = start + units * UNIT_BYTES
        if end <= self._end:
            self._map[start:end] = whole
        else:  # it goes on at the ring's first unit
            room = self._end - start
            self._map[start : self._end] = whole[:room]
            self._map[self._base : self._base + len(whole) - room] = whole[room:]
        self._position = position + units
        words = self.words
        words[_HEAD] = position + units - 1
        words[_RECORDS] = self._number
        self._number = (self._number + 1) & LOW_HALF

    def cycle(self, fields: tuple[int, ...], marks: tuple[int, ...] = ()) -> None:
        """Writes a cycle record.

        Args:
            fields: As in `layout.CYCLE`; what does not fit there is written as the most that does.
            marks: As many as `fields` says, `layout.MAX_MARKS` at most.
        """
        pack, units = _CYCLE[len(marks)]
        head = (self._position, self._number, RecordType.CYCLE, units)
        try:
            record = pack(*(head + fields + marks))
        except struct.error:  # so rare that each cycle need not be looked at
            record = pack(*(head + _fitting(fields) + marks))
        self._publish(record, units)

    def device(  # noqa: PLR0913, PLR0917 - what `timers.DeviceTimer` emits
        self,
        number: int,
        start_ns: int,
        error_ns: int,
        flags: int,
        phases: bytes,
        distances_ns: list[int],
    ) -> None:
        """Writes the device's boundaries of a cycle; more than fit are left out.

        Args:
            number: The cycle.
            start_ns: CLOCK_MONOTONIC of the host that the distances count from.
            error_ns: By how much `start_ns` may be wrong.
            flags: `layout.DeviceFlag`.
            phases: What begins at each boundary, one byte each.
            distances_ns: Of each boundary from `start_ns`.
        """
        count = min(len(phases), MAX_MARKS)
        shift = mark_shift(max(distances_ns, default=0))
        pack, units = _DEVICE[count]
        record = pack(
            self._position,
            self._number,
            RecordType.DEVICE,
            units,
            number,
            max(0, start_ns),
            min(error_ns, LOW_HALF),
            flags,
            count,
            shift,
            *[
                (max(0, distance) >> shift) << 8 | phase
                for phase, distance in zip(phases[:count], distances_ns)  # noqa: B905 - as many as fit
            ],
        )
        self._publish(record, units)

    def rows(self, number: int, batch: tuple[int, int, int, int, int], values: list[int]) -> None:
        """Writes the results of a cycle.

        Args:
            number: The cycle.
            batch: Batch size, context lengths (sum, greatest), requests queued and running.
            values: Of each row one after the other: interned id, correct drafts, tokens, flags.
        """
        rows = len(values) // _VALUES_PER_ROW
        if rows <= ROWS_PER_RECORD:
            self._rows_part((0, 1, rows, number, *batch), values)
            return
        parts = min(-(-rows // ROWS_PER_RECORD), 255)
        for part in range(parts):
            first = part * ROWS_PER_RECORD
            count = min(rows - first, ROWS_PER_RECORD)
            some = values[first * _VALUES_PER_ROW : (first + count) * _VALUES_PER_ROW]
            self._rows_part((part, parts, count, number, *batch), some)

    def _rows_part(self, fields: tuple[int, ...], values: list[int]) -> None:
        count = fields[2]
        pack, units = _ROWS[count]
        record = pack(
            self._position,
            self._number,
            RecordType.ROWS,
            units,
            *fields,
            *values,
        )
        self._publish(record, units)

    def text(self, kind: int, interned: int, text: str) -> None:
        """Writes a text record of type `kind`, in as many parts as it takes (255 at most)."""
        data = text.encode("utf-8", "replace")[: 255 * TEXT_BYTES]
        parts = -(-len(data) // TEXT_BYTES) or 1
        for part in range(parts):
            some = data[part * TEXT_BYTES : (part + 1) * TEXT_BYTES]
            pack, units = _TEXT[len(some)]
            record = pack(
                self._position, self._number, kind, units, part, parts, interned, len(some), some
            )
            self._publish(record, units)

    def skipped(self, sums: tuple[int, ...]) -> None:
        """Writes what sampling left out; `sums` as in `layout.SKIPPED`."""
        pack, units = _SKIPPED[0]
        record = pack(
            self._position,
            self._number,
            RecordType.SKIPPED,
            units,
            *sums,
        )
        self._publish(record, units)

    def info(self, info: dict[str, Any]) -> None:
        """Replaces the ring's text by `info` as JSON; what does not fit is left out."""
        data = dumps(info).encode()
        for name in ("hooks", "error"):  # the longest ones, and the least needed
            if len(data) > INFO_BYTES:
                data = dumps({**info, name: str(info.get(name))[:500]}).encode()
        if len(data) > INFO_BYTES:
            data = b"{}"
        self.words[Word.INFO_LENGTH] = 0
        self._bytes[INFO_OFFSET : INFO_OFFSET + len(data)] = data
        self.words[Word.INFO_LENGTH] = len(data)

    def path(self) -> str:
        """Where the ring file lies, as this process sees it."""
        text = bytes(self._bytes[PATH_OFFSET : PATH_OFFSET + PATH_BYTES])
        return text.partition(b"\0")[0].decode()

    def close(self) -> None:
        """Lets go of the map; with a view left alive it could not be closed."""
        self.words.release()
        self._bytes.release()
        self._map.close()
