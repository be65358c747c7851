"""The assembler joins what the ranks of a server report into Cycles, whatever comes when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrace.collect.assembler import (
    PATIENCE_NS,
    Assembler,
    device_phases_of,
    group_of,
    phases_of,
)
from spectrace.collect.reader import (
    CycleRecord,
    DeviceRecord,
    Record,
    Row,
    RowsRecord,
    SkippedRecord,
    TextRecord,
)
from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    PhaseName,
    Rank,
    RequestRow,
    Run,
    SkippedCycles,
    TimingMode,
)
from spectrace.probe.layout import Ph, RecordType

# UNIX = MONOTONIC - 1_000 + 50_000 = MONOTONIC + 49_000.
AXIS_NS = 49_000


def run_of(*names: str) -> Run:
    """A server with ranks of these names."""
    return Run(
        run_id="r" * 32,
        host="here",
        server_pid=1,
        command=("python",),
        ranks=tuple(Rank(name=name, pid=place) for place, name in enumerate(names, 2)),
        anchor_unix_ns=50_000,
        anchor_monotonic_ns=1_000,
    )


def cycle_record(
    number: int,
    *,
    kind: CycleKind = CycleKind.SPECULATIVE,
    marks: tuple[tuple[int, int, int], ...] = ((Ph.RESOLVE, 0, 0),),
    length_ns: int = 100,
    mode: TimingMode = TimingMode.HOST,
) -> CycleRecord:
    """A record of a cycle that began at MONOTONIC 1000 times its number."""
    return CycleRecord(
        record=number,
        number=number,
        kind=kind,
        mode=mode,
        asked_mode=mode,
        start_ns=1_000 * number,
        length_ns=length_ns,
        probe_ns=7,
        batch_size=2,
        steps=3,
        topk=1,
        draft_tokens=4,
        marks=marks,
        ended_idle=False,
        incomplete=False,
    )


def row(interned: int, correct_drafts: int = 2) -> Row:
    """A row whose request got its correct drafts and the bonus token."""
    return Row(
        interned=interned,
        correct_drafts=correct_drafts,
        output_tokens=correct_drafts + 1,
        overshoot=False,
        health_check=False,
    )


def rows_record(number: int, rows: Sequence[Row], part: int = 0, parts: int = 1) -> RowsRecord:
    """Results of a cycle."""
    return RowsRecord(
        record=1, number=number, part=part, parts=parts, batch_size=len(rows), rows=tuple(rows)
    )


def request(interned: int, request_id: str) -> TextRecord:
    """The id behind an interned number."""
    return TextRecord(
        record=1,
        kind=RecordType.REQUEST,
        interned=interned,
        part=0,
        parts=1,
        text=request_id.encode(),
    )


def text_part(
    sequence: int, part: int, parts: int, text: bytes, kind: int = RecordType.ERROR
) -> TextRecord:
    """One part of a longer text."""
    return TextRecord(record=sequence, kind=kind, interned=0, part=part, parts=parts, text=text)


def results(number: int, interned: int = 5, request_id: str = "abc") -> list[Record]:
    """The id of a request and its row in a cycle."""
    return [request(interned, request_id), rows_record(number, [row(interned)])]


def request_row(request_id: str, correct_drafts: int = 2) -> RequestRow:
    """What `row` becomes."""
    return RequestRow(
        request_id=request_id, correct_drafts=correct_drafts, output_tokens=correct_drafts + 1
    )


def numbers(cycles: Iterable[Cycle]) -> list[int]:
    """The numbers of cycles."""
    return [cycle.number for cycle in cycles]


def rank_names(cycle: Cycle) -> list[str]:
    """The ranks that a cycle has."""
    return [rank.rank for rank in cycle.ranks]


def test_a_cycle_of_one_rank_goes_out_with_its_rows() -> None:
    """All fields come from the record, times on the UNIX axis, ids in the place of numbers."""
    assembler = Assembler(run_of("TP0"))
    (cycle,) = assembler.add("TP0", [cycle_record(3), *results(3)], 0)
    assert (cycle.run_id, cycle.group, cycle.number) == ("r" * 32, "", 3)
    assert cycle.kind is CycleKind.SPECULATIVE
    assert (cycle.batch_size, cycle.steps, cycle.topk, cycle.draft_tokens) == (2, 3, 1, 4)
    assert cycle.requests == (request_row("abc"),)
    (rank,) = cycle.ranks
    assert (rank.rank, rank.mode, rank.probe_ns) == ("TP0", TimingMode.HOST, 7)
    assert (rank.start_ns, rank.end_ns) == (3_000 + AXIS_NS, 3_100 + AXIS_NS)


def test_a_cycle_waits_for_rows_that_come_one_cycle_later() -> None:
    """With the overlap scheduler the rows follow the next cycle."""
    assembler = Assembler(run_of("TP0"))
    assert assembler.add("TP0", [request(5, "abc"), cycle_record(3)], 0) == []
    assert numbers(assembler.add("TP0", [cycle_record(4), rows_record(3, [row(5)])], 1)) == [3]


def test_rows_may_come_before_their_cycle() -> None:
    """Without overlap results are processed before the cycle ends."""
    assembler = Assembler(run_of("TP0"))
    assert assembler.add("TP0", [request(5, "abc"), rows_record(3, [row(5)])], 0) == []
    (cycle,) = assembler.add("TP0", [cycle_record(3)], 1)
    assert cycle.requests == (request_row("abc"),)


def test_a_cycle_waits_for_all_ranks_of_its_group() -> None:
    """It goes out once, with the first rank first."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assert assembler.add("TP1", [cycle_record(3)], 0) == []
    (cycle,) = assembler.add("TP0", [cycle_record(3), *results(3)], 1)
    assert rank_names(cycle) == ["TP0", "TP1"]
    assert assembler.add("TP1", results(3), 2) == []
    assert assembler.flush(PATIENCE_NS * 2) == []
    assert assembler.close() == []


