"""Leaves out of a Cycle what ends before it begins, which no format can show."""

from __future__ import annotations

from msgspec.structs import replace

from spectrace.model import Cycle, Phase, RankCycle


def sound(cycle: Cycle) -> tuple[Cycle | None, int]:
    """The same cycle without phases and ranks that end before they begin, or begin before 1970.

    Times of our own never do; a file or a sender can say anything. A rank that has lost a phase
    is marked as incomplete.

    Returns:
        The cycle, None where no rank is left, and how many phases and ranks were left out.
    """
    ranks = tuple(_sound_rank(rank) for rank in cycle.ranks if _is_sound(rank))
    left_out = len(cycle.ranks) - sum(map(_is_sound, cycle.ranks))
    left_out += sum(not _is_sound(phase) for rank in cycle.ranks for phase in rank.phases)
    if not left_out:
        return cycle, 0
    return (replace(cycle, ranks=ranks) if ranks else None), left_out


def _is_sound(piece: RankCycle | Phase) -> bool:
    return 0 <= piece.start_ns <= piece.end_ns


def _sound_rank(rank: RankCycle) -> RankCycle:
    phases = tuple(phase for phase in rank.phases if _is_sound(phase))
    return (
        rank if len(phases) == len(rank.phases) else replace(rank, phases=phases, incomplete=True)
    )
