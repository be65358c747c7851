"""Puts the turns of several ranks together into Cycles."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from spectrace.collect.assembler import group_of
from spectrace.importing.device import DevicePhase
from spectrace.importing.faults import Fault, Faults
from spectrace.importing.turns import Turn
from spectrace.model import Cycle, CycleKind, Lane, Phase, RankCycle, TimingMode


class RankTurns(NamedTuple):
    """What one rank did.

    Attributes:
        rank: Its name.
        turns: In order.
        lanes: For each turn the device's phases.
    """

    rank: str
    turns: list[Turn]
    lanes: list[list[DevicePhase]]


def cycles_of(run_id: str, ranks: Sequence[RankTurns], faults: Faults) -> list[Cycle]:
    """The Cycles of a run, group by group, in the order of their begins.

    A trace of the profiler numbers no cycle: those of the first rank of a group are counted from
    1, and the others' turns belong to the cycle with which they share most of their time, which
    must be alike in kind and batch size. Turns that carry a number are joined by it, unless a rank
    has one twice: spectrace was attached anew while the trace was written.

    Args:
        run_id: Of the run.
        ranks: Each once.
        faults: Where it is counted which turns fit no cycle.
    """
    groups: dict[str, list[RankTurns]] = {}
    for rank in sorted(ranks, key=lambda rank: _order(rank.rank)):
        groups.setdefault(group_of(rank.rank), []).append(rank)
    cycles = []
    for group, members in groups.items():
        together = _together(members, faults)
        cycles += [_cycle(run_id, group, number, shares) for number, shares in _numbered(together)]
    return cycles


_Share = tuple[RankTurns, int]  # a rank, and the place of one of its turns


def _order(rank: str) -> tuple[tuple[str, int], ...]:
    parts = (part.rstrip("0123456789") for part in rank.split())
    return tuple(
        (kind, int(part[len(kind) :] or 0)) for kind, part in zip(parts, rank.split(), strict=True)
    )


def _together(members: Sequence[RankTurns], faults: Faults) -> list[list[_Share]]:
    """For each cycle the shares of its ranks, in the order of begins."""
    first = members[0]
    cycles: list[list[_Share]] = [[(first, place)] for place in range(len(first.turns))]
    begins = [turn.start_ns for turn in first.turns]
    by_number = {turn.number: place for place, turn in enumerate(first.turns)}
    numbered = all(_are_unique([turn.number for turn in member.turns]) for member in members)
    alone: list[list[_Share]] = []
    for member in members[1:]:
        taken: set[int] = set()
        for place, turn in enumerate(member.turns):
            fit = (
                by_number.get(turn.number)
                if numbered and turn.number is not None
                else _nearest(turn, first.turns, begins)
            )
            if fit is None or fit in taken or not _alike(turn, first.turns[fit]):
                alone.append([(member, place)])
            else:
                taken.add(fit)
                cycles[fit].append((member, place))
    faults.add(Fault.UNMATCHED, len(alone))
    return sorted(cycles + alone, key=lambda shares: _turn(shares[0]).start_ns)


def _turn(share: _Share) -> Turn:
    rank, place = share
    return rank.turns[place]


def _nearest(turn: Turn, others: Sequence[Turn], begins: Sequence[int]) -> int | None:
    """The place of the turn with which one shares most of its time; None if with none."""
    after = bisect_right(begins, turn.end_ns)
    before = max(bisect_right(begins, turn.start_ns) - 1, 0)
    shared = {
        place: min(turn.end_ns, others[place].end_ns) - max(turn.start_ns, others[place].start_ns)
        for place in range(before, after)
    }
    best = max(shared, key=shared.__getitem__, default=None)
    return best if best is not None and shared[best] > 0 else None


def _alike(one: Turn, other: Turn) -> bool:
    return (one.kind, one.batch_size) == (other.kind, other.batch_size)


def _are_unique(numbers: Sequence[int | None]) -> bool:
    """Whether no number stands twice; None is none."""
    some = [number for number in numbers if number is not None]
    return len(set(some)) == len(some)


def _numbered(together: Sequence[list[_Share]]) -> list[tuple[int, list[_Share]]]:
    """Each cycle with its number: its own where the trace says one for each, else from 1 on."""
    numbers = [_turn(shares[0]).number for shares in together]
    if None in numbers or not _are_unique(numbers):
        return list(enumerate(together, start=1))
    return [(number or 0, shares) for number, shares in zip(numbers, together, strict=True)]


def _cycle(run_id: str, group: str, number: int, shares: Sequence[_Share]) -> Cycle:
    turn = _turn(shares[0])
    return Cycle(
        run_id=run_id,
        group=group,
        number=number,
        kind=turn.kind,
        batch_size=turn.batch_size,
        steps=turn.steps if turn.kind is CycleKind.SPECULATIVE else 0,
        topk=0,
        draft_tokens=turn.draft_tokens,
        ranks=tuple(_rank_cycle(share, number) for share in shares),
        requests=None,
    )


def _rank_cycle(share: _Share, number: int) -> RankCycle:
    rank, place = share
    turn, lane = rank.turns[place], rank.lanes[place]
    host = (
        Phase(name=p.name, start_ns=p.start_ns, end_ns=p.end_ns, of_cycle=number - p.lag)
        for p in turn.phases
    )
    device = (
        Phase(
            name=phase.name,
            start_ns=phase.start_ns,
            end_ns=phase.end_ns,
            of_cycle=number - phase.lag,
            lane=Lane.DEVICE,
            graph=phase.graph,
        )
        for phase in lane
    )
    return RankCycle(
        rank=rank.rank,
        start_ns=turn.start_ns,
        end_ns=turn.end_ns,
        phases=(*host, *device),
        mode=TimingMode.DEVICE if lane else TimingMode.HOST,
        probe_ns=0,
        ended_idle=turn.ended_idle,
        incomplete=turn.incomplete,
    )
