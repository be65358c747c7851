"""Turns the slots of a ring into whole records, and counts those that it could not have."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from spectrace.collect.ring_view import RingView
from spectrace.model import CycleKind, PhaseName, TimingMode
from spectrace.probe import layout
from spectrace.probe.layout import CycleFlag, Kind, Mode, Ph, RecordType, RowFlag, Word

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

# A slot that the head already covers may show itself a moment later on a processor that
# reorders stores. One that is still broken after so many polls was damaged and never heals.
_PATIENCE_POLLS = 5
_LOW_HALF = 0xFFFFFFFF


class CycleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's boundaries of one cycle.

    Attributes:
        sequence: Number of the record in its ring, from 1.
        number: The scheduler's number of the cycle.
        kind: What the cycle did.
        mode: How its boundaries were timed.
        start_ns: CLOCK_MONOTONIC in ns.
        length_ns: How long it took, in ns.
        probe_ns: The probe's own time in it, in ns.
        batch_size: Requests in the batch.
        steps: Draft steps.
        topk: Branches per draft step.
        draft_tokens: Tokens that verify looked at per request.
        marks: Number of the phase that begins, by how many cycles its batch is older, and
            its distance from `start_ns` in ns.
        ended_idle: The scheduler went idle after the cycle.
        incomplete: Marks were dropped, or the server's own code raised.
    """

    sequence: int
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
    marks: tuple[tuple[int, int, int], ...]
    ended_idle: bool
    incomplete: bool


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
    """Results of one cycle, or one of several `parts` of them."""

    sequence: int
    number: int
    part: int
    parts: int
    batch_size: int
    rows: tuple[Row, ...]


class TextRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Text in UTF-8, or one of several `parts` of it, perhaps cut within a character.

    `kind` is `RecordType.REQUEST` (`text` is the id behind `interned`) or `RecordType.ERROR`.
    """

    sequence: int
    kind: int
    interned: int
    part: int
    parts: int
    text: bytes


Record: TypeAlias = CycleRecord | RowsRecord | TextRecord


class RingReader:
    """Follows one ring from a starting point on.

    Args:
        view: The mapped ring.
        join: Begin behind the newest record, for a ring that others have read before;
            without it the reader begins at the first record ever written.

    Attributes:
        lost: Records that were overwritten before they were read, or were damaged. Together
            with the records that `poll` gave it makes up every record since the start.
    """

    def __init__(self, view: RingView, *, join: bool = False) -> None:
        self._view = view
        self._next = view.word(Word.HEAD) + 1 if join else 1
        self._refusals = 0
        self.lost = 0

    def poll(self) -> list[Record]:
        """Gives the records that have become whole since the last poll, in order.

        A slot that is not whole yet ends the poll and is tried again at the next one. A
        reader that was lapped goes on at the oldest record that is not being overwritten.
        """
        records: list[Record] = []
        head = self._view.word(Word.HEAD)
        while self._next <= head:
            slot = self._view.slot(self._next)
            if is_whole(slot, self._next):
                self._take(slot, records)
            elif not (self._skip_if_lapped() or self._give_up()):
                break
        return records

    def drain(self) -> list[Record]:
        """Gives all records up to the newest one, when nothing more can be waited for."""
        records: list[Record] = []
        head = self._view.word(Word.HEAD)
        while self._next <= head:
            records += self.poll()
        return records

    def _take(self, slot: bytes, records: list[Record]) -> None:
        record = decode(slot)
        if record is None:
            self.lost += 1
        else:
            records.append(record)
        self._advance()

    def _advance(self) -> None:
        self._next += 1
        self._refusals = 0

    def _skip_if_lapped(self) -> bool:
        # The writer may be at work on record head + 1, in the slot of head + 1 - slots.
        oldest_safe = self._view.word(Word.HEAD) + 2 - self._view.slots
        if self._next >= oldest_safe:
            return False
        self.lost += oldest_safe - self._next
        self._next = oldest_safe
        self._refusals = 0
        return True

    def _give_up(self) -> bool:
        self._refusals += 1
        if self._refusals < _PATIENCE_POLLS:
            return False
        self.lost += 1
        self._advance()
        return True


def is_whole(slot: bytes, sequence: int) -> bool:
    """Whether `slot` holds all of the record `sequence` and nothing of another one.

    A record carries its sequence number at both ends and a CRC-32 of all before the seal.
    """
    checksum, low_half = layout.SEAL.unpack_from(slot, layout.SEAL_OFFSET)
    found = (*layout.SEQUENCE.unpack_from(slot), low_half, checksum)
    return found == (sequence, sequence & _LOW_HALF, zlib.crc32(slot[: layout.SEAL_OFFSET]))


def decode(slot: bytes) -> Record | None:
    """The record in a whole slot; None where its type or a value in it is unknown to us."""
    decoder = _DECODERS.get(slot[layout.SEQUENCE.size])
    try:
        return decoder(slot) if decoder else None
    except (KeyError, ValueError):
        return None


def _decode_cycle(slot: bytes) -> CycleRecord:
    fields = layout.CYCLE.unpack_from(slot)
    sequence, _, kind, mode, flags, number, start_ns, length, probe_ns = fields[:9]
    batch_size, steps, topk, draft_tokens, count, shift, marks = fields[9:16]
    return CycleRecord(
        sequence=sequence,
        number=number,
        kind=_KINDS[kind],
        mode=_MODES[mode],
        start_ns=start_ns,
        length_ns=length << shift,
        probe_ns=probe_ns,
        batch_size=batch_size,
        steps=steps,
        topk=topk,
        draft_tokens=draft_tokens,
        marks=_decode_marks(marks, fields[16:], count, shift),
        ended_idle=bool(flags & CycleFlag.ENDED_IDLE),
        incomplete=bool(flags & (CycleFlag.MARKS_DROPPED | CycleFlag.RAISED)),
    )


def _decode_marks(
    marks: bytes, distances: tuple[int, ...], count: int, shift: int
) -> tuple[tuple[int, int, int], ...]:
    if count > layout.MAX_MARKS or any(
        mark & layout.PHASE_MASK not in PHASES for mark in marks[:count]
    ):
        raise ValueError("a mark of another layout")
    return tuple(
        (mark & layout.PHASE_MASK, mark >> layout.LAG_SHIFT, distance << shift)
        for mark, distance in zip(marks[:count], distances[:count], strict=True)
    )


def _decode_rows(slot: bytes) -> RowsRecord:
    sequence, _, part, parts, count, number, batch_size = layout.ROWS_HEAD.unpack_from(slot)
    if count > layout.ROWS_PER_RECORD or part >= parts:
        raise ValueError("more rows or parts than there can be")
    offsets = (layout.ROWS_HEAD.size + row * layout.ROW.size for row in range(count))
    return RowsRecord(
        sequence=sequence,
        number=number,
        part=part,
        parts=parts,
        batch_size=batch_size,
        rows=tuple(_decode_row(slot, offset) for offset in offsets),
    )


def _decode_row(slot: bytes, offset: int) -> Row:
    interned, correct, output_tokens, flags = layout.ROW.unpack_from(slot, offset)
    return Row(
        interned=interned,
        correct_drafts=None if correct == layout.UNKNOWN else correct,
        output_tokens=output_tokens,
        overshoot=bool(flags & RowFlag.OVERSHOOT),
        health_check=bool(flags & RowFlag.HEALTH_CHECK),
    )


def _decode_text(slot: bytes) -> TextRecord:
    sequence, kind, part, parts, _, interned, length, text = layout.TEXT.unpack_from(slot)
    if length > layout.TEXT_BYTES or part >= parts:
        raise ValueError("more text or parts than there can be")
    return TextRecord(
        sequence=sequence,
        kind=kind,
        interned=interned,
        part=part,
        parts=parts,
        text=text[:length],
    )


_DECODERS: dict[int, Callable[[bytes], Record]] = {
    RecordType.CYCLE: _decode_cycle,
    RecordType.ROWS: _decode_rows,
    RecordType.REQUEST: _decode_text,
    RecordType.ERROR: _decode_text,
}
