"""Gaps on the device between phases: why they are there, and what the host did meanwhile.

Each boundary of a phase is an event that the host puts on the device's stream when it gets there.
Where the device ran dry before that, the host was late. Where it had the event already, something
else than the host kept the device: another stream, or another rank.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.analysis.intervals import Estimate, Places, Values, quantile, ratio
from spectrace.measures import KINDS, LANES, NONE, PHASES, Measures
from spectrace.model import CycleKind, Lane, PhaseName

CONFIDENCE = 0.95
MATTERS = 0.05  # of the time: what is less makes a server neither host- nor device-bound
_NS_PER_MS = 1e6
_MOST = 1024  # phases of one name in a cycle that are told apart
# The scheduler's own code and its waits; all other host phases prepare and launch.
SCHEDULER = (PhaseName.SCHEDULE, PhaseName.RESULT, PhaseName.WAIT, PhaseName.RESOLVE)
_OWN_WORK = (PhaseName.SCHEDULE, PhaseName.RESULT)  # which the overlap scheduler can hide
_Flags = NDArray[np.bool_]


class Cause(str, Enum):
    """Why the device ran nothing.

    `late_launch`: the host was not done with preparing or launching what came next.
    `scheduler`: the host was still in the scheduler, with results or waiting. `waiting`: the host
    had been there before; the device waited for another stream or rank. `unclear`: the times do
    not say.
    """

    LATE_LAUNCH = "late_launch"
    SCHEDULER = "scheduler"
    WAITING = "waiting"
    UNCLEAR = "unclear"


class Bound(str, Enum):
    """What sets the pace: the host, the device, other streams or ranks, or that is not known."""

    HOST = "host"
    DEVICE = "device"
    OTHERS = "others"
    OPEN = "open"


class GapFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The gaps between two phases.

    Attributes:
        before: The phase that ended; of the cycle before, where it stands behind `after`.
        after: The phase that then began.
        between_cycles: The two are of two cycles.
        count: How many gaps there are.
        per_cycle: Gaps in each cycle.
        length_ms: Their median.
        share: Part of all time that they take.
        causes: Parts of all time by cause; those of a gap add up to it.
    """

    before: PhaseName
    after: PhaseName
    between_cycles: bool
    count: int
    per_cycle: float
    length_ms: Estimate
    share: Estimate
    causes: dict[Cause, float]


class Bubbles(msgspec.Struct, frozen=True, kw_only=True):
    """When the device ran nothing, in the cycles that could be judged.

    Attributes:
        cycles: How many: decode cycles with a whole device lane, as has the cycle before.
        idle_share: Part of the time in which the device ran no phase.
        busy_share: Part of the time in which it ran one: the rest.
        causes: The idle part by cause; they add up to it.
        gaps: By the phases around them, the largest share first.
        bound: What sets the pace.
        launch_share: Part of the time, at most, in which the device had come to a phase that
            runs as a CUDA graph while the host was still launching it: until then nothing of
            it can run. It counts as busy. None where no phase runs as a graph.
        hidden_share: Part of the scheduler's own work (`schedule`, `result`) during which the
            device was busy: what the overlap scheduler hides. None without such work.
        own_work_ms: That work in a cycle, the mean.
        too_small: Gaps that are no longer than the clock's error; they are not claimed, and count
            as busy.
        too_small_share: Part of all time that these take.
        error_ms: The median of that error.
        problem: Why nothing can be said, a sentence; empty where something can.
    """

    cycles: int = 0
    idle_share: Estimate | None = None
    busy_share: Estimate | None = None
    causes: dict[Cause, Estimate] = msgspec.field(default_factory=dict)
    gaps: tuple[GapFigures, ...] = ()
    bound: Bound = Bound.OPEN
    launch_share: Estimate | None = None
    hidden_share: Estimate | None = None
    own_work_ms: float | None = None
    too_small: int = 0
    too_small_share: float = 0.0
    error_ms: float | None = None
    problem: str = ""


class _Gaps(NamedTuple):
    """All gaps that can be claimed, as columns of the same length.

    Attributes:
        cycle: The cycle of what came next, a place in `Measures.cycles`.
        before: The phase that ended, a place in `PHASES`.
        after: The phase that began, likewise.
        between: They are of two cycles.
        length: In ns.
        causes: Of each cause in ns; they add up to the length.
    """

    cycle: Places
    before: Places
    after: Places
    between: _Flags
    length: Values
    causes: dict[Cause, Values]


