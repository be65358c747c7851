"""Which cycles are sent on: one in N by their number, slow ones, or as OTEL_TRACES_SAMPLER says."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

import msgspec
from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

from spectrace.model import Cycle, CycleKind
from spectrace.otlp import ids

_WINDOW = 1024  # cycles of a kind that are compared with each other
_ENOUGH = 100  # without so many there is no quantile
_REMEMBERED = 4096  # slow cycles; what amends one later goes the same way

_SAMPLED = Decision.RECORD_AND_SAMPLE
_NS_PER_S = 1e9

_Key = tuple[str, str, int]


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent: a cycle goes if any of these holds.

    Attributes:
        every: Cycles whose number it divides; 1 is every cycle, 0 is none. By their number, so
            that spectraces that watch ranks of one server on several machines agree.
        ratio: This part of all cycles, from 0 to 1, by their trace id; None for `every`.
        slow_ns: Cycles that take so long on any rank, or longer.
        slow_quantile: Cycles that take longer than this part, from 0 to 1, of the last 1024
            cycles of their kind; nothing is slow before there are 100.
    """

    every: int = 1
    ratio: float | None = None
    slow_ns: int | None = None
    slow_quantile: float | None = None

    @classmethod
    def of(
        cls, every: int | None, slow_s: float | None, slow_quantile: float | None
    ) -> Sampling | None:
        """What a person asks for, None where they ask for nothing; times in s."""
        slow = slow_s is not None or slow_quantile is not None
        if every is None and not slow:
            return None
        return cls(
            every=every or (0 if slow else 1),
            slow_ns=None if slow_s is None else round(slow_s * _NS_PER_S),
            slow_quantile=slow_quantile,
        )


class Sampler:
    """Decides cycle by cycle; whoever was chosen stays so when it is amended.

    Args:
        sampling: What is sent.
    """

    def __init__(self, sampling: Sampling) -> None:
        self._sampling = sampling
        self._ratio = None if sampling.ratio is None else TraceIdRatioBased(sampling.ratio)
        self._recent: dict[CycleKind, _Recent] = {}
        self._seen: dict[_Key, bool] = {}

    def wants(self, cycle: Cycle) -> bool:
        """Whether a cycle is to be sent."""
        return self._is_due(cycle) or self._is_slow(cycle)

    def _is_due(self, cycle: Cycle) -> bool:
        if self._ratio is not None:
            trace_id = ids.trace_id(cycle.run_id, cycle.group, cycle.number)
            return self._ratio.should_sample(None, trace_id, "").decision is _SAMPLED
        every = self._sampling.every
        return every == 1 or (every > 0 and cycle.number % every == 0)

    def _is_slow(self, cycle: Cycle) -> bool:
        slow_ns, quantile = self._sampling.slow_ns, self._sampling.slow_quantile
        if slow_ns is None and quantile is None:
            return False
        longest_ns = max((rank.duration_ns for rank in cycle.ranks), default=0)
        if slow_ns is not None and longest_ns >= slow_ns:
            return True
        return quantile is not None and self._is_beyond(quantile, cycle, longest_ns)

    def _is_beyond(self, quantile: float, cycle: Cycle, longest_ns: int) -> bool:
        """Whether a cycle is beyond the quantile, each cycle being counted once."""
        key = (cycle.run_id, cycle.group, cycle.number)
        known = self._seen.get(key)
        recent = self._recent.setdefault(cycle.kind, _Recent())
        slow = bool(known) or recent.share_below(longest_ns) >= quantile
        if known is None:
            recent.add(longest_ns)
        self._seen[key] = slow
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return slow


class _Recent:
    """How long the last cycles of one kind took."""

    def __init__(self) -> None:
        self._in_order: deque[int] = deque()
        self._sorted: list[int] = []

    def add(self, time_ns: int) -> None:
        """Takes in one more, and forgets the oldest."""
        self._in_order.append(time_ns)
        insort(self._sorted, time_ns)
        if len(self._in_order) > _WINDOW:
            del self._sorted[bisect_left(self._sorted, self._in_order.popleft())]

    def share_below(self, time_ns: int) -> float:
        """Which part of them took less, from 0 to 1; -1 where there are too few to say."""
        count = len(self._sorted)
        return bisect_left(self._sorted, time_ns) / count if count >= _ENOUGH else -1.0
