"""How far the ranks of a group lie apart in each phase, which one comes late, and who waits for it.

A rank that comes early to a collective waits in it: its phase is long, and the straggler's is
short. Blame therefore goes by when ranks arrive, and never by how long their phases are.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.analysis.intervals import Estimate, Places, Values, quantile
from spectrace.measures import KINDS, LANES, PHASES, Measures
from spectrace.model import CycleKind, Lane, PhaseName

CONFIDENCE = 0.95
_NS_PER_MS = 1e6
_FEWEST_CYCLES = 20
_TOGETHER = 0.5  # of the spread at the start: a phase whose ends lie nearer synchronises the ranks
# `schedule` comes several times in a cycle, and parents stand for their parts.
_ALIGNED = tuple(
    name for name in PhaseName if name.parent is None and name is not PhaseName.SCHEDULE
)


class RankFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One rank in one phase; medians over cycles, in ms.

    Attributes:
        rank: Its name.
        late_ms: By how much later than the first rank it came to the phase: its score.
        late_at_end_ms: By how much later than the first rank it left it.
        lost_ms: By how much it fell behind the first rank within the phase; below 0 where it
            caught up, as a straggler does while the others wait for it.
        took_ms: How long its phase was, waiting and all.
        waited_ms: For how long it stood in the phase before the last rank came, where the
            phase synchronises the ranks; else 0.
    """

    rank: str
    late_ms: Estimate
    late_at_end_ms: Estimate
    lost_ms: Estimate
    took_ms: Estimate
    waited_ms: Estimate


class PhaseSkew(msgspec.Struct, frozen=True, kw_only=True):
    """The ranks in one phase.

    Attributes:
        phase: The phase, with all of its parts.
        lane: Whose times.
        cycles: Cycles in which every rank has it.
        start_spread_ms: From the first rank's start to the last one's, the median.
        start_spread_p95_ms: The same that 5 % of the cycles exceed.
        end_spread_ms: The median of the same for the ends.
        synchronises: The ranks leave it much closer together than they come: they wait in it.
        error_ms: By how much two ranks' clocks may lie apart; what is less is no skew.
        ranks: Each rank.
        straggler: The rank that comes latest, where its interval lies above those of all others and
            above the clocks' error; None where none does.
    """

    phase: PhaseName
    lane: Lane
    cycles: int
    start_spread_ms: Estimate
    start_spread_p95_ms: Estimate
    end_spread_ms: Estimate
    synchronises: bool
    error_ms: float
    ranks: tuple[RankFigures, ...]
    straggler: str | None


class Skew(msgspec.Struct, frozen=True, kw_only=True):
    """All phases in which ranks can be held against each other.

    Attributes:
        phases: Each, in the order of `model.PhaseName`; the device's behind the host's.
        straggler: The rank for which others wait longest; None where nobody clearly does.
        waits_in: The phase in which they wait for it.
        lost_in: The phase in which it falls behind most before that, or None.
        waited_ms: For how long the rank that waits most stands there, the median.
        left_out_ranks: Ranks on other hosts, of whose clocks nothing is known.
        problem: Why nothing can be said, a sentence; empty where something can.
    """

    phases: tuple[PhaseSkew, ...] = ()
    straggler: str | None = None
    waits_in: PhaseName | None = None
    lost_in: PhaseName | None = None
    waited_ms: Estimate | None = None
    left_out_ranks: tuple[str, ...] = ()
    problem: str = ""


def skew(measures: Measures, group: int = 0) -> Skew:
    """How far the ranks of a group lie apart.

    Ranks are aligned by the number of the cycle. On the host lane those of one machine share a
    clock; on the device lane each has the error of its own. How far the clocks of two machines lie
    apart is not known, so that only ranks on that of the first one are compared.

    Args:
        measures: The run.
        group: The group, a place in `measures.groups`.
    """
    table = _Table(measures, group)
    if len(table.ranks) < 2:  # noqa: PLR2004 - a pair
        return Skew(
            left_out_ranks=table.left_out,
            problem="There is one rank to look at, so that none can be late."
            if not table.left_out
            else "The other ranks are on other machines, of whose clocks nothing is known.",
        )
    found = [
        one
        for lane in LANES
        for name in table.names(lane)
        if (one := table.phase(lane, name)) is not None
    ]
    if not found:
        return Skew(
            left_out_ranks=table.left_out,
            problem=f"Fewer than {_FEWEST_CYCLES} cycles have all ranks.",
        )
    waits, waited = _worst(found)
    return Skew(
        phases=tuple(found),
        straggler=waits.straggler if waits else None,
        waits_in=waits.phase if waits else None,
        lost_in=_lost_in(found, waits) if waits else None,
        waited_ms=waited,
        left_out_ranks=table.left_out,
    )


