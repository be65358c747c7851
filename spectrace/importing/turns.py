"""Makes turns of the scheduler, with the host's phases, of the ranges of its thread.

A turn is what a Cycle is on one rank: from `run_batch` to the next `run_batch`, or to idling.
Traces of old releases, and those without the scheduler's ranges, show the worker alone: there a
turn begins with the first range of the worker and lasts to the next one's begin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from spectrace.importing.columns import Role
from spectrace.importing.faults import Fault, Faults
from spectrace.importing.nesting import Range
from spectrace.model import CycleKind, PhaseName

_OF_WORKER = frozenset(
    {
        Role.WORKER,
        Role.DRAFT,
        Role.STEP,
        Role.VERIFY,
        Role.FORWARD,
        Role.SAMPLE,
        Role.DRAFT_EXTEND,
    }
)


class HostPhase(NamedTuple):
    """A phase on the host.

    Attributes:
        name: Which.
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns.
        lag: How many turns ago the batch that it worked on was run.
    """

    name: PhaseName
    start_ns: int
    end_ns: int
    lag: int


@dataclass
class Turn:
    """One turn of one rank.

    Attributes:
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns.
        ended_idle: The scheduler had nothing to do after it.
        incomplete: The trace ends before it does.
        number: That of the cycle, None where the trace does not say it.
        kind: What it did.
        batch_size: Requests, 0 where the trace does not say it.
        steps: Draft steps, likewise.
        draft_tokens: Tokens that verify looked at per request, likewise.
        phases: Touching, from begin to end.
        ranges: Those that lie in it, with links to the device's side of them.
    """

    start_ns: int
    end_ns: int
    ended_idle: bool = False
    incomplete: bool = False
    number: int | None = None
    kind: CycleKind = CycleKind.OTHER
    batch_size: int = 0
    steps: int = 0
    draft_tokens: int = 0
    phases: list[HostPhase] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)


def turns_of(ranges: Sequence[Range], faults: Faults, *, end_ns: int) -> list[Turn]:
    """The turns of one thread, in order.

    Args:
        ranges: As `nesting.nested` gives them.
        faults: Where it is counted what is left out.
        end_ns: UNIX time in ns at which the trace ends.
    """
    ranges = _with_idling(ranges)
    if any(piece.role is Role.TURN for piece in ranges):
        ranges = [piece for piece in ranges if piece.role in {Role.TURN, Role.PHASE}]
        turns = _by_boundaries([r for r in ranges if r.role is Role.TURN], ranges, end_ns)
    elif runs := [piece for piece in ranges if piece.role is Role.RUN]:
        turns = _by_boundaries(runs, ranges, end_ns)
    else:
        turns = _by_worker(ranges)
    _deal(ranges, turns, faults)
    lags = _lags(ranges)
    for turn in turns:
        _describe(turn)
        turn.phases = list(_phases(turn, lags))
    captured = [piece for piece in ranges if piece.role is Role.CAPTURE]
    kept = [turn for turn in turns if not any(_meet(turn, piece) for piece in captured)]
    faults.add(Fault.CAPTURED, len(turns) - len(kept))
    return kept


def _meet(turn: Turn, piece: Range) -> bool:
    return turn.start_ns < piece.end_ns and piece.start_ns < turn.end_ns


def _with_idling(ranges: Sequence[Range]) -> Sequence[Range]:
    """The ranges, with idling where the scheduler looked for a batch and then ran none.

    Only where the release has no range of its own for it. Results of the turn before may be
    processed first.
    """
    if any(piece.role is Role.IDLE for piece in ranges):
        return ranges
    marked: list[Range] = []
    looked: Range | None = None
    for piece in ranges:
        if piece.role is Role.NEXT:
            if looked is not None:
                marked.append(replace(looked, role=Role.IDLE, start_ns=looked.end_ns))
            looked = piece
        elif piece.role is Role.RUN:
            looked = None
        elif piece.role is Role.RESULT and looked is not None:
            looked = piece
        marked.append(piece)
    return sorted(marked, key=lambda piece: piece.start_ns)


def _by_boundaries(begins: Sequence[Range], ranges: Sequence[Range], end_ns: int) -> list[Turn]:
    """A turn from each begin to the next one, or to the first idling behind it."""
    idle = deque(piece.start_ns for piece in ranges if piece.role is Role.IDLE)
    turns = []
    for place, begin in enumerate(begins):
        last = place + 1 == len(begins)
        limit_ns = max(end_ns, begin.end_ns) if last else begins[place + 1].start_ns
        while idle and idle[0] < begin.end_ns:
            idle.popleft()
        if idle and idle[0] < limit_ns:
            turns.append(Turn(begin.start_ns, idle[0], ended_idle=True))
        elif begin.role is Role.TURN:  # which ends with the turn itself
            turns.append(Turn(begin.start_ns, begin.end_ns, number=begin.number))
        else:
            turns.append(Turn(begin.start_ns, limit_ns, incomplete=last))
    return turns


def _by_worker(ranges: Sequence[Range]) -> list[Turn]:
    """A turn from each first range of the worker to the next first one.

    A pause that is longer than the ranges before it took is no part of the turn.
    """
    extents: list[tuple[int, int]] = []
    started = forwarded = False
    for piece in ranges:
        if not piece.is_outer or piece.role not in _OF_WORKER:
            continue
        begins = piece.role in {Role.DRAFT, Role.FORWARD, Role.VERIFY, Role.STEP}
        if not started or (begins and forwarded):
            extents.append((piece.start_ns, piece.end_ns))
            started, forwarded = True, False
        extents[-1] = (extents[-1][0], max(extents[-1][1], piece.end_ns))
        forwarded = forwarded or piece.role in {Role.FORWARD, Role.VERIFY}
    turns = []
    for place, (start_ns, seen_ns) in enumerate(extents):
        last = place + 1 == len(extents)
        next_ns = seen_ns if last else extents[place + 1][0]
        paused = next_ns - seen_ns > seen_ns - start_ns
        turns.append(
            Turn(start_ns, seen_ns if paused else next_ns, ended_idle=paused, incomplete=last)
        )
    return turns


def _deal(ranges: Iterable[Range], turns: Sequence[Turn], faults: Faults) -> None:
    """Hands each range to the turn in which it begins."""
    place = 0
    for piece in ranges:
        while place < len(turns) and turns[place].end_ns <= piece.start_ns:
            place += 1
        if place < len(turns) and turns[place].start_ns <= piece.start_ns:
            turns[place].ranges.append(piece)
        elif piece.role in _OF_WORKER and piece.is_outer:
            faults.add(Fault.OUTSIDE)


def _lags(ranges: Sequence[Range]) -> dict[int, int]:
    """By the begin of each `process_batch_result`: how many turns ago its batch was run.

    The overlap scheduler runs the next batch before it processes the results of the one before.
    Where the trace does not begin idle one batch may have been run before it began.
    """
    calls = [piece for piece in ranges if piece.role in {Role.RUN, Role.RESULT, Role.IDLE}]
    overlaps = any(piece.role is Role.OVERLAP for piece in ranges) or _runs_twice(calls)
    lags: dict[int, int] = {}
    waiting: deque[int] = deque([-1] if overlaps and calls and calls[0].role is Role.RUN else [])
    turn = -1
    for call in calls:
        if call.role is Role.RUN:
            turn += 1
            waiting.append(turn)
            while len(waiting) > 1 + overlaps:
                waiting.popleft()
        elif call.role is Role.IDLE:
            waiting.clear()
        elif waiting:
            lags[call.start_ns] = turn - waiting.popleft()
    return lags


def _runs_twice(calls: Iterable[Range]) -> bool:
    """Whether ever two batches were run, and then the results of both were processed."""
    waiting = 0
    for call in calls:
        waiting = 0 if call.role is Role.IDLE else waiting + (1 if call.role is Role.RUN else -1)
        if waiting > 1:
            return True
        waiting = max(waiting, 0)
    return False


def _describe(turn: Turn) -> None:
    """Takes from the ranges what they say of the batch."""
    roles = {piece.role for piece in turn.ranges}
    forwards = [piece for piece in turn.ranges if piece.role is Role.FORWARD]
    kinds = {piece.kind for piece in forwards}
    if {Role.VERIFY, Role.DRAFT} & roles or CycleKind.SPECULATIVE in kinds:
        turn.kind = CycleKind.SPECULATIVE
        forwards = [p for p in forwards if p.kind is CycleKind.SPECULATIVE] or forwards
    else:
        turn.kind = next((piece.kind for piece in forwards if piece.kind), _own_kind(turn))
    target = forwards or [p for p in turn.ranges if p.role in {Role.STEP, Role.DRAFT_EXTEND}]
    turn.batch_size = next((p.batch_size for p in target if p.batch_size is not None), 0)
    turn.draft_tokens = next((p.draft_tokens for p in target if p.draft_tokens), 0)
    if turn.kind is CycleKind.SPECULATIVE:
        drafted = sum(p.role is Role.STEP and not p.is_in(Role.DRAFT_EXTEND) for p in turn.ranges)
        turn.steps = drafted + 1 if drafted else 0  # the first step's tokens need no forward


def _own_kind(turn: Turn) -> CycleKind:
    """What spectrace's own ranges say, which name phases alone."""
    names = {piece.phase for piece in turn.ranges if piece.phase is not None}
    verified = any(name.value.startswith("verify") for name in names)
    return CycleKind.SPECULATIVE if verified else CycleKind.OTHER


