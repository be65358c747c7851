"""The recorder turns boundaries into cycle records and results into rows."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

import pytest

from spectrace.probe import layout
from spectrace.probe.layout import CycleFlag, Kind, Mode, Ph, RecordType, RowFlag, Word
from spectrace.probe.recorder import Recorder
from tests.helpers.probe_ring import make_ring, raw_slots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def ring_path(tmp_path: Path) -> Path:
    """Where the ring of a test lies."""
    return tmp_path / "test.ring"


@pytest.fixture
def recorder(ring_path: Path) -> Iterator[Recorder]:
    """A recorder on a fresh ring, in mode `host`."""
    ring = make_ring(ring_path)
    yield Recorder(ring)
    ring.close()


def cycles(path: Path) -> list[tuple[int, ...]]:
    """The unpacked cycle records of a ring."""
    slots = raw_slots(path)
    return [layout.CYCLE.unpack_from(s) for s in slots if s[8] == RecordType.CYCLE]


def test_a_cycle_begins_with_resolve_and_ends_where_the_next_begins(
    recorder: Recorder, ring_path: Path
) -> None:
    """The length of a cycle is the distance between its start and the next one's."""
    recorder.begin(1_000, Kind.DECODE, 3)
    recorder.number = 7
    recorder.begin(51_000, Kind.DECODE, 3)
    (record,) = cycles(ring_path)
    assert record[5:8] == (7, 1_000, 50_000)
    assert record[13] == 1
    assert bytes(record[15])[0] == Ph.RESOLVE


def test_marks_are_kept_in_the_order_in_which_they_came(
    recorder: Recorder, ring_path: Path
) -> None:
    """Each mark names its phase, and distances from the start never fall."""
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    for phase in (Ph.DRAFT, Ph.VERIFY_PREPARE, Ph.SCHEDULE):
        recorder.mark(phase)
    recorder.end(monotonic_ns())
    (record,) = cycles(ring_path)
    names = bytes(record[15])[: record[13]]
    assert list(names) == [Ph.RESOLVE, Ph.DRAFT, Ph.VERIFY_PREPARE, Ph.SCHEDULE]
    distances = record[16 : 16 + record[13]]
    assert list(distances) == sorted(distances)


def test_more_boundaries_than_fit_are_flagged(recorder: Recorder, ring_path: Path) -> None:
    """A cycle with more marks than a slot holds says that some are missing."""
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    for _ in range(layout.MAX_MARKS):  # resolve is the one too many
        recorder.mark(Ph.DRAFT)
    recorder.end(monotonic_ns())
    (record,) = cycles(ring_path)
    assert record[13] == layout.MAX_MARKS
    assert record[4] & CycleFlag.MARKS_DROPPED


def test_results_of_an_earlier_batch_carry_their_distance_in_cycles(
    recorder: Recorder, ring_path: Path
) -> None:
    """`wait` and `result` for cycle 9 within cycle 10 have lag 1."""
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.number = 10
    recorder.mark_wait(9)
    recorder.mark_result()
    recorder.end(monotonic_ns())
    (record,) = cycles(ring_path)
    marks = bytes(record[15])[1:3]
    assert [m & layout.PHASE_MASK for m in marks] == [Ph.WAIT, Ph.RESULT]
    assert [m >> layout.LAG_SHIFT for m in marks] == [1, 1]


def test_result_without_wait_marks_nothing(recorder: Recorder, ring_path: Path) -> None:
    """A second sign that the counts are ready does not start `result` again."""
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.mark_wait(0)
    recorder.mark_result()
    recorder.mark_result()
    recorder.end(monotonic_ns())
    assert cycles(ring_path)[0][13] == 3


def test_a_long_cycle_is_kept_in_coarser_units(recorder: Recorder, ring_path: Path) -> None:
    """20 s do not fit into 32 bits of ns: units of 8 ns do, with nothing else lost."""
    recorder.begin(0, Kind.EXTEND, 1)
    recorder.end(20_000_000_000)
    (record,) = cycles(ring_path)
    shift = record[14]
    assert shift == 3
    assert record[7] << shift == 20_000_000_000


