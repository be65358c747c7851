"""The reader gives every whole record once, no broken one ever, and counts what it missed."""

from __future__ import annotations

import mmap
import multiprocessing
import random
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrace.collect.reader import (
    CycleRecord,
    DeviceRecord,
    Record,
    RingReader,
    Row,
    RowsRecord,
    SkippedRecord,
    TextRecord,
)
from spectrace.collect.ring_view import RingView
from spectrace.model import CycleKind, TimingMode
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
from spectrace.probe.ring import RingWriter
from tests.helpers.probe_ring import make_ring

WORD = struct.Struct("<Q")


class TinyWriter:
    """Writes a ring by the letter of `layout`, and can do wrong on purpose.

    With `make` it makes the ring, without it writes into one that is there.
    """

    def __init__(self, path: Path, units: int, *, make: bool = True) -> None:
        self.path = path
        self.units = units
        self.number = 0
        self.position = 1
        self.places: list[tuple[int, int]] = []  # position and units of each record
        self._offset = layout.units_offset(0)
        if make:
            path.write_bytes(bytes(self._offset + units * layout.UNIT_BYTES))
            path.chmod(0o600)
        with path.open("r+b") as file:
            self.map = mmap.mmap(file.fileno(), 0)
        self.set_word(Word.MAGIC, layout.MAGIC)
        self.set_word(Word.LAYOUT_VERSION, layout.LAYOUT_VERSION)
        self.set_word(Word.UNITS, units)
        self.set_word(Word.UNITS_OFFSET, self._offset)

    def set_word(self, place: int, value: int) -> None:
        """Writes a header word."""
        WORD.pack_into(self.map, place * 8, value)

    def byte_at(self, position: int, byte: int) -> int:
        """Where a byte of a record lies in the file."""
        into = position * layout.UNIT_BYTES + byte
        return self._offset + into % (self.units * layout.UNIT_BYTES)

    def put(self, kind: int, payload: bytes, first_bytes: int | None = None) -> int:
        """Writes the first bytes of the next record, without moving the head; gives its units."""
        record = sealed(self.position, self.number + 1, kind, payload)
        for byte, value in enumerate(record[:first_bytes]):
            self.map[self.byte_at(self.position, byte)] = value
        return len(record) // layout.UNIT_BYTES

    def publish(self, units: int) -> None:
        """Moves the head over the next record."""
        self.places.append((self.position, units))
        self.number += 1
        self.position += units
        self.set_word(Word.HEAD, self.position - 1)
        self.set_word(Word.RECORDS, self.number)

    def write(self, kind: int, payload: bytes) -> None:
        """Writes a record as a good writer does."""
        self.publish(self.put(kind, payload))

    def error(self, text: bytes) -> None:
        """Writes the simplest of records: a text."""
        self.write(*error_record(text))

    def damage(self, number: int, byte: int) -> None:
        """Turns over one bit of a record."""
        position, units = self.places[number - 1]
        self.map[self.byte_at(position, byte % (units * layout.UNIT_BYTES))] ^= 1

    def close(self) -> None:
        """Unmaps the ring."""
        self.map.close()


def sealed(position: int, number: int, kind: int, payload: bytes) -> bytes:
    """A record: head, payload, zeros, CRC-32, low half of the position."""
    units = layout.units_of(len(payload))
    body = layout.HEAD.pack(position, number & 0xFFFFFFFF, kind, units) + payload
    inner = body.ljust(units * layout.UNIT_BYTES - layout.SEAL.size, b"\0")
    return inner + layout.SEAL.pack(zlib.crc32(inner), position & 0xFFFFFFFF)


def error_record(text: bytes) -> tuple[int, bytes]:
    """Type and payload of a text."""
    return RecordType.ERROR, layout.TEXT.pack(0, 1, 0, len(text)) + text


