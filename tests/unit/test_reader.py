"""The reader gives every whole record once, no broken one ever, and counts what it missed."""

from __future__ import annotations

import mmap
import multiprocessing
import random
import struct
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrace.collect.reader import CycleRecord, RingReader, Row, RowsRecord, TextRecord
from spectrace.collect.ring_view import RingView
from spectrace.model import CycleKind, TimingMode
from spectrace.probe import layout
from spectrace.probe.layout import CycleFlag, Kind, Mode, Ph, RecordType, RowFlag, Word

WORD = struct.Struct("<Q")


class TinyWriter:
    """Writes a ring by the letter of `layout`, and can do wrong on purpose.

    With `make` it makes the ring, without it writes into one that is there.
    """

    def __init__(self, path: Path, slots: int, *, make: bool = True) -> None:
        self.path = path
        self.slots = slots
        self.sequence = 0
        self._offset = layout.slots_offset(0)
        if make:
            path.write_bytes(bytes(self._offset + slots * layout.SLOT_BYTES))
            path.chmod(0o600)
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.set_word(Word.MAGIC, layout.MAGIC)
        self.set_word(Word.LAYOUT_VERSION, layout.LAYOUT_VERSION)
        self.set_word(Word.SLOTS, slots)
        self.set_word(Word.SLOTS_OFFSET, self._offset)

    def set_word(self, place: int, value: int) -> None:
        """Writes a header word."""
        WORD.pack_into(self.map, place * 8, value)

    def place(self, sequence: int) -> int:
        """Where the slot of a record begins."""
        return self._offset + sequence % self.slots * layout.SLOT_BYTES

    def put(self, body: bytes, first_bytes: int = layout.SLOT_BYTES) -> None:
        """Writes the first bytes of the next slot, without moving the head."""
        slot = sealed(self.sequence + 1, body)
        start = self.place(self.sequence + 1)
        self.map[start : start + first_bytes] = slot[:first_bytes]

    def publish(self) -> None:
        """Moves the head over the next slot."""
        self.sequence += 1
        self.set_word(Word.HEAD, self.sequence)

    def write(self, body: bytes) -> None:
        """Writes a record as a good writer does."""
        self.put(body)
        self.publish()

    def damage(self, sequence: int, byte: int) -> None:
        """Turns over one bit of a slot."""
        self.map[self.place(sequence) + byte] ^= 1

    def close(self) -> None:
        """Unmaps the ring."""
        self.map.close()


def sealed(sequence: int, body: bytes) -> bytes:
    """A slot: sequence, body, zeros, CRC-32, low half of the sequence."""
    inner = (WORD.pack(sequence) + body).ljust(layout.SEAL_OFFSET, b"\0")
    return inner + layout.SEAL.pack(zlib.crc32(inner), sequence & 0xFFFFFFFF)


def error_body(text: bytes) -> bytes:
    """The smallest of records: a text, without its sequence."""
    return layout.TEXT.pack(0, RecordType.ERROR, 0, 1, 0, 0, len(text), text)[8:]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TinyWriter]:
    """A ring of 8 slots."""
    made = TinyWriter(tmp_path / "ring", slots=8)
    yield made
    made.close()


@pytest.fixture
def view(writer: TinyWriter) -> Iterator[RingView]:
    """The same ring from outside."""
    mapped = RingView(writer.path)
    yield mapped
    mapped.close()


def texts(records: list[object]) -> list[bytes]:
    """The texts of records that are all texts."""
    found = [record.text for record in records if isinstance(record, TextRecord)]
    assert len(found) == len(records)
    return found


def test_a_cycle_record_comes_back_in_words_of_the_model(
    writer: TinyWriter, view: RingView
) -> None:
    """Kind, mode, times with their shift, marks with their lag, and flags are decoded."""
    marks = bytes([Ph.RESOLVE, Ph.DRAFT, Ph.WAIT | 1 << layout.LAG_SHIFT]).ljust(14, b"\0")
    body = layout.CYCLE.pack(
        0,
        RecordType.CYCLE,
        Kind.SPECULATIVE,
        Mode.HOST,
        CycleFlag.ENDED_IDLE,
        77,
        1_000_000,
        3000,
        25,
        4,
        3,
        1,
        4,
        3,
        2,
        marks,
        *(0, 500, 2500),
        *[9] * 11,
    )[8:]
    writer.write(body)
    assert RingReader(view).poll() == [
        CycleRecord(
            sequence=1,
            number=77,
            kind=CycleKind.SPECULATIVE,
            mode=TimingMode.HOST,
            start_ns=1_000_000,
            length_ns=12_000,
            probe_ns=25,
            batch_size=4,
            steps=3,
            topk=1,
            draft_tokens=4,
            marks=((Ph.RESOLVE, 0, 0), (Ph.DRAFT, 0, 2000), (Ph.WAIT, 1, 10_000)),
            ended_idle=True,
            incomplete=False,
        )
    ]


