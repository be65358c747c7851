"""Of what phases are made: a look whose figures are known, per cycle and rank by rank."""

from __future__ import annotations

import pytest

from spectrace.analysis.made_of import MadeOf, made_of
from spectrace.kernels import KernelLook
from tests.helpers.known_look import CYCLES, DRAFT, VERIFY, look, of_nothing, times, work

pytestmark = pytest.mark.beside_others


def found(*looks: KernelLook) -> MadeOf:
    """What is found in looks that saw something."""
    seen = made_of(looks)
    assert seen is not None
    return seen


def test_a_phase_is_divided_by_class_per_cycle() -> None:
    """26.7 ms of kernels and 2 ms of nothing in the 28.7 ms of a verify."""
    main = found(look()).main
    assert main.phase == "verify.forward"
    assert (main.device_ms, main.gap_ms) == pytest.approx((28.7, 2.0))
    assert {part.kernel_class: part.time_ms for part in main.parts} == pytest.approx(VERIFY)
    assert [part.kernel_class for part in main.parts] == list(VERIFY)  # most time first
    assert sum(part.share for part in main.parts) == pytest.approx(1.0)
    assert main.communication == pytest.approx(3.4 / 26.7)
    assert main.beside_ms == pytest.approx(0.0, abs=1e-9)


def test_times_are_of_the_cycles_that_have_the_phase() -> None:
    """Four of ten cycles verify: 4 x 17.2 ms are 17.2 ms of each."""
    few = look(
        phases=(work("TP0", "verify.forward", 28.7, 2.0, cycles=4),),
        kernels=times("TP0", "verify.forward", {"matmul": 17.2 * 4 / CYCLES}),
    )
    [part] = found(few).main.parts
    assert part.time_ms == pytest.approx(17.2)


def test_kernels_of_other_streams_are_told_from_those_of_the_busiest() -> None:
    """40 ms of kernels in 26.7 ms in which one ran: 13.3 ms beside."""
    both = look(kernels=times("TP0", "verify.forward", {"matmul": 30.0, "communication": 10.0}))
    assert found(both).main.beside_ms == pytest.approx(40.0 - 26.7)


def test_communication_is_that_of_all_phases_and_of_nothing_else() -> None:
    """3.4 of 26.7 and 1.6 ms; what no phase launched does not count."""
    own = found(look()).of_rank
    assert own.communication == pytest.approx(3.4 / 28.3)
    assert own.communication_ms == pytest.approx(3.4)
    assert own.own_ms == pytest.approx(28.3 - 3.4)
    assert own.communication == pytest.approx(look().communication["TP0"])


def test_a_phase_of_one_replay_tells_how_much_longer_it_takes_watched() -> None:
    """28.7 ms against a replay of 26 ms; five replays, and none seen whole, tell nothing."""
    assert found(look()).main.stretched == pytest.approx(28.7 / 26.0)
    five = look(phases=(work("TP0", "verify.forward", 28.7, 2.0, replays=5.0, replay_ms=5.0),))
    assert found(five).main.stretched is None
    unseen = look(phases=(work("TP0", "verify.forward", 28.7, 2.0),))
    assert found(unseen).main.stretched is None


SLOW = {"TP0": VERIFY | {"communication": 7.0}, "TP1": VERIFY | {"matmul": 21.0}}


def test_the_rank_whose_own_kernels_take_longest_is_shown() -> None:
    """TP1 multiplies for 21 ms and not 17.2; TP0, which waits for it, communicates longer."""
    seen = found(look(SLOW))
    assert (seen.slowest, seen.rank) == ("TP1", "TP1")
    own_ms = sum(VERIFY.values()) - 3.4 + sum(DRAFT.values())
    assert {one.rank: one.own_ms for one in seen.ranks} == pytest.approx(
        {"TP0": own_ms, "TP1": own_ms + 3.8}
    )
    assert {one.rank: one.communication_ms for one in seen.ranks} == pytest.approx(
        {"TP0": 7.0, "TP1": 3.4}
    )
    assert seen.cost is not None
    assert seen.cost.rank == "TP1"


def test_ranks_that_take_about_as_long_are_told_by_the_first() -> None:
    """1 ms of 24.9 is 4 %: no rank is slower; waiting in communication makes none slower."""
    near = look({"TP0": VERIFY | {"communication": 9.0}, "TP1": VERIFY | {"matmul": 18.2}})
    seen = found(near)
    assert (seen.slowest, seen.rank) == (None, "TP0")


def test_the_newest_look_that_saw_something_is_told() -> None:
    """The third of four: the last one saw no kernel of any phase."""
    old, new = look(), look({"TP0": {"matmul": 5.0}}, start_ns=7)
    seen = found(old, old, new, of_nothing())
    assert seen.start_ns == 7
    assert seen.looks == 4


@pytest.mark.parametrize("looks", [(), (of_nothing(),), (look({}),)])
def test_without_kernels_of_phases_nothing_is_told(looks: tuple[KernelLook, ...]) -> None:
    """No look at all, or none that saw any."""
    assert made_of(looks) is None


def test_a_rank_of_which_no_phase_was_seen_is_left_out() -> None:
    """Its window came to no cycle; the other rank's figures stay."""
    one = look({"TP0": VERIFY})
    both = look({"TP0": VERIFY}, cycles_seen={"TP1": 0, "TP0": CYCLES})
    assert found(both) == found(one)


def test_without_verify_the_forward_or_else_the_longest_phase_is_told_first() -> None:
    """Plain decode has a forward; of a draft alone there is nothing else to tell."""
    forward = look(
        phases=(work("TP0", "draft", 40.0, 1.0), work("TP0", "forward", 20.0, 1.0)),
        kernels=(*times("TP0", "draft", DRAFT), *times("TP0", "forward", VERIFY)),
    )
    assert found(forward).main.phase == "forward"
    drafts = look(
        phases=(work("TP0", "draft_extend", 1.0, 0.1), work("TP0", "draft", 4.0, 1.0)),
        kernels=(*times("TP0", "draft", DRAFT), *times("TP0", "draft_extend", DRAFT)),
    )
    assert found(drafts).main.phase == "draft"