def cycle_payload(  # noqa: PLR0913 - what a test may want to be wrong
    *,
    kind: int = Kind.DECODE,
    modes: int = Mode.HOST | Mode.HOST << 4,
    flags: int = 0,
    graph: int = 0,
    count: int | None = None,
    shift: int = 0,
    marks: tuple[int, ...] = (),
) -> bytes:
    """A cycle 77 that began at 1 ms and took 3000 units."""
    count = len(marks) if count is None else count
    times = (77, 1_000_000, 3000, 25)
    fields = (kind, modes, flags, *times, 4, 8, 3, 1, 4, graph, count, shift)
    return layout.CYCLE.pack(*fields) + struct.pack(f"<{len(marks)}I", *marks)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[TinyWriter]:
    """A ring of 64 units."""
    made = TinyWriter(tmp_path / "ring", units=64)
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
    """Kind, modes, times with their shift, marks with their lag, graphs and flags are decoded."""
    payload = cycle_payload(
        kind=Kind.SPECULATIVE,
        modes=Mode.HOST | Mode.DEVICE << 4,
        flags=CycleFlag.ENDED_IDLE | CycleFlag.LATE_SWITCH,
        graph=Graph.GRAPH << Graph.DRAFT | Graph.EAGER << Graph.VERIFY,
        shift=10,
        marks=(Ph.RESOLVE, 500 << 8 | Ph.DRAFT, 2500 << 8 | Ph.WAIT | 1 << layout.LAG_SHIFT),
    )
    writer.write(RecordType.CYCLE, payload)
    assert RingReader(view).poll() == [
        CycleRecord(
            record=1,
            number=77,
            kind=CycleKind.SPECULATIVE,
            mode=TimingMode.HOST,
            asked_mode=TimingMode.DEVICE,
            start_ns=1_000_000,
            length_ns=12_000,
            probe_ns=25,
            batch_size=4,
            padded_batch=8,
            steps=3,
            topk=1,
            draft_tokens=4,
            graph=(True, False, None),
            marks=((Ph.RESOLVE, 0, 0), (Ph.DRAFT, 0, 512_000), (Ph.WAIT, 1, 2_560_000)),
            ended_idle=True,
            incomplete=False,
            late_switch=True,
        )
    ]


@pytest.mark.parametrize("flag", [CycleFlag.MARKS_DROPPED, CycleFlag.RAISED])
def test_a_cycle_with_boundaries_missing_is_incomplete(
    writer: TinyWriter, view: RingView, flag: int
) -> None:
    """Dropped marks and an exception of the server both make a record incomplete."""
    writer.write(RecordType.CYCLE, cycle_payload(flags=flag))
    (record,) = RingReader(view).poll()
    assert isinstance(record, CycleRecord)
    assert record.incomplete
    assert not record.ended_idle


def test_a_device_record_comes_back_with_its_error_and_gaps(tmp_path: Path) -> None:
    """Its marks keep their order and distances, phase 0 among them; flags become words."""
    ring = make_ring(tmp_path / "ring")
    view = RingView(tmp_path / "ring")
    ring.device(9, 5_000, 700, DeviceFlag.LOST, bytes([Ph.DRAFT, 0]), [0, 40])
    ring.device(10, 0, 0, DeviceFlag.NO_CLOCK, b"", [])
    assert RingReader(view).poll() == [
        DeviceRecord(
            record=1,
            number=9,
            start_ns=5_000,
            error_ns=700,
            lost=True,
            placed=True,
            marks=((Ph.DRAFT, 0, 0), (0, 0, 40)),
        ),
        DeviceRecord(
            record=2, number=10, start_ns=0, error_ns=0, lost=False, placed=False, marks=()
        ),
    ]
    view.close()
    ring.close()


def test_sums_of_skipped_cycles_come_back(tmp_path: Path) -> None:
    """Every sum stands where it was put."""
    ring = make_ring(tmp_path / "ring")
    view = RingView(tmp_path / "ring")
    ring.skipped((1, 2, 3, 4, 5, 6, 7))
    assert RingReader(view).poll() == [
        SkippedRecord(
            record=1,
            cycles=1,
            first=2,
            last=3,
            total_ns=4,
            verifies=5,
            correct_drafts=6,
            output_tokens=7,
        )
    ]
    view.close()
    ring.close()


