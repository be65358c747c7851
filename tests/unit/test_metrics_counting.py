"""Cycles are counted once each, in their last form, and add up to what they hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from spectrace.metrics import series, table
from spectrace.metrics.delta import since
from spectrace.metrics.meter import Facts, Meter, RunMetrics
from spectrace.metrics.series import Distribution, Series
from spectrace.metrics.settling import _REMEMBERED, Settling
from spectrace.metrics.table import TABLE, Form, Instrument
from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    PhaseName,
    RequestRow,
    SkippedCycles,
    TimingMode,
)
from tests.helpers.metered import Expected, Key, key
from tests.helpers.recorded import cycle_of, run_of

RUN = run_of(2)
MS = 1_000_000


class Clock:
    """Time that the test sets."""

    def __init__(self) -> None:
        self.s = 100.0

    def now_s(self) -> float:
        """Now, in s."""
        return self.s

    def unix_ns(self) -> int:
        """The same on the UNIX axis, in ns."""
        return round(self.s * 1e9)


def meter_at(clock: Clock) -> Meter:
    """A meter that knows the run."""
    meter = Meter(clock_s=clock.now_s, unix_ns=clock.unix_ns)
    meter.put_run(RUN)
    return meter


def read(meter: Meter) -> RunMetrics:
    """The only run."""
    [metrics] = meter.read().runs
    return metrics


def values_of(metrics: RunMetrics, form: Form) -> dict[Key, int | float | Distribution]:
    """All series of a form by name and attributes."""
    return {
        key(
            reading.instrument.name,
            **dict(zip(reading.instrument.attributes, point.values, strict=True)),
        ): point.value
        for reading in metrics.readings
        if reading.instrument.form is form
        for point in reading.points
    }


def sums_of(metrics: RunMetrics) -> dict[Key, int | float | Distribution]:
    """Counters."""
    return values_of(metrics, Form.COUNTER)


def value(metrics: RunMetrics, instrument: Instrument, *values: str) -> int | float | Distribution:
    """One series."""
    [reading] = (one for one in metrics.readings if one.instrument is instrument)
    return next(point.value for point in reading.points if point.values == values)


def count_all(cycles: Sequence[Cycle]) -> RunMetrics:
    """What a meter has after all is settled."""
    meter = meter_at(Clock())
    meter.add(cycles)
    meter.settle()
    return read(meter)


def assert_adds_up(metrics: RunMetrics, cycles: Sequence[Cycle]) -> None:
    """Every sum, and of every histogram the sum and each bucket, is that of the cycles."""
    expected = Expected(cycles)
    sums = sums_of(metrics)
    assert {one: sums[one] for one in expected.sums} == dict(expected.sums)
    histograms = values_of(metrics, Form.HISTOGRAM)
    assert set(histograms) == set(expected.values)
    instruments = {instrument.name: instrument for instrument in TABLE}
    for one, found in histograms.items():
        assert isinstance(found, Distribution)
        instrument = instruments[one[0]]
        values = expected.values[one]
        edges = [-1, *instrument.bounds, 1 << 63]
        assert abs(found.total - sum(values) / (1e9 if instrument.unit == "s" else 1)) < 1e-9
        assert list(found.counts) == [
            sum(below < value <= above for value in values)
            for below, above in itertools.pairwise(edges)
        ]


def test_both_lanes_of_all_ranks_add_up() -> None:
    """20 cycles of 3 ranks: every duration lies in its bucket, every token is counted."""
    cycles = [cycle_of(number, ranks=3) for number in range(20)]
    metrics = count_all(cycles)
    assert_adds_up(metrics, cycles)
    # By hand: rows with 2 and 3 of 5 drafts correct, 3 and 4 tokens, in each of 20 cycles.
    assert value(metrics, table.OUTPUT_TOKENS, "", "speculative") == 20 * 7
    length = value(metrics, table.ACCEPT_LENGTH, "")
    assert isinstance(length, Distribution)
    assert (length.count, length.total) == (40, 20 * (3 + 4))
    accepted = [value(metrics, table.DRAFTS_ACCEPTED, "", str(place)) for place in range(1, 6)]
    verified = [value(metrics, table.DRAFTS_VERIFIED, "", str(place)) for place in range(1, 6)]
    assert accepted == [40, 40, 20, 0, 0]
    assert verified == [40] * 5


ROWS = st.builds(
    RequestRow,
    request_id=st.sampled_from("abc"),
    correct_drafts=st.none() | st.integers(0, 4),
    output_tokens=st.integers(0, 9),
    overshoot=st.booleans(),
    health_check=st.booleans(),
)
LEAVES = st.sampled_from([PhaseName.DRAFT, PhaseName.VERIFY_FORWARD, PhaseName.SCHEDULE])


@st.composite
def some_cycles(draw: st.DrawFn) -> Cycle:
    """A cycle with phases and rows of any kind; its number is put later."""
    start_ns = draw(st.integers(0, 10**12))
    marks = sorted(draw(st.lists(st.integers(0, 2_000 * MS), min_size=2, max_size=6)))
    phases = [
        Phase(
            name=draw(LEAVES),
            start_ns=start_ns + begin,
            end_ns=start_ns + end,
            of_cycle=0,
            lane=draw(st.sampled_from(Lane)),
        )
        for begin, end in itertools.pairwise(marks)
    ]
    cycle = cycle_of(0, ranks=1)
    rank = replace(
        cycle.ranks[0],
        start_ns=start_ns,
        end_ns=start_ns + marks[-1],
        phases=tuple(phases),
        mode=draw(st.sampled_from(TimingMode)),
        probe_ns=draw(st.integers(0, 20 * MS)),
    )
    return replace(
        cycle,
        kind=draw(st.sampled_from(CycleKind)),
        group=draw(st.sampled_from(["", "DP1"])),
        steps=4,
        ranks=(rank,),
        batch_size=draw(st.integers(0, 1000)),
        requests=draw(st.none() | st.lists(ROWS, max_size=4).map(tuple)),
    )


@settings(max_examples=60)
@given(st.lists(some_cycles(), max_size=8))
def test_any_cycles_add_up(made: list[Cycle]) -> None:
    """Whatever they hold: values beyond all bounds, requests that do not count, no phases."""
    cycles = [replace(cycle, number=number) for number, cycle in enumerate(made)]
    assert_adds_up(count_all(cycles), cycles)


def test_a_value_on_a_bound_lies_within_it() -> None:
    """Buckets are closed above, as both Prometheus and OTLP have it."""
    counted = Series()
    for bound in table.PROBE_BOUNDS:
        counted.observe(table.PROBE_DURATION, ("", "TP0"), bound)
    [reading] = counted.read()
    found = reading.points[0].value
    assert isinstance(found, Distribution)
    assert found.counts == (*(1 for _ in table.PROBE_BOUNDS), 0)


def test_an_incomplete_rank_counts_in_no_time() -> None:
    """Of a lane in which boundaries are missing no time counts; of the other one it does."""
    whole, broken, dark = cycle_of(1, ranks=1), cycle_of(2, ranks=1), cycle_of(3, ranks=1)
    broken = replace(broken, ranks=(replace(broken.ranks[0], incomplete=True),))
    dark = replace(dark, ranks=(replace(dark.ranks[0], device_incomplete=True),))
    metrics = count_all([whole, broken, dark])

    assert value(metrics, table.CYCLES, "", "speculative") == 3
    lanes = [(lane, ("", "TP0", lane, "speculative", "device")) for lane in ("host", "device")]
    counts = {lane: value(metrics, table.CYCLE_DURATION, *values) for lane, values in lanes}
    assert {lane: one.count for lane, one in counts.items() if isinstance(one, Distribution)} == {
        "host": 2,
        "device": 1,
    }
    assert value(metrics, table.INCOMPLETE, "", "TP0", "host") == 1
    assert value(metrics, table.INCOMPLETE, "", "TP0", "device") == 1


def test_an_amended_cycle_counts_once_in_its_last_form() -> None:
    """It is counted 3 s after its first report, with what came within them."""
    clock = Clock()
    meter = meter_at(clock)
    bare = replace(cycle_of(7), requests=None)
    meter.add([bare])
    clock.s += 2.9
    meter.add([cycle_of(7)])
    assert table.CYCLES not in {reading.instrument for reading in read(meter).readings}

    clock.s += 0.2
    metrics = read(meter)
    assert value(metrics, table.CYCLES, "", "speculative") == 1
    assert value(metrics, table.OUTPUT_TOKENS, "", "speculative") == 7
    assert value(metrics, table.LATE) == 0


def test_what_comes_after_it_was_counted_changes_nothing_and_is_counted_itself() -> None:
    """A late form of a cycle, and a copy that a sender repeats."""
    clock = Clock()
    meter = meter_at(clock)
    meter.add([cycle_of(7), cycle_of(8)])
    clock.s += 4
    meter.add([])
    before = sums_of(read(meter))
    meter.add([cycle_of(7), cycle_of(8)])
    meter.settle()
    after = sums_of(read(meter))

    late = key("spectrace.late.reports")
    assert (before[late], after[late]) == (0, 2)
    assert {one: value for one, value in after.items() if one != late} == {
        one: value for one, value in before.items() if one != late
    }


def test_cycles_that_come_out_of_order_all_count() -> None:
    """What a sender sends late, but for the first time, is no copy."""
    clock = Clock()
    meter = meter_at(clock)
    for number in (5, 9, 1, 7):
        meter.add([cycle_of(number)])
        clock.s += 4
    assert value(read(meter), table.CYCLES, "", "speculative") == 4


def test_numbers_older_than_all_that_are_remembered_count_as_settled() -> None:
    """The memory has a bound; a cycle that may have been counted is not counted again."""
    settling = Settling(hold_s=0.0)
    for number in range(_REMEMBERED + 10):
        assert settling.put(cycle_of(number, ranks=0), 0.0)
    assert len(settling.take(0.0)) == _REMEMBERED + 10
    assert not settling.put(cycle_of(3, ranks=0), 0.0)
    assert not settling.put(cycle_of(_REMEMBERED, ranks=0), 0.0)
    assert settling.put(cycle_of(_REMEMBERED + 10, ranks=0), 0.0)


def test_what_waits_has_a_bound() -> None:
    """The oldest is counted before its time, and none is lost."""
    settling = Settling(hold_s=1e9, most=5)
    for number in range(9):
        settling.put(cycle_of(number, ranks=0), 0.0)
    assert [cycle.number for cycle in settling.take(0.0)] == [0, 1, 2, 3]
    assert [cycle.number for cycle in settling.take(float("inf"))] == [4, 5, 6, 7, 8]


def test_facts_become_counters_that_never_go_back() -> None:
    """A cycle that turns up after it was missed is not taken off again."""
    meter = meter_at(Clock())
    facts = Facts(
        tracing={"TP0": True, "TP1": False},
        lost_records={"TP0": 4, "TP1": 0},
        stall_ns={("TP0", "stop"): 1_500_000},
        missing_cycles=3,
        export_lost=2,
        skipped=SkippedCycles(
            cycles=9, total_ns=5_000_000, verifies=4, correct_drafts=6, output_tokens=10
        ),
    )
    meter.tell(RUN.run_id, facts)
    meter.tell(RUN.run_id, replace(facts, missing_cycles=1, tracing={"TP0": False, "TP1": False}))
    metrics = read(meter)

    assert value(metrics, table.MISSING_CYCLES) == 3
    assert value(metrics, table.EXPORT_LOST) == 2
    assert value(metrics, table.LOST_RECORDS, "TP0") == 4
    assert value(metrics, table.RANK_TRACING, "TP0") == 0
    assert value(metrics, table.ATTACH_STALL, "TP0", "stop") == 0.0015
    assert value(metrics, table.SKIPPED_TIME) == 0.005
    assert value(metrics, table.SKIPPED_TOKENS) == 10


def test_cycles_of_an_unknown_or_forgotten_run_are_left_alone() -> None:
    """Also those that still wait."""
    meter = meter_at(Clock())
    meter.add([cycle_of(1), replace(cycle_of(2), run_id="other")])
    meter.forget(RUN.run_id)
    meter.settle()
    assert meter.read().runs == ()


def test_positions_far_behind_share_the_last_series() -> None:
    """A sender cannot make series without a bound."""
    row = RequestRow(request_id="a", correct_drafts=70, output_tokens=71)
    metrics = count_all([replace(cycle_of(1), steps=70, requests=(row,))])
    last = str(table.MOST_POSITIONS)
    assert value(metrics, table.DRAFTS_VERIFIED, "", last) == 70 - table.MOST_POSITIONS + 1


def test_series_beyond_the_bound_overflow_into_one() -> None:
    """What is counted stays right in the sum."""
    counted = Series()
    for number in range(series.MOST_SERIES + 5):
        counted.add(table.LOST_RECORDS, (f"TP{number}",))
    [reading] = counted.read()
    assert len(reading.points) == series.MOST_SERIES + 1
    assert (reading.points[-1].values, reading.points[-1].value) == (("overflow",), 5)


def test_deltas_are_what_came_between() -> None:
    """Sums and buckets are taken off, gauges stay, and the time begins where the earlier ended."""
    clock = Clock()
    meter = meter_at(clock)
    meter.tell(RUN.run_id, Facts(tracing={"TP0": True}))
    first = [cycle_of(number, ranks=1) for number in range(3)]
    later = [cycle_of(number, ranks=1) for number in range(3, 8)]
    meter.add(first)
    meter.settle()
    before = meter.read()
    clock.s += 10
    meter.add(later)
    meter.settle()
    [metrics] = since(before, meter.read()).runs

    assert_adds_up(metrics, later)
    assert metrics.start_unix_ns == before.unix_ns == 100 * 10**9
    assert value(metrics, table.RANK_TRACING, "TP0") == 1


def test_a_run_that_came_back_is_no_delta() -> None:
    """Its counting began anew: nothing is taken off."""
    clock = Clock()
    meter = meter_at(clock)
    meter.add([cycle_of(number, ranks=1) for number in range(5)])
    meter.settle()
    before = meter.read()
    meter.forget(RUN.run_id)
    clock.s += 1
    meter.put_run(RUN)
    meter.add([cycle_of(9, ranks=1)])
    meter.settle()
    [metrics] = since(before, meter.read()).runs
    assert value(metrics, table.CYCLES, "", "speculative") == 1
