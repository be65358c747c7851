"""Gaps on the device: how long they are, and why they are there."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spectrace.analysis.bubbles import Bound, Bubbles, Cause, bound_by, bubbles
from spectrace.analysis.intervals import Estimate
from spectrace.cli.bubble_words import sentences
from spectrace.model import Cycle, Lane, PhaseName, TimingMode
from tests.helpers.measured_run import cycle_of, measures_of, rank_of, touching

CYCLES = 60


def run_of(made: list[Cycle]) -> Bubbles:
    """What is said of these cycles."""
    return bubbles(measures_of(made))


def late_host(number: int, error_ms: float = 0.001) -> Cycle:
    """A cycle of 10 ms whose host comes late to verify and to the next draft.

    The device drafts from 1.0 to 2.0. The host begins verify at 4.0, so that the device waits
    for 2.0 ms, in which the host prepares verify. The device verifies from 4.0 to 8.5; the host
    is with results and the scheduler until the next cycle begins its draft at 11.0.
    """
    at = 10.0 * number
    host = touching(at, resolve=1.0, draft=2.0, verify_prepare=1.0, verify_forward=4.5)
    host += touching(at + 8.5, result=1.0, schedule=0.5)
    device = touching(at + 1.0, draft=1.0) + touching(at + 4.0, verify_forward=4.5)
    return cycle_of(number, rank_of(number, host, device, clock_error_ms=error_ms))


def test_a_gap_is_the_hosts_until_the_host_begins_what_comes_next() -> None:
    """2.0 ms before verify and 2.5 ms before the next draft, of each 10 ms."""
    found = run_of([late_host(number) for number in range(CYCLES)])
    assert found.cycles == CYCLES - 1  # nobody knows what was before the first one
    assert found.idle_share is not None
    assert found.idle_share.value == pytest.approx(0.45)
    assert found.bound is Bound.HOST
    assert found.causes[Cause.LATE_LAUNCH].value == pytest.approx(0.2)
    assert found.causes[Cause.SCHEDULER].value == pytest.approx(0.25)
    assert found.causes[Cause.WAITING].value == 0
    longest, other = found.gaps
    assert (longest.before, longest.after) == (PhaseName.VERIFY_FORWARD, PhaseName.DRAFT)
    assert longest.between_cycles
    assert longest.length_ms.value == pytest.approx(2.5)
    assert not other.between_cycles
    assert other.length_ms.value == pytest.approx(2.0)


def waiting(number: int) -> Cycle:
    """A cycle of 10 ms whose device is kept for 1.5 ms by something else than the host.

    The host has launched verify by 1.5 when the draft on the device ends at 4.0; verify runs from
    5.5 to 10.5, right up to the next draft, and the host is far ahead of all that.
    """
    at = 10.0 * number
    host = touching(at, draft=1.0, verify_forward=0.5, wait=7.5, result=0.5, schedule=0.5)
    device = touching(at + 0.5, draft=3.5) + touching(at + 5.5, verify_forward=5.0)
    return cycle_of(number, rank_of(number, host, device))


def test_a_device_that_has_its_work_and_does_not_begin_waits_for_others() -> None:
    """The host was there 3 ms before: 1.5 of 10 ms are another stream's or rank's."""
    found = run_of([waiting(number) for number in range(CYCLES)])
    assert found.idle_share is not None
    assert found.idle_share.value == pytest.approx(0.15)
    assert found.causes[Cause.WAITING].value == pytest.approx(0.15)
    assert found.causes[Cause.LATE_LAUNCH].value == 0
    assert found.bound is Bound.OTHERS


def test_the_overlap_scheduler_hides_its_own_work_while_the_device_is_busy() -> None:
    """`result` and `schedule` run from 9.0 to 10.0, and the device is busy until 10.5."""
    found = run_of([waiting(number) for number in range(CYCLES)])
    assert found.hidden_share is not None
    assert found.hidden_share.value == pytest.approx(1.0)
    assert found.own_work_ms == pytest.approx(1.0)


def test_a_scheduler_that_the_device_waits_for_hides_nothing() -> None:
    """`result` and `schedule` begin when the device has ended."""
    found = run_of([late_host(number) for number in range(CYCLES)])
    assert found.hidden_share is not None
    assert found.hidden_share.value == pytest.approx(0.0)
    assert found.own_work_ms == pytest.approx(1.5)


def test_a_gap_that_is_smaller_than_the_clocks_error_is_not_claimed() -> None:
    """2.0 ms before verify with an error of 2.2; 2.5 between cycles, each with that error."""
    found = run_of([late_host(number, error_ms=2.2) for number in range(CYCLES)])
    assert found.gaps == ()
    assert found.idle_share is not None
    assert found.idle_share.value == 0
    assert found.too_small == 2 * (CYCLES - 1)
    assert found.too_small_share == pytest.approx(0.45)
    assert found.error_ms == pytest.approx(2.2)


def busy(number: int) -> Cycle:
    """A cycle whose device runs on without a hole: 10 ms from draft to draft."""
    at = 10.0 * number
    host = touching(at, draft=1.0, verify_forward=1.0, wait=8.0)
    return cycle_of(
        number, rank_of(number, host, touching(at + 0.5, draft=2.0, verify_forward=8.0))
    )


def test_a_device_without_gaps_sets_the_pace() -> None:
    """It is busy all the time, and the host waits for it."""
    found = run_of([busy(number) for number in range(CYCLES)])
    assert found.busy_share is not None
    assert found.busy_share.value == 1
    assert found.bound is Bound.DEVICE


def test_gaps_are_not_looked_for_where_cycles_are_missing() -> None:
    """Of five cycles the third is gone: the second and the fifth alone have one before them."""
    made = [late_host(number) for number in (0, 1, 3, 4)]
    assert bubbles(measures_of(made)).cycles == 2


def test_without_a_host_lane_nothing_is_said_of_the_causes() -> None:
    """As of a sender that reports the device alone: gaps are there, and unclear."""
    made = []
    for cycle in (late_host(number) for number in range(CYCLES)):
        [rank] = cycle.ranks
        device = tuple(phase for phase in rank.phases if phase.lane is Lane.DEVICE)
        made.append(replace(cycle, ranks=(replace(rank, phases=device),)))
    found = run_of(made)
    assert found.causes[Cause.UNCLEAR].value == pytest.approx(0.45)
    assert found.hidden_share is None


def test_without_a_device_lane_nothing_is_said() -> None:
    """A server that was timed by the host's clock: a sentence says what to do."""
    host = [
        cycle_of(
            number,
            rank_of(number, touching(10.0 * number, draft=10.0), mode=TimingMode.HOST),
        )
        for number in range(CYCLES)
    ]
    found = run_of(host)
    assert "--timing device" in found.problem
    assert found.idle_share is None


