"""The statistics of the benchmark: blocks, like batch sizes, and intervals."""

from __future__ import annotations

import pytest

from spectrace.model import Cycle, TimingMode
from tests.helpers.anything import any_cycle, any_rank
from tests.helpers.bootstrap import interval
from tests.helpers.server_cost import BLOCK_CYCLES, Block, compare, pairs_of


def cycle(number: int, mode: TimingMode, *, batch_size: int = 4) -> Cycle:
    """A cycle of as many µs as its number says."""
    rank = any_rank(start_ns=0, end_ns=number * 1000, mode=mode)
    return any_cycle(number, rank, batch_size=batch_size)


def test_blocks_follow_the_cycle_number() -> None:
    """From the first switch on blocks take turns; a cycle in another mode is left out."""
    first = 100
    modes = [TimingMode.OFF, TimingMode.HOST] * 2
    cycles = [
        cycle(first + block * BLOCK_CYCLES + place, mode)
        for block, mode in enumerate(modes)
        for place in (0, BLOCK_CYCLES - 1)
    ]
    cycles.append(cycle(first + 1, TimingMode.HOST))
    cycles.append(cycle(first - 1, TimingMode.HOST))
    assert pairs_of(cycles, first, TimingMode.HOST) == [
        ({4: [100_000, 149_000]}, {4: [150_000, 199_000]}),
    ]


def test_only_like_batch_sizes_are_compared() -> None:
    """A batch size that one mode lacks counts nothing, and the others by their cycles."""
    pairs: list[tuple[Block, Block]] = [({1: [100], 4: [200, 200, 200]}, {4: [220], 2: [999]})]
    found = compare(pairs)
    assert found.throughput.value == pytest.approx(1 / 1.1)
    assert found.p99_of_all.value == pytest.approx(1.1)


def even(length: int, slow: int = 0) -> Block:
    """A block of batch size 4 in which so many cycles took twice as long."""
    return {4: [length] * (BLOCK_CYCLES - slow) + [2 * length] * slow}


def test_pairs_with_a_block_that_was_disturbed_are_not_in_the_p99() -> None:
    """Three slow cycles disturb one block of twenty, and its pair is left out."""
    pairs = [(even(100), even(101))] * 9 + [(even(100), even(101, slow=3))]
    found = compare(pairs)
    assert found.p99 is not None
    assert found.p99.value == pytest.approx(1.01)
    assert (found.calm_cycles, found.cycles) == (900, 1000)
    assert (found.disturbed, found.blocks) == ((0, 1), 10)


def test_a_tracer_that_slows_single_cycles_is_seen_in_the_p99() -> None:
    """Two slow cycles in each block of one mode disturb none: its p99 is twice the other's."""
    found = compare([(even(100), even(100, slow=2))] * 10)
    assert found.p99 is not None
    assert found.p99.value == pytest.approx(2.0)
    assert found.disturbed == (0, 0)


def test_without_enough_calm_pairs_there_is_no_p99() -> None:
    """Where more are disturbed than not, that of all is all there is."""
    found = compare([(even(100, slow=3), even(100))] * 10)
    assert found.p99 is None
    assert found.disturbed == (10, 0)


def test_like_blocks_leave_no_doubt() -> None:
    """Without scatter the interval is the figure itself."""
    found = interval([3.0, 3.0, 3.0], lambda some: sum(some) / len(some))
    assert (found.value, found.low, found.high, found.half_width) == (3.0, 3.0, 3.0, 0.0)


def test_the_interval_of_a_mean_is_that_of_its_standard_error() -> None:
    """Of 400 values with deviation 1 the mean has an error of 1/20, and 1.96 of these each way."""
    blocks = [1.0, -1.0] * 200
    found = interval(blocks, lambda some: sum(some) / len(some))
    assert found.half_width == pytest.approx(1.96 / 20, rel=0.1)