def test_rows_come_back_with_unknown_counts_as_none(writer: TinyWriter, view: RingView) -> None:
    """Each row has its interned id, counts and flags; what follows the last row is ignored."""
    payload = layout.ROWS.pack(1, 2, 2, 77, 12, 300, 90, 5, layout.UNKNOWN)
    payload += layout.ROW.pack(5, 3, 4, 0)
    payload += layout.ROW.pack(6, layout.UNKNOWN, 1, RowFlag.OVERSHOOT | RowFlag.HEALTH_CHECK)
    payload += layout.ROW.pack(7, 1, 1, 0)
    writer.write(RecordType.ROWS, payload)
    first = Row(interned=5, correct_drafts=3, output_tokens=4, overshoot=False, health_check=False)
    second = Row(
        interned=6, correct_drafts=None, output_tokens=1, overshoot=True, health_check=True
    )
    assert RingReader(view).poll() == [
        RowsRecord(
            record=1,
            number=77,
            part=1,
            parts=2,
            batch_size=12,
            rows=(first, second),
            context_tokens=(300, 90),
            queued=5,
            running=None,
        )
    ]


def test_a_text_comes_back_in_its_length(writer: TinyWriter, view: RingView) -> None:
    """A request id is cut to the length of its part."""
    writer.write(RecordType.REQUEST, layout.TEXT.pack(0, 1, 9, 3) + b"abcdef")
    assert RingReader(view).poll() == [
        TextRecord(record=1, kind=RecordType.REQUEST, interned=9, part=0, parts=1, text=b"abc")
    ]


def test_a_record_is_given_once(writer: TinyWriter, view: RingView) -> None:
    """A poll gives what is new, and nothing where nothing is."""
    reader = RingReader(view)
    writer.error(b"one")
    writer.error(b"two")
    assert texts([*reader.poll()]) == [b"one", b"two"]
    assert reader.poll() == []
    writer.error(b"three")
    assert texts([*reader.poll()]) == [b"three"]
    assert reader.lost == 0


def test_a_record_goes_on_at_the_rings_first_unit(writer: TinyWriter, view: RingView) -> None:
    """Records of 3 units in a ring of 64 are cut at its end, and come back whole."""
    reader = RingReader(view)
    sent = [b"%060d" % number for number in range(100)]
    given: list[bytes] = []
    for text in sent:
        writer.error(text)
        given += texts([*reader.poll()])
    assert given == sent
    assert reader.lost == 0


def test_the_probes_writer_and_the_layout_agree_on_wrapping(tmp_path: Path) -> None:
    """Records of every length that the probe's own writer makes are read, lap after lap."""
    ring = make_ring(tmp_path / "ring", units=layout.MIN_UNITS)
    view = RingView(tmp_path / "ring")
    reader = RingReader(view)
    sent = ["x" * (number % 250) for number in range(1000)]
    given: list[bytes] = []
    for text in sent:
        ring.text(RecordType.ERROR, 0, text)
        given += texts([*reader.poll()])
    assert given == [text.encode() for text in sent]
    view.close()
    ring.close()


def test_a_reader_that_joins_begins_with_the_next_record(
    writer: TinyWriter, view: RingView
) -> None:
    """What was written before a joining reader came is neither given nor lost."""
    writer.error(b"before")
    reader = RingReader(view, join=True)
    writer.error(b"after")
    assert texts([*reader.poll()]) == [b"after"]
    assert reader.lost == 0


def test_a_record_that_is_not_whole_yet_is_read_at_a_later_poll(
    writer: TinyWriter, view: RingView
) -> None:
    """Where the head is seen before the record, nothing is given until all of it is seen."""
    reader = RingReader(view)
    kind, payload = error_record(b"late")
    units = writer.put(kind, payload, first_bytes=20)
    writer.set_word(Word.HEAD, units)
    assert reader.poll() == []
    assert reader.poll() == []
    writer.write(kind, payload)
    assert texts([*reader.poll()]) == [b"late"]
    assert reader.lost == 0


def test_a_damaged_record_is_given_up_after_some_polls(writer: TinyWriter, view: RingView) -> None:
    """A record that stays broken is counted as lost, and the records behind it are given."""
    reader = RingReader(view)
    writer.error(b"one")
    writer.error(b"two")
    writer.damage(1, byte=30)
    polls = [texts([*reader.poll()]) for _ in range(5)]
    assert polls == [[], [], [], [], [b"two"]]
    assert reader.lost == 1


