"""Which cycles of a block count, for what, and how ledger and table put them together."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace

from spectrace.analysis.block_plan import Turn
from spectrace.analysis.sample_table import SampleTable
from spectrace.analysis.samples import WARM_UP_CYCLES, Block, Refusal, Sample, sample
from spectrace.attach.modes import Switch
from spectrace.cli.block_ledger import BlockLedger
from spectrace.model import Cycle, CycleKind, PhaseName, TimingMode
from tests.helpers.timed_server import cycle_of

DEVICE = Block(number=3, round=1, mode=TimingMode.DEVICE, first=100)


def changed(cycle: Cycle, **changes: object) -> Cycle:
    """The same cycle, of whose only rank something else is true."""
    return replace(cycle, ranks=(replace(cycle.ranks[0], **changes),))


def test_a_cycle_becomes_a_sample_of_both_lanes() -> None:
    """Times are in ms by top-level phase: 0.87 + 28.71 + 0.32 = 29.90 on the host."""
    found = sample(cycle_of(120, TimingMode.DEVICE), DEVICE)
    assert isinstance(found, Sample)
    assert (found.block, found.round, found.mode) == (3, 1, TimingMode.DEVICE)
    assert found.cycle_ms == pytest.approx(29.90)
    assert found.host == pytest.approx(
        {PhaseName.DRAFT: 0.87, PhaseName.VERIFY: 28.71, PhaseName.RESULT: 0.32}
    )
    assert found.device == pytest.approx({PhaseName.DRAFT: 2.18, PhaseName.VERIFY: 27.40})
    assert (found.tokens, found.correct_drafts, found.verifies) == (2, 1, 1)
    assert not found.runs_ahead


CYCLE = cycle_of(120, TimingMode.DEVICE)
REFUSED = [
    (cycle_of(100 + WARM_UP_CYCLES - 1, TimingMode.DEVICE), Refusal.WARM_UP),
    (cycle_of(120, TimingMode.HOST), Refusal.OTHER_MODE),
    (cycle_of(120, TimingMode.DEVICE, recorded=TimingMode.HOST), Refusal.OTHER_MODE),
    (changed(CYCLE, late_switch=True), Refusal.OTHER_MODE),
    (replace(CYCLE, ranks=CYCLE.ranks + cycle_of(120, TimingMode.OFF).ranks), Refusal.OTHER_MODE),
    (replace(CYCLE, kind=CycleKind.EXTEND), Refusal.OTHER_KIND),
    (changed(CYCLE, incomplete=True), Refusal.INCOMPLETE),
    (changed(CYCLE, ended_idle=True), Refusal.THEN_IDLE),
]  # fmt: skip


@pytest.mark.parametrize(("cycle", "reason"), REFUSED)
def test_what_does_not_belong_is_refused(cycle: Cycle, reason: Refusal) -> None:
    """Warm-up, another mode on any rank, prefill, what is cut off: each says why."""
    assert sample(cycle, DEVICE) is reason


def test_sync_counts_where_there_is_nothing_to_wait_for() -> None:
    """On the CPU sync is taken by the host's clock, and says so; elsewhere that is a mistake."""
    cycle = cycle_of(120, TimingMode.SYNC, recorded=TimingMode.HOST)
    block = replace(DEVICE, mode=TimingMode.SYNC)
    assert isinstance(sample(cycle, block, sync_is_host=True), Sample)
    assert sample(cycle, block) is Refusal.OTHER_MODE


def test_a_device_lane_with_holes_is_none() -> None:
    """The cycle counts by its host's times alone."""
    found = sample(changed(CYCLE, device_incomplete=True), DEVICE)
    assert isinstance(found, Sample)
    assert found.device is None


def test_a_cycle_that_works_on_an_earlier_one_runs_ahead() -> None:
    """As with the overlap scheduler, whose results are those of the cycle before."""
    *before, last = CYCLE.ranks[0].phases[:3]
    ahead = changed(CYCLE, phases=(*before, replace(last, of_cycle=119)))
    found = sample(ahead, DEVICE)
    assert isinstance(found, Sample)
    assert found.runs_ahead


def test_a_ledger_sorts_cycles_into_blocks() -> None:
    """From the cycle on that was told to the ranks; those before the first block are nobody's."""
    ledger = BlockLedger()
    ledger.begin(0, Turn(0, TimingMode.HOST), [Switch(("TP0",), 100, 50, 30.0)])
    ledger.begin(1, Turn(0, TimingMode.OFF), [Switch(("TP0",), 150, 101, 30.0)])
    ledger.add(cycle_of(n, TimingMode.HOST if n < 150 else TimingMode.OFF) for n in range(90, 190))
    assert ledger.counted() == {TimingMode.HOST: 40, TimingMode.OFF: 30}
    assert ledger.left_out() == {"warm_up": 20}
    assert {entry.block for entry in ledger.samples()} == {0, 1}
    assert ledger.samples(0) == []
    assert ledger.left_out(0) == {}


def test_a_ledger_counts_what_the_rounds_asked_for_left_out() -> None:
    """The round that was cut off has no part in it."""
    ledger = BlockLedger()
    ledger.begin(0, Turn(0, TimingMode.HOST), [Switch(("TP0",), 100, 50, 30.0)])
    ledger.begin(1, Turn(1, TimingMode.OFF), [Switch(("TP0",), 150, 101, 30.0)])
    ledger.add(cycle_of(n, TimingMode.HOST if n < 150 else TimingMode.OFF) for n in range(100, 155))
    assert ledger.left_out(1) == {"warm_up": 10}
    assert ledger.left_out() == {"warm_up": 15}


