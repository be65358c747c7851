"""Cycles that wait to be sent: a bounded queue that holds each until its results are in."""

from __future__ import annotations

import msgspec

from spectrace.model import Cycle
from spectrace.otlp.shape import span_count

_Key = tuple[str, str, int]


class Waiting(msgspec.Struct, frozen=True):
    """A cycle that waits.

    Attributes:
        cycle: The cycle.
        spans: As how many spans it is written.
        since_s: Since when its first form waits, in s.
    """

    cycle: Cycle
    spans: int
    since_s: float


class WaitingCycles:
    """A queue of cycles, each there once, in its newest form.

    A cycle without results (`requests` is None) is held for a while, because with the
    overlap scheduler they come one cycle later: so it is normally sent once. When the queue
    is full the oldest cycles go, as what happens now is what people look at.

    Args:
        hold_s: So long a cycle waits for its results, in s.
        max_spans: So many spans wait at most; a cycle that has more is not taken.
    """

    def __init__(self, hold_s: float, max_spans: int) -> None:
        self._hold_s = hold_s
        self._max_spans = max_spans
        self._spans = 0
        self._held: dict[_Key, Waiting] = {}
        self._ready: dict[_Key, Waiting] = {}

    def __len__(self) -> int:
        """How many cycles wait."""
        return len(self._held) + len(self._ready)

    @property
    def spans(self) -> int:
        """How many spans wait."""
        return self._spans

    def put(self, cycle: Cycle, now_s: float) -> list[Waiting]:
        """Adds a cycle, in the place of an earlier form of it.

        Args:
            cycle: The cycle.
            now_s: Any clock that never goes back, in s.

        Returns:
            The cycles that had to go for it.
        """
        key = (cycle.run_id, cycle.group, cycle.number)
        before = self._held.get(key) or self._ready.get(key)
        since_s = now_s if before is None else before.since_s
        waiting = Waiting(cycle, span_count(cycle), since_s)
        self._spans += waiting.spans - (before.spans if before else 0)
        if cycle.requests is None and key not in self._ready:
            self._held[key] = waiting
        else:
            self._held.pop(key, None)
            self._ready[key] = waiting
        gone = []
        while self._spans > self._max_spans:
            gone.append(self._drop())
        return gone

    def take(self, now_s: float, max_spans: int, *, everything: bool = False) -> list[Waiting]:
        """Removes the oldest cycles that need not wait any longer.

        Args:
            now_s: The clock of `put`, in s.
            max_spans: Spans that the cycles may have together; one cycle may have more.
            everything: Hold nothing back.
        """
        self._release(float("inf") if everything else now_s - self._hold_s)
        taken: list[Waiting] = []
        spans = 0
        while self._ready:
            key, waiting = next(iter(self._ready.items()))
            spans += waiting.spans
            if taken and spans > max_spans:
                break
            taken.append(self._ready.pop(key))
            self._spans -= waiting.spans
        return taken

    def drain(self) -> list[Waiting]:
        """Removes all cycles, the oldest first."""
        self._release(float("inf"))
        rest = list(self._ready.values())
        self._ready.clear()
        self._spans = 0
        return rest

    def _release(self, until_s: float) -> None:
        """Makes ready what is held since `until_s` or longer."""
        while self._held:
            key, waiting = next(iter(self._held.items()))
            if waiting.since_s > until_s:
                return
            self._ready[key] = self._held.pop(key)

    def _drop(self) -> Waiting:
        queue = self._ready or self._held
        waiting = queue.pop(next(iter(queue)))
        self._spans -= waiting.spans
        return waiting