def test_mode_off_keeps_the_length_and_no_phases(tmp_path: Path) -> None:
    """In mode `off` a cycle is one stamp: no marks, but its whole time."""
    path = tmp_path / "off.ring"
    ring = make_ring(path, mode=Mode.OFF)
    recorder = Recorder(ring)
    recorder.begin(100, Kind.DECODE, 1)
    assert not recorder.timing
    recorder.end(400)
    (record,) = cycles(path)
    assert (record[3], record[7], record[13]) == (Mode.OFF, 300, 0)
    ring.close()


def test_the_mode_changes_at_the_cycle_that_was_asked_for(tmp_path: Path) -> None:
    """`host from cycle 5` leaves cycle 4 as it was and times cycle 5."""
    path = tmp_path / "mode.ring"
    ring = make_ring(path, mode=Mode.OFF)
    recorder = Recorder(ring)
    recorder.begin(0, Kind.DECODE, 1)
    recorder.number = 3
    ring.words[Word.MODE] = Mode.HOST
    ring.words[Word.MODE_FROM_CYCLE] = 5
    recorder.begin(10, Kind.DECODE, 1)
    recorder.number = 4
    recorder.begin(20, Kind.DECODE, 1)
    recorder.number = 5
    recorder.end(30)
    assert [(r[5], r[3]) for r in cycles(path)] == [
        (3, Mode.OFF),
        (4, Mode.OFF),
        (5, Mode.HOST),
    ]
    ring.close()


def test_a_request_id_is_sent_once_and_again_when_a_reader_joins(
    recorder: Recorder, ring_path: Path
) -> None:
    """Two cycles of one request send its id once; a joining reader makes it come again."""
    recorder.results(1, [("r-1", 2, 3, False)], "HEALTH")
    recorder.results(2, [("r-1", 1, 2, False)], "HEALTH")
    texts = [s for s in raw_slots(ring_path) if s[8] == RecordType.REQUEST]
    assert len(texts) == 1
    recorder._words[Word.JOINS] = 1
    recorder.begin(0, Kind.DECODE, 1)
    recorder.results(3, [("r-1", 0, 1, False)], "HEALTH")
    texts = [s for s in raw_slots(ring_path) if s[8] == RecordType.REQUEST]
    assert len(texts) == 2


def test_rows_say_overshoot_and_health_check(recorder: Recorder, ring_path: Path) -> None:
    """A finished request's row and a health probe's row carry their marks."""
    recorder.results(1, [("a", 2, 0, True), ("HEALTH_1", 0, 1, False)], "HEALTH")
    (slot,) = [s for s in raw_slots(ring_path) if s[8] == RecordType.ROWS]
    offset = layout.ROWS_HEAD.size
    first = layout.ROW.unpack_from(slot, offset)
    second = layout.ROW.unpack_from(slot, offset + layout.ROW.size)
    assert first[3] == RowFlag.OVERSHOOT
    assert second[3] == RowFlag.HEALTH_CHECK


def test_a_big_batch_goes_on_in_further_records(recorder: Recorder, ring_path: Path) -> None:
    """25 rows take 3 records of at most 10, and none is lost."""
    recorder.results(1, [(f"r{i}", i, 1, False) for i in range(25)], "HEALTH")
    heads = [
        layout.ROWS_HEAD.unpack_from(s) for s in raw_slots(ring_path) if s[8] == RecordType.ROWS
    ]
    assert [(h[2], h[3], h[4], h[6]) for h in heads] == [
        (0, 3, 10, 25),
        (1, 3, 10, 25),
        (2, 3, 5, 25),
    ]


def test_a_cycle_of_batch_one_takes_less_than_300_bytes(
    recorder: Recorder, ring_path: Path
) -> None:
    """Once its request is known, a cycle with its results takes two slots."""
    recorder.results(1, [("r", 0, 1, False)], "HEALTH")
    before = len(raw_slots(ring_path))
    recorder.begin(0, Kind.DECODE, 1)
    recorder.end(10)
    recorder.results(2, [("r", 1, 2, False)], "HEALTH")
    assert (len(raw_slots(ring_path)) - before) * layout.SLOT_BYTES <= 300


def test_the_table_of_ids_does_not_grow(recorder: Recorder) -> None:
    """However many requests pass, only a bounded number of ids is kept."""
    for i in range(10_000):
        recorder.results(i, [(f"r{i}", 0, 1, False)], "HEALTH")
    assert len(recorder._interned) <= 4096
