"""Ranks side by side: who comes late, who waits, and who is not to blame."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from spectrace.analysis.rank_skew import PhaseSkew, Skew, skew
from spectrace.cli.skew_words import sentences
from spectrace.model import Cycle, Lane, PhaseName, Rank
from tests.helpers.measured_run import RUN, cycle_of, measures_of, rank_of, touching

CYCLES = 100
RANKS = 8
STRAGGLER = 5


def straggling(number: int, late_ms: float, *, device: bool = False) -> Cycle:
    """A step of 150 ms: rank 5 drafts for longer, and verify ends on all ranks together.

    Drafting takes 10 ms and `late_ms` more on the straggler; verify is a collective that ends at
    140 ms everywhere, so that the others stand in it longer by as much.
    """
    at = 150.0 * number
    ranks = []
    for place in range(RANKS):
        draft = 10.0 + (late_ms if place == STRAGGLER else 0.0)
        lane = touching(at, draft=draft, verify=140.0 - draft, result=10.0)
        ranks.append(
            rank_of(
                number,
                lane,
                touching(at + 1.0, draft=draft, verify=140.0 - draft) if device else (),
                rank=f"TP{place}",
                clock_error_ms=0.5,
            )
        )
    return cycle_of(number, *ranks)


def f11(*, device: bool = False) -> Skew:
    """vllm#52777: 72 to 77 ms of skew in a step of 150 ms."""
    random = np.random.default_rng(11)
    late = random.uniform(72.0, 77.0, CYCLES)
    made = [straggling(number, float(late[number]), device=device) for number in range(CYCLES)]
    return skew(measures_of(made))


def phase_of(found: Skew, name: PhaseName, lane: Lane = Lane.HOST) -> PhaseSkew:
    """The figures of one phase."""
    return next(one for one in found.phases if (one.phase, one.lane) == (name, lane))


def test_the_straggler_is_blamed_and_not_the_ranks_that_wait_for_it() -> None:
    """Verify is 130 ms long on seven ranks and 55 on the one that all of them wait for."""
    found = f11()
    assert found.straggler == f"TP{STRAGGLER}"
    assert found.waits_in is PhaseName.VERIFY
    assert found.lost_in is PhaseName.DRAFT
    assert found.waited_ms is not None
    assert 72 < found.waited_ms.value < 77
    verify = phase_of(found, PhaseName.VERIFY)
    assert 72 < verify.start_spread_ms.value < 77
    assert verify.end_spread_ms.value == pytest.approx(0)
    assert verify.synchronises
    for rank in verify.ranks:
        slow = rank.rank == f"TP{STRAGGLER}"
        assert (rank.took_ms.value < 60) is slow
        assert (rank.late_ms.value > 72) is slow
        assert (rank.waited_ms.value > 72) is not slow


def test_a_rank_catches_up_where_the_others_wait_for_it() -> None:
    """In draft it loses 72 to 77 ms on the first rank, in verify it gains them back."""
    draft, verify = (
        next(rank for rank in phase_of(f11(), name).ranks if rank.rank == f"TP{STRAGGLER}")
        for name in (PhaseName.DRAFT, PhaseName.VERIFY)
    )
    assert 72 < draft.lost_ms.value < 77
    assert -77 < verify.lost_ms.value < -72
    assert draft.late_ms.value == pytest.approx(0)


def test_the_device_lanes_say_the_same_within_their_clocks_errors() -> None:
    """Each clock may be off by 0.5 ms, two of them by 1.0: 72 ms are more than that."""
    verify = phase_of(f11(device=True), PhaseName.VERIFY, Lane.DEVICE)
    assert verify.error_ms == pytest.approx(1.0)
    assert verify.straggler == f"TP{STRAGGLER}"


def test_what_the_clocks_may_be_off_by_is_no_skew() -> None:
    """0.8 ms on the device with an error of 1.0; the host's clock is the same for all ranks."""
    made = [straggling(number, 0.8, device=True) for number in range(CYCLES)]
    found = skew(measures_of(made))
    assert phase_of(found, PhaseName.VERIFY, Lane.DEVICE).straggler is None
    assert phase_of(found, PhaseName.VERIFY).straggler == f"TP{STRAGGLER}"


def test_ranks_that_are_late_by_turns_have_no_straggler() -> None:
    """Each is late in every eighth cycle: no score is above the others."""
    made = []
    for number in range(CYCLES):
        cycle = straggling(number, 20.0)
        turned = [cycle.ranks[(place + number) % RANKS] for place in range(RANKS)]
        made.append(
            replace(
                cycle,
                ranks=tuple(replace(rank, rank=f"TP{place}") for place, rank in enumerate(turned)),
            )
        )
    found = skew(measures_of(made))
    assert found.straggler is None
    assert phase_of(found, PhaseName.VERIFY).start_spread_ms.value == pytest.approx(20.0)


def test_ranks_of_other_machines_are_left_out_since_nothing_is_known_of_their_clocks() -> None:
    """Four ranks of each of two machines: those of the first one's are compared, the rest named."""
    made = [straggling(number, 75.0) for number in range(CYCLES)]
    ranks = tuple(
        Rank(name=f"TP{place}", pid=place + 1, host="" if place < 4 else "two")
        for place in range(RANKS)
    )
    found = skew(measures_of(made, run=replace(RUN, ranks=ranks)))
    assert found.left_out_ranks == ("TP4", "TP5", "TP6", "TP7")
    assert found.straggler is None
    assert len(phase_of(found, PhaseName.VERIFY).ranks) == 4
    assert "TP4, TP5, TP6 and TP7 run on other machines" in " ".join(sentences(found))


def test_cycles_that_lack_a_rank_do_not_count() -> None:
    """Of 100 cycles 40 lack the straggler: 60 are compared, and it is found all the same."""
    made = [straggling(number, 75.0) for number in range(CYCLES)]
    made = [
        replace(cycle, ranks=tuple(r for r in cycle.ranks if r.rank != f"TP{STRAGGLER}"))
        if cycle.number % 5 < 2
        else cycle
        for cycle in made
    ]
    found = skew(measures_of(made))
    assert phase_of(found, PhaseName.VERIFY).cycles == 60
    assert found.straggler == f"TP{STRAGGLER}"


def test_one_rank_cannot_be_late() -> None:
    """That is said."""
    made = [
        cycle_of(number, rank_of(number, touching(10.0 * number, draft=10.0)))
        for number in range(CYCLES)
    ]
    assert "one rank" in skew(measures_of(made)).problem


def test_too_few_cycles_say_nothing() -> None:
    """19 are fewer than 20."""
    made = [straggling(number, 75.0) for number in range(19)]
    assert "Fewer than 20 cycles" in skew(measures_of(made)).problem


def test_the_words_blame_the_straggler_and_say_where_it_lost_its_time() -> None:
    """And no rank where all are late by turns or there is one alone."""
    words = " ".join(sentences(f11()))
    assert words.startswith("TP5 comes to verify 7")
    assert "is no work and no communication of theirs" in words
    assert words.endswith("It falls behind in draft.")
    even = skew(measures_of([straggling(number, 0.0) for number in range(CYCLES)]))
    assert "No rank is clearly later" in " ".join(sentences(even))