def _phases(turn: Turn, lags: dict[int, int]) -> Iterator[HostPhase]:
    """What each stretch of the turn is: the last boundary before it says so."""
    marks = [(turn.start_ns, PhaseName.RESOLVE, 0), *_marks(turn, lags)]
    ends = [*(start_ns for start_ns, _, _ in marks[1:]), turn.end_ns]
    begun: HostPhase | None = None
    for (start_ns, name, lag), end in zip(marks, ends, strict=True):
        end_ns = min(end, turn.end_ns)
        if begun is not None and (begun.name, begun.lag) == (name, lag):
            begun = begun._replace(end_ns=max(begun.end_ns, end_ns))
        elif end_ns > start_ns:
            if begun is not None:
                yield begun
            begun = HostPhase(name, start_ns, end_ns, lag)
    if begun is not None:
        yield begun


def _marks(turn: Turn, lags: dict[int, int]) -> Iterator[tuple[int, PhaseName, int]]:
    """Boundaries in order: when, what begins, and how many turns ago its batch was run."""
    progress = _Progress(turn, lags)
    open_: list[Range] = []
    for piece in turn.ranges:
        while open_ and open_[-1].end_ns <= piece.start_ns:
            yield from progress.leave(open_.pop())
        yield from progress.enter(piece)
        open_.append(piece)
    while open_:
        yield from progress.leave(open_.pop())