@pytest.mark.parametrize("flag", [CycleFlag.MARKS_DROPPED, CycleFlag.RAISED])
def test_a_cycle_with_boundaries_missing_is_incomplete(
    writer: TinyWriter, view: RingView, flag: int
) -> None:
    """Dropped marks and an exception of the server both make a record incomplete."""
    fields = (0, RecordType.CYCLE, Kind.DECODE, Mode.OFF, flag, 1, 0, 5, 0, 1, 0, 0, 0, 0, 0)
    writer.write(layout.CYCLE.pack(*fields, bytes(14), *[0] * 14)[8:])
    (record,) = RingReader(view).poll()
    assert isinstance(record, CycleRecord)
    assert record.incomplete
    assert not record.ended_idle


def test_rows_come_back_with_unknown_counts_as_none(writer: TinyWriter, view: RingView) -> None:
    """Each row has its interned id, counts and flags; what follows the last row is ignored."""
    body = layout.ROWS_HEAD.pack(0, RecordType.ROWS, 1, 2, 2, 77, 12)[8:]
    body += layout.ROW.pack(5, 3, 4, 0)
    body += layout.ROW.pack(6, layout.UNKNOWN, 1, RowFlag.OVERSHOOT | RowFlag.HEALTH_CHECK)
    body += layout.ROW.pack(7, 1, 1, 0)
    writer.write(body)
    first = Row(interned=5, correct_drafts=3, output_tokens=4, overshoot=False, health_check=False)
    second = Row(
        interned=6, correct_drafts=None, output_tokens=1, overshoot=True, health_check=True
    )
    assert RingReader(view).poll() == [
        RowsRecord(sequence=1, number=77, part=1, parts=2, batch_size=12, rows=(first, second))
    ]


def test_a_text_comes_back_in_its_length(writer: TinyWriter, view: RingView) -> None:
    """A request id is cut to the length of its part."""
    writer.write(layout.TEXT.pack(0, RecordType.REQUEST, 0, 1, 0, 9, 3, b"abcdef")[8:])
    assert RingReader(view).poll() == [
        TextRecord(sequence=1, kind=RecordType.REQUEST, interned=9, part=0, parts=1, text=b"abc")
    ]


def test_a_record_is_given_once(writer: TinyWriter, view: RingView) -> None:
    """A poll gives what is new, and nothing where nothing is."""
    reader = RingReader(view)
    writer.write(error_body(b"one"))
    writer.write(error_body(b"two"))
    assert texts([*reader.poll()]) == [b"one", b"two"]
    assert reader.poll() == []
    writer.write(error_body(b"three"))
    assert texts([*reader.poll()]) == [b"three"]
    assert reader.lost == 0


def test_a_reader_that_joins_begins_with_the_next_record(
    writer: TinyWriter, view: RingView
) -> None:
    """What was written before a joining reader came is neither given nor lost."""
    writer.write(error_body(b"before"))
    reader = RingReader(view, join=True)
    writer.write(error_body(b"after"))
    assert texts([*reader.poll()]) == [b"after"]
    assert reader.lost == 0


def test_a_slot_that_is_not_whole_yet_is_read_at_a_later_poll(
    writer: TinyWriter, view: RingView
) -> None:
    """Where the head is seen before the slot, nothing is given until the slot is seen too."""
    reader = RingReader(view)
    writer.put(error_body(b"late"), first_bytes=60)
    writer.publish()
    assert reader.poll() == []
    assert reader.poll() == []
    writer.sequence -= 1
    writer.put(error_body(b"late"))
    writer.publish()
    assert texts([*reader.poll()]) == [b"late"]
    assert reader.lost == 0


def test_a_damaged_slot_is_given_up_after_some_polls(writer: TinyWriter, view: RingView) -> None:
    """A slot that stays broken is counted as lost, and the records behind it are given."""
    reader = RingReader(view)
    writer.write(error_body(b"one"))
    writer.write(error_body(b"two"))
    writer.damage(1, byte=30)
    polls = [texts([*reader.poll()]) for _ in range(5)]
    assert polls == [[], [], [], [], [b"two"]]
    assert reader.lost == 1


def test_a_lapped_reader_goes_on_at_the_oldest_safe_record(
    writer: TinyWriter, view: RingView
) -> None:
    """Of 20 records in 8 slots, 14 to 20 are safe: the slot of 13 is the next to be written."""
    reader = RingReader(view)
    for number in range(1, 21):
        writer.write(error_body(b"%d" % number))
    assert texts([*reader.poll()]) == [b"%d" % number for number in range(14, 21)]
    assert reader.lost == 13


@pytest.mark.parametrize("byte", [0, 8, 9, 50, 119, 120, 123, 124, 127])
def test_no_byte_of_a_slot_can_change_unnoticed(
    writer: TinyWriter, view: RingView, byte: int
) -> None:
    """A bit that turned over anywhere, sequences and checksum included, refuses the record."""
    writer.write(error_body(b"text"))
    writer.damage(1, byte)
    reader = RingReader(view)
    assert reader.drain() == []
    assert reader.lost == 1


