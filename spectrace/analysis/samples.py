"""Takes from the Cycles of a block what a comparison of modes needs, and refuses the rest."""

from __future__ import annotations

from enum import Enum

import msgspec

from spectrace.model import Cycle, CycleKind, Lane, PhaseName, RankCycle, TimingMode

WARM_UP_CYCLES = 10  # of a block: pipelines and caches still know the mode before
_NS_PER_MS = 1e6
_DECODING = (CycleKind.SPECULATIVE, CycleKind.DECODE)


class Refusal(str, Enum):
    """Why a cycle does not count."""

    WARM_UP = "warm_up"
    OTHER_MODE = "other_mode"
    OTHER_KIND = "other_kind"
    INCOMPLETE = "incomplete"
    THEN_IDLE = "then_idle"
    TOO_FEW = "too_few"  # in their block, or of blocks in their mode
    UNLIKE = "unlike"


class Like(msgspec.Struct, frozen=True, order=True, kw_only=True):
    """What cycles have in common that may be compared with each other.

    Attributes:
        group: The ranks that step together.
        kind: What the cycles did.
        batch_size: Requests in the batch.
        steps: Draft steps.
        topk: Branches per draft step.
        draft_tokens: Tokens that verify looked at per request.
    """

    group: str
    kind: CycleKind
    batch_size: int
    steps: int
    topk: int
    draft_tokens: int


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One cycle on its first rank, as far as it is compared.

    Attributes:
        block: The number of its block.
        round: The round of its block.
        mode: In which mode it was to be timed, and was.
        like: What it is comparable with.
        cycle_ms: Its time on the host.
        host: Time in ms of each top-level phase on the host.
        device: The same on the device; None where that was not timed, or not wholly.
        tokens: Tokens that requests got; None while they are not known.
        correct_drafts: Drafts found correct.
        verifies: Requests that were verified.
        runs_ahead: The host processed results of an earlier cycle meanwhile.
    """

    block: int
    round: int
    mode: TimingMode
    like: Like
    cycle_ms: float
    host: dict[PhaseName, float]
    device: dict[PhaseName, float] | None
    tokens: int | None
    correct_drafts: int
    verifies: int
    runs_ahead: bool


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of cycles that one turn of the plan became.

    Attributes:
        number: Of the block, from 0.
        round: Its round.
        mode: How its cycles were to be timed.
        first: Number of its first cycle.
    """

    number: int
    round: int
    mode: TimingMode
    first: int


def sample(cycle: Cycle, block: Block, *, sync_is_host: bool = False) -> Sample | Refusal:
    """What a cycle of a block adds to the comparison, or why it adds nothing.

    Args:
        cycle: A cycle whose number lies in the block.
        block: The block.
        sync_is_host: The device has nothing to wait for, so that `sync` is taken as `host`.
    """
    if cycle.number < block.first + WARM_UP_CYCLES:
        return Refusal.WARM_UP
    if cycle.kind not in _DECODING:
        return Refusal.OTHER_KIND
    if any(rank.incomplete for rank in cycle.ranks):
        return Refusal.INCOMPLETE
    if not all(_was_timed(rank, block.mode, sync_is_host) for rank in cycle.ranks):
        return Refusal.OTHER_MODE
    first = cycle.ranks[0]
    if first.ended_idle:
        return Refusal.THEN_IDLE
    rows = None if cycle.requests is None else [r for r in cycle.requests if not r.health_check]
    counted = [row for row in rows or () if row.counts]
    device = _by_phase(first, Lane.DEVICE)
    return Sample(
        block=block.number,
        round=block.round,
        mode=block.mode,
        like=Like(
            group=cycle.group,
            kind=cycle.kind,
            batch_size=cycle.batch_size,
            steps=cycle.steps,
            topk=cycle.topk,
            draft_tokens=cycle.draft_tokens,
        ),
        cycle_ms=first.duration_ns / _NS_PER_MS,
        host=_by_phase(first, Lane.HOST),
        device=device if device and not first.device_incomplete else None,
        tokens=None if rows is None else sum(row.output_tokens for row in rows),
        correct_drafts=sum(row.correct_drafts or 0 for row in counted),
        verifies=len(counted),
        runs_ahead=any(
            phase.lane is Lane.HOST and phase.of_cycle < cycle.number for phase in first.phases
        ),
    )


def _was_timed(rank: RankCycle, mode: TimingMode, sync_is_host: bool) -> bool:
    """Whether a rank's cycle has the mode that its block was to have, and from the right cycle."""
    stands_in = sync_is_host and mode is TimingMode.SYNC and rank.asked_mode is mode
    return (rank.mode is mode or stands_in) and not rank.late_switch


def _by_phase(rank: RankCycle, lane: Lane) -> dict[PhaseName, float]:
    """Time in ms of the top-level phases of one lane, a parent with all of its parts."""
    times: dict[PhaseName, float] = {}
    for phase in rank.phases:
        if phase.lane is lane:
            name = phase.name.parent or phase.name
            times[name] = times.get(name, 0.0) + phase.duration_ns / _NS_PER_MS
    return times
