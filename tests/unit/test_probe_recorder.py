"""The recorder turns boundaries into cycle records and results into rows."""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

import pytest

from spectrace.collect.reader import RowsRecord, SkippedRecord, TextRecord
from spectrace.model import CycleKind, TimingMode
from spectrace.probe import layout
from spectrace.probe.layout import Graph, Kind, Mode, Ph, Word, mode_word, sampling_word
from spectrace.probe.recorder import Recorder
from tests.helpers.probe_ring import cycles_in, decoded, make_ring, raw_records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spectrace.probe.ring import RingWriter


@pytest.fixture
def ring_path(tmp_path: Path) -> Path:
    """Where the ring of a test lies."""
    return tmp_path / "test.ring"


@pytest.fixture
def ring(ring_path: Path) -> Iterator[RingWriter]:
    """A fresh ring, in mode `host`."""
    made = make_ring(ring_path, units=65536)
    yield made
    made.close()


@pytest.fixture
def recorder(ring: RingWriter) -> Recorder:
    """A recorder on it."""
    return Recorder(ring)


class Calls:
    """Stands for whatever times or tells boundaries, and notes what it is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self.pending = 0
        self.failed = False
        self.broken = False
        self.error = ""

    def _note(self, *what: object) -> None:
        if self.broken:
            raise RuntimeError("made by the test")
        self.told.append(what[0] if len(what) == 1 else what)

    def begin(self, number_hint: int) -> None:
        """A cycle of the device."""
        self._note("begin", number_hint)

    def mark(self, phase: int) -> None:
        """A boundary."""
        self._note(phase)

    def end(self, number: int) -> None:
        """Its end."""
        self._note("end", number)

    def drain(self, now_ns: int) -> None:
        """Polls."""
        self._note("drain", now_ns)

    def close(self) -> None:
        """Leaves."""
        self._note("close")

    def before(self) -> None:
        """A synchronize."""
        self._note("sync")

    def cycle_begin(self, number: int) -> None:
        """A range begins."""
        self._note("begin", number)

    def phase(self, mark: int) -> None:
        """A phase's range begins."""
        self._note(mark)

    def cycle_end(self, number: int) -> None:
        """A range ends."""
        self._note("end", number)


def is_due(recorder: Recorder) -> bool:
    """Whether the device is to be asked."""
    return recorder.pending


def phases(recorder_marks: tuple[tuple[int, int, int], ...]) -> list[int]:
    """The phases of marks."""
    return [phase for phase, _, _ in recorder_marks]


def test_a_cycle_begins_with_resolve_and_ends_where_the_next_begins(
    recorder: Recorder, ring_path: Path
) -> None:
    """The length of a cycle is the distance between its start and the next one's."""
    recorder.begin(1_000, Kind.DECODE, 3)
    recorder.number = 7
    recorder.begin(51_000, Kind.DECODE, 3)
    (record,) = cycles_in(ring_path)
    assert (record.number, record.start_ns, record.length_ns) == (7, 1_000, 50_000)
    assert (record.batch_size, record.mode) == (3, TimingMode.HOST)
    assert record.marks == ((Ph.RESOLVE, 0, 0),)


def test_a_cycle_that_nobody_numbers_is_the_one_after_the_last(
    recorder: Recorder, ring_path: Path
) -> None:
    """The hint is its number until another is said."""
    recorder.begin(1_000, Kind.DECODE, 1, 41)
    recorder.begin(2_000, Kind.DECODE, 1)
    recorder.end(3_000)
    assert [record.number for record in cycles_in(ring_path)] == [41, 42]


@pytest.mark.parametrize("number", [16, 17, 18])
def test_marks_are_kept_in_the_order_in_which_they_came(
    recorder: Recorder, ring_path: Path, number: int
) -> None:
    """Each mark names its phase and distances never fall, whether marks are measured or not."""
    begins = monotonic_ns()
    for cycle in (16, number):
        recorder.begin(begins, Kind.DECODE, 1, cycle)
        for phase in (Ph.DRAFT, Ph.VERIFY_PREPARE, Ph.SCHEDULE):
            recorder.mark(phase)
        begins = monotonic_ns()
        recorder.end(begins)
    record = cycles_in(ring_path)[-1]
    assert phases(record.marks) == [Ph.RESOLVE, Ph.DRAFT, Ph.VERIFY_PREPARE, Ph.SCHEDULE]
    distances = [distance for _, _, distance in record.marks]
    assert distances == sorted(distances)
    assert distances[-1] <= record.length_ns
    assert record.probe_ns > 0