def test_a_lapped_reader_goes_on_at_the_oldest_safe_record(
    writer: TinyWriter, view: RingView
) -> None:
    """Of 99 units in a ring of 64, those of the next record, at most 10, are not safe."""
    reader = RingReader(view)
    for number in range(1, 100):
        writer.error(b"%d" % number)
    assert texts([*reader.poll()]) == [b"%d" % number for number in range(46, 100)]
    assert reader.lost == 45


def test_a_lapped_reader_finds_where_the_next_record_begins(
    writer: TinyWriter, view: RingView
) -> None:
    """The oldest safe unit lies within a record: that one is lost as well, and counted."""
    reader = RingReader(view)
    for number in range(1, 41):
        writer.error(b"%060d" % number)  # 3 units each
    assert [int(text) for text in texts([*reader.poll()])] == list(range(23, 41))
    assert reader.lost == 22


@pytest.mark.parametrize("byte", [0, 8, 12, 13, 20, 40, 55, 56, 59, 60, 63])
def test_no_byte_of_a_record_can_change_unnoticed(
    writer: TinyWriter, view: RingView, byte: int
) -> None:
    """A bit that turned over anywhere, positions and checksum included, refuses the record."""
    writer.error(b"a text of two units")
    writer.damage(1, byte)
    reader = RingReader(view)
    assert reader.drain() == []
    assert reader.lost == 1


CYCLE, ROWS = RecordType.CYCLE, RecordType.ROWS


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (99, b""),
        (CYCLE, cycle_payload(kind=77)),
        (CYCLE, cycle_payload(modes=9)),
        (CYCLE, cycle_payload(modes=Mode.HOST | 9 << 4)),
        (CYCLE, cycle_payload(graph=3)),
        (CYCLE, cycle_payload(count=61)),
        (CYCLE, cycle_payload(count=50)),
        (CYCLE, cycle_payload(shift=200)),
        (CYCLE, cycle_payload(marks=(31,))),
        (ROWS, layout.ROWS.pack(0, 1, 31, 1, 31, 0, 0, 0, 0)),
        (ROWS, layout.ROWS.pack(0, 1, 20, 1, 20, 0, 0, 0, 0)),
        (ROWS, layout.ROWS.pack(1, 1, 1, 1, 1, 0, 0, 0, 0)),
        (RecordType.ERROR, layout.TEXT.pack(0, 1, 0, 101)),
        (RecordType.REQUEST, layout.TEXT.pack(3, 2, 0, 1) + b"x"),
        (RecordType.DEVICE, layout.DEVICE.pack(1, 1, 1, 0, 1, 0) + b"\x1f\0\0\0"),
    ],
    ids=[
        "type",
        "kind",
        "mode",
        "asked mode",
        "graph",
        "too many marks",
        "marks beyond the end",
        "shift",
        "phase",
        "too many rows",
        "rows beyond the end",
        "part",
        "length",
        "text part",
        "device phase",
    ],
)
def test_a_whole_record_that_makes_no_sense_is_lost(
    writer: TinyWriter, view: RingView, kind: int, payload: bytes
) -> None:
    """Values outside the layout are not guessed at, and what follows is read."""
    writer.write(kind, payload)
    writer.error(b"next")
    reader = RingReader(view)
    assert texts([*reader.poll()]) == [b"next"]
    assert reader.lost == 1


def body_of(number: int) -> bytes:
    """A text of a length of its own."""
    return b"record %d " % number + b"x" * (number * 37 % 200)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 30)),
        st.tuples(st.just("poll"), st.just(0)),
        st.tuples(st.just("tear"), st.integers(1, 256)),
        st.tuples(st.just("damage"), st.integers(0, 7)),
    ),
    max_size=40,
)


@settings(max_examples=300)
@given(units=st.integers(layout.MIN_UNITS, 90), steps=STEPS)
def test_seen_and_lost_add_up_whatever_happens(units: int, steps: list[tuple[str, int]]) -> None:
    """Through laps, torn and damaged records: none wrong, none twice, all accounted for."""
    with tempfile.TemporaryDirectory() as folder:
        writer = TinyWriter(Path(folder) / "ring", units)
        view = RingView(writer.path)
        reader = RingReader(view)
        seen: list[TextRecord] = []
        for step, amount in steps:
            if step == "write":
                for _ in range(amount):
                    writer.error(body_of(writer.number + 1))
            elif step == "tear":
                writer.put(*error_record(body_of(writer.number + 1)), first_bytes=amount)
            elif step == "damage" and writer.number > amount:
                writer.damage(writer.number - amount, byte=20)
            else:
                seen += [record for record in reader.poll() if isinstance(record, TextRecord)]
        seen += [record for record in reader.drain() if isinstance(record, TextRecord)]
        assert all(record.text == body_of(record.record) for record in seen)
        numbers = [record.record for record in seen]
        assert numbers == sorted(set(numbers))
        assert len(seen) + reader.lost == writer.number
        view.close()
        writer.close()