def test_what_sets_the_pace_is_left_open_where_the_intervals_are_wide() -> None:
    """An idle part of 1 to 9 % is neither below 5 % nor the host's for sure."""
    wide = Estimate(value=0.05, low=0.01, high=0.09)
    none = Estimate(value=0.0, low=0.0, high=0.0)
    assert bound_by(wide, wide, none) is Bound.OPEN


def graph_launched_late(number: int) -> Cycle:
    """A cycle of 10 ms of two graphs: the host launches draft until 0.2 and verify until 3.0.

    The device comes to draft at 0 and to verify at 1.0, and is done with it at 10.0.
    """
    at = 10.0 * number
    host = touching(at, draft=0.2, verify_forward=2.8, wait=7.0)
    device = touching(at, draft=1.0, verify_forward=9.0)
    return cycle_of(number, rank_of(number, host, device, graph=True))


def test_a_graph_cannot_run_before_its_launch_has_ended() -> None:
    """0.2 and 2.0 of 10 ms, at most, within phases: no gaps, and no proof that it was busy."""
    found = run_of([graph_launched_late(number) for number in range(CYCLES)])
    assert found.idle_share is not None
    assert found.idle_share.value == 0
    assert found.launch_share is not None
    assert found.launch_share.value == pytest.approx(0.22)
    assert found.bound is Bound.OPEN
    assert "up to 22 % (22\u201322) of the time" in " ".join(sentences(found))


def test_a_launch_that_lasts_as_long_as_the_graph_was_a_wait_for_it() -> None:
    """V1's verify, which blocks until the device has verified: the draft's 0.2 of 10 ms remain."""

    def blocking(number: int) -> Cycle:
        at = 10.0 * number
        host = touching(at, draft=0.2, verify_forward=9.8)
        device = touching(at, draft=1.0, verify_forward=9.0)
        return cycle_of(number, rank_of(number, host, device, graph=True))

    found = run_of([blocking(number) for number in range(CYCLES)])
    assert found.launch_share is not None
    assert found.launch_share.value == pytest.approx(0.02)
    assert found.bound is Bound.DEVICE


def test_the_words_say_who_sets_the_pace_and_why() -> None:
    """The late host, the device that waits, and what is not known."""
    late = " ".join(sentences(run_of([late_host(number) for number in range(CYCLES)])))
    assert late.startswith("The server is host-bound")
    assert "The device runs no phase in 45 % (45\u201345) of the time." in late
    assert "Between verify.forward and draft of the next cycle it stands still for 2.50 ms" in late
    assert "takes 1.50 ms of a cycle; in 0 % (0\u20130) of that the device is busy" in late
    kept = " ".join(sentences(run_of([waiting(number) for number in range(CYCLES)])))
    assert "another stream or rank kept the device" in kept
    small = " ".join(sentences(run_of([late_host(n, error_ms=2.2) for n in range(CYCLES)])))
    assert "118 gaps (45 % of the time) are no longer than the error" in small