def test_more_boundaries_than_fit_are_flagged(recorder: Recorder, ring_path: Path) -> None:
    """A cycle with more marks than a record holds says that some are missing."""
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    for _ in range(layout.MAX_MARKS):  # resolve is the one too many
        recorder.mark(Ph.DRAFT)
    recorder.end(monotonic_ns())
    (record,) = cycles_in(ring_path)
    assert len(record.marks) == layout.MAX_MARKS
    assert record.incomplete


def test_results_of_an_earlier_batch_carry_their_distance_in_cycles(
    recorder: Recorder, ring_path: Path
) -> None:
    """`wait` and `result` for cycle 9 within cycle 10 have lag 1."""
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.number = 10
    recorder.mark_wait(9)
    recorder.mark_result()
    recorder.end(monotonic_ns())
    (record,) = cycles_in(ring_path)
    assert [(phase, lag) for phase, lag, _ in record.marks[1:]] == [(Ph.WAIT, 1), (Ph.RESULT, 1)]


def test_result_without_wait_marks_nothing(recorder: Recorder, ring_path: Path) -> None:
    """A second sign that the counts are ready does not start `result` again."""
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.mark_wait(0)
    recorder.mark_result()
    recorder.mark_result()
    recorder.end(monotonic_ns())
    assert len(cycles_in(ring_path)[0].marks) == 3


def test_steps_are_marked_only_within_the_draft(recorder: Recorder, ring_path: Path) -> None:
    """A forward of the same model after the draft is none of its steps."""
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.mark(Ph.DRAFT)
    recorder.mark_step()
    recorder.mark_step()
    recorder.mark_steps_done()
    recorder.mark(Ph.DRAFT_EXTEND)
    recorder.mark_step()
    recorder.end(monotonic_ns())
    (record,) = cycles_in(ring_path)
    assert phases(record.marks) == [
        Ph.RESOLVE,
        Ph.DRAFT,
        Ph.DRAFT_STEP,
        Ph.DRAFT_STEP,
        Ph.DRAFT,
        Ph.DRAFT_EXTEND,
    ]
    assert record.graph == (False, None, None)


def test_what_ran_as_a_graph_is_said_for_each_part(recorder: Recorder, ring_path: Path) -> None:
    """The last word counts: a draft extend is eager until its graph is called."""
    recorder.begin(0, Kind.DECODE, 1)
    recorder.ran(Graph.DRAFT_EXTEND, Graph.EAGER)
    recorder.ran(Graph.VERIFY, Graph.EAGER)
    recorder.ran(Graph.DRAFT_EXTEND, Graph.GRAPH)
    recorder.padded = 8
    recorder.end(10)
    (record,) = cycles_in(ring_path)
    assert record.graph == (None, False, True)
    assert record.padded_batch == 8


def test_a_long_cycle_is_kept_in_coarser_units(recorder: Recorder, ring_path: Path) -> None:
    """20 s do not fit into 32 bits of ns: units of 8 ns do, with nothing else lost."""
    recorder.begin(0, Kind.EXTEND, 1)
    recorder.end(20_000_000_000)
    (record,) = cycles_in(ring_path)
    assert record.length_ns == 20_000_000_000
    assert record.marks == ((Ph.RESOLVE, 0, 0),)


def test_mode_off_keeps_the_length_and_no_phases(ring: RingWriter, ring_path: Path) -> None:
    """In mode `off` a cycle is one stamp: no marks, but its whole time."""
    ring.words[Word.MODE] = mode_word(Mode.OFF)
    recorder = Recorder(ring)
    recorder.begin(100, Kind.DECODE, 1)
    assert not recorder.timing
    recorder.end(400)
    (record,) = cycles_in(ring_path)
    assert (record.mode, record.length_ns, record.marks) == (TimingMode.OFF, 300, ())


