"""Joins spans that arrive in any order, split, twice or from several machines into Cycles."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

import msgspec

from spectrace.model import Cycle, Phase, RankCycle, Run
from spectrace.otlp.decode import THIS_CYCLE, PhaseSpan, RankSpan, RootSpan, SpanBatch

PATIENCE_S = 2.0
"""After so many seconds a cycle goes out without what has not arrived."""
MEMORY_S = 15.0
"""So long a trace is remembered, so that a late or repeated span finds its cycle."""


class Received(msgspec.Struct, frozen=True):
    """A Cycle that arrived, new or amended, with the run that it belongs to."""

    run: Run
    cycle: Cycle


class JoinStats(msgspec.Struct):
    """What a collector has done.

    Attributes:
        cycles: Cycles given out for the first time.
        amended: Cycles given out again, because more of them arrived.
        partial: Cycles given out although spans were missing.
        evicted: Traces forgotten early, because too many spans were held.
        lost: Traces forgotten of which no cycle was given out: their root or all of their
            ranks never came, or they were evicted before.
    """

    cycles: int = 0
    amended: int = 0
    partial: int = 0
    evicted: int = 0
    lost: int = 0


class CycleCollector:
    """Collects the spans of cycles and gives each cycle out when it is whole.

    A cycle is whole when its root and all ranks that the root announces are there, each with
    as many phases as it announces. What is missing after `PATIENCE_S` is left out and the
    ranks concerned are marked `incomplete`; when it comes after all, or when the cycle is
    sent again with more in it, the cycle is given out again. Senders of several machines
    that name the same cycle meet in one trace: their ranks are put together.

    Call it from one thread.

    Args:
        max_spans: So many spans, or requests of a root, are held at most; then the oldest
            trace goes.
    """

    def __init__(self, max_spans: int = 262_144) -> None:
        self._max_spans = max_spans
        self._spans = 0
        self._traces: dict[int, _Trace] = {}
        self.stats = JoinStats()

    def add(self, batch: SpanBatch, now_s: float) -> list[Received]:
        """Takes the spans of one request.

        Args:
            batch: The spans.
            now_s: Any clock that never goes back, in s.

        Returns:
            The cycles that are whole now and were not before, or that say something new, by
            their start.
        """
        touched: dict[int, _Trace] = {}
        for root in batch.roots:
            self._touch(touched, root.trace, now_s).add_root(root)
        for rank in batch.ranks:
            self._touch(touched, rank.trace, now_s).add_rank(rank)
        for phase in batch.phases:
            self._touch(touched, phase.trace, now_s).add_phase(phase)
        received = self._give_out(touched.values(), partial=False)
        self._weigh(touched.values())
        self._evict()
        return received

    def tick(self, now_s: float) -> list[Received]:
        """Gives out what has waited for too long and forgets what is old; call it every 0.5 s.

        Args:
            now_s: The clock of `add`, in s.

        Returns:
            Cycles of which something is still missing.
        """
        oldest_first = self._traces.values()
        overdue = list(takewhile(lambda trace: now_s - trace.first_s >= PATIENCE_S, oldest_first))
        received = self._give_out(overdue, partial=True)
        for trace in overdue:
            if now_s - trace.first_s >= MEMORY_S:
                self._forget(trace)
        return received

    def finish(self) -> list[Received]:
        """Gives out all that waits, and forgets everything: nothing comes any more.

        Returns:
            Cycles of which something is missing.
        """
        received = self._give_out(self._traces.values(), partial=True)
        for trace in list(self._traces.values()):
            self._forget(trace)
        return received

    def _touch(self, touched: dict[int, _Trace], trace_id: int, now_s: float) -> _Trace:
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = _Trace(trace_id, now_s)
        touched[trace_id] = trace
        return trace

    def _give_out(self, traces: Iterable[_Trace], *, partial: bool) -> list[Received]:
        received = []
        for trace in traces:
            before = trace.cycle
            if trace.settle(partial=partial) and trace.run and trace.cycle:
                received.append(Received(trace.run, trace.cycle))
                self.stats.cycles += before is None
                self.stats.amended += before is not None
                self.stats.partial += partial
        return sorted(received, key=lambda one: one.cycle.start_ns)

    def _weigh(self, traces: Iterable[_Trace]) -> None:
        for trace in traces:
            self._spans -= trace.weight
            trace.weight = trace.weigh()
            self._spans += trace.weight

    def _evict(self) -> None:
        while self._spans > self._max_spans and self._traces:
            self.stats.evicted += 1
            self._forget(next(iter(self._traces.values())))

    def _forget(self, trace: _Trace) -> None:
        del self._traces[trace.trace_id]
        self._spans -= trace.weight
        self.stats.lost += trace.cycle is None


class _Part(msgspec.Struct):
    """The spans of one rank that are still to be put together, by their place in it."""

    span: RankSpan | None = None
    phases: dict[int, Phase] = msgspec.field(default_factory=dict)

    @property
    def whole(self) -> bool:
        return self.span is not None and all(i in self.phases for i in range(self.span.phases))


class _Trace:
    """One cycle in the making.

    Attributes:
        trace_id: Trace id.
        first_s: When its first span came, in s.
        run: The run, None until a root has come.
        cycle: What was given out last.
        weight: How much it counts towards the collector's bound.
    """

    def __init__(self, trace_id: int, first_s: float) -> None:
        self.trace_id = trace_id
        self.first_s = first_s
        self.run: Run | None = None
        self.cycle: Cycle | None = None
        self.weight = 0
        self._root: Cycle | None = None
        self._announced: tuple[str, ...] = ()
        self._parts: dict[str, _Part] = {}
        self._ranks: dict[str, RankCycle] = {}
        self._changed = True

    def add_root(self, root: RootSpan) -> None:
        """Takes a root; of several the last counts, but none takes ranks or results away."""
        self._changed = True
        cycle = root.cycle
        if self._root is not None and cycle.requests is None:
            cycle = msgspec.structs.replace(cycle, requests=self._root.requests)
        self._root = cycle
        self.run = root.run if self.run is None else _merge_runs(self.run, root.run)
        self._announced = _merge_names(self._announced, root.ranks)

    def add_rank(self, span: RankSpan) -> None:
        """Takes the span of a rank."""
        self._changed = True
        self._part(span.rank.rank).span = span

    def add_phase(self, span: PhaseSpan) -> None:
        """Takes the span of a phase."""
        self._changed = True
        self._part(span.rank).phases[span.index] = span.phase

    def settle(self, *, partial: bool) -> bool:
        """Puts together what can be put together.

        Args:
            partial: Be content with what is there, and call it incomplete.

        Returns:
            Whether `cycle` is another one now.
        """
        if self._root is None or not self._changed:
            return False
        self._settle_ranks(self._root.number)
        ranks = dict(self._ranks)
        missing = [name for name in self._announced if name not in ranks]
        if missing and not partial:
            return False
        self._changed = False
        for name in missing:
            ranks.update(self._unfinished(name, self._root.number))
        before, self.cycle = self.cycle, self._cycle(self._root, ranks)
        return self.cycle is not None and self.cycle != before

    def _cycle(self, root: Cycle, ranks: dict[str, RankCycle]) -> Cycle | None:
        ordered = tuple(ranks[name] for name in self._announced if name in ranks)
        return msgspec.structs.replace(root, ranks=ordered) if ordered else None

    def weigh(self) -> int:
        """Spans and requests that the trace holds."""
        rows = self._root.requests if self._root else None
        parts = sum(1 + len(part.phases) for part in self._parts.values())
        ranks = sum(1 + len(rank.phases) for rank in self._ranks.values())
        return 1 + len(rows or ()) + len(self._announced) + parts + ranks

    def _part(self, rank: str) -> _Part:
        return self._parts.setdefault(rank, _Part())

    def _settle_ranks(self, number: int) -> None:
        whole = [name for name in self._announced if name in self._parts]
        for name in whole:
            part = self._parts[name]
            if part.span is not None and part.whole:
                self._ranks[name] = _rank_cycle(part.span, part.phases, number)
                del self._parts[name]

    def _unfinished(self, name: str, number: int) -> dict[str, RankCycle]:
        part = self._parts.get(name)
        if part is None or part.span is None:
            return {}
        rank = _rank_cycle(part.span, part.phases, number)
        return {name: msgspec.structs.replace(rank, incomplete=True)}


def _rank_cycle(span: RankSpan, phases: dict[int, Phase], number: int) -> RankCycle:
    """The rank with its phases in order, those that named no cycle in the cycle `number`."""
    ordered = (phases[index] for index in sorted(phases) if index < span.phases)
    return msgspec.structs.replace(
        span.rank,
        phases=tuple(
            msgspec.structs.replace(phase, of_cycle=number)
            if phase.of_cycle == THIS_CYCLE
            else phase
            for phase in ordered
        ),
    )


def _merge_names(known: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """All ranks: as a sender that knows them all orders them, else in their natural order."""
    if set(new) >= set(known):
        return new
    if set(known) >= set(new):
        return known
    return tuple(sorted({*known, *new}, key=_natural))


def _merge_runs(known: Run, new: Run) -> Run:
    """One run as two machines see it: the machine of the first ranks speaks for it."""
    if {rank.name for rank in new.ranks} >= {rank.name for rank in known.ranks}:
        return new
    first, second = sorted((new, known), key=lambda run: [_natural(r.name) for r in run.ranks])
    names = {rank.name for rank in first.ranks}
    others = tuple(rank for rank in second.ranks if rank.name not in names)
    return msgspec.structs.replace(first, ranks=first.ranks + others)


def _natural(name: str) -> list[tuple[str, int]]:
    """Sorts `TP2` before `TP10`."""
    parts = re.findall(r"([^0-9]*)([0-9]{0,18})", name)
    return [(text, int(digits or 0)) for text, digits in parts]