@pytest.mark.parametrize("kind", [CycleKind.IDLE, CycleKind.OTHER])
def test_a_cycle_that_has_no_results_does_not_wait_for_rows(kind: CycleKind) -> None:
    """Idle cycles and those of unknown kinds go out with their last rank."""
    assembler = Assembler(run_of("TP0"))
    (cycle,) = assembler.add("TP0", [cycle_record(3, kind=kind)], 0)
    assert cycle.requests is None


def test_after_two_seconds_a_cycle_goes_out_as_it_is() -> None:
    """A cycle whose rank and rows are late is given without them, at 2 s and not before."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assert assembler.add("TP0", [cycle_record(3)], 10) == []
    assert assembler.flush(10 + 1_999_999_999) == []
    (cycle,) = assembler.flush(10 + 2_000_000_000)
    assert rank_names(cycle) == ["TP0"]
    assert cycle.requests is None


def test_what_comes_late_amends_a_cycle() -> None:
    """A late rank and late rows give the cycle again, each time with more in it."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assembler.add("TP0", [cycle_record(3)], 0)
    assembler.flush(PATIENCE_NS)
    (with_rank,) = assembler.add("TP1", [cycle_record(3)], PATIENCE_NS + 1)
    assert rank_names(with_rank) == ["TP0", "TP1"]
    (with_rows,) = assembler.add("TP0", results(3), PATIENCE_NS + 2)
    assert with_rows.requests == (request_row("abc"),)
    assert (with_rows.run_id, with_rows.number) == (with_rank.run_id, with_rank.number)


