"""Of what phases are made: the newest look at the kernels of a run, per cycle and rank by rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from spectrace.kernels import (
    ClassTime,
    KernelClass,
    KernelLook,
    LookSource,
    PhaseWork,
    WindowCost,
    WindowLoss,
)
from spectrace.model import PhaseName

DIFFERS = 0.05  # so much more than another rank's takes what is said to be slower
_FORWARDS = (PhaseName.VERIFY_FORWARD, PhaseName.VERIFY, PhaseName.FORWARD)
_COMMUNICATION = KernelClass.COMMUNICATION.value


class ClassPart(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of one class in a phase.

    Attributes:
        kernel_class: A `kernels.KernelClass`, or a user's own.
        time_ms: Per cycle that has the phase, the sum over its kernels: those that ran at once
            count each.
        share: Of the time of all kernels of the phase, from 0 to 1.
    """

    kernel_class: str
    time_ms: float
    share: float


class PhaseParts(msgspec.Struct, frozen=True, kw_only=True):
    """What the device did for one phase of one rank, per cycle that has the phase.

    Attributes:
        phase: Name of the phase.
        cycles: In how many cycles it was seen.
        device_ms: From its first kernel to the end of its last one, on the busiest stream.
        busy_ms: Of that the time in which a kernel ran there.
        gap_ms: And in which none did.
        kernels: Kernels, copies and fills, on all streams.
        launches: Calls of the host that put them there.
        replays: Of those the launches of graphs.
        parts: Its kernels by class, what takes most time first.
        communication: Share of communication in the time of its kernels, from 0 to 1.
        beside_ms: By how much the kernels' times add up to more than `busy_ms`: what ran on other
            streams.
        replay_ms: One replay of its graph, seen whole before; None where none was.
        replays_seen: In how many replays.
        stretched: `device_ms` over `replay_ms` where the phase replays one graph a cycle: how much
            longer it takes where each kernel is watched, with what it launches around the graph.
            None elsewhere.
    """

    phase: str
    cycles: int
    device_ms: float
    busy_ms: float
    gap_ms: float
    kernels: float
    launches: float
    replays: float
    parts: tuple[ClassPart, ...]
    communication: float
    beside_ms: float
    replay_ms: float | None = None
    replays_seen: int = 0
    stretched: float | None = None


class RankWork(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels that the phases of one rank launched, per cycle.

    Attributes:
        rank: Its name.
        cycles: How many cycles were seen.
        own_ms: Time of its kernels without communication.
        communication_ms: Time of communication, in which it may wait for other ranks.
        communication: Share of that in both, from 0 to 1.
    """

    rank: str
    cycles: int
    own_ms: float
    communication_ms: float
    communication: float


class MadeOf(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest look at the kernels of a run shows.

    Attributes:
        source: Where its kernels come from.
        start_ns: UNIX time in ns from which on kernels were seen one by one.
        looks: How many looks the run has.
        rank: Whose phases these are: the slowest rank, or the first one where none is.
        phases: Of that rank, what takes most time first.
        ranks: All ranks of which kernels were seen.
        slowest: The rank whose own kernels take longest, if they take 5 % more than those of the
            quickest one; None elsewhere.
        cost: What looking cost that rank; None of a trace.
        losses: What is not in the figures of a window.
    """

    source: LookSource
    start_ns: int
    looks: int
    rank: str
    phases: tuple[PhaseParts, ...]
    ranks: tuple[RankWork, ...]
    slowest: str | None = None
    cost: WindowCost | None = None
    losses: tuple[WindowLoss, ...] = ()

    @property
    def of_rank(self) -> RankWork:
        """The kernels of the rank whose phases these are."""
        return next(one for one in self.ranks if one.rank == self.rank)

    @property
    def main(self) -> PhaseParts:
        """The target model's forward: of verify, else of plain decode; else the longest phase."""
        by_name = {one.phase: one for one in self.phases}
        forwards = (by_name[name.value] for name in _FORWARDS if name.value in by_name)
        return next(forwards, self.phases[0])


def made_of(looks: Sequence[KernelLook]) -> MadeOf | None:
    """What the newest look shows that saw kernels of phases; None where none did.

    Args:
        looks: Of one run, the oldest first.
    """
    for look in reversed(looks):
        ranks = tuple(
            work for rank in look.cycles_seen if (work := _rank_work(look, rank)) is not None
        )
        if ranks:
            return _of_look(look, ranks, len(looks))
    return None


def _of_look(look: KernelLook, ranks: tuple[RankWork, ...], looks: int) -> MadeOf:
    slowest = _slowest(ranks)
    rank = slowest or ranks[0].rank
    return MadeOf(
        source=look.source,
        start_ns=look.start_ns,
        looks=looks,
        rank=rank,
        phases=_phases(look, rank),
        ranks=ranks,
        slowest=slowest,
        cost=next((cost for cost in look.costs if cost.rank == rank), None),
        losses=look.losses,
    )


def _rank_work(look: KernelLook, rank: str) -> RankWork | None:
    """The kernels of a rank; None where its phases were not seen to launch any."""
    phases = {one.phase for one in look.phases if one.rank == rank and one.kernels > 0}
    times = [one for one in look.kernels if one.rank == rank and one.phase in phases]
    cycles = look.cycles_seen[rank]
    total_ms = sum(one.time_ms for one in times)
    if cycles <= 0 or total_ms <= 0:
        return None
    told_ms = _communication_ms(times)
    return RankWork(
        rank=rank,
        cycles=cycles,
        own_ms=(total_ms - told_ms) / cycles,
        communication_ms=told_ms / cycles,
        communication=told_ms / total_ms,
    )


def _communication_ms(times: Sequence[ClassTime]) -> float:
    return sum(one.time_ms for one in times if one.kernel_class == _COMMUNICATION)


def _slowest(ranks: Sequence[RankWork]) -> str | None:
    """The rank whose own kernels take clearly longest.

    Communication is no work of a rank alone: who comes first waits in it for the others.
    """
    last = max(ranks, key=lambda one: one.own_ms)
    quickest_ms = min(one.own_ms for one in ranks)
    return last.rank if last.own_ms > (1 + DIFFERS) * quickest_ms else None


def _phases(look: KernelLook, rank: str) -> tuple[PhaseParts, ...]:
    found = []
    for work in look.phases:
        if work.rank != rank or work.kernels <= 0:
            continue
        times = [one for one in look.kernels if (one.rank, one.phase) == (rank, work.phase)]
        cycles = max(1, work.cycles)
        total_ms = sum(one.time_ms for one in times)
        found.append(
            PhaseParts(
                phase=work.phase,
                cycles=work.cycles,
                device_ms=work.device_ms,
                busy_ms=work.busy_ms,
                gap_ms=work.gap_ms,
                kernels=work.kernels,
                launches=work.launches,
                replays=work.replays,
                parts=tuple(
                    ClassPart(
                        kernel_class=one.kernel_class,
                        time_ms=one.time_ms / cycles,
                        share=one.time_ms / total_ms,
                    )
                    for one in sorted(times, key=lambda one: -one.time_ms)
                    if total_ms > 0
                ),
                communication=_communication_ms(times) / total_ms if total_ms > 0 else 0.0,
                beside_ms=max(0.0, total_ms / cycles - work.busy_ms),
                replay_ms=work.replay_ms,
                replays_seen=work.replays_seen,
                stretched=_stretched(work),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.device_ms))


def _stretched(work: PhaseWork) -> float | None:
    if not work.replay_ms or not math.isclose(work.replays, 1.0):
        return None
    return work.device_ms / work.replay_ms
