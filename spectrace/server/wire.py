"""Cycles as the page gets them: JSON with times relative to the cycle's start."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from spectrace.model import Cycle, Phase, RankCycle, RequestRow


class WirePhase(msgspec.Struct, frozen=True, array_like=True):
    """A phase as `[name, lane, start, end, of_cycle, graph]`, in ns from the cycle's `t0`."""

    name: str
    lane: str
    start: int
    end: int
    of_cycle: int
    graph: bool | None


class WireRank(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's share; `start` and `end` in ns from `t0`, before which other ranks may begin."""

    rank: str
    start: int
    end: int
    mode: str
    probe_ns: int
    ended_idle: bool
    incomplete: bool
    asked_mode: str | None
    late_switch: bool
    clock_error_ns: int | None
    device_incomplete: bool
    phases: tuple[WirePhase, ...]


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What one request got out of the cycle."""

    id: str
    correct: int | None
    tokens: int
    overshoot: bool
    health: bool


class WireCycle(msgspec.Struct, frozen=True, kw_only=True):
    """A cycle.

    Attributes:
        run: The run's id.
        group: Name of its group.
        n: Its number.
        kind: What it did.
        batch: Requests in the batch.
        steps: Draft steps.
        topk: Branches per draft step.
        draft_tokens: Tokens that verify looked at per request.
        t0: Start of the first rank, UNIX ns in decimal digits: JavaScript's numbers hold
            no more than 2^53.
        ranks: The first rank first.
        requests: None until the results are known.
        padded: Batch size that the target's graph was made for, None where none ran.
        context_sum: Tokens of all requests before the cycle; None until the results are
            known, like the next three.
        context_max: The most tokens of one request.
        queued: Requests that waited.
        running: Requests that ran.
    """

    run: str
    group: str
    n: int
    kind: str
    batch: int
    steps: int
    topk: int
    draft_tokens: int
    t0: str
    ranks: tuple[WireRank, ...]
    requests: tuple[WireRequest, ...] | None
    padded: int | None
    context_sum: int | None
    context_max: int | None
    queued: int | None
    running: int | None


def wire_cycle(cycle: Cycle) -> WireCycle:
    """The same cycle for the page."""
    t0 = cycle.start_ns
    return WireCycle(
        run=cycle.run_id,
        group=cycle.group,
        n=cycle.number,
        kind=cycle.kind.value,
        batch=cycle.batch_size,
        steps=cycle.steps,
        topk=cycle.topk,
        draft_tokens=cycle.draft_tokens,
        t0=str(t0),
        ranks=tuple(_wire_rank(rank, t0) for rank in cycle.ranks),
        requests=None if cycle.requests is None else tuple(map(_wire_request, cycle.requests)),
        padded=cycle.padded_batch,
        context_sum=cycle.context_tokens_sum,
        context_max=cycle.context_tokens_max,
        queued=cycle.queued,
        running=cycle.running,
    )


def _wire_rank(rank: RankCycle, t0: int) -> WireRank:
    return WireRank(
        rank=rank.rank,
        start=rank.start_ns - t0,
        end=rank.end_ns - t0,
        mode=rank.mode.value,
        probe_ns=rank.probe_ns,
        ended_idle=rank.ended_idle,
        incomplete=rank.incomplete,
        asked_mode=None if rank.asked_mode is None else rank.asked_mode.value,
        late_switch=rank.late_switch,
        clock_error_ns=rank.clock_error_ns,
        device_incomplete=rank.device_incomplete,
        phases=tuple(_wire_phase(phase, t0) for phase in rank.phases),
    )


def _wire_phase(phase: Phase, t0: int) -> WirePhase:
    return WirePhase(
        phase.name.value,
        phase.lane.value,
        phase.start_ns - t0,
        phase.end_ns - t0,
        phase.of_cycle,
        phase.graph,
    )


def _wire_request(row: RequestRow) -> WireRequest:
    return WireRequest(
        id=row.request_id,
        correct=row.correct_drafts,
        tokens=row.output_tokens,
        overshoot=row.overshoot,
        health=row.health_check,
    )


def encode_cycle(cycle: Cycle) -> bytes:
    """The JSON of one cycle."""
    return msgspec.json.encode(wire_cycle(cycle))


def encode_list(encoded: Iterable[bytes]) -> bytes:
    """The JSON list of values that are JSON already."""
    return b"[" + b",".join(encoded) + b"]"