def _worst(found: list[PhaseSkew]) -> tuple[PhaseSkew | None, Estimate | None]:
    """The phase in which ranks wait longest for one that is clearly late."""
    waits = [
        (max(rank.waited_ms.value for rank in one.ranks), one)
        for one in found
        if one.straggler is not None and one.synchronises
    ]
    if not waits:
        return None, None
    _, one = max(waits, key=lambda each: each[0])
    return one, max((rank.waited_ms for rank in one.ranks), key=lambda each: each.value)


def _lost_in(found: list[PhaseSkew], waits: PhaseSkew) -> PhaseName | None:
    """Where the straggler falls behind most, on the lane on which it is waited for."""
    losses = [
        (rank.lost_ms.value, one.phase)
        for one in found
        if one.lane is waits.lane and one.phase is not waits.phase
        for rank in one.ranks
        if rank.rank == waits.straggler and (rank.lost_ms.low or 0) > 0
    ]
    return max(losses)[1] if losses else None


class _Table:
    """The phases of one group, ranks side by side."""

    def __init__(self, measures: Measures, group: int) -> None:
        self._measures = measures
        cycles, ranks = measures.cycles, measures.ranks
        kinds = [KINDS.index(kind) for kind in (CycleKind.SPECULATIVE, CycleKind.DECODE)]
        self._wanted = np.isin(cycles["kind"], kinds) & cycles["timed"].astype(np.bool_)
        self._wanted &= cycles["group"] == group
        here = self._wanted[ranks["cycle"]]
        bad = here & (ranks["incomplete"] | ranks["late_switch"])
        self._wanted[ranks["cycle"][bad]] = False
        self._rank_rows = np.flatnonzero(self._wanted[ranks["cycle"]])
        names = [measures.rank_names[place] for place in np.unique(ranks["rank"][self._rank_rows])]
        hosts = {rank.name: rank.host for rank in measures.run.ranks}
        first = hosts.get(names[0], "") if names else ""
        self.ranks = tuple(name for name in names if hosts.get(name, "") == first)
        self.left_out = tuple(name for name in names if name not in self.ranks)
        self._column_of = self._columns_of_ranks()

    def _columns_of_ranks(self) -> NDArray[np.int64]:
        """The column of each row of `ranks`, -1 where it has none."""
        found = np.full(len(self._measures.ranks["cycle"]), -1, dtype=np.int64)
        names = self._measures.ranks["rank"][self._rank_rows]
        for column, name in enumerate(self.ranks):
            place = self._measures.rank_names.index(name)
            found[self._rank_rows[names == place]] = column
        return found

    def names(self, lane: Lane) -> list[PhaseName]:
        """The phases that occur on a lane, parents in place of their parts."""
        phases = self._measures.phases
        found = np.unique(phases["phase"][phases["lane"] == LANES.index(lane)])
        tops = {PHASES[place].parent or PHASES[place] for place in found}
        return [name for name in _ALIGNED if name in tops]

    def phase(self, lane: Lane, name: PhaseName) -> PhaseSkew | None:
        """The ranks in one phase; None where too few cycles have it on all of them."""
        starts, ends = self._edges(lane, name)
        whole = np.asarray(~(np.isnan(starts) | np.isnan(ends)).any(axis=1))
        if int(whole.sum()) < _FEWEST_CYCLES:
            return None
        blocks = self._measures.cycles["window"][whole].astype(np.intp)
        times = _Times(starts[whole], ends[whole], blocks)
        error_ms = self._error_ms(lane, whole)
        return times.skew(lane, name, self.ranks, error_ms)

    def _edges(self, lane: Lane, name: PhaseName) -> tuple[Values, Values]:
        """Starts and ends in ms from the cycle's start, cycles by ranks, NaN where absent."""
        phases, cycles = self._measures.phases, self._measures.cycles
        wanted = [place for place, each in enumerate(PHASES) if name in {each, each.parent}]
        here = (phases["lane"] == LANES.index(lane)) & np.isin(phases["phase"], wanted)
        here &= self._wanted[phases["cycle"]]
        cycle = phases["cycle"][here]
        column = self._columns_at(cycle, phases["place"][here])
        known = column >= 0
        cycle, column = cycle[known], column[known]
        shape = (len(cycles["number"]), len(self.ranks))
        base = cycles["start_ns"][cycle]
        starts, ends = np.full(shape, np.inf), np.full(shape, -np.inf)
        np.minimum.at(
            starts, (cycle, column), (phases["start_ns"][here][known] - base) / _NS_PER_MS
        )
        np.maximum.at(ends, (cycle, column), (phases["end_ns"][here][known] - base) / _NS_PER_MS)
        starts[np.isinf(starts)] = np.nan
        ends[np.isinf(ends)] = np.nan
        if lane is Lane.DEVICE:
            self._drop_unplaced(starts)
        return starts, ends

    def _columns_at(self, cycle: Places, place: NDArray[np.int64]) -> NDArray[np.int64]:
        """The column of the rank that has this place in a cycle."""
        ranks = self._measures.ranks
        most = int(ranks["place"].max()) + 1
        found = np.full(len(self._measures.cycles["number"]) * most, -1, dtype=np.int64)
        found[ranks["cycle"] * most + ranks["place"]] = self._column_of
        return np.asarray(found[cycle * most + place])

    def _drop_unplaced(self, starts: Values) -> None:
        """Leaves out device lanes with holes, and those that are not on the host's axis."""
        ranks = self._measures.ranks
        bad = (self._column_of >= 0) & (ranks["device_incomplete"] | (ranks["clock_error_ns"] < 0))
        starts[ranks["cycle"][bad], self._column_of[bad]] = np.nan

    def _error_ms(self, lane: Lane, whole: NDArray[np.bool_]) -> float:
        """By how much the clocks of two ranks may lie apart."""
        if lane is Lane.HOST:
            return 0.0
        ranks = self._measures.ranks
        here = (self._column_of >= 0) & whole[ranks["cycle"]]
        medians = [
            float(np.median(ranks["clock_error_ns"][here & (self._column_of == column)]))
            for column in range(len(self.ranks))
        ]
        return sum(sorted(medians)[-2:]) / _NS_PER_MS


