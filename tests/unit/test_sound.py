"""What ends before it begins is left out, counted, and nothing else is touched."""

from __future__ import annotations

from msgspec.structs import replace

from spectrace.analysis.sound import sound
from spectrace.model import Cycle, Phase, RankCycle
from tests.helpers.recorded import cycle_of


def with_first_phase(cycle: Cycle, phase: Phase) -> Cycle:
    """The cycle with another first phase on its first rank."""
    rank = cycle.ranks[0]
    changed = replace(rank, phases=(phase, *rank.phases[1:]))
    return replace(cycle, ranks=(changed, *cycle.ranks[1:]))


def test_a_sound_cycle_is_given_back_itself() -> None:
    """No copy is made of what is right, a phase of no length included."""
    cycle = cycle_of(1, 2)
    first = cycle.ranks[0].phases[0]
    empty = with_first_phase(cycle, replace(first, end_ns=first.start_ns))
    for given in (cycle, empty):
        kept, left_out = sound(given)
        assert kept is given
        assert left_out == 0


def test_a_phase_that_ends_before_it_begins_is_left_out_and_its_rank_incomplete() -> None:
    """The other phases and ranks stay as they are."""
    cycle = cycle_of(1, 2)
    first = cycle.ranks[0].phases[0]
    kept, left_out = sound(with_first_phase(cycle, replace(first, end_ns=first.start_ns - 1)))
    assert kept is not None
    assert left_out == 1
    assert kept.ranks == (
        replace(cycle.ranks[0], phases=cycle.ranks[0].phases[1:], incomplete=True),
        cycle.ranks[1],
    )


def test_a_rank_that_ends_before_it_begins_is_left_out() -> None:
    """A cycle of which no rank is left is none; a time before 1970 counts as well."""

    def broken(rank: RankCycle) -> RankCycle:
        return replace(rank, start_ns=-1, phases=())

    cycle = cycle_of(1, 2)
    assert sound(replace(cycle, ranks=(broken(cycle.ranks[0]), cycle.ranks[1]))) == (
        replace(cycle, ranks=cycle.ranks[1:]),
        1,
    )
    assert sound(replace(cycle, ranks=tuple(map(broken, cycle.ranks)))) == (None, 2)