def test_rows_of_another_rank_stand_in_for_those_of_the_first() -> None:
    """Where the first rank's rows were lost the cycle has the same ones from the next rank."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assembler.add("TP0", [cycle_record(3)], 0)
    assert assembler.add("TP1", [cycle_record(3), *results(3, interned=8)], 0) == []
    (cycle,) = assembler.flush(PATIENCE_NS)
    assert cycle.requests == (request_row("abc"),)


def test_rows_in_parts_are_joined_in_their_order() -> None:
    """A batch that takes several records is whole with the last of them."""
    assembler = Assembler(run_of("TP0"))
    names = [request(number, f"id{number}") for number in range(3)]
    parts = [rows_record(3, [row(number)], number, 3) for number in range(3)]
    assert assembler.add("TP0", [*names, cycle_record(3), parts[2], parts[0]], 0) == []
    (cycle,) = assembler.add("TP0", [parts[1]], 0)
    assert cycle.requests == tuple(request_row(f"id{number}") for number in range(3))


def test_an_id_that_was_lost_is_replaced_and_amended_when_it_comes() -> None:
    """Counts do not wait for a name for more than two seconds."""
    assembler = Assembler(run_of("TP0"))
    assert assembler.add("TP0", [cycle_record(3), rows_record(3, [row(5)])], 0) == []
    (nameless,) = assembler.flush(PATIENCE_NS)
    assert nameless.requests == (request_row("unknown-5"),)
    (named,) = assembler.add("TP0", [request(5, "abc")], PATIENCE_NS + 1)
    assert named.requests == (request_row("abc"),)


def test_the_same_number_is_another_request_on_another_rank() -> None:
    """Interned numbers belong to the rank that gave them."""
    assembler = Assembler(run_of("DP0 TP0", "DP1 TP0"))
    (one,) = assembler.add("DP0 TP0", [cycle_record(3), *results(3)], 0)
    (other,) = assembler.add("DP1 TP0", [cycle_record(3), *results(3, request_id="xyz")], 0)
    assert (one.group, one.requests) == ("DP0", (request_row("abc"),))
    assert (other.group, other.requests) == ("DP1", (request_row("xyz"),))


def test_cycles_from_before_the_last_rank_came_are_dropped() -> None:
    """Attach reaches ranks one after another: what only some saw is neither given nor missing."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assert assembler.add("TP0", [idle(number) for number in (5, 6, 7)], 0) == []
    assert numbers(assembler.add("TP1", [idle(number) for number in (7, 8)], 0)) == [7]
    assert assembler.missing == 0
    assert numbers(assembler.add("TP0", [idle(8)], 0)) == [8]
    assert assembler.flush(PATIENCE_NS * 2) == []


def idle(number: int) -> CycleRecord:
    """A cycle without results."""
    return cycle_record(number, kind=CycleKind.IDLE)


def test_numbers_that_a_rank_skipped_are_missing() -> None:
    """4 is missing on TP1, 6 on both and 8 on TP0: three numbers, although four reports lack."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assembler.add("TP0", [idle(number) for number in (3, 4, 5, 7, 9)], 0)
    assembler.add("TP1", [idle(number) for number in (3, 5, 7, 8, 9)], 0)
    assert assembler.missing == 3


def test_a_rank_that_is_behind_has_skipped_nothing_yet() -> None:
    """Beyond the last number of TP1 only 6, which TP0 skipped, is missing."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assembler.add("TP0", [idle(number) for number in (3, 4, 5, 7)], 0)
    assembler.add("TP1", [idle(3)], 0)
    assert assembler.missing == 1
    assembler.add("TP1", [idle(number) for number in (4, 5, 6, 7)], 0)
    assert assembler.missing == 1