def test_the_mode_changes_at_the_cycle_that_was_asked_for(
    ring: RingWriter, ring_path: Path
) -> None:
    """`host from cycle 5` leaves cycle 4 as it was and times cycle 5."""
    ring.words[Word.MODE] = mode_word(Mode.OFF)
    recorder = Recorder(ring)
    recorder.begin(0, Kind.DECODE, 1, 3)
    ring.words[Word.MODE] = mode_word(Mode.HOST, 5)
    for number in (4, 5):
        recorder.begin(10 * number, Kind.DECODE, 1, number)
    recorder.end(60)
    records = cycles_in(ring_path)
    assert [(r.number, r.mode, r.late_switch) for r in records] == [
        (3, TimingMode.OFF, False),
        (4, TimingMode.OFF, False),
        (5, TimingMode.HOST, False),
    ]


def test_a_rank_that_missed_its_cycle_says_so(ring: RingWriter, ring_path: Path) -> None:
    """`off from cycle 5` that is seen at cycle 6 is taken then, and only 6 is late."""
    recorder = Recorder(ring)
    recorder.begin(0, Kind.DECODE, 1, 5)
    ring.words[Word.MODE] = mode_word(Mode.OFF, 5)
    recorder.begin(10, Kind.DECODE, 1, 6)
    recorder.begin(20, Kind.DECODE, 1, 7)
    recorder.end(30)
    assert [(r.mode, r.late_switch) for r in cycles_in(ring_path)] == [
        (TimingMode.HOST, False),
        (TimingMode.OFF, True),
        (TimingMode.OFF, False),
    ]


@pytest.mark.parametrize(
    ("mode", "asked"), [(Mode.DEVICE, TimingMode.DEVICE), (Mode.SYNC, TimingMode.SYNC)]
)
def test_what_cannot_be_timed_otherwise_is_timed_by_the_host(
    ring: RingWriter, ring_path: Path, mode: int, asked: TimingMode
) -> None:
    """Without timing events `device` is taken as `host`, and the record says both."""
    ring.words[Word.MODE] = mode_word(mode)
    recorder = Recorder(ring)
    recorder.begin(0, Kind.DECODE, 1)
    recorder.end(10)
    (record,) = cycles_in(ring_path)
    assert (record.mode, record.asked_mode) == (TimingMode.HOST, asked)
    assert ring.words[Word.MODE_ACTIVE] == Mode.HOST


def test_the_device_is_told_every_boundary_without_its_lag(
    ring: RingWriter, ring_path: Path
) -> None:
    """In mode `device` marks go to both clocks, and the cycle's final number at its end."""
    ring.words[Word.MODE] = mode_word(Mode.DEVICE)
    calls = Calls()
    recorder = Recorder(ring, boundaries=calls)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1, 8)
    recorder.mark(Ph.DRAFT)
    recorder.number = 9
    recorder.mark_wait(8)
    recorder.end(monotonic_ns())
    assert calls.told == [("begin", 8), Ph.RESOLVE, Ph.DRAFT, Ph.WAIT, ("end", 9)]
    (record,) = cycles_in(ring_path)
    assert record.mode is TimingMode.DEVICE
    assert phases(record.marks) == [Ph.RESOLVE, Ph.DRAFT, Ph.WAIT]


def test_the_device_is_told_nothing_in_mode_host(ring: RingWriter) -> None:
    """Events cost the server time: only `device` records them."""
    calls = Calls()
    recorder = Recorder(ring, boundaries=calls)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.mark(Ph.DRAFT)
    recorder.end(monotonic_ns())
    assert calls.told == []


def test_a_device_that_fails_for_good_is_let_go(ring: RingWriter, ring_path: Path) -> None:
    """From then on cycles are taken by the host's clock, though `device` is asked for."""
    ring.words[Word.MODE] = mode_word(Mode.DEVICE)
    calls = Calls()
    recorder = Recorder(ring, boundaries=calls)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.end(monotonic_ns())
    calls.failed = True
    assert is_due(recorder)
    recorder.drain(5)
    assert not is_due(recorder)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.end(monotonic_ns())
    assert [(r.mode, r.asked_mode) for r in cycles_in(ring_path)] == [
        (TimingMode.DEVICE, TimingMode.DEVICE),
        (TimingMode.HOST, TimingMode.DEVICE),
    ]