def bubbles(
    measures: Measures, kind: CycleKind | None = None, group: int = 0, place: int = 0
) -> Bubbles:
    """When and why a rank's device ran nothing.

    A gap is the start of a phase less the end of the one before on the same stream. Up to the
    moment at which the host began what came next it is the host's, behind that it is not.

    Args:
        measures: The run.
        kind: Of the cycles; speculative and plain decode if not given.
        group: The group of ranks, a place in `measures.groups`.
        place: Of the rank in its group; 0 is the first one.
    """
    rank = _Rank(measures, kind, group, place)
    if not rank.counted.any():
        return Bubbles(problem=rank.problem())
    gaps, small = rank.gaps()
    time = _Time(measures, rank.counted)
    idle = time.share(gaps.cycle, gaps.length)
    causes = {cause: time.share(gaps.cycle, gaps.causes[cause]) for cause in Cause}
    hidden, own_ms = rank.hidden(time)
    launching = rank.launching(time)
    return Bubbles(
        cycles=int(rank.counted.sum()),
        idle_share=idle,
        busy_share=_rest(idle),
        causes=causes,
        gaps=tuple(_by_phases(gaps, time)),
        bound=bound_by(
            idle, time.share(gaps.cycle, _of_host(gaps)), causes[Cause.WAITING], launching
        ),
        launch_share=launching,
        hidden_share=hidden,
        own_work_ms=own_ms,
        too_small=len(small),
        too_small_share=float(small.sum() / time.total_ns.sum()),
        error_ms=float(np.median(rank.error_ns[rank.counted])) / _NS_PER_MS,
    )


def bound_by(
    idle: Estimate, host: Estimate, waiting: Estimate, launching: Estimate | None = None
) -> Bound:
    """What sets the pace, where the intervals say so.

    Args:
        idle: Part of the time in which the device ran nothing.
        host: The part of it for which the host was late.
        waiting: The part of it in which other streams or ranks kept the device.
        launching: What more of the time may be the host's, within phases that run as graphs.
    """
    more = 0.0 if launching is None else launching.high
    if idle.high is not None and more is not None and idle.high + more < MATTERS:
        return Bound.DEVICE
    if host.low is not None and host.low > MATTERS and host.value >= waiting.value:
        return Bound.HOST
    if waiting.low is not None and waiting.low > MATTERS and waiting.value > host.value:
        return Bound.OTHERS
    return Bound.OPEN


def _of_host(gaps: _Gaps) -> Values:
    return gaps.causes[Cause.LATE_LAUNCH] + gaps.causes[Cause.SCHEDULER]


def _rest(part: Estimate) -> Estimate:
    low, high = (None if limit is None else 1 - limit for limit in (part.high, part.low))
    return Estimate(value=1 - part.value, low=low, high=high)


class _Time:
    """The time of the cycles that count, by blocks."""

    def __init__(self, measures: Measures, counted: _Flags) -> None:
        self.cycles = measures.cycles
        self.counted = counted
        self.windows = measures.cycles["window"]
        taken = (self.cycles["end_ns"] - self.cycles["start_ns"])[counted].astype(np.float64)
        self.names, places = np.unique(self.windows[counted], return_inverse=True)
        self.total_ns = np.bincount(places, weights=taken).astype(np.float64)

    def by_block(self, cycle: Places, amount: Values) -> Values:
        """The sums of something in each block."""
        places = np.searchsorted(self.names, self.windows[cycle])
        found = np.bincount(places, weights=amount, minlength=len(self.names))
        return found.astype(np.float64)

    def share(self, cycle: Places, amount_ns: Values) -> Estimate:
        """Which part of all time something takes.

        Args:
            cycle: The cycle of each piece, one that counts.
            amount_ns: Its length in ns.
        """
        return ratio(self.by_block(cycle, amount_ns), self.total_ns, CONFIDENCE)


def _by_phases(gaps: _Gaps, time: _Time) -> list[GapFigures]:
    keys = np.stack([gaps.before, gaps.after, gaps.between], axis=1)
    kinds, places = np.unique(keys, axis=0, return_inverse=True)
    places = places.reshape(-1)
    found = []
    for number, (before, after, between) in enumerate(kinds.tolist()):
        here = places == number
        length = gaps.length[here]
        found.append(
            GapFigures(
                before=PHASES[before],
                after=PHASES[after],
                between_cycles=bool(between),
                count=len(length),
                per_cycle=len(length) / int(time.counted.sum()),
                length_ms=quantile(
                    length / _NS_PER_MS,
                    np.ones(len(length)),
                    time.windows[gaps.cycle[here]].astype(np.intp),
                    0.5,
                    CONFIDENCE,
                ),
                share=time.share(gaps.cycle[here], length),
                causes={
                    cause: float(amount[here].sum() / time.total_ns.sum())
                    for cause, amount in gaps.causes.items()
                },
            )
        )
    return sorted(found, key=lambda one: -one.share.value)


