"""Cycles that wait to be sent: a bounded queue that holds each until its results are in."""

from __future__ import annotations

from spectrace.model import Cycle
from spectrace.otlp.encode import span_count

_Key = tuple[str, str, int]


class WaitingCycles:
    """A queue of cycles, each there once, in its newest form.

    A cycle without results (`requests` is None) is held for a while, because with the
    overlap scheduler they come one cycle later: so it is normally sent once. When the queue
    is full the oldest cycle goes, as what happens now is what people look at.

    Args:
        hold_s: So long a cycle waits for its results, in s.
        max_cycles: So many cycles wait at most.
    """

    def __init__(self, hold_s: float, max_cycles: int) -> None:
        self._hold_s = hold_s
        self._max_cycles = max_cycles
        self._held: dict[_Key, tuple[Cycle, float]] = {}
        self._ready: dict[_Key, Cycle] = {}

    def __len__(self) -> int:
        """How many cycles wait."""
        return len(self._held) + len(self._ready)

    def put(self, cycle: Cycle, now_s: float) -> Cycle | None:
        """Adds a cycle, in the place of an earlier form of it.

        Args:
            cycle: The cycle.
            now_s: Any clock that never goes back, in s.

        Returns:
            The cycle that had to go for it, None if there was room.
        """
        key = (cycle.run_id, cycle.group, cycle.number)
        if cycle.requests is None and key not in self._ready:
            _, since_s = self._held.get(key, (cycle, now_s))
            self._held[key] = (cycle, since_s)
        else:
            self._held.pop(key, None)
            self._ready[key] = cycle
        return self._drop() if len(self) > self._max_cycles else None

    def take(self, now_s: float, max_spans: int, *, everything: bool = False) -> list[Cycle]:
        """Removes the oldest cycles that need not wait any longer.

        Args:
            now_s: The clock of `put`, in s.
            max_spans: Spans that the cycles may have together; one cycle may have more.
            everything: Hold nothing back.
        """
        self._release(float("inf") if everything else now_s - self._hold_s)
        taken: list[Cycle] = []
        spans = 0
        while self._ready:
            key, cycle = next(iter(self._ready.items()))
            spans += span_count(cycle)
            if taken and spans > max_spans:
                break
            taken.append(self._ready.pop(key))
        return taken

    def drain(self) -> list[Cycle]:
        """Removes all cycles, the oldest first."""
        self._release(float("inf"))
        rest = list(self._ready.values())
        self._ready.clear()
        return rest

    def _release(self, until_s: float) -> None:
        """Makes ready what is held since `until_s` or longer."""
        while self._held:
            key, (cycle, since_s) = next(iter(self._held.items()))
            if since_s > until_s:
                return
            del self._held[key]
            self._ready[key] = cycle

    def _drop(self) -> Cycle:
        if self._ready:
            return self._ready.pop(next(iter(self._ready)))
        return self._held.pop(next(iter(self._held)))[0]