def test_sync_waits_before_every_stamp(ring: RingWriter) -> None:
    """One synchronize for each mark, and one for the start of each cycle."""
    ring.words[Word.MODE] = mode_word(Mode.SYNC)
    calls = Calls()
    recorder = Recorder(ring, sync=calls)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.mark(Ph.DRAFT)
    recorder.mark(Ph.SCHEDULE)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    assert calls.told == ["sync"] * 4


def test_the_first_cycle_after_a_pause_waits_only_if_it_is_to(ring: RingWriter) -> None:
    """Where mode `host` was asked for meanwhile, nothing is synchronized any more."""
    ring.words[Word.MODE] = mode_word(Mode.SYNC)
    calls = Calls()
    recorder = Recorder(ring, sync=calls)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.end(monotonic_ns())
    ring.words[Word.MODE] = mode_word(Mode.HOST)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    recorder.mark(Ph.SCHEDULE)
    recorder.end(monotonic_ns())
    assert calls.told == ["sync"]


def test_sync_waits_for_no_cycle_that_sampling_skips(ring: RingWriter) -> None:
    """Of ten cycles, one in five kept: at the start of each of two, at its mark, at its end."""
    ring.words[Word.MODE] = mode_word(Mode.SYNC)
    ring.words[Word.SAMPLING] = sampling_word(5)
    calls = Calls()
    recorder = Recorder(ring, sync=calls)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1, 1)  # here it learns that it is to sync
    before = len(calls.told)
    for number in range(2, 12):
        recorder.begin(monotonic_ns(), Kind.DECODE, 1, number)
        if recorder.timing:
            recorder.mark(Ph.SCHEDULE)
    assert len(calls.told) - before == 2 * 3


def test_records_are_held_back_and_written_in_their_order(
    recorder: Recorder, ring: RingWriter, ring_path: Path
) -> None:
    """Cycles, results and device times come out as they went in, once so many are there."""
    recorder.hold = 5
    for number in (1, 2):
        recorder.begin(monotonic_ns(), Kind.DECODE, 1, number)
        recorder.end(monotonic_ns())
        recorder.results(number, [("a", 1, 2, False)])
    assert (list(decoded(ring_path)), ring.words[Word.CYCLES]) == ([], 0)
    recorder.device(2, 1000, 10, 0, bytes([Ph.DRAFT, 0]), [0, 500])
    kinds = [type(record).__name__ for record in decoded(ring_path)]
    of_one_cycle = ["CycleRecord", "TextRecord", "RowsRecord"]  # the id is sent once
    assert kinds == [*of_one_cycle, "CycleRecord", "RowsRecord", "DeviceRecord"]
    assert (ring.words[Word.CYCLES], ring.words[Word.NEWEST_CYCLE]) == (2, 2)


def test_what_is_held_back_is_due_by_its_number_or_its_age(
    recorder: Recorder, ring_path: Path
) -> None:
    """Sixteen records are enough, and one is old enough 50 ms after its cycle began."""
    recorder.hold = 100
    began_ns = monotonic_ns()
    for number in range(1, 17):
        recorder.begin(began_ns, Kind.DECODE, 1, number)
        recorder.end(began_ns)
        recorder.flush_if_due(began_ns)
        assert len(cycles_in(ring_path)) == (16 if number == 16 else 0)
    recorder.begin(began_ns, Kind.DECODE, 1, 17)
    recorder.end(began_ns)
    recorder.flush_if_due(began_ns + 50_000_000)
    assert len(cycles_in(ring_path)) == 16
    recorder.flush_if_due(began_ns + 50_000_001)
    assert len(cycles_in(ring_path)) == 17


def test_skipped_cycles_too_are_counted_in_time(recorder: Recorder, ring: RingWriter) -> None:
    """Where sampling keeps one cycle of many, the header's counts follow all the same."""
    ring.words[Word.SAMPLING] = sampling_word(1000)
    recorder.hold = 100
    began_ns = monotonic_ns()
    recorder.begin(began_ns, Kind.DECODE, 1, 7)
    recorder.end(began_ns)
    recorder.flush_if_due(began_ns + 60_000_000)
    assert (ring.words[Word.CYCLES], ring.words[Word.NEWEST_CYCLE]) == (1, 7)