@pytest.mark.parametrize(
    "body",
    [
        bytes([99]),
        layout.CYCLE.pack(0, 1, 77, 1, 0, 1, 0, 5, 0, 1, 0, 0, 0, 0, 0, bytes(14), *[0] * 14)[8:],
        layout.CYCLE.pack(0, 1, 1, 9, 0, 1, 0, 5, 0, 1, 0, 0, 0, 0, 0, bytes(14), *[0] * 14)[8:],
        layout.CYCLE.pack(0, 1, 1, 1, 0, 1, 0, 5, 0, 1, 0, 0, 0, 15, 0, b"\1" * 14, *[0] * 14)[8:],
        layout.CYCLE.pack(0, 1, 1, 1, 0, 1, 0, 5, 0, 1, 0, 0, 0, 1, 0, b"\x1f" * 14, *[0] * 14)[8:],
        layout.ROWS_HEAD.pack(0, RecordType.ROWS, 0, 1, 11, 1, 11)[8:],
        layout.ROWS_HEAD.pack(0, RecordType.ROWS, 1, 1, 1, 1, 1)[8:],
        layout.TEXT.pack(0, RecordType.ERROR, 0, 1, 0, 0, 101, b"")[8:],
        layout.TEXT.pack(0, RecordType.REQUEST, 3, 2, 0, 0, 1, b"x")[8:],
    ],
    ids=["type", "kind", "mode", "marks", "phase", "rows", "part", "length", "text part"],
)
def test_a_whole_record_that_makes_no_sense_is_lost(
    writer: TinyWriter, view: RingView, body: bytes
) -> None:
    """Values outside the layout are not guessed at, and what follows is read."""
    writer.write(body)
    writer.write(error_body(b"next"))
    reader = RingReader(view)
    assert texts([*reader.poll()]) == [b"next"]
    assert reader.lost == 1


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 12)),
        st.tuples(st.just("poll"), st.just(0)),
        st.tuples(st.just("tear"), st.integers(1, layout.SLOT_BYTES - 1)),
        st.tuples(st.just("damage"), st.integers(0, 7)),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(slots=st.integers(2, 9), steps=STEPS)
def test_seen_and_lost_add_up_whatever_happens(slots: int, steps: list[tuple[str, int]]) -> None:
    """Through laps, torn and damaged slots: no wrong record, none twice, all accounted for."""
    with tempfile.TemporaryDirectory() as folder:
        writer = TinyWriter(Path(folder) / "ring", slots)
        view = RingView(writer.path)
        reader = RingReader(view)
        seen: list[TextRecord] = []
        for step, amount in steps:
            if step == "write":
                for _ in range(amount):
                    writer.write(error_body(b"record %d" % (writer.sequence + 1)))
            elif step == "tear":
                writer.put(error_body(b"record %d" % (writer.sequence + 1)), amount)
            elif step == "damage" and writer.sequence > amount:
                writer.damage(writer.sequence - amount, byte=20)
            else:
                seen += [record for record in reader.poll() if isinstance(record, TextRecord)]
        seen += [record for record in reader.drain() if isinstance(record, TextRecord)]
        assert all(record.text == b"record %d" % record.sequence for record in seen)
        sequences = [record.sequence for record in seen]
        assert sequences == sorted(set(sequences))
        assert len(seen) + reader.lost == writer.sequence
        view.close()
        writer.close()


def write_at_random(path: Path, slots: int, count: int, seed: int) -> None:
    """Writes `count` records with pauses, sometimes in two halves, sometimes damaged."""
    chance = random.Random(seed)  # noqa: S311 - timing, not secrets
    writer = TinyWriter(path, slots, make=False)
    for number in range(1, count + 1):
        body = error_body(b"record %d" % number)
        writer.put(body, chance.randrange(layout.SLOT_BYTES))
        writer.write(body)
        if chance.random() < 0.01:
            writer.damage(number, chance.randrange(layout.SLOT_BYTES))


def test_a_writer_in_another_process_is_never_misread(tmp_path: Path) -> None:
    """A reader that races a writer over a small ring sees right records, and counts the rest."""
    path, slots, count = tmp_path / "ring", 64, 20_000
    TinyWriter(path, slots).close()
    view = RingView(path)
    reader = RingReader(view)
    process = multiprocessing.get_context("spawn").Process(
        target=write_at_random, args=(path, slots, count, 5)
    )
    process.start()
    seen = []
    while process.is_alive():
        seen += reader.poll()
    process.join()
    seen += reader.drain()
    view.close()
    assert process.exitcode == 0
    assert all(
        isinstance(record, TextRecord) and record.text == b"record %d" % record.sequence
        for record in seen
    )
    assert len({record.sequence for record in seen}) == len(seen)
    assert len(seen) + reader.lost == count
    assert seen
    assert reader.lost
