"""Looks now and then whether a server has got new ranks, and when to try one of them again."""

from __future__ import annotations

from collections.abc import Callable

from spectrace.errors import SpectraceError
from spectrace.model import Rank, Run

_LOOK_S = 2.0
_LONGEST_S = 60.0
_TOLD_AT = 4  # a rank that just starts refuses for a while: people hear of the fourth time


class LateRanks:
    """Ranks that came after the server was attached to.

    Args:
        again: Gives the run with new ranks behind those it had; a look at some processes.
    """

    def __init__(self, again: Callable[[Run], Run]) -> None:
        self._again = again
        self._look_at_s = 0.0
        self._refusals: dict[int, int] = {}  # by process id
        self._retry_at_s: dict[int, float] = {}

    def look(self, run: Run, now_s: float) -> list[Rank]:
        """The ranks that are new and to be tried now; `now_s` is CLOCK_MONOTONIC in s.

        It looks every 2 s at most, for the first time 2 s after the first call.
        """
        if now_s < self._look_at_s:
            return []
        first = not self._look_at_s
        self._look_at_s = now_s + _LOOK_S
        if first:
            return []
        try:
            found = self._again(run).ranks
        except (SpectraceError, OSError):  # the server has ended, which shows elsewhere
            return []
        known = {rank.pid for rank in run.ranks}
        return [
            rank
            for rank in found
            if rank.pid not in known and now_s >= self._retry_at_s.get(rank.pid, 0.0)
        ]

    def refused(self, rank: Rank, why: SpectraceError, now_s: float) -> list[str]:
        """Notes that a rank could not be attached to: the next time comes twice as late.

        Returns:
            What people are to be told of it.
        """
        refusals = self._refusals[rank.pid] = self._refusals.get(rank.pid, 0) + 1
        self._retry_at_s[rank.pid] = now_s + min(_LOOK_S * 2**refusals, _LONGEST_S)
        if refusals != _TOLD_AT:
            return []
        return [f"{rank.name} (process {rank.pid}) is new, but cannot be traced so far: {why}"]