class _Rank:
    """The lanes of one rank, as far as they can be judged."""

    def __init__(self, measures: Measures, kind: CycleKind | None, group: int, place: int) -> None:
        self._measures = measures
        self._of_group = measures.cycles["group"] == group
        self._place = place
        ranks = measures.ranks
        rows = (ranks["place"] == place) & self._of_group[ranks["cycle"]]
        at = ranks["cycle"][rows]
        count = len(measures.cycles["number"])
        self.error_ns = np.zeros(count)
        self.error_ns[at] = np.maximum(0, ranks["clock_error_ns"][rows])
        self._device = self._lane(Lane.DEVICE)
        self._host = self._lane(Lane.HOST)
        self.whole = np.zeros(count, dtype=np.bool_)
        placed = ranks["clock_error_ns"][rows] != NONE
        holes = ranks["device_incomplete"][rows] | ranks["incomplete"][rows]
        self.whole[at] = placed & ~holes
        self.whole &= np.bincount(self._device.cycle, minlength=count) > 0
        follows = self._follows(ranks["ended_idle"][rows], at)
        wanted = (CycleKind.SPECULATIVE, CycleKind.DECODE) if kind is None else (kind,)
        of_kind = np.isin(measures.cycles["kind"], [KINDS.index(each) for each in wanted])
        self.counted = of_kind & measures.cycles["timed"].astype(np.bool_) & self.whole & follows
        self.counted &= measures.cycles["end_ns"] > measures.cycles["start_ns"]

    def problem(self) -> str:
        """Why no cycle can be judged."""
        if not len(self._device.cycle):
            return (
                "Nothing is known of the device: its phases were not timed. Trace with "
                "--timing device on a device that has timing events."
            )
        return (
            "Nothing can be said of gaps: no two recorded decode cycles with whole device lanes "
            "follow each other. Record every cycle, and for longer."
        )

    def _follows(self, idle: _Flags, at: Places) -> _Flags:
        """Whether the cycle before is there, was judged whole, and the server went on at once."""
        cycles = self._measures.cycles
        then_idle = np.zeros(len(cycles["number"]), dtype=np.bool_)
        then_idle[at] = idle
        found = np.zeros(len(then_idle), dtype=np.bool_)
        found[1:] = (
            (np.diff(cycles["number"]) == 1)
            & (np.diff(cycles["group"]) == 0)
            & (np.diff(cycles["window"]) <= 1)
            & self.whole[:-1]
            & ~then_idle[:-1]
        )
        return found

    def _lane(self, lane: Lane) -> _Lane:
        phases = self._measures.phases
        here = (phases["place"] == self._place) & (phases["lane"] == LANES.index(lane))
        here &= self._of_group[phases["cycle"]]
        cycle, *others = (
            phases[name][here] for name in ("cycle", "phase", "start_ns", "end_ns", "graph")
        )
        order = np.lexsort((others[1], cycle))
        return _Lane(cycle[order].astype(np.intp), *(column[order] for column in others))

    def gaps(self) -> tuple[_Gaps, Values]:
        """All gaps before phases of cycles that count, and in ns those that are too small."""
        cycle, phase, start, end, _ = self._device
        between = np.diff(cycle) == 1
        near = ((np.diff(cycle) == 0) | between) & self.counted[cycle[1:]]
        length = (start[1:] - end[:-1]).astype(np.float64)
        error = self.error_ns[cycle[1:]] + np.where(between, self.error_ns[cycle[:-1]], 0.0)
        real = near & (length > 0)
        at = np.flatnonzero(real & (length > error))
        chosen = cycle[1:][at]
        late, known = self._late(at)
        edges = end[:-1][at], length[at], self.error_ns[cycle[:-1][at]]
        causes = self._causes(edges, late, known)
        gaps = _Gaps(chosen, phase[:-1][at], phase[1:][at], between[at], length[at], causes)
        return gaps, length[real & (length <= error)]

    def _late(self, at: Places) -> tuple[Values, _Flags]:
        """How much of each gap had passed when the host began what came next, in ns.

        Returns:
            That, and whether it is known, as it is where the phase is on both lanes.
        """
        twin = self._twins()[1:][at]
        known = twin >= 0
        began = np.append(self._host.start, 0)[twin]  # -1 is the one behind all
        late = np.minimum(began, self._device.start[1:][at]) - self._device.end[:-1][at]
        return np.where(known, late, 0).astype(np.float64), known

    def _twins(self) -> Places:
        """Of each phase of the device its place on the host's lane, -1 where it has none there."""
        keys = _keys(self._device), _keys(self._host)
        found = np.full(len(keys[0]), -1, dtype=np.intp)
        if len(keys[1]):
            order = np.argsort(keys[1])
            places = np.minimum(np.searchsorted(keys[1][order], keys[0]), len(order) - 1)
            same = keys[1][order][places] == keys[0]
            found[same] = order[places][same]
        return found

    def _causes(
        self, edges: tuple[NDArray[np.int64], Values, Values], late: Values, known: _Flags
    ) -> dict[Cause, Values]:
        """Divides each gap: until the host came to what ended it, and after that.

        Args:
            edges: When each began, UNIX ns, its length in ns, and the error of the clock there.
            late: How much of it had passed when the host came, in ns.
            known: Whether that is known.
        """
        idle_from, length, cycle_error = edges
        was_late = known & (late > cycle_error)
        by_host = np.where(was_late, late, 0.0)
        scheduler = np.minimum(by_host, self._in_scheduler(idle_from, by_host))
        rest = length - by_host
        waits = known & (rest > cycle_error)
        return {
            Cause.LATE_LAUNCH: by_host - scheduler,
            Cause.SCHEDULER: scheduler,
            Cause.WAITING: np.where(waits, rest, 0.0),
            Cause.UNCLEAR: np.where(waits, 0.0, rest),
        }

    def launching(self, time: _Time) -> Estimate | None:
        """Which part of the time graphs may have waited for the end of their launch, at most.

        A graph whose launch the host had not left when the device had ended it is not judged: there
        the host waited for the device.
        """
        lane = self._device
        here = (lane.graph == 1) & self.counted[lane.cycle]
        if not here.any():
            return None
        twin = self._twins()
        here &= twin >= 0
        left = np.append(self._host.end, 0)[twin]
        error = self.error_ns[lane.cycle]
        here &= (left + error < lane.end) & (left - lane.start > error)
        return time.share(lane.cycle[here], (left - lane.start)[here].astype(np.float64))

    def _in_scheduler(self, from_ns: NDArray[np.int64], amount_ns: Values) -> Values:
        spent = _Spent(self._host, SCHEDULER)
        return spent.between(from_ns, from_ns + amount_ns.astype(np.int64))

    def hidden(self, time: _Time) -> tuple[Estimate | None, float | None]:
        """Which part of the scheduler's own work the device was busy in, and its ms a cycle."""
        here = np.isin(self._host.phase, [PHASES.index(name) for name in _OWN_WORK])
        here &= self.counted[self._host.cycle]
        if not here.any():
            return None, None
        cycle, start, end = (
            column[here] for column in (self._host.cycle, self._host.start, self._host.end)
        )
        took = (end - start).astype(np.float64)
        if not took.sum():
            return None, None
        busy = _Spent(self._device, tuple(PhaseName)).between(start, end)
        found = ratio(time.by_block(cycle, busy), time.by_block(cycle, took), CONFIDENCE)
        return found, float(took.sum()) / _NS_PER_MS / int(self.counted.sum())