def test_other_tools_are_told_phases_with_their_lag(ring: RingWriter) -> None:
    """Ranges get what the ring gets, in every mode that has phases."""
    calls = Calls()
    recorder = Recorder(ring, ranges=calls)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1, 9)
    recorder.mark_wait(8)
    recorder.end(monotonic_ns())
    wait = Ph.WAIT | 1 << layout.LAG_SHIFT
    assert calls.told == [("begin", 9), Ph.RESOLVE, wait, ("end", 9)]


@pytest.mark.parametrize("where", ["boundaries", "sync", "ranges"])
def test_what_breaks_while_timing_is_told_and_raises_nothing(ring: RingWriter, where: str) -> None:
    """The server's code is never reached by an error of a timer or a range."""
    ring.words[Word.MODE] = mode_word(Mode.SYNC if where == "sync" else Mode.DEVICE)
    calls = Calls()
    errors: list[BaseException] = []
    recorder = Recorder(ring, fail=errors.append)
    setattr(recorder, where, calls)
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    calls.broken = True
    recorder.mark(Ph.DRAFT)
    recorder.mark(Ph.SCHEDULE)
    recorder.end(monotonic_ns())
    assert [str(error) for error in errors] == ["made by the test"]


def test_sampling_keeps_every_nth_cycle_and_counts_the_others(
    ring: RingWriter, ring_path: Path
) -> None:
    """Of cycles 1 to 4 with every 3rd kept, 3 is whole, and 1 and 2 are sums before it."""
    ring.words[Word.SAMPLING] = sampling_word(3)
    recorder = Recorder(ring)
    for number in range(1, 5):
        recorder.begin(100 * number, Kind.DECODE, 2, number)
        assert recorder.timing == (number == 3)
        rows = [("a", 2, 3, False), ("b", 1, 0, True)]
        recorder.results(number, rows)
    recorder.end(600)
    recorder.flush_skipped()
    records = decoded(ring_path)
    assert [record.number for record in records if isinstance(record, RowsRecord)] == [3]
    assert [record.number for record in cycles_in(ring_path)] == [3]
    before, after = (record for record in records if isinstance(record, SkippedRecord))
    assert (before.cycles, before.first, before.last, before.total_ns) == (2, 1, 2, 200)
    assert (before.verifies, before.correct_drafts, before.output_tokens) == (2, 4, 6)
    assert (after.cycles, after.first, after.last, after.total_ns) == (1, 4, 4, 200)


def sampled(ring: RingWriter, path: Path, words: dict[int, int], last: int) -> list[int]:
    """The cycles that are kept of 1 to `last`, where words are written before some of them."""
    recorder = Recorder(ring)
    for number in range(1, last + 1):
        ring.words[Word.SAMPLING] = words.get(number, ring.words[Word.SAMPLING])
        recorder.begin(100 * number, Kind.DECODE, 1, number)
        if number > 1:  # results come a cycle later
            recorder.results(number - 1, [("a", number - 1, number, False)])
    recorder.end(100 * (last + 1))
    recorder.results(last, [("a", last, last + 1, False)])
    recorder.flush_skipped()
    return [record.number for record in cycles_in(path)]


def test_another_sampling_comes_at_its_cycle(ring: RingWriter, ring_path: Path) -> None:
    """Every 4th until 13 and every 5th from there on, whenever that was said before."""
    kept = sampled(ring, ring_path, {1: sampling_word(4), 7: sampling_word(5, 13, 4)}, 21)
    assert kept == [4, 8, 12, 15, 20]
    assert not any(record.late_switch for record in cycles_in(ring_path))


@pytest.mark.parametrize("every", [0, 2, 5])
def test_results_follow_the_sampling_of_their_own_cycle(
    ring: RingWriter, ring_path: Path, every: int
) -> None:
    """They come in the next one, where another may hold: kept are those of cycles that are."""
    words = {1: sampling_word(4), 2: sampling_word(every, 10, 4), 12: sampling_word(3, 16, every)}
    kept = sampled(ring, ring_path, words, 21)
    records = decoded(ring_path)
    assert [record.number for record in records if isinstance(record, RowsRecord)] == kept
    left_out = [number for number in range(1, 22) if number not in kept]
    sums = [record for record in records if isinstance(record, SkippedRecord)]
    assert sum(record.cycles for record in sums) == len(left_out)
    assert sum(record.total_ns for record in sums) == 100 * len(left_out)
    assert sum(record.verifies for record in sums) == len(left_out)
    assert sum(record.correct_drafts for record in sums) == sum(left_out)
    assert sum(record.output_tokens for record in sums) == sum(left_out) + len(left_out)