def test_nothing_is_missing_before_all_ranks_report() -> None:
    """Gaps of one rank are judged when it is known where the joint cycles begin."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assembler.add("TP0", [idle(number) for number in (3, 9)], 0)
    assert assembler.missing == 0


def test_a_long_gap_is_counted_without_being_held() -> None:
    """A million lost cycles are a million missing ones."""
    assembler = Assembler(run_of("TP0"))
    assembler.add("TP0", [idle(1), idle(1_000_002)], 0)
    assert assembler.missing == 1_000_000


def test_what_is_held_is_bounded_and_still_goes_out() -> None:
    """With one rank silent and no clock, 10,000 cycles leave no more than 2048 behind."""
    assembler = Assembler(run_of("TP0", "TP1"))
    assembler.add("TP0", [idle(0)], 0)
    assembler.add("TP1", [idle(0)], 0)
    given_out = []
    for number in range(1, 10_001):
        given_out += numbers(assembler.add("TP0", [idle(number)], 0))
    held = numbers(assembler.close())
    assert given_out + held == list(range(1, 10_001))
    assert len(held) <= 2048
    assert assembler.missing == 0
    assembler.add("TP1", [idle(10_001)], 0)
    assert assembler.missing == 10_000


def test_cycles_that_wait_at_the_end_are_given() -> None:
    """The last cycle of a session may never see its rows."""
    assembler = Assembler(run_of("TP0"))
    assembler.add("TP0", [cycle_record(3)], 0)
    assert numbers(assembler.close()) == [3]
    assert assembler.close() == []


def test_an_error_is_joined_and_kept_with_its_rank() -> None:
    """A text that is cut within a character is whole again."""
    text = "Fehler: größer".encode()
    assembler = Assembler(run_of("TP0"))
    cut = text.index("ö".encode()) + 1
    records = [text_part(7, 0, 2, text[:cut]), text_part(8, 1, 2, text[cut:])]
    assert assembler.add("TP0", records, 0) == []
    assert assembler.errors == ["TP0: Fehler: größer"]


def test_a_text_with_a_lost_part_is_no_text() -> None:
    """Parts of two texts are never joined into one."""
    assembler = Assembler(run_of("TP0"))
    records = [
        text_part(1, 0, 3, b"first "),
        text_part(3, 2, 3, b"text"),
        text_part(4, 0, 2, b"second "),
        text_part(6, 1, 2, b"third"),
        text_part(7, 0, 1, b"fourth"),
    ]
    assembler.add("TP0", records, 0)
    assert assembler.errors == ["TP0: fourth"]


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("TP0", ""),
        ("DP1 TP0", "DP1"),
        ("DP12 PP0 TP3", "DP12"),
        ("PP1 TP0", ""),
        ("MOE_DP1 TP2", ""),
        ("ENGINE2 TP0", "ENGINE2"),
        ("ENGINE2 DP1 TP0", "ENGINE2 DP1"),
    ],
)
def test_ranks_of_a_replica_are_a_group(name: str, group: str) -> None:
    """The replica in a rank's name, and a later engine, is its group."""
    assert group_of(name) == group


def test_phases_touch_and_carry_the_cycle_of_their_batch() -> None:
    """Each mark ends the phase before, the end of the cycle the last; lag leads back."""
    marks = ((Ph.RESOLVE, 0, 0), (Ph.DRAFT, 0, 20), (Ph.WAIT, 1, 60))
    phases = phases_of(cycle_record(9, marks=marks), run_of("TP0"))
    start = 9_000 + AXIS_NS
    assert [(phase.name, phase.start_ns, phase.end_ns, phase.of_cycle) for phase in phases] == [
        (PhaseName.RESOLVE, start, start + 20, 9),
        (PhaseName.DRAFT, start + 20, start + 60, 9),
        (PhaseName.WAIT, start + 60, start + 100, 8),
    ]


def test_phases_of_no_length_are_left_out() -> None:
    """The neighbours of a phase of no length touch each other."""
    marks = ((Ph.RESOLVE, 0, 0), (Ph.DRAFT, 0, 0), (Ph.VERIFY, 0, 40), (Ph.RESULT, 0, 100))
    phases = phases_of(cycle_record(9, marks=marks), run_of("TP0"))
    assert [(phase.name, phase.duration_ns) for phase in phases] == [
        (PhaseName.DRAFT, 40),
        (PhaseName.VERIFY, 60),
    ]


