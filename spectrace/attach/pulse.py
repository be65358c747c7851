"""Tells an idle server from one that stands still, by what its probe counts."""

from __future__ import annotations

from enum import Enum

_STILL_NS = 3_000_000_000
_NS_PER_S = 1e9


class Activity(str, Enum):
    """What a scheduler is doing."""

    UNKNOWN = "unknown"  # too early to tell, or a loop that does not say when it waits
    DECODING = "decoding"
    IDLE = "idle"  # it looks for work many times a second
    STILL = "still"  # paused, blocked, or within one long cycle


class Pulse:
    """How often a scheduler comes round.

    Args:
        now_ns: CLOCK_MONOTONIC.
        idle_is_told: The probe counts idle calls.
    """

    def __init__(self, now_ns: int, *, idle_is_told: bool = True) -> None:
        self._idle_is_told = idle_is_told
        self._cycles: int | None = None
        self._idle_calls: int | None = None
        self._began_ns = self._cycle_ns = self._idle_ns = now_ns
        self._seen_cycle = self._seen_idle = False

    def look(self, cycles: int, idle_calls: int, now_ns: int) -> None:
        """Takes in how many cycles and idle calls there were so far."""
        if cycles != self._cycles:
            self._seen_cycle |= self._cycles is not None
            self._cycles, self._cycle_ns = cycles, now_ns
        if idle_calls != self._idle_calls:
            self._seen_idle |= self._idle_calls is not None
            self._idle_calls, self._idle_ns = idle_calls, now_ns

    def quiet_s(self, now_ns: int) -> float:
        """Time in s since the last cycle or idle call that was seen, or since the start."""
        return (now_ns - max(self._cycle_ns, self._idle_ns)) / _NS_PER_S

    def activity(self, now_ns: int) -> Activity:
        """What the scheduler was doing in the last 3 s; a cycle counts for more than idling."""
        if self._seen_cycle and now_ns - self._cycle_ns <= _STILL_NS:
            return Activity.DECODING
        if self._seen_idle and now_ns - self._idle_ns <= _STILL_NS:
            return Activity.IDLE
        if not self._idle_is_told or now_ns - self._began_ns <= _STILL_NS:
            return Activity.UNKNOWN
        return Activity.STILL
