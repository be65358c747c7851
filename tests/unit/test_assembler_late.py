"""Ranks that a server gets later: cycles from before them are whole without them."""

from __future__ import annotations

from spectrace.collect.assembler import PATIENCE_NS, Assembler
from spectrace.model import Cycle, Rank
from tests.unit.test_assembler import cycle_record, idle, numbers, rank_names, results, run_of

LATE = Rank(name="TP1", pid=9)


def decoded(assembler: Assembler, rank: str, *numbers: int) -> list[Cycle]:
    """Gives these cycles with their results as one rank reports them."""
    cycles = []
    for number in numbers:
        cycles += assembler.add(rank, [cycle_record(number), *results(number)], number)
    return cycles


def test_from_its_first_cycle_on_a_late_rank_is_waited_for() -> None:
    """Cycle 3 goes out with both, and not before the late one has reported it."""
    assembler = Assembler(run_of("TP0"))
    assert numbers(decoded(assembler, "TP0", 1, 2)) == [1, 2]
    assembler.join(LATE)
    assert decoded(assembler, "TP1", 3) == []
    (cycle,) = decoded(assembler, "TP0", 3)
    assert rank_names(cycle) == ["TP0", "TP1"]
    assert decoded(assembler, "TP0", 4) == []
    assert numbers(decoded(assembler, "TP1", 4)) == [4]
    assert assembler.missing == 0


def test_until_it_reports_nobody_waits_for_it() -> None:
    """A rank that is attached to and has not decoded yet keeps no cycle back."""
    assembler = Assembler(run_of("TP0"))
    decoded(assembler, "TP0", 1)
    assembler.join(LATE)
    assert numbers(decoded(assembler, "TP0", 2, 3)) == [2, 3]
    assert assembler.missing == 0


def test_cycles_that_others_had_reported_when_it_came_are_whole_without_it() -> None:
    """It comes with cycle 2, of which the first has reported 2 and 3: it belongs from 4 on."""
    assembler = Assembler(run_of("TP0"))
    decoded(assembler, "TP0", 1)
    assembler.join(LATE)
    assembler.add("TP0", [cycle_record(2), cycle_record(3)], 3)
    decoded(assembler, "TP1", 2, 3)
    given = assembler.add("TP0", [*results(2), *results(3)], 3)
    assert [rank_names(cycle) for cycle in given] == [["TP0"], ["TP0"]]
    decoded(assembler, "TP1", 4)
    (fourth,) = decoded(assembler, "TP0", 4)
    assert rank_names(fourth) == ["TP0", "TP1"]
    assert assembler.missing == 0


def test_what_a_late_rank_skips_is_missing() -> None:
    """Of cycles 3 to 6 it reports 3 and 6: two are missing."""
    assembler = Assembler(run_of("TP0"))
    assembler.add("TP0", [idle(1), idle(2)], 2)
    assembler.join(LATE)
    assembler.add("TP1", [idle(3), idle(6)], 6)
    assembler.add("TP0", [idle(3), idle(4), idle(5), idle(6)], 6)
    assembler.flush(6 + 2 * PATIENCE_NS)
    assert assembler.missing == 2


def test_a_rank_that_comes_before_the_first_cycle_is_like_the_others() -> None:
    """The server had done nothing yet: both are waited for from the start."""
    assembler = Assembler(run_of("TP0"))
    assembler.join(LATE)
    assert decoded(assembler, "TP0", 1) == []
    (cycle,) = decoded(assembler, "TP1", 1)
    assert rank_names(cycle) == ["TP0", "TP1"]


def test_a_replica_that_comes_later_is_a_group_of_its_own() -> None:
    """Its cycles have their own numbers, and none of the others' is missing."""
    assembler = Assembler(run_of("DP0 TP0"))
    decoded(assembler, "DP0 TP0", 100)
    assembler.join(Rank(name="DP1 TP0", pid=9))
    (cycle,) = decoded(assembler, "DP1 TP0", 1)
    assert (cycle.group, cycle.number) == ("DP1", 1)
    assert assembler.missing == 0