def test_a_cycle_without_marks_has_no_phases() -> None:
    """In timing mode off there is nothing between start and end."""
    assert phases_of(cycle_record(9, marks=()), run_of("TP0")) == ()


MARKS = st.lists(
    st.tuples(st.integers(1, 13), st.integers(0, 7), st.integers(0, 200)), min_size=1, max_size=60
)


@given(marks=MARKS, length_ns=st.integers(0, 150))
def test_phases_always_fill_the_cycle(marks: list[tuple[int, int, int]], length_ns: int) -> None:
    """Whatever the marks say, phases begin and end with the cycle and have no holes."""
    record = cycle_record(9, marks=tuple(marks), length_ns=length_ns)
    phases = phases_of(record, run_of("TP0"))
    bounds = [phase.start_ns for phase in phases] + [9_000 + length_ns + AXIS_NS]
    assert bounds[0] == 9_000 + AXIS_NS
    assert [phase.end_ns for phase in phases] == bounds[1:]
    assert all(phase.duration_ns > 0 for phase in phases)


ON_DEVICE = ((Ph.RESOLVE, 0, 0), (Ph.DRAFT, 0, 20), (Ph.SCHEDULE, 0, 60))


def device_record(
    number: int,
    marks: tuple[tuple[int, int, int], ...] = ((Ph.DRAFT, 0, 0), (0, 0, 30)),
    *,
    placed: bool = True,
    lost: bool = False,
) -> DeviceRecord:
    """The device's times of a cycle, from 50 ns after its start on; an error of 9 ns."""
    return DeviceRecord(
        record=number,
        number=number,
        start_ns=1_000 * number + 50,
        error_ns=9,
        lost=lost,
        placed=placed,
        marks=marks,
    )


def test_device_phases_have_gaps_where_nothing_of_the_cycle_ran() -> None:
    """A mark ends the phase before it; one of the host begins a gap, the last one nothing."""
    marks = (
        (Ph.DRAFT, 0, 0),
        (Ph.DRAFT_STEP, 0, 10),
        (Ph.SCHEDULE, 0, 30),
        (Ph.VERIFY_FORWARD, 0, 40),
        (Ph.VERIFY_SAMPLE, 0, 70),
    )
    record = cycle_record(3, marks=ON_DEVICE, mode=TimingMode.DEVICE)
    phases = device_phases_of(device_record(3, marks), record, run_of("TP0"))
    start = 3_050 + AXIS_NS
    assert {phase.lane for phase in phases} == {Lane.DEVICE}
    assert [(phase.name, phase.start_ns - start, phase.end_ns - start) for phase in phases] == [
        (PhaseName.DRAFT, 0, 10),
        (PhaseName.DRAFT_STEP, 10, 30),
        (PhaseName.VERIFY_FORWARD, 40, 70),
    ]


def test_a_cycle_in_mode_device_waits_for_the_devices_times() -> None:
    """They come some cycles later and stand behind the host's phases, with their error."""
    assembler = Assembler(run_of("TP0"))
    record = cycle_record(3, marks=ON_DEVICE, mode=TimingMode.DEVICE)
    assert assembler.add("TP0", [record, *results(3)], 0) == []
    (cycle,) = assembler.add("TP0", [device_record(3)], 1)
    (rank,) = cycle.ranks
    assert [phase.lane for phase in rank.phases] == [Lane.HOST] * 3 + [Lane.DEVICE]
    assert (rank.clock_error_ns, rank.device_incomplete) == (9, False)


def test_a_cycle_whose_device_times_are_late_is_amended() -> None:
    """After 2 s it goes out without them and says so; when they come it is given again."""
    assembler = Assembler(run_of("TP0"))
    record = cycle_record(3, marks=ON_DEVICE, mode=TimingMode.DEVICE)
    assembler.add("TP0", [record, *results(3)], 0)
    (cycle,) = assembler.flush(PATIENCE_NS)
    assert cycle.ranks[0].device_incomplete
    assert cycle.ranks[0].clock_error_ns is None
    (amended,) = assembler.add("TP0", [device_record(3)], PATIENCE_NS + 1)
    assert not amended.ranks[0].device_incomplete