class _Times(NamedTuple):
    """When each rank began and ended one phase, in ms, cycles by ranks, and the cycles' blocks."""

    starts: Values
    ends: Values
    blocks: Places

    def median(self, values: Values, part: float = 0.5) -> Estimate:
        """A quantile over cycles."""
        return quantile(values, np.ones(len(values)), self.blocks, part, CONFIDENCE)

    def skew(
        self, lane: Lane, name: PhaseName, ranks: tuple[str, ...], error_ms: float
    ) -> PhaseSkew:
        """The figures."""
        late = self.starts - self.starts.min(axis=1, keepdims=True)
        behind = self.ends - self.ends.min(axis=1, keepdims=True)
        spread, end_spread = late.max(axis=1), behind.max(axis=1)
        together = float(np.median(end_spread)) < _TOGETHER * float(np.median(spread))
        waited = self.starts.max(axis=1, keepdims=True) - self.starts
        waited = np.minimum(waited, self.ends - self.starts) if together else np.zeros_like(late)
        figures = tuple(
            RankFigures(
                rank=rank,
                late_ms=self.median(late[:, column]),
                late_at_end_ms=self.median(behind[:, column]),
                lost_ms=self.median(behind[:, column] - late[:, column]),
                took_ms=self.median((self.ends - self.starts)[:, column]),
                waited_ms=self.median(waited[:, column]),
            )
            for column, rank in enumerate(ranks)
        )
        return PhaseSkew(
            phase=name,
            lane=lane,
            cycles=len(self.blocks),
            start_spread_ms=self.median(spread),
            start_spread_p95_ms=self.median(spread, 0.95),
            end_spread_ms=self.median(end_spread),
            synchronises=together,
            error_ms=error_ms,
            ranks=figures,
            straggler=_straggler(figures, error_ms),
        )


def _straggler(figures: tuple[RankFigures, ...], error_ms: float) -> str | None:
    """The rank that clearly comes latest."""
    latest, *others = sorted(figures, key=lambda one: -one.late_ms.value)
    low = latest.late_ms.low
    if low is None or low <= error_ms:
        return None
    highs = [one.late_ms.high for one in others]
    clear = all(high is not None and high < low for high in highs)
    return latest.rank if clear else None
