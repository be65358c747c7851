"""The order of blocks: balanced, random, the same for the same seed."""

from __future__ import annotations

from collections import Counter
from itertools import islice, pairwise

import pytest

from spectrace.analysis.block_plan import Plan
from spectrace.model import TimingMode

ALL = tuple(TimingMode)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_each_mode_follows_each_other_once_in_every_second_round(count: int) -> None:
    """Of m modes a round has m (m - 1) turns, and every ordered pair of modes stands in it once."""
    modes = ALL[:count]
    for seed in range(20):
        plan = Plan(modes, seed)
        before = plan.lead_in
        turns = list(islice(plan.turns(), 6 * count * (count - 1)))
        for number in range(6):
            of_round = [turn.mode for turn in turns if turn.round == number]
            assert len(of_round) == plan.turns_per_round == count * (count - 1)
            pairs = Counter(pairwise([before, *of_round]))
            if number % 2 == 0:
                assert pairs == {(a, b): 1 for a in modes for b in modes if a is not b}
            else:  # the way back begins with the mode that the way there ended with
                assert pairs[before, before] == 1
                assert sum(pairs[a, b] for a in modes for b in modes if a is not b) == (
                    plan.turns_per_round - 1
                )
                assert max(pairs.values()) == 1
            before = of_round[-1]


@pytest.mark.parametrize("count", [2, 3, 4])
def test_no_mode_comes_later_than_another_over_two_rounds(count: int) -> None:
    """Whatever becomes longer from block to block by as much adds as much to all modes."""
    modes = ALL[:count]
    of_two_rounds = 2 * count * (count - 1)
    for seed in range(20):
        turns = list(islice(Plan(modes, seed).turns(), 3 * of_two_rounds))
        for start in range(0, len(turns), of_two_rounds):
            places = Counter[TimingMode]()
            for place, turn in enumerate(turns[start : start + of_two_rounds]):
                places[turn.mode] += place
            assert len(set(places.values())) == 1


def test_two_modes_go_one_other_other_one() -> None:
    """Neither is always the first; each two rounds begin with what did not end the last two."""
    plan = Plan(ALL[:2], 3)
    a = plan.lead_in
    (b,) = set(ALL[:2]) - {a}
    assert [turn.mode for turn in islice(plan.turns(), 8)] == [b, a, a, b, a, b, b, a]


def test_rounds_go_different_ways() -> None:
    """Nothing repeats with a period that something in the server could share."""
    turns = list(islice(Plan(ALL, 0).turns(), 120))
    rounds = {tuple(t.mode for t in turns if t.round == number) for number in range(10)}
    assert len(rounds) >= 8


def test_a_seed_gives_the_same_order_again() -> None:
    """A comparison can be repeated; another seed gives another order."""
    first, again, other = (list(islice(Plan(ALL, seed).turns(), 24)) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("modes", [(), ALL[:1], (ALL[0], ALL[0])])
def test_less_than_two_modes_are_no_comparison(modes: tuple[TimingMode, ...]) -> None:
    """Nothing can be compared with itself."""
    with pytest.raises(ValueError, match="two modes"):
        Plan(modes, 0)