def write_at_random(path: Path, units: int, count: int, seed: int) -> None:
    """Writes `count` records with pauses, sometimes in two halves, sometimes damaged."""
    chance = random.Random(seed)  # noqa: S311 - timing, not secrets
    writer = TinyWriter(path, units, make=False)
    for number in range(1, count + 1):
        kind, payload = error_record(body_of(number))
        writer.put(kind, payload, chance.randrange(200))
        writer.write(kind, payload)
        if chance.random() < 0.01:
            writer.damage(number, chance.randrange(64))


def write_for_ever(path: Path) -> None:
    """Writes records with the probe's own writer until it is killed."""
    with path.open("r+b") as file:
        ring = RingWriter(mmap.mmap(file.fileno(), 0))
    number = 0
    while True:
        number += 1
        ring.text(RecordType.ERROR, 0, body_of(number).decode())


def test_a_writer_in_another_process_is_never_misread(tmp_path: Path) -> None:
    """A reader that races a writer over a small ring sees right records, and counts the rest."""
    path, units, count = tmp_path / "ring", 128, 5_000
    TinyWriter(path, units).close()
    view = RingView(path)
    reader = RingReader(view)
    process = multiprocessing.get_context("spawn").Process(
        target=write_at_random, args=(path, units, count, 5)
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
        isinstance(record, TextRecord) and record.text == body_of(record.record) for record in seen
    )
    assert len({record.record for record in seen}) == len(seen)
    assert len(seen) + reader.lost == count
    assert seen
    assert reader.lost


@pytest.mark.parametrize("seed", range(5))
def test_a_writer_that_is_killed_leaves_nothing_wrong(tmp_path: Path, seed: int) -> None:
    """Killed at a random moment, it leaves right records, and the rest is counted exactly."""
    chance = random.Random(seed)  # noqa: S311 - timing, not secrets
    path = tmp_path / "ring"
    make_ring(path, units=chance.randrange(64, 200)).close()
    view = RingView(path)
    reader = RingReader(view)
    process = multiprocessing.get_context("spawn").Process(target=write_for_ever, args=(path,))
    process.start()
    seen: list[Record] = []
    while not view.word(Word.HEAD):
        time.sleep(0.001)
    deadline = time.monotonic() + chance.random() * 0.2
    while time.monotonic() < deadline:
        seen += reader.poll()
        time.sleep(chance.random() * 0.002)
    process.kill()
    process.join()
    seen += reader.drain()
    assert all(
        isinstance(record, TextRecord) and record.text == body_of(record.record) for record in seen
    )
    # Killed between the two words that it moves last, it has written one more than it says.
    assert len(seen) + reader.lost - view.word(Word.RECORDS) in {0, 1}
    view.close()


def read_for_ever(path: Path) -> None:
    """Reads until it is killed."""
    reader = RingReader(RingView(path))
    while True:
        reader.poll()


def test_a_reader_that_is_killed_harms_neither_writer_nor_the_next_reader(
    tmp_path: Path,
) -> None:
    """The ring goes on, and whoever joins next reads every record from then on."""
    path = tmp_path / "ring"
    ring = make_ring(path, units=1024)
    process = multiprocessing.get_context("spawn").Process(target=read_for_ever, args=(path,))
    process.start()
    for number in range(1, 2001):
        ring.text(RecordType.ERROR, 0, body_of(number).decode())
    process.kill()
    process.join()
    view = RingView(path)
    reader = RingReader(view, join=True)
    for number in range(2001, 2011):
        ring.text(RecordType.ERROR, 0, body_of(number).decode())
    assert texts([*reader.poll()]) == [body_of(number) for number in range(2001, 2011)]
    assert reader.lost == 0
    view.close()
    ring.close()
