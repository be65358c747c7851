"""Keeps the Cycles of the last seconds for the screen, and the sums of the whole session."""

from __future__ import annotations

from collections.abc import Iterable

from spectrace.analysis.summary import Summary, Tally, summarize
from spectrace.model import Cycle

_NS_PER_S = 1e9
_SHORTEST_S = 0.001


class CycleWindow:
    """The Cycles that arrived within the last `length_s` seconds.

    An amended Cycle takes the place of the one before it. A Cycle that leaves the window is
    added to the sums of the session and forgotten; amended later than that, it is as before.

    Args:
        start_ns: CLOCK_MONOTONIC in ns at which tracing began.
        length_s: Length of the window in s.
    """

    def __init__(self, start_ns: int, length_s: float = 10.0) -> None:
        self._start_ns = start_ns
        self._length_ns = int(length_s * _NS_PER_S)
        self._recent: dict[tuple[str, str, int], tuple[int, Cycle]] = {}
        self._newest: dict[str, int] = {}  # by group: the highest number that left
        self._session = Tally()

    def add(self, cycles: Iterable[Cycle], now_ns: int) -> None:
        """Takes in what arrived at `now_ns`, and lets go of what has become too old."""
        for cycle in cycles:
            identity = (cycle.run_id, cycle.group, cycle.number)
            if identity in self._recent:
                self._recent[identity] = (self._recent[identity][0], cycle)
            elif cycle.number > self._newest.get(cycle.group, -1):
                self._recent[identity] = (now_ns, cycle)
        self._let_go(now_ns - self._length_ns)

    def _let_go(self, before_ns: int) -> None:
        for identity, (arrived_ns, cycle) in list(self._recent.items()):
            if arrived_ns >= before_ns:
                break  # they stand in the order of their arrival
            del self._recent[identity]
            self._newest[cycle.group] = max(cycle.number, self._newest.get(cycle.group, -1))
            self._session.add(cycle)

    def summary(self, now_ns: int) -> Summary:
        """Sums up the window, which is shorter than its length while the session is."""
        window_ns = min(self._length_ns, now_ns - self._start_ns)
        cycles = (cycle for _, cycle in self._recent.values())
        return summarize(cycles, max(_SHORTEST_S, window_ns / _NS_PER_S))

    def session(self, now_ns: int) -> Summary:
        """Sums up the whole session; what stands in the window then is let go."""
        self._let_go(now_ns + 1)
        return self._session.summary(max(_SHORTEST_S, (now_ns - self._start_ns) / _NS_PER_S))
