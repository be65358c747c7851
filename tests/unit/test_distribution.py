"""How times are spread: percentiles, bars, gaps, causes and acceptance, against arithmetic."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrace.analysis.distribution import (
    CYCLE,
    GAP,
    MOST_BARS,
    Bar,
    Distribution,
    PhaseSpread,
    Spread,
    cycles_of_bar,
    distribution,
)
from spectrace.analysis.summary import percentile
from spectrace.chosen import Chosen, Seen, Times
from spectrace.measures import NONE
from spectrace.model import Lane, PhaseName
from tests.helpers.picked import choice, cycle, rank
from tests.helpers.stored import open_store
from tests.unit.test_choosing import filled

DRAFT, VERIFY = PhaseName.DRAFT, PhaseName.VERIFY_FORWARD
Took = list[int]


def chosen_of(took_ns: Took) -> Chosen:
    """Cycles of which only the times are known."""
    count = len(took_ns)
    none = np.full(count, NONE)
    cycles = {
        "number": np.arange(100, 100 + count),
        "start_ns": np.arange(count) * 1000,
        "took_ns": np.array(took_ns, dtype=np.int64),
        "batch": np.ones(count, dtype=np.int64),
        "steps": np.full(count, 5),
        **dict.fromkeys(("first_ns", "last_ns", "error_ns"), none),
    }
    rows = ("steps", "topk", "draft_tokens", "block", "correct", "delivered", "rows")
    return Chosen(
        choice=choice(),
        seen=Seen(kinds={}, modes={}, batches={}, steps={}, ranks=()),
        stored=count,
        looked_at=count,
        whole=True,
        warm_up=0,
        untimed=0,
        cycles=cycles,
        parts={},
        rows={name: np.zeros(0, dtype=np.int64) for name in rows},
    )


def only(found: Distribution, name: str) -> tuple[PhaseSpread, dict[Lane, Spread]]:
    """A phase and its lanes."""
    (phase,) = (one for one in found.phases if one.name == name)
    return phase, {lane.lane: lane for lane in phase.lanes}


def test_percentiles_of_a_thousand_cycles() -> None:
    """Of 10, 20 … 10,000 ns the median is 5,005, and what is far out is counted at the edge."""
    phase, lanes = only(distribution(chosen_of(list(range(10, 10_001, 10)))), CYCLE)
    lane = lanes[Lane.HOST]
    assert (lane.p50_ns, lane.p95_ns, lane.p99_ns) == pytest.approx((5005, 9500.5, 9900.1))
    assert (lane.least_ns, lane.most_ns, lane.cycles) == (10, 10_000, 1000)
    # 99.6 % of 999 is 995.004, and the next place holds 9,970: 9,961 ns in 2 √1000 = 64 bars.
    assert (phase.low_ns, phase.step_ns, len(lane.bars)) == (10, math.ceil(9961 / 64), 64)
    assert (lane.below, sum(lane.bars), lane.beyond) == (0, 999, 1)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=300))
def test_every_cycle_is_in_a_bar_or_at_an_edge(took_ns: Took) -> None:
    """However they are spread, no cycle is lost, and the axis has as many bars as it says."""
    phase, lanes = only(distribution(chosen_of(took_ns)), CYCLE)
    lane = lanes[Lane.HOST]
    assert lane.below + sum(lane.bars) + lane.beyond == len(took_ns)
    assert 1 <= len(lane.bars) <= MOST_BARS
    for percent, value in ((50, lane.p50_ns), (95, lane.p95_ns), (99, lane.p99_ns)):
        assert value == pytest.approx(percentile(sorted(took_ns), percent))
    for place, count in enumerate(lane.bars):
        low = phase.low_ns + place * phase.step_ns
        assert count == sum(low <= one < low + phase.step_ns for one in took_ns)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=100))
def test_a_bar_leads_to_its_cycles(took_ns: Took) -> None:
    """Each bar and both edges give the cycles that were counted, the newest first."""
    chosen = chosen_of(took_ns)
    phase, lanes = only(distribution(chosen), CYCLE)
    lane = lanes[Lane.HOST]
    edges = [phase.low_ns + place * phase.step_ns for place in range(len(lane.bars) + 1)]
    limits = [(None, edges[0]), *pairwise(edges), (edges[-1], None)]
    for (low, high), count in zip(limits, (lane.below, *lane.bars, lane.beyond), strict=True):
        bar = Bar(name=CYCLE, lane=Lane.HOST, from_ns=low, to_ns=high)
        total, cycles = cycles_of_bar(chosen, bar, None, 1000)
        assert total == len(cycles) == count
        numbers = [one.number for one in cycles]
        assert numbers == sorted(numbers, reverse=True)
        assert all(took_ns[one.number - 100] == one.took_ns == one.value_ns for one in cycles)


def test_the_cycles_of_a_bar_come_in_pages() -> None:
    """Before a number, as many as were asked for; the total stays."""
    chosen = chosen_of([5] * 10)
    bar = Bar(name=CYCLE, lane=Lane.HOST)
    total, cycles = cycles_of_bar(chosen, bar, 105, 2)
    assert (total, [one.number for one in cycles]) == (10, [104, 103])
    assert cycles_of_bar(chosen, Bar(name="nothing", lane=Lane.HOST), None, 5) == (0, ())


def test_gaps_are_what_the_device_did_not_fill(tmp_path: Path) -> None:
    """From its last phase of the cycle before to its last of this one, less its phases."""
    host = [(DRAFT, 10_000_000), (VERIFY, 20_000_000)]
    device = [(DRAFT, 4_000_000), (VERIFY, 16_000_000)]  # 20 of the 100 ms between two starts
    with open_store(tmp_path) as store:
        filled(
            store,
            *(cycle(number, rank(number, host, device)) for number in (20, 21, 22, 30)),
            cycle(31, rank(31, host)),  # of which the device is not known
            cycle(32, rank(32, host, device)),
        )
        found = distribution(store.chosen(choice()))
    _, lanes = only(found, GAP)
    assert lanes[Lane.DEVICE].cycles == 2  # 21 and 22: of the others the one before is not known
    assert lanes[Lane.DEVICE].p50_ns == 80_000_000
    _, lanes = only(found, "verify.forward")
    assert (lanes[Lane.DEVICE].cycles, lanes[Lane.HOST].cycles) == (5, 6)
    assert (lanes[Lane.DEVICE].p50_ns, lanes[Lane.HOST].p50_ns) == (16_000_000, 20_000_000)
    assert [one.name for one in found.phases] == [CYCLE, "draft", "verify", "verify.forward", GAP]


def test_a_gap_within_the_error_of_the_clock_is_none(tmp_path: Path) -> None:
    """What lies between two cycles and is shorter than both errors together does not count."""
    device = [(VERIFY, 99_000_000)]  # 1 ms of 100 is free
    with open_store(tmp_path) as store:
        filled(
            store,
            *(
                cycle(number, rank(number, [(VERIFY, 99)], device, clock_error_ns=error_ns))
                for number, error_ns in ((20, 500_000), (21, 500_000), (22, 499_999))
            ),
        )
        chosen = store.chosen(choice())
    bar = Bar(name=GAP, lane=Lane.DEVICE)
    _, cycles = cycles_of_bar(chosen, bar, None, 10)
    assert {one.number: one.value_ns for one in cycles} == {21: 0, 22: 1_000_000}


def test_the_slowest_cycles_have_their_cause(tmp_path: Path) -> None:
    """The part with at least half of what is more than usual; the device is asked first."""
    usual = [(DRAFT, 1_000), (VERIFY, 9_000)]
    with open_store(tmp_path) as store:
        filled(
            store,
            *(cycle(number, rank(number, usual, [(VERIFY, 8_000)])) for number in range(20, 40)),
            cycle(50, rank(50, [(DRAFT, 6_000), (VERIFY, 9_000)], [(VERIFY, 8_000)])),
            cycle(60, rank(60, [(DRAFT, 1_000), (VERIFY, 19_000)], [(VERIFY, 18_000)])),
        )
        slowest = distribution(store.chosen(choice())).slowest
    first, second, third = slowest[:3]
    assert [one.number for one in slowest] == [60, 50, *range(39, 31, -1)]
    assert first.cause is not None
    assert second.cause is not None
    assert (first.cause.name, first.cause.lane) == ("verify.forward", Lane.DEVICE)
    assert (first.cause.took_ns, first.cause.usual_ns, first.took_ns) == (18_000, 8_000, 20_000)
    assert (second.cause.name, second.cause.lane) == ("draft", Lane.HOST)
    assert third.cause is None  # it took as long as usual


def test_acceptance_is_that_of_the_picked_cycles(tmp_path: Path) -> None:
    """Of ten verifies at batch 1 position by position; those of batch 2 are not among them."""
    correct = (0, 0, 0, 0, 1, 1, 2, 2, 2, 3)
    with open_store(tmp_path) as store:
        filled(
            store,
            *(
                cycle(20 + place, rank(20 + place, [(VERIFY, 5)]), correct=[count])
                for place, count in enumerate(correct)
            ),
            cycle(40, rank(40, [(VERIFY, 5)]), correct=[5, 5], batch_size=2),
        )
        (found,) = distribution(store.chosen(choice(batch=1))).acceptance
        (both,) = distribution(store.chosen(choice())).acceptance
    assert (found.verifies, found.histogram) == (10, (4, 2, 3, 1, 0, 0))
    assert found.accept_length.value == pytest.approx(2.1)
    assert [(one.reached, one.accepted) for one in found.positions] == [
        (10, 6),
        (6, 4),
        (4, 1),
        (1, 0),
    ]
    assert (both.verifies, both.histogram) == (12, (4, 2, 3, 1, 0, 2))


def test_times_by_steps_and_batch_size() -> None:
    """Steps first; of too many sizes those with the fewest cycles are left out."""
    chosen = chosen_of([*range(100, 200), 900, 800, 700])
    chosen.cycles["steps"][100:] = [2, 2, 5]
    chosen.cycles["batch"][100:] = [4, 4, 8]
    found = distribution(chosen).alike
    assert [(one.steps, one.batch, one.cycles) for one in found] == [
        (2, 4, 2),
        (5, 1, 100),
        (5, 8, 1),
    ]
    assert (found[0].p50_ns, found[1].p50_ns, found[2].p99_ns) == (850, 149.5, 700)
    chosen = chosen_of([5] * 60)
    chosen.cycles["batch"][:] = [*range(1, 51), *range(41, 51)]
    sizes = [(one.batch, one.cycles) for one in distribution(chosen).alike]
    assert sizes == [
        *((batch, 1) for batch in range(1, 31)),
        *((batch, 2) for batch in range(41, 51)),
    ]


def test_nothing_has_no_distribution() -> None:
    """Without cycles there are no phases, no slowest ones and no acceptance."""
    assert distribution(chosen_of([])) == Distribution(
        cycles=0, alike=(), phases=(), slowest=(), acceptance=()
    )


def test_two_lanes_share_an_axis() -> None:
    """It reaches from the shortest on either lane to the longest, in whole ns."""
    chosen = chosen_of([100] * 4)
    at = np.arange(4)
    chosen.parts[Lane.HOST, VERIFY] = Times(at, np.array([1, 1, 1, 1]))
    chosen.parts[Lane.DEVICE, VERIFY] = Times(at, np.array([16, 16, 16, 16]))
    phase, lanes = only(distribution(chosen), "verify.forward")
    # Eight bars, and twice as many since each lane takes a single ns of the sixteen.
    assert (phase.low_ns, phase.step_ns) == (1, 1)
    assert lanes[Lane.HOST].bars == (4, *[0] * 15)
    assert lanes[Lane.DEVICE].bars == (*[0] * 15, 4)