def test_what_the_last_skipped_cycle_brought_is_told_where_all_are_kept_behind_it(
    ring: RingWriter, ring_path: Path
) -> None:
    """Its results come when every cycle is kept: no later one takes them along, and none need."""
    ring.words[Word.SAMPLING] = sampling_word(0, 4, 10)
    recorder = Recorder(ring)
    for number in range(1, 5):
        recorder.begin(100 * number, Kind.DECODE, 1, number)
    recorder.results(3, [("a", 1, 2, False)])
    *_, last = (record for record in decoded(ring_path) if isinstance(record, SkippedRecord))
    assert (last.cycles, last.verifies, last.correct_drafts, last.output_tokens) == (0, 1, 1, 2)


def test_who_misses_the_cycle_of_another_sampling_says_so(
    ring: RingWriter, ring_path: Path
) -> None:
    """By the first cycle that it keeps; the same sampling as before cannot be missed."""
    words = {
        1: sampling_word(4),
        7: sampling_word(4, 5, 1),
        14: sampling_word(5, 13, 4),  # in force from 14 on, and 15 is kept
    }
    assert sampled(ring, ring_path, words, 21) == [4, 8, 12, 15, 20]
    late = [record.number for record in cycles_in(ring_path) if record.late_switch]
    assert late == [15]


def test_who_comes_behind_a_switch_has_missed_nothing(ring: RingWriter, ring_path: Path) -> None:
    """A rank that is traced from now on finds the word of long ago, or one yet to come."""
    ring.words[Word.SAMPLING] = sampling_word(5, 13, 2)
    recorder = Recorder(ring)
    for number in range(20, 27):
        recorder.begin(100 * number, Kind.DECODE, 1, number)
    assert [record.number for record in cycles_in(ring_path)] == [20, 25]
    assert not any(record.late_switch for record in cycles_in(ring_path))
    other = Recorder(ring)
    for number in range(9, 17):
        other.begin(100 * number, Kind.DECODE, 1, number)
    assert [record.number for record in cycles_in(ring_path)][2:] == [10, 12, 15]


def test_sync_waits_by_the_sampling_that_is_to_come(ring: RingWriter) -> None:
    """From 5 on every cycle is kept: the end of 3 and 4 is not waited for, that of 5 is."""
    ring.words[Word.MODE] = mode_word(Mode.SYNC)
    ring.words[Word.SAMPLING] = sampling_word(0, 5, 100)
    calls = Calls()
    recorder = Recorder(ring, sync=calls)
    waits = []
    for number in range(3, 8):
        before = len(calls.told)
        recorder.begin(monotonic_ns(), Kind.DECODE, 1, number)
        waits.append(len(calls.told) - before)
    assert waits == [0, 0, 1, 1, 1]


def test_a_request_id_is_sent_once_and_again_when_a_reader_joins(
    recorder: Recorder, ring: RingWriter, ring_path: Path
) -> None:
    """Two cycles of one request send its id once; a joining reader makes it come again."""
    recorder.results(1, [("r-1", 2, 3, False)])
    recorder.results(2, [("r-1", 1, 2, False)])

    def texts() -> list[bytes]:
        return [r.text for r in decoded(ring_path) if isinstance(r, TextRecord)]

    assert texts() == [b"r-1"]
    ring.words[Word.JOINS] = 1
    recorder.begin(0, Kind.DECODE, 1)
    recorder.results(3, [("r-1", 0, 1, False)])
    assert texts() == [b"r-1", b"r-1"]


def test_rows_say_overshoot_and_health_check(recorder: Recorder, ring_path: Path) -> None:
    """A finished request's row and a health probe's row carry their marks."""
    recorder.health_checks = "HEALTH"
    recorder.results(1, [("a", 2, 0, True), ("HEALTH_1", None, 1, False)], (90, 60), (3, 2))
    (rows,) = (r for r in decoded(ring_path) if isinstance(r, RowsRecord))
    first, second = rows.rows
    assert (first.overshoot, first.health_check, first.correct_drafts) == (True, False, 2)
    assert (second.overshoot, second.health_check, second.correct_drafts) == (False, True, None)
    assert (rows.context_tokens, rows.queued, rows.running) == ((90, 60), 3, 2)