_Mark = tuple[int, PhaseName, int]


class _Progress:
    """How far a turn has come, and what therefore begins where a range begins or ends."""

    def __init__(self, turn: Turn, lags: dict[int, int]) -> None:
        self._lags = lags
        self._turn = turn
        self._verified = False  # the target's forward of verify is done
        self._lag = 0
        # Where nothing bounds sampling, what follows verify's forward is of verify as a whole.
        self._samples = any(piece.role is Role.SAMPLE for piece in turn.ranges)
        self._waits = {
            id(piece.within)
            for piece in turn.ranges
            if piece.role is Role.WAIT and piece.within is not None
        }
        self._divided = {  # verify, all of which lies in its parts
            id(piece.within)
            for piece in turn.ranges
            if piece.phase is not None and piece.phase.parent is PhaseName.VERIFY
        }

    def enter(self, piece: Range) -> Iterator[_Mark]:
        """What begins where a range begins."""
        name = self._entered(piece)
        if piece.role is Role.RESULT:
            self._lag = self._lags.get(piece.start_ns, 0)
        elif piece.role is Role.PHASE:
            known = piece.number is not None and self._turn.number is not None
            self._lag = (self._turn.number or 0) - (piece.number or 0) if known else 0
        if name is not None:
            yield piece.start_ns, name, self._lag

    def leave(self, piece: Range) -> Iterator[_Mark]:
        """What begins where a range ends."""
        if piece.role is Role.RESULT:
            self._lag = 0
        name = self._left(piece)
        if name is not None:
            yield piece.end_ns, name, self._lag

    def _entered(self, piece: Range) -> PhaseName | None:
        role = piece.role
        if role is Role.FORWARD:
            return PhaseName.VERIFY_FORWARD if self._verifies(piece) else PhaseName.FORWARD
        if role is Role.STEP:
            return PhaseName.DRAFT_STEP if self._is_step(piece) else None
        if role is Role.SAMPLE:
            return PhaseName.VERIFY_SAMPLE if self._verified else None
        if role is Role.RESULT:
            return PhaseName.WAIT if id(piece) in self._waits else PhaseName.RESULT
        if role is Role.PHASE:
            return None if id(piece) in self._divided else piece.phase
        return _AT_BEGIN.get(role)

    def _left(self, piece: Range) -> PhaseName | None:
        role = piece.role
        if role is Role.DRAFT:  # with pipeline ranks the next turn's draft comes at the end
            return PhaseName.SCHEDULE if self._verified else PhaseName.VERIFY_PREPARE
        if role is Role.FORWARD and self._verifies(piece):
            self._verified = True
            return PhaseName.VERIFY_SAMPLE if self._samples else PhaseName.VERIFY
        if role is Role.SAMPLE:
            return PhaseName.VERIFY_COMMIT if self._verified else None
        if role is Role.WAIT:
            return PhaseName.RESULT if piece.is_in(Role.RESULT) else None
        if role in {Role.STEP, Role.PHASE}:
            return PhaseName.DRAFT if self._is_step(piece) else None
        return PhaseName.SCHEDULE if role in _SCHEDULED_AFTER else None

    def _is_step(self, piece: Range) -> bool:
        """Whether it is one forward of the draft model, within a draft."""
        if piece.role is Role.PHASE:
            return piece.within is not None and piece.within.phase is PhaseName.DRAFT
        drafts = not self._verified and self._turn.kind is CycleKind.SPECULATIVE
        return drafts and not piece.is_in(Role.DRAFT_EXTEND)

    def _verifies(self, piece: Range) -> bool:
        if piece.kind is None:
            return piece.is_in(Role.VERIFY)
        return piece.kind is CycleKind.SPECULATIVE


_AT_BEGIN = {
    Role.DRAFT: PhaseName.DRAFT,
    Role.VERIFY: PhaseName.VERIFY_PREPARE,
    Role.DRAFT_EXTEND: PhaseName.DRAFT_EXTEND,
    Role.COPY: PhaseName.SCHEDULE,
}
_SCHEDULED_AFTER = frozenset({Role.RUN, Role.RESULT, Role.WORKER, Role.DRAFT_EXTEND})