def test_a_cycle_without_work_on_the_device_waits_for_nothing() -> None:
    """Where no phase of the device was marked, it will not report."""
    assembler = Assembler(run_of("TP0"))
    record = cycle_record(3, mode=TimingMode.DEVICE)
    (cycle,) = assembler.add("TP0", [record, *results(3)], 0)
    assert not cycle.ranks[0].device_incomplete


@pytest.mark.parametrize(("placed", "lost"), [(False, False), (True, True)])
def test_device_times_that_are_not_whole_say_so(*, placed: bool, lost: bool) -> None:
    """Boundaries that were lost, and a clock that is not known yet: then nothing is shown."""
    assembler = Assembler(run_of("TP0"))
    record = cycle_record(3, marks=ON_DEVICE, mode=TimingMode.DEVICE)
    device = device_record(3, placed=placed, lost=lost)
    (cycle,) = assembler.add("TP0", [record, device, *results(3)], 0)
    (rank,) = cycle.ranks
    assert rank.device_incomplete
    assert any(phase.lane is Lane.DEVICE for phase in rank.phases) == placed


def test_what_was_asked_for_stands_there_only_if_it_was_not_taken() -> None:
    """`device` on a server without timing events is `host`, and says both."""
    run = run_of("TP0")
    fallen_back = msgspec.structs.replace(cycle_record(3), asked_mode=TimingMode.DEVICE)
    (cycle,) = Assembler(run).add("TP0", [fallen_back, *results(3)], 0)
    assert (cycle.ranks[0].mode, cycle.ranks[0].asked_mode) == (TimingMode.HOST, TimingMode.DEVICE)
    (cycle,) = Assembler(run).add("TP0", [cycle_record(3), *results(3)], 0)
    assert cycle.ranks[0].asked_mode is None


def test_phases_say_whether_they_ran_as_a_graph() -> None:
    """Draft and target each have their own graph; `schedule` has none."""
    marks = ((Ph.DRAFT, 0, 0), (Ph.VERIFY_FORWARD, 0, 20), (Ph.SCHEDULE, 0, 60))
    record = msgspec.structs.replace(cycle_record(9, marks=marks), graph=(True, False, None))
    phases = phases_of(record, run_of("TP0"))
    assert [phase.graph for phase in phases] == [True, False, None]


def test_a_cycle_carries_the_contexts_and_the_load_of_its_results() -> None:
    """They come with the rows; without rows they are not known."""
    assembler = Assembler(run_of("TP0"))
    rows = msgspec.structs.replace(
        rows_record(3, [row(5)]), context_tokens=(90, 60), queued=4, running=2
    )
    (cycle,) = assembler.add("TP0", [cycle_record(3), request(5, "abc"), rows], 0)
    assert (cycle.context_tokens_sum, cycle.context_tokens_max) == (90, 60)
    assert (cycle.queued, cycle.running) == (4, 2)


def skipped(cycles: int, first: int, last: int) -> SkippedRecord:
    """So many cycles of 10 ns, each of which verified once with 2 correct drafts."""
    return SkippedRecord(
        record=1,
        cycles=cycles,
        first=first,
        last=last,
        total_ns=10 * cycles,
        verifies=cycles,
        correct_drafts=2 * cycles,
        output_tokens=3 * cycles,
    )