def test_a_big_batch_goes_on_in_further_records(recorder: Recorder, ring_path: Path) -> None:
    """75 rows take 3 records of at most 30, and none is lost."""
    recorder.results(1, [(f"r{i}", i, 1, False) for i in range(75)])
    parts = [r for r in decoded(ring_path) if isinstance(r, RowsRecord)]
    assert [(r.part, r.parts, len(r.rows), r.batch_size) for r in parts] == [
        (0, 3, 30, 75),
        (1, 3, 30, 75),
        (2, 3, 15, 75),
    ]
    assert [row.correct_drafts for part in parts for row in part.rows] == list(range(75))


@pytest.mark.parametrize(("on_device", "most"), [(0, 192), (12, 288)])
def test_a_cycle_of_batch_one_takes_few_bytes(
    ring: RingWriter, ring_path: Path, on_device: int, most: int
) -> None:
    """Once its request is known, with 16 marks: an eager draft of 5 steps, its device lane."""
    recorder = Recorder(ring)
    recorder.results(1, [("r", 0, 1, False)])
    before = sum(map(len, raw_records(ring_path)))
    recorder.begin(monotonic_ns(), Kind.DECODE, 1)
    for _ in range(15):
        recorder.mark(Ph.DRAFT)
    recorder.end(monotonic_ns())
    if on_device:
        ring.device(1, 5, 5, 0, bytes([Ph.DRAFT]) * on_device, list(range(on_device)))
    recorder.results(2, [("r", 1, 2, False)], (10, 10), (0, 1))
    assert sum(map(len, raw_records(ring_path))) - before <= most


def test_the_table_of_ids_does_not_grow(recorder: Recorder) -> None:
    """However many requests pass, only a bounded number of ids is kept."""
    for i in range(10_000):
        recorder.results(i, [(f"r{i}", 0, 1, False)])
    assert len(recorder._interned) <= 4096


def test_kinds_come_through(recorder: Recorder, ring_path: Path) -> None:
    """A decode that verifies is speculative, with its steps, branches and tokens."""
    recorder.begin(0, Kind.DECODE, 1)
    recorder.speculate(5, 2, 11)
    recorder.end(10)
    (record,) = cycles_in(ring_path)
    assert record.kind is CycleKind.SPECULATIVE
    assert (record.steps, record.topk, record.draft_tokens) == (5, 2, 11)


def test_a_clients_long_id_does_not_fill_the_servers_memory(recorder: Recorder) -> None:
    """However long the ids that clients choose, what is kept of each is bounded and distinct."""
    for number in range(50):
        recorder.results(number, [(str(number) * 100_000, 0, 1, False)])
    kept = list(recorder._interned)
    assert len(kept) == 50
    assert max(map(len, kept)) < 1100
    same_start = ["x" * 5000 + "a", "x" * 5000 + "b"]
    recorder.results(50, [(name, 0, 1, False) for name in same_start])
    assert len(recorder._interned) == 52


def test_counts_beyond_sixteen_bits_are_the_most_that_fits(
    recorder: Recorder, ring_path: Path
) -> None:
    """A huge count never comes out as a small one, nor as unknown."""
    recorder.results(1, [("a", 70_000, 70_000, False)])
    rows = [record for record in decoded(ring_path) if isinstance(record, RowsRecord)]
    assert (rows[0].rows[0].correct_drafts, rows[0].rows[0].output_tokens) == (65_534, 65_535)


def test_sizes_beyond_their_places_are_the_most_that_fits(
    recorder: Recorder, ring_path: Path
) -> None:
    """A cycle with absurd sizes, in which the probe took long, is written like any other."""
    recorder.begin(100, Kind.DECODE, 70_000, 7)
    recorder.speculate(300, 400, 70_000)
    recorder.own_ns += 5_000_000_000
    recorder.padded = 80_000
    recorder.end(400)
    (record,) = cycles_in(ring_path)
    assert (record.number, record.length_ns, record.probe_ns) == (7, 300, 2**32 - 1)
    assert (record.batch_size, record.padded_batch) == (65_535, 65_535)
    assert (record.steps, record.topk, record.draft_tokens) == (255, 255, 65_535)
    assert record.marks == ((Ph.RESOLVE, 0, 0),)