class _Lane(NamedTuple):
    """The phases of one lane of one rank, by cycle and time, as columns."""

    cycle: Places
    phase: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    graph: NDArray[np.int64]


def _keys(lane: _Lane) -> NDArray[np.int64]:
    """What a phase of one lane has in common with the same one of the other lane.

    Its cycle, its name, how often that name occurs in the cycle, and which of these it is.
    """
    names = lane.cycle.astype(np.int64) * len(PHASES) + lane.phase
    order = np.argsort(names, kind="stable")
    ordered = names[order]
    first, behind = (np.searchsorted(ordered, ordered, side=side) for side in ("left", "right"))
    times, which = (
        np.minimum(counts, _MOST - 1) for counts in (behind - first, np.arange(len(names)) - first)
    )
    keys = np.empty(len(names), dtype=np.int64)
    keys[order] = (ordered * _MOST + times) * _MOST + which
    return keys


class _Spent:
    """How much time some phases took until any moment."""

    def __init__(self, lane: _Lane, names: tuple[PhaseName, ...]) -> None:
        here = np.isin(lane.phase, [PHASES.index(name) for name in names])
        start, end = lane.start[here], lane.end[here]
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
        self._origin = int(start[0]) if len(start) else 0
        # Not before the end of the one before: lanes of two cycles may touch by a rounding.
        end = np.maximum.accumulate(end)
        start = np.maximum(start, np.concatenate([start[:1], end[:-1]]))
        took = np.cumsum(np.maximum(0, end - start))
        before = np.concatenate([np.zeros(1, dtype=np.int64), took])[:-1]
        self._moments = np.stack([start, end], axis=1).reshape(-1) - self._origin
        self._spent = np.stack([before, took], axis=1).reshape(-1)

    def between(self, from_ns: NDArray[np.int64], to_ns: NDArray[np.int64]) -> Values:
        """The time in ns that they took between two moments, UNIX ns."""
        if not len(self._moments):
            return np.zeros(len(from_ns))
        early, late = (
            np.interp(moments - self._origin, self._moments, self._spent)
            for moments in (from_ns, to_ns)
        )
        return np.asarray(late - early, dtype=np.float64)
