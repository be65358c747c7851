"""Turns the units of a ring into whole records, and counts those that it could not have."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from spectrace.collect.ring_view import RingView
from spectrace.model import CycleKind, PhaseName, TimingMode
from spectrace.probe import layout
from spectrace.probe.layout import (
    CycleFlag,
    DeviceFlag,
    Graph,
    Kind,
    Mode,
    Ph,
    RecordType,
    RowFlag,
    Word,
)

PHASES = {
    Ph.RESOLVE: PhaseName.RESOLVE,
    Ph.FORWARD: PhaseName.FORWARD,
    Ph.DRAFT: PhaseName.DRAFT,
    Ph.VERIFY: PhaseName.VERIFY,
    Ph.VERIFY_PREPARE: PhaseName.VERIFY_PREPARE,
    Ph.VERIFY_FORWARD: PhaseName.VERIFY_FORWARD,
    Ph.VERIFY_SAMPLE: PhaseName.VERIFY_SAMPLE,
    Ph.VERIFY_COMMIT: PhaseName.VERIFY_COMMIT,
    Ph.DRAFT_EXTEND: PhaseName.DRAFT_EXTEND,
    Ph.WAIT: PhaseName.WAIT,
    Ph.RESULT: PhaseName.RESULT,
    Ph.SCHEDULE: PhaseName.SCHEDULE,
    Ph.DRAFT_STEP: PhaseName.DRAFT_STEP,
}
_KINDS = {
    Kind.OTHER: CycleKind.OTHER,
    Kind.SPECULATIVE: CycleKind.SPECULATIVE,
    Kind.DECODE: CycleKind.DECODE,
    Kind.EXTEND: CycleKind.EXTEND,
    Kind.MIXED: CycleKind.MIXED,
    Kind.IDLE: CycleKind.IDLE,
}
_MODES = {
    Mode.OFF: TimingMode.OFF,
    Mode.HOST: TimingMode.HOST,
    Mode.DEVICE: TimingMode.DEVICE,
    Mode.SYNC: TimingMode.SYNC,
}

_GRAPHS = {Graph.UNKNOWN: None, Graph.EAGER: False, Graph.GRAPH: True}

# A record that the head already covers may show itself a moment later on a processor that
# reorders stores. One that is still broken after so many polls was damaged and never heals.
_PATIENCE_POLLS = 5
_LOW_HALF = layout.LOW_HALF

Marks: TypeAlias = tuple[tuple[int, int, int], ...]


class CycleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's boundaries of one cycle.

    Attributes:
        record: Number of the record in its ring, from 1.
        number: The scheduler's number of the cycle.
        kind: What the cycle did.
        mode: How its boundaries were timed.
        asked_mode: How they were to be timed.
        start_ns: CLOCK_MONOTONIC in ns.
        length_ns: How long it took, in ns.
        probe_ns: The probe's own time in it, in ns.
        batch_size: Requests in the batch.
        padded_batch: The batch size of the graphs that ran, None where it is not known.
        steps: Draft steps.
        topk: Branches per draft step.
        draft_tokens: Tokens that verify looked at per request.
        graph: Of draft, verify and draft extend whether each ran as a graph, None unknown.
        marks: Number of the phase that begins, by how many cycles its batch is older, and
            its distance from `start_ns` in ns.
        ended_idle: The scheduler went idle after the cycle.
        incomplete: Marks were dropped, or the server's own code raised.
        late_switch: Mode or sampling changed with this cycle or just before it, later than asked
            for.
    """

    record: int
    number: int
    kind: CycleKind
    mode: TimingMode
    start_ns: int
    length_ns: int
    probe_ns: int
    batch_size: int
    steps: int
    topk: int
    draft_tokens: int
    marks: Marks
    ended_idle: bool
    incomplete: bool
    asked_mode: TimingMode
    padded_batch: int | None = None
    graph: tuple[bool | None, bool | None, bool | None] = (None, None, None)
    late_switch: bool = False


class DeviceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The device's boundaries of one cycle on one rank.

    Attributes:
        record: Number of the record in its ring.
        number: The scheduler's number of the cycle.
        start_ns: CLOCK_MONOTONIC of the host in ns that the marks' distances count from.
        error_ns: By how much `start_ns` may be wrong, in ns.
        lost: Boundaries are missing.
        placed: `start_ns` is known; before the clocks are mapped to each other it is not.
        marks: As of a cycle record, without lag. A mark of a phase that the device does not
            run, or of phase 0, ends the one before it.
    """

    record: int
    number: int
    start_ns: int
    error_ns: int
    lost: bool
    placed: bool
    marks: Marks


class SkippedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of cycles that sampling left out.

    Attributes:
        record: Number of the record in its ring.
        cycles: How many.
        first: The lowest of their numbers.
        last: The highest of their numbers.
        total_ns: Their time in ns.
        verifies: Rows that verified.
        correct_drafts: Drafts found correct in them.
        output_tokens: Tokens added to outputs.
    """

    record: int
    cycles: int
    first: int
    last: int
    total_ns: int
    verifies: int
    correct_drafts: int
    output_tokens: int


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One request's result, its id still interned.

    Attributes:
        interned: The number that a `TextRecord` gives the request id for.
        correct_drafts: Drafts found correct, None where nothing was verified.
        output_tokens: Tokens added to the request's output.
        overshoot: The request had already ended.
        health_check: The request is the server's own probe.
    """

    interned: int
    correct_drafts: int | None
    output_tokens: int
    overshoot: bool
    health_check: bool


class RowsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one cycle, or one of several `parts` of them.

    Attributes:
        record: Number of the record in its ring.
        number: The scheduler's number of the cycle.
        part: Which part, from 0.
        parts: Of how many.
        batch_size: Requests in the batch.
        rows: The results in this part.
        context_tokens: Tokens of the requests before this cycle, their sum and the most of
            one request; None where they are not known.
        queued: Requests that waited, None where that is not known.
        running: Requests that ran, None where that is not known.
    """

    record: int
    number: int
    part: int
    parts: int
    batch_size: int
    rows: tuple[Row, ...]
    context_tokens: tuple[int, int] | None = None
    queued: int | None = None
    running: int | None = None


class TextRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Text in UTF-8, or one of several `parts` of it, perhaps cut within a character.

    `kind` is `RecordType.REQUEST` (`text` is the id behind `interned`), `RecordType.SPAN` (the
    server's own span of that request) or `RecordType.ERROR`.
    """

    record: int
    kind: int
    interned: int
    part: int
    parts: int
    text: bytes


Record: TypeAlias = CycleRecord | DeviceRecord | RowsRecord | SkippedRecord | TextRecord


class RingReader:
    """Follows one ring from a starting point on.

    Args:
        view: The mapped ring.
        join: Begin behind the newest record, for a ring that others have read before;
            without it the reader begins at the first record ever written.
    """

    def __init__(self, view: RingView, *, join: bool = False) -> None:
        self._view = view
        self._next = view.word(Word.HEAD) + 1 if join else 1  # position
        self._number = view.word(Word.RECORDS) + 1 if join else 1  # of the record expected there
        self._began = self._number
        self._given = 0
        self._refusals = 0

    @property
    def lost(self) -> int:
        """Records that were overwritten before they were read, or were damaged.

        Together with the records that `poll` gave it makes up every record since the start.
        Those that were passed over last show when the next one is read, or `drain` ends.
        """
        return max(0, self._number - self._began - self._given)

    def poll(self) -> list[Record]:
        """Gives the records that have become whole since the last poll, in order.

        A record that is not whole yet ends the poll and is tried again at the next one. A
        reader that was lapped goes on at the oldest record that is not being overwritten.
        """
        records: list[Record] = []
        head = self._view.word(Word.HEAD)
        while self._next <= head:
            whole = self._whole_at(self._next, head)
            if whole is not None:
                self._take(whole, records)
            elif not (self._skip_if_lapped() or self._give_up(head)):
                break
        return records

    def drain(self) -> list[Record]:
        """Gives all records up to the newest one, when nothing more can be waited for."""
        records: list[Record] = []
        head = self._view.word(Word.HEAD)
        while self._next <= head:
            records += self.poll()
        newest = self._view.word(Word.RECORDS)
        if self._view.word(Word.HEAD) < self._next:
            self._number = max(self._number, self._number_near(newest) + 1)
        return records

    def _whole_at(self, position: int, head: int) -> bytes | None:
        """The record that begins at `position`, None if none does or not all of it is there."""
        first = self._view.read(position)
        found, _, _, units = layout.HEAD.unpack_from(first)
        fits = 0 < units <= layout.MAX_RECORD_UNITS and position + units - 1 <= head
        if found != position or not fits:
            return None
        record = first if units == 1 else self._view.read(position, units)
        return record if is_whole(record, position) else None

    def _take(self, whole: bytes, records: list[Record]) -> None:
        _, number, _, units = layout.HEAD.unpack_from(whole)
        self._number = self._number_near(number) + 1
        record = decode(whole)
        if record is not None:
            records.append(record)
            self._given += 1
        self._next += units
        self._refusals = 0

    def _number_near(self, low_half: int) -> int:
        """The number of a record of which the low half is known."""
        ahead = (low_half - self._number) & _LOW_HALF
        return self._number + (ahead if ahead <= _LOW_HALF >> 1 else ahead - _LOW_HALF - 1)

    def _skip_if_lapped(self) -> bool:
        # The writer may be at work on a record as long as any behind the head.
        head = self._view.word(Word.HEAD)
        oldest_safe = head + 1 + layout.MAX_RECORD_UNITS - self._view.units
        if self._next >= oldest_safe:
            return False
        self._go_on_behind(oldest_safe, head)
        return True

    def _give_up(self, head: int) -> bool:
        self._refusals += 1
        if self._refusals < _PATIENCE_POLLS:
            return False
        self._go_on_behind(self._next + 1, head)
        return True

    def _go_on_behind(self, position: int, head: int) -> None:
        """Goes on at the first whole record from `position` on, or behind the head."""
        self._refusals = 0
        for begin in range(position, head + 1):
            if self._whole_at(begin, head) is not None:
                self._next = begin
                return
        self._next = head + 1


def is_whole(record: bytes, position: int) -> bool:
    """Whether `record` holds all of the record at `position` and nothing of another one.

    A record carries its position at both ends and a CRC-32 of all before the seal.
    """
    body = len(record) - layout.SEAL.size
    checksum, low_half = layout.SEAL.unpack_from(record, body)
    found = (*layout.POSITION.unpack_from(record), low_half, checksum)
    return found == (position, position & _LOW_HALF, zlib.crc32(record[:body]))


def decode(record: bytes) -> Record | None:
    """The values of a whole record; None where its type or one of them is unknown to us."""
    _, number, kind, _ = layout.HEAD.unpack_from(record)
    decoder = _DECODERS.get(kind)
    try:
        return decoder(record, number) if decoder else None
    except (KeyError, ValueError, struct.error):
        return None


_BODY = layout.HEAD.size


def _decode_cycle(record: bytes, record_number: int) -> CycleRecord:
    fields = layout.CYCLE.unpack_from(record, _BODY)
    kind, modes, flags, number, start_ns, length, probe_ns = fields[:7]
    batch_size, padded, steps, topk, draft_tokens, graph, count, shift = fields[7:]
    return CycleRecord(
        record=record_number,
        number=number,
        kind=_KINDS[kind],
        mode=_MODES[modes & 0xF],
        asked_mode=_MODES[modes >> 4],
        start_ns=start_ns,
        length_ns=length << layout.length_shift(shift),
        probe_ns=probe_ns,
        batch_size=batch_size,
        padded_batch=padded or None,
        steps=steps,
        topk=topk,
        draft_tokens=draft_tokens,
        graph=(
            _GRAPHS[graph >> Graph.DRAFT & 3],
            _GRAPHS[graph >> Graph.VERIFY & 3],
            _GRAPHS[graph >> Graph.DRAFT_EXTEND & 3],
        ),
        marks=_decode_marks(record, _BODY + layout.CYCLE.size, count, shift),
        ended_idle=bool(flags & CycleFlag.ENDED_IDLE),
        incomplete=bool(flags & (CycleFlag.MARKS_DROPPED | CycleFlag.RAISED)),
        late_switch=bool(flags & CycleFlag.LATE_SWITCH),
    )


def _decode_device(record: bytes, record_number: int) -> DeviceRecord:
    number, start_ns, error_ns, flags, count, shift = layout.DEVICE.unpack_from(record, _BODY)
    return DeviceRecord(
        record=record_number,
        number=number,
        start_ns=start_ns,
        error_ns=error_ns,
        lost=bool(flags & DeviceFlag.LOST),
        placed=not flags & DeviceFlag.NO_CLOCK,
        marks=_decode_marks(record, _BODY + layout.DEVICE.size, count, shift, also=(0,)),
    )


def _decode_marks(
    record: bytes, offset: int, count: int, shift: int, also: tuple[int, ...] = ()
) -> Marks:
    if count > layout.MAX_MARKS or shift > 64 - layout.MARK_DISTANCE_BITS:
        raise ValueError("marks of another layout")
    marks = struct.unpack_from(f"<{count}I", record, offset)
    phases = [mark & layout.PHASE_MASK for mark in marks]
    if any(phase not in PHASES and phase not in also for phase in phases):
        raise ValueError("a phase of another layout")
    return tuple(
        (phase, mark >> layout.LAG_SHIFT & layout.MAX_LAG, mark >> 8 << shift)
        for phase, mark in zip(phases, marks, strict=True)
    )


def _decode_rows(record: bytes, record_number: int) -> RowsRecord:
    fields = layout.ROWS.unpack_from(record, _BODY)
    part, parts, count, number, batch_size, total, longest, queued, running = fields
    if count > layout.ROWS_PER_RECORD or part >= parts:
        raise ValueError("more rows or parts than there can be")
    first = _BODY + layout.ROWS.size
    offsets = (first + row * layout.ROW.size for row in range(count))
    return RowsRecord(
        record=record_number,
        number=number,
        part=part,
        parts=parts,
        batch_size=batch_size,
        rows=tuple(_decode_row(record, offset) for offset in offsets),
        context_tokens=None if total == layout.UNKNOWN_LENGTH else (total, longest),
        queued=None if queued == layout.UNKNOWN else queued,
        running=None if running == layout.UNKNOWN else running,
    )


def _decode_row(record: bytes, offset: int) -> Row:
    interned, correct, output_tokens, flags = layout.ROW.unpack_from(record, offset)
    return Row(
        interned=interned,
        correct_drafts=None if correct == layout.UNKNOWN else correct,
        output_tokens=output_tokens,
        overshoot=bool(flags & RowFlag.OVERSHOOT),
        health_check=bool(flags & RowFlag.HEALTH_CHECK),
    )


def _decode_text(record: bytes, record_number: int) -> TextRecord:
    part, parts, interned, length = layout.TEXT.unpack_from(record, _BODY)
    start = _BODY + layout.TEXT.size
    text = record[start : start + length]
    if len(record) < start + length + layout.SEAL.size or part >= parts:
        raise ValueError("more text or parts than there can be")
    return TextRecord(
        record=record_number,
        kind=layout.HEAD.unpack_from(record)[2],
        interned=interned,
        part=part,
        parts=parts,
        text=text,
    )


def _decode_skipped(record: bytes, record_number: int) -> SkippedRecord:
    fields = layout.SKIPPED.unpack_from(record, _BODY)
    cycles, first, last, total_ns, verifies, correct_drafts, output_tokens = fields
    return SkippedRecord(
        record=record_number,
        cycles=cycles,
        first=first,
        last=last,
        total_ns=total_ns,
        verifies=verifies,
        correct_drafts=correct_drafts,
        output_tokens=output_tokens,
    )


_DECODERS: dict[int, Callable[[bytes, int], Record]] = {
    RecordType.CYCLE: _decode_cycle,
    RecordType.DEVICE: _decode_device,
    RecordType.ROWS: _decode_rows,
    RecordType.REQUEST: _decode_text,
    RecordType.ERROR: _decode_text,
    RecordType.SKIPPED: _decode_skipped,
    RecordType.SPAN: _decode_text,
}
