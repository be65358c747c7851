"""The summary's figures follow from the cycles by arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import count, pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrace.analysis.summary import (
    CycleTimes,
    Percentiles,
    RequestCounts,
    Tally,
    per_request,
    percentile,
    summarize,
)
from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    PhaseName,
    RankCycle,
    RequestRow,
    TimingMode,
)

MS = 1_000_000
NUMBERS = count(1)


def cycle_of(  # noqa: PLR0913 - a builder: each test names the few that it is about
    phases_ms: Sequence[tuple[str, float]] = (("verify.forward", 1),),
    *,
    kind: CycleKind = CycleKind.SPECULATIVE,
    rows: Sequence[RequestRow] | None = (),
    steps: int = 3,
    batch_size: int = 1,
    probe_us: int = 10,
    mode: TimingMode = TimingMode.HOST,
    incomplete: bool = False,
    lags: dict[str, int] | None = None,
    duration_ms: float | None = None,
) -> Cycle:
    """A cycle of one rank whose phases take so many ms, one after the other."""
    number = next(NUMBERS)
    ends = [0]
    for _, length_ms in phases_ms:
        ends.append(ends[-1] + int(length_ms * MS))
    phases = tuple(
        Phase(
            name=PhaseName(name),
            start_ns=start,
            end_ns=end,
            of_cycle=number - (lags or {}).get(name, 0),
        )
        for (name, _), (start, end) in zip(phases_ms, pairwise(ends), strict=True)
    )
    end_ns = ends[-1] if duration_ms is None else int(duration_ms * MS)
    rank = RankCycle(
        rank="TP0",
        start_ns=0,
        end_ns=end_ns,
        phases=phases,
        mode=mode,
        probe_ns=probe_us * 1000,
        incomplete=incomplete,
    )
    return Cycle(
        run_id="r",
        group="",
        number=number,
        kind=kind,
        batch_size=batch_size,
        steps=steps,
        topk=1 if steps else 0,
        draft_tokens=steps + 1 if steps else 0,
        ranks=(rank,),
        requests=None if rows is None else tuple(rows),
    )


def verified(correct_drafts: int, tokens: int | None = None, name: str = "a") -> RequestRow:
    """A row of a verify; the server counts the bonus token too, unless `tokens` says less."""
    return RequestRow(
        request_id=name,
        correct_drafts=correct_drafts,
        output_tokens=correct_drafts + 1 if tokens is None else tokens,
    )


def prefilled(name: str = "a") -> RequestRow:
    """A row of a prefill: one token, nothing verified."""
    return RequestRow(request_id=name, correct_drafts=None, output_tokens=1)


def speculative(cycles: Sequence[Cycle]) -> CycleTimes:
    """Times of the speculative cycles."""
    times = summarize(cycles, 1.0).speculative
    assert times is not None
    return times


def shares(times: CycleTimes) -> dict[str, float]:
    """Share by phase."""
    return {phase.name.value: phase.share for phase in times.phases}


def test_rates_refer_to_the_window() -> None:
    """Five cycles with 12 tokens in 4 s are 1.25 cycles/s and 3 tokens/s."""
    cycles = [cycle_of(rows=[verified(2)]) for _ in range(4)]
    cycles.append(cycle_of(kind=CycleKind.EXTEND, steps=0, rows=None))
    summary = summarize(cycles, 4.0)
    assert (summary.cycles, summary.cycles_per_s) == (5, 1.25)
    assert (summary.output_tokens, summary.tokens_per_s) == (12, 3.0)
    assert summary.cycles_by_kind == {"speculative": 4, "extend": 1}


def test_health_checks_are_in_no_figure_of_requests() -> None:
    """Their tokens, drafts and overshoot do not count."""
    probe = RequestRow(
        request_id="HEALTH_CHECK_1",
        correct_drafts=3,
        output_tokens=4,
        overshoot=True,
        health_check=True,
    )
    summary = summarize([cycle_of(rows=[probe, verified(1)])], 1.0)
    assert (summary.output_tokens, summary.verifies, summary.correct_drafts) == (2, 1, 1)
    assert summary.overshoot_rows == 0


def test_both_accept_lengths_follow_their_definitions() -> None:
    """Verifies 3, drafts 2 + 0 + 3, tokens 1 (prefill) + 3 + 1 + 2 (cut): 8/3 and 7/3."""
    cycles = [
        cycle_of(kind=CycleKind.EXTEND, steps=0, rows=[prefilled()]),
        cycle_of(rows=[verified(2)]),
        cycle_of(rows=[verified(0)]),
        cycle_of(rows=[verified(3, tokens=2)]),
    ]
    summary = summarize(cycles, 1.0)
    assert summary.accept_length == pytest.approx(8 / 3)
    assert summary.server_accept_length == pytest.approx(7 / 3)
    assert summary.correct_drafts_histogram == (1, 0, 1, 1)


def test_overshoot_rows_are_counted_apart() -> None:
    """A row that ran one too far is in no acceptance figure."""
    over = RequestRow(request_id="a", correct_drafts=3, output_tokens=0, overshoot=True)
    summary = summarize([cycle_of(rows=[verified(1), over])], 1.0)
    assert (summary.verifies, summary.accept_length, summary.overshoot_rows) == (1, 2.0, 1)
    assert summary.correct_drafts_histogram == (0, 1, 0, 0)


def test_without_verifies_there_is_no_accept_length() -> None:
    """It is None, neither 0 nor NaN, and so is everything that was not seen."""
    empty = summarize([], 1.0)
    plain = summarize([cycle_of(kind=CycleKind.DECODE, steps=0, rows=[prefilled()])], 1.0)
    for summary in (empty, plain):
        assert summary.accept_length is None
        assert summary.server_accept_length is None
        assert summary.speculative is None
    assert (empty.probe_median_us, empty.probe_share, empty.batch_size_median) == (None,) * 3
    assert empty.correct_drafts_histogram == ()


def test_phases_and_their_shares() -> None:
    """Cycles of 10 and 30 ms with verify 6 and 22: p50 14 ms, 28 of 40 ms are 70 %."""
    first = [("draft", 4), ("verify.prepare", 1), ("verify.forward", 5)]
    second = [("draft", 8), ("verify.prepare", 2), ("verify.forward", 20)]
    times = speculative([cycle_of(first), cycle_of(second)])
    assert times.time == Percentiles(p50_ms=20.0, p95_ms=29.0, p99_ms=29.8)
    assert [phase.name.value for phase in times.phases] == [
        "draft",
        "verify",
        "verify.prepare",
        "verify.forward",
    ]
    assert shares(times) == pytest.approx(
        {"draft": 0.3, "verify": 0.7, "verify.prepare": 3 / 40, "verify.forward": 25 / 40}
    )
    assert times.phases[1].time.p50_ms == pytest.approx(14.0)


def test_a_phase_that_occurs_twice_counts_with_its_sum() -> None:
    """Schedule for 1 and 2 ms in one cycle is 3 ms of it."""
    (verify, _, schedule) = speculative(
        [cycle_of([("schedule", 1), ("verify.forward", 3), ("schedule", 2)])]
    ).phases
    assert verify.name is PhaseName.VERIFY
    assert (schedule.name, schedule.time.p50_ms, schedule.share) == ("schedule", 3.0, 0.5)


def test_a_phase_that_is_not_in_every_cycle() -> None:
    """Percentiles are over the cycles that have it, the share over all."""
    cycles = [cycle_of([("draft", 5), ("verify", 5)]), cycle_of([("verify", 10)])]
    draft, verify = speculative(cycles).phases
    assert (draft.cycles, draft.time.p50_ms, draft.share) == (1, 5.0, 0.25)
    assert (verify.cycles, verify.share) == (2, 0.75)


def test_the_lag_of_a_phase_is_seen() -> None:
    """With the overlap scheduler `wait` belongs to the batch before."""
    (wait, *_) = speculative([cycle_of([("wait", 1)], lags={"wait": 1})]).phases
    (verify, *_) = speculative([cycle_of([("verify", 1)])]).phases
    assert (wait.max_lag, verify.max_lag) == (1, 0)


def test_incomplete_cycles_have_no_times() -> None:
    """They are counted, and their rows count, but neither their length nor their phases."""
    broken = cycle_of([("verify", 50)], incomplete=True, rows=[verified(1)])
    summary = summarize([broken, cycle_of([("verify", 2)], rows=[])], 1.0)
    assert summary.speculative is not None
    assert (summary.speculative.cycles, summary.speculative.incomplete) == (2, 1)
    assert summary.speculative.time == Percentiles(p50_ms=2.0, p95_ms=2.0, p99_ms=2.0)
    assert summary.verifies == 1


def test_with_incomplete_cycles_alone_there_are_no_times() -> None:
    """None is said, not 0."""
    times = speculative([cycle_of(incomplete=True)])
    assert (times.time, times.phases) == (None, ())


def test_cycles_without_phases_do_not_thin_the_shares() -> None:
    """After a stretch in mode off the shares are still those of the timed cycles."""
    off = cycle_of([], mode=TimingMode.OFF, duration_ms=100)
    summary = summarize([off, cycle_of([("draft", 1), ("verify", 3)])], 1.0)
    assert summary.speculative is not None
    assert shares(summary.speculative) == {"draft": 0.25, "verify": 0.75}
    assert summary.modes == (TimingMode.HOST, TimingMode.OFF)


def test_the_device_lane_is_not_added_to_the_host_lane() -> None:
    """A phase on the device is no time of the host."""
    cycle = cycle_of([("verify", 2)])
    rank = cycle.ranks[0]
    device = msgspec.structs.replace(rank.phases[0], lane=Lane.DEVICE)
    rank = msgspec.structs.replace(rank, phases=(*rank.phases, device))
    (verify,) = speculative([msgspec.structs.replace(cycle, ranks=(rank,))]).phases
    assert (verify.time.p50_ms, verify.share) == (2.0, 1.0)


def on_device(cycle: Cycle, *phases_ms: tuple[str, float], incomplete: bool = False) -> Cycle:
    """The cycle with a device lane too, which begins when the host has ended."""
    (rank,) = cycle.ranks
    start = rank.end_ns
    lane = []
    for name, length_ms in phases_ms:
        end = start + int(length_ms * MS)
        lane.append(
            Phase(
                name=PhaseName(name),
                start_ns=start,
                end_ns=end,
                of_cycle=cycle.number,
                lane=Lane.DEVICE,
            )
        )
        start = end
    phases = rank.phases + tuple(lane)
    rank = msgspec.structs.replace(rank, phases=phases, device_incomplete=incomplete)
    return msgspec.structs.replace(cycle, ranks=(rank,))


def test_device_phases_have_shares_of_the_cycles_time() -> None:
    """Draft 2 and verify 6 of 10 ms: for 2 of them the device ran no phase."""
    host = (("draft", 1), ("verify.forward", 9))
    device = (("draft", 2.0), ("verify.forward", 5.0), ("verify.sample", 1.0))
    cycles = [on_device(cycle_of(host), *device) for _ in range(3)]
    times = speculative(cycles)
    assert times.device_cycles == 3
    found = {phase.name.value: [phase.time.p50_ms, phase.share] for phase in times.device}
    assert found["draft"] == pytest.approx([2, 0.2])
    assert found["verify"] == pytest.approx([6, 0.6])
    assert found["verify.sample"] == pytest.approx([1, 0.1])
    assert {phase.name.value: phase.time.p50_ms for phase in times.phases}["verify"] == 9


def test_a_device_lane_with_holes_is_left_out() -> None:
    """So is a cycle without one; their times on the host count."""
    whole = on_device(cycle_of(duration_ms=10), ("verify.forward", 4.0))
    holes = on_device(cycle_of(duration_ms=20), ("verify.forward", 1.0), incomplete=True)
    times = speculative([whole, holes, cycle_of(duration_ms=20)])
    assert (times.cycles, times.device_cycles) == (3, 1)
    assert [phase.share for phase in times.device] == pytest.approx([0.4, 0.4])


def test_plain_decode_is_timed_apart() -> None:
    """It is the baseline of everything."""
    cycles = [cycle_of([("verify", 30)]), cycle_of([("forward", 11)], kind=CycleKind.DECODE)]
    decode = summarize(cycles, 1.0).decode
    assert decode is not None
    assert decode.time == Percentiles(p50_ms=11.0, p95_ms=11.0, p99_ms=11.0)


def test_what_the_probe_cost() -> None:
    """10, 20 and 60 µs in cycles of 1 ms: median 20 µs, 90 of 3000 µs are 3 %."""
    cycles = [cycle_of([("verify", 1)], probe_us=cost) for cost in (10, 60, 20)]
    summary = summarize(cycles, 1.0)
    assert summary.probe_median_us == 20.0
    assert summary.probe_share == pytest.approx(0.03)


def test_batch_sizes_and_settings_seen() -> None:
    """Adaptive speculation shows each number of steps once."""
    cycles = [
        cycle_of(steps=3, batch_size=4),
        cycle_of(steps=1, batch_size=2),
        cycle_of(steps=3, batch_size=8),
        cycle_of(kind=CycleKind.EXTEND, steps=0, batch_size=100),
    ]
    summary = summarize(cycles, 1.0)
    assert summary.batch_size_median == 4.0
    assert (summary.steps_seen, summary.topk_seen, summary.draft_tokens_seen) == (
        (1, 3),
        (1,),
        (2, 4),
    )


def test_a_window_without_length_has_no_rates() -> None:
    """Dividing by it is refused."""
    with pytest.raises(ValueError, match="no rates"):
        summarize([], 0.0)


def test_a_summary_is_json() -> None:
    """It goes through JSON and comes back the same."""
    summary = summarize([cycle_of(rows=[verified(1)])], 1.0)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=type(summary)) == summary


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([5.0], 99, 5.0),
        ([1.0, 2.0], 50, 1.5),
        ([1.0, 2.0, 3.0, 4.0], 25, 1.75),
        ([0.0, 10.0], 95, 9.5),
        ([1.0, 2.0, 3.0], 0, 1.0),
        ([1.0, 2.0, 3.0], 100, 3.0),
    ],
)
def test_percentiles_are_interpolated(values: list[float], percent: float, expected: float) -> None:
    """The value at place (n - 1) p / 100, between its neighbours in proportion."""
    assert percentile(values, percent) == pytest.approx(expected)


@given(
    values=st.lists(st.integers(0, 10**9), min_size=1),
    percents=st.tuples(st.floats(0, 100), st.floats(0, 100)),
)
def test_percentiles_rise_and_stay_among_the_values(
    values: list[int], percents: tuple[float, float]
) -> None:
    """A higher percentile is never lower, and none is beyond the values."""
    low, high = (percentile(sorted(values), percent) for percent in sorted(percents))
    assert min(values) <= low <= high + 1e-6
    assert high <= max(values)


@given(lengths=st.lists(st.lists(st.integers(1, 1000), min_size=3, max_size=3), min_size=1))
def test_shares_of_top_level_phases_add_up_to_one(lengths: list[list[int]]) -> None:
    """Phases fill the cycle, so that their shares fill it too."""
    names = ("draft", "verify.forward", "schedule")
    cycles = [
        cycle_of([(name, length / 1000) for name, length in zip(names, three, strict=True)])
        for three in lengths
    ]
    times = speculative(cycles)
    top = [phase.share for phase in times.phases if phase.name.parent is None]
    assert math.isclose(sum(top), 1.0, rel_tol=1e-9)


def test_a_long_session_keeps_its_percentiles_and_sums() -> None:
    """Over 200,000 cycles of 1 to 100 µs a sample still gives their percentiles."""
    tally = Tally()
    base = cycle_of([("verify", 1)], rows=[verified(1)])
    rank = base.ranks[0]
    ranks = [msgspec.structs.replace(rank, end_ns=length * 1000) for length in range(1, 101)]
    cycles = [msgspec.structs.replace(base, ranks=(rank,)) for rank in ranks]
    for _ in range(2000):
        for cycle in cycles:
            tally.add(cycle)
    summary = tally.summary(100.0)
    assert (summary.cycles, summary.verifies) == (200_000, 200_000)
    assert summary.speculative is not None
    assert summary.speculative.time is not None
    # Even steps of 1 µs: the median lies at 50.5 µs. The sample's standard error is 0.2 µs.
    assert summary.speculative.time.p50_ms == pytest.approx(0.0505, abs=0.001)
    assert summary.speculative.time.p99_ms == pytest.approx(0.099, abs=0.001)


def test_requests_are_counted_as_the_server_counts_them() -> None:
    """Cycles, correct drafts, histogram up to the most steps, and tokens with the prefill's."""
    over = RequestRow(request_id="b", correct_drafts=2, output_tokens=0, overshoot=True)
    health = RequestRow(
        request_id="HEALTH_CHECK", correct_drafts=1, output_tokens=2, health_check=True
    )
    cycles = [
        cycle_of(kind=CycleKind.EXTEND, steps=0, rows=[prefilled("a"), prefilled("b")]),
        cycle_of(steps=3, rows=[verified(2, name="a"), verified(0, name="b"), health]),
        cycle_of(steps=3, rows=[verified(2, name="a"), over]),
        cycle_of(steps=1, rows=[verified(0, name="a")]),
        cycle_of(rows=None),
    ]
    assert per_request(cycles) == {
        "a": RequestCounts(
            cycles=3, correct_drafts=4, histogram=(1, 0, 2, 0), output_tokens=1 + 3 + 3 + 1
        ),
        "b": RequestCounts(cycles=1, correct_drafts=0, histogram=(1, 0, 0, 0), output_tokens=1 + 1),
    }


def test_a_histogram_has_an_end() -> None:
    """What says that it had 2^31 draft steps costs no more than 4,097 places."""
    cycle = cycle_of(steps=(1 << 31) - 1, rows=[verified((1 << 31) - 1), verified(1)])
    places = summarize([cycle], 1.0).correct_drafts_histogram
    assert (len(places), places[1], places[4096], sum(places)) == (4097, 1, 1, 2)