def test_cycles_that_sampling_left_out_are_summed_and_not_missing() -> None:
    """Of 3 to 9 every third is whole; the four others count with their sums, of one rank."""
    assembler = Assembler(run_of("TP0", "TP1"))
    for name in ("TP0", "TP1"):
        records: list[Record] = [
            cycle_record(3),
            skipped(2, 4, 5),
            cycle_record(6),
            skipped(2, 7, 8),
            cycle_record(9),
        ]
        assembler.add(name, records, 0)
    assert assembler.missing == 0
    assert assembler.skipped == SkippedCycles(
        cycles=4, total_ns=40, verifies=4, correct_drafts=8, output_tokens=12
    )


@pytest.mark.parametrize("before", [0, 9])
def test_a_long_session_with_sampling_misses_nothing(before: int) -> None:
    """1,500 stretches of nine cycles, also where one began before the first whole cycle."""
    assembler = Assembler(run_of("TP0"))
    if before:
        assembler.add("TP0", [skipped(before, 1, before)], 0)
    for number in range(10, 15_010, 10):
        assembler.add("TP0", [cycle_record(number), skipped(9, number + 1, number + 9)], 0)
        assert assembler.missing == 0
    assert assembler.skipped.cycles == before + 1_500 * 9


def test_cycles_that_were_lost_between_sampled_ones_are_missing() -> None:
    """The sums of 4 and 5 were overwritten: nobody knows of them."""
    assembler = Assembler(run_of("TP0"))
    assembler.add("TP0", [cycle_record(3), cycle_record(6), skipped(2, 7, 8), cycle_record(9)], 0)
    assert assembler.missing == 2


NAMES = ("TP0", "TP1", "TP2")


@st.composite
def reports_of_ranks(draw: st.DrawFn) -> dict[str, list[Record]]:
    """What each of three ranks wrote: some cycles skipped, rows a cycle late, some rows lost."""
    reports: dict[str, list[Record]] = {}
    for name in NAMES:
        first = draw(st.integers(1, 3))
        skipped = draw(st.sets(st.integers(1, 12), max_size=3))
        lost_rows = draw(st.sets(st.integers(1, 12), max_size=3))
        records: list[Record] = [request(1, "abc")]
        for number in range(first, 13):
            if number not in skipped:
                records.append(cycle_record(number))
            if number > 1 and number - 1 not in lost_rows:
                records.append(rows_record(number - 1, [row(1, number % 4)]))
        reports[name] = records
    return reports


def final_cycles(
    reports: dict[str, list[Record]], order: Sequence[str]
) -> tuple[dict[int, Cycle], int]:
    """The last form of each cycle when records come one by one in this order of ranks."""
    assembler = Assembler(run_of(*NAMES))
    rest = {name: list(records) for name, records in reports.items()}
    cycles: list[Cycle] = []
    for name in order:
        cycles += assembler.add(name, rest[name][:1], 0)
        del rest[name][:1]
    for name in NAMES:
        cycles += assembler.add(name, rest[name], 0)
    cycles += assembler.flush(PATIENCE_NS)
    cycles += assembler.close()
    return {cycle.number: cycle for cycle in cycles}, assembler.missing


@settings(max_examples=200)
@given(
    reports=reports_of_ranks(),
    order=st.lists(st.sampled_from(NAMES), max_size=60),
)
def test_the_result_does_not_depend_on_how_ranks_interleave(
    reports: dict[str, list[Record]], order: list[str]
) -> None:
    """Any interleaving gives the same cycles and misses as one rank after the other."""
    assert final_cycles(reports, order) == final_cycles(reports, [])


@settings(max_examples=200)
@given(reports=reports_of_ranks())
def test_missing_is_what_sets_of_numbers_say(reports: dict[str, list[Record]]) -> None:
    """Missing are the numbers from the last first one on that some rank passed over."""
    seen = {
        name: {record.number for record in records if isinstance(record, CycleRecord)}
        for name, records in reports.items()
    }
    begin = max(min(numbers_seen) for numbers_seen in seen.values())
    expected = {
        number
        for numbers_seen in seen.values()
        for number in range(begin, max(numbers_seen))
        if number not in numbers_seen
    }
    assert final_cycles(reports, [])[1] == len(expected)