def test_a_block_that_a_group_never_came_to_is_passed_over() -> None:
    """It stood still at cycle 60, before the 200 that it had been told, and goes on from 110."""
    ledger = BlockLedger()
    ledger.begin(0, Turn(0, TimingMode.HOST), [Switch(("TP0",), 10, 5, 30.0)])
    ledger.begin(1, Turn(0, TimingMode.OFF), [Switch(("TP0",), 200, 55, 145.0)])
    ledger.begin(2, Turn(0, TimingMode.HOST), [Switch(("TP0",), 110, 60, 0.0)])
    ledger.add(cycle_of(n, TimingMode.HOST) for n in range(10, 210))
    assert ledger.left_out() == {"warm_up": 20}
    assert Counter(entry.block for entry in ledger.samples()) == {0: 90, 2: 90}


def test_an_amended_cycle_takes_the_place_of_the_one_before() -> None:
    """Its device times come later; it counts once."""
    ledger = BlockLedger()
    ledger.begin(0, Turn(0, TimingMode.DEVICE), [Switch(("TP0",), 100, 50, 30.0)])
    for cycle in (changed(CYCLE, phases=CYCLE.ranks[0].phases[:3]), CYCLE):
        ledger.add([cycle])
    (found,) = ledger.samples()
    assert found.device is not None


def test_a_ledger_knows_who_has_switched() -> None:
    """A group that is idle is not waited for."""
    ledger = BlockLedger()
    busy, idle = (Switch((rank,), 100, 50, 30.0) for rank in ("TP0", "DP1 TP0"))
    ledger.add([cycle_of(99, TimingMode.HOST)])
    assert (ledger.reached(busy), ledger.reached(idle)) == (False, True)
    ledger.add([cycle_of(100, TimingMode.HOST)])
    assert ledger.reached(busy)


def samples_of(mode: TimingMode, block: int, sizes: list[int]) -> list[Sample]:
    """One block with cycles of these batch sizes; a cycle takes 10 ms per request."""
    cycle = sample(cycle_of(120, mode), replace(DEVICE, mode=mode, number=block, round=0))
    assert isinstance(cycle, Sample)
    return [
        replace(cycle, cycle_ms=10.0 * size, like=replace(cycle.like, batch_size=size))
        for size in sizes
    ]


def test_modes_are_compared_over_the_same_mixture() -> None:
    """Half of off's cycles are of batch 2, a tenth of host's; both then have the same median."""
    samples = []
    for block in range(4):
        samples += samples_of(TimingMode.OFF, block, [1] * 25 + [2] * 25)
        samples += samples_of(TimingMode.HOST, 4 + block, [1] * 45 + [2] * 5)
    table = SampleTable(samples)
    cycle_ms = table.column(lambda one: one.cycle_ms)
    found = table.factor(TimingMode.HOST, TimingMode.OFF, cycle_ms, 0.95)
    assert found is not None
    assert found.value == pytest.approx(1.0)
    means = [
        table.ratio(mode, cycle_ms, table.column(lambda _: 1.0), 0.95)
        for mode in (TimingMode.OFF, TimingMode.HOST)
    ]
    # Of batch 2 are 100 of off's 200 cycles and 20 of host's: 120 of 400.
    expected = (280 * 10 + 120 * 20) / 400
    assert [mean.value for mean in means if mean] == pytest.approx([expected, expected])


def test_what_only_one_mode_has_is_left_out() -> None:
    """Cycles without any like them in the other mode cannot be compared."""
    samples = []
    for block in range(2):
        samples += samples_of(TimingMode.OFF, block, [1] * 10 + [8] * 10)
        samples += samples_of(TimingMode.HOST, 2 + block, [1] * 20)
    table = SampleTable(samples)
    assert {like.batch_size for like in table.likes} == {1}
    assert table.left == {Refusal.UNLIKE: 20}


def test_single_blocks_and_short_ones_do_not_count() -> None:
    """A mode with one block has nothing to tell its error from."""
    samples = [
        *samples_of(TimingMode.OFF, 0, [1] * 20),
        *samples_of(TimingMode.OFF, 1, [1] * 20),
        *samples_of(TimingMode.HOST, 2, [1] * 20),
        *samples_of(TimingMode.HOST, 3, [1] * 4),
    ]
    table = SampleTable(samples)
    assert table.modes == (TimingMode.OFF,)
    assert table.left == {Refusal.TOO_FEW: 24}


def test_what_a_rule_leaves_is_held_against_all_rules_again() -> None:
    """A block that is too short without its cycles of batch 8 does not count either.

    Then host has one block, and so has none; what is left of off is compared with nobody.
    """
    samples = [
        *samples_of(TimingMode.OFF, 0, [1] * 20),
        *samples_of(TimingMode.OFF, 1, [1] * 20),
        *samples_of(TimingMode.HOST, 2, [1] * 20),
        *samples_of(TimingMode.HOST, 3, [1] * 4 + [8] * 10),
    ]
    table = SampleTable(samples)
    assert table.modes == (TimingMode.OFF,)
    assert table.left == {Refusal.UNLIKE: 10, Refusal.TOO_FEW: 24}


def test_blocks_are_found_whatever_order_their_cycles_come_in() -> None:
    """Columns and blocks are those of sorted samples: the same figures, to the last digit."""
    samples = [
        one
        for block in range(4)
        for mode in (TimingMode.OFF, TimingMode.HOST)
        for one in samples_of(mode, 2 * block + (mode is TimingMode.HOST), [1, 2] * (10 + block))
    ]
    tables = SampleTable(samples), SampleTable(samples[::-1])
    found = [
        table.factor(TimingMode.HOST, TimingMode.OFF, table.column(lambda one: one.cycle_ms), 0.95)
        for table in tables
    ]
    assert found[0] == found[1]
    assert [table.blocks(TimingMode.HOST) for table in tables] == [4, 4]
