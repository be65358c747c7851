"""Keeps the newest cycles in memory, for the live page."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import TypeAlias

from spectrace.model import Cycle

LIMIT = 2000  # cycles of one group
GROUPS = 64  # of all runs together

GroupKey: TypeAlias = tuple[str, str]  # run id, group


class RecentCycles:
    """The newest cycles of each group; a cycle that comes again takes its older self's place.

    Beyond `GROUPS` the group that came first is forgotten.

    Args:
        limit: Cycles that are kept of one group.
        older: Groups that have cycles which will never be here.
    """

    def __init__(self, limit: int = LIMIT, older: Iterable[GroupKey] = ()) -> None:
        self._limit = limit
        self._groups: dict[GroupKey, dict[int, Cycle]] = {}
        self._partial = set(older)

    def add(self, cycles: Iterable[Cycle]) -> None:
        """Takes in cycles in the order in which they came."""
        for cycle in cycles:
            key = cycle.run_id, cycle.group
            numbers = self._groups.get(key)
            if numbers is None:
                numbers = self._open(key)
            numbers[cycle.number] = cycle
            if len(numbers) > self._limit:
                del numbers[next(iter(numbers))]
                self._partial.add(key)

    def _open(self, key: GroupKey) -> dict[int, Cycle]:
        if len(self._groups) >= GROUPS:
            oldest = next(iter(self._groups))
            del self._groups[oldest]
            self._partial.add(oldest)
        return self._groups.setdefault(key, {})

    def newest(self, run_id: str, count: int) -> list[Cycle]:
        """The newest `count` cycles of a run over all its groups, the oldest first."""
        return sorted(self._of(run_id), key=attrgetter("start_ns"))[-count:]

    def since(self, run_id: str, seconds: float) -> list[Cycle] | None:
        """The cycles of a run in its last `seconds`, the oldest first.

        Returns:
            As `CycleSource.recent`; None if some of them may not be here.
        """
        cycles = sorted(self._of(run_id), key=attrgetter("start_ns"))
        if not cycles:
            return None
        since_ns = max(cycle.end_ns for cycle in cycles) - round(seconds * 1e9)
        if any(self._misses(key, since_ns) for key in self._partial if key[0] == run_id):
            return None
        return [cycle for cycle in cycles if cycle.start_ns >= since_ns]

    def _misses(self, key: GroupKey, since_ns: int) -> bool:
        numbers = self._groups.get(key, {})
        return all(cycle.start_ns > since_ns for cycle in numbers.values())

    def _of(self, run_id: str) -> list[Cycle]:
        groups = [group for key, group in self._groups.items() if key[0] == run_id]
        return [cycle for group in groups for cycle in group.values()]
