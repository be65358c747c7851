"""Holds Cycles until nothing more is expected of them, so that each is counted once.

A Cycle is given again whenever more of it is known, and what was counted cannot be taken back.
So it waits from its first report on, each newer form of it in the place of the one before, and is
settled after a time that is longer than the assembler's patience. What comes after that, and
copies that a sender repeats, are told by the numbers that are settled already.
"""

from __future__ import annotations

from spectrace.model import Cycle

HOLD_S = 3.0
"""The assembler waits 2 s for a rank, and a sender gathers cycles for a moment."""
_MOST_HELD = 20_000
_REMEMBERED = 8192  # settled numbers of a group; an older one than all of them counts as settled

_Key = tuple[str, str, int]


class _Settled:
    """The numbers of one group that are settled."""

    def __init__(self) -> None:
        self._numbers: dict[int, None] = {}
        self._floor = -1

    def __contains__(self, number: int) -> bool:
        return number <= self._floor or number in self._numbers

    def add(self, number: int) -> None:
        self._numbers[number] = None
        if len(self._numbers) > _REMEMBERED:
            oldest = next(iter(self._numbers))
            del self._numbers[oldest]
            self._floor = max(self._floor, oldest)


class Settling:
    """Cycles of any runs that wait to be counted.

    Args:
        hold_s: So long each waits, in s.
        most: So many wait; then the oldest is settled before its time.
    """

    def __init__(self, hold_s: float = HOLD_S, most: int = _MOST_HELD) -> None:
        self._hold_s = hold_s
        self._most = most
        self._held: dict[_Key, tuple[float, Cycle]] = {}
        self._settled: dict[tuple[str, str], _Settled] = {}

    def put(self, cycle: Cycle, now_s: float) -> bool:
        """Takes in a cycle, new or amended.

        Args:
            cycle: The cycle.
            now_s: Any clock that never goes back, in s.

        Returns:
            False where it is settled already, and this form of it comes too late.
        """
        key = (cycle.run_id, cycle.group, cycle.number)
        since_s, _ = self._held.get(key, (now_s, cycle))
        settled = self._settled.get(key[:2])
        if settled is not None and key not in self._held and cycle.number in settled:
            return False
        self._held[key] = since_s, cycle
        return True

    def take(self, now_s: float) -> list[Cycle]:
        """Settles what has waited for long enough; infinity for everything."""
        taken: list[Cycle] = []
        while self._held:
            key, (since_s, cycle) = next(iter(self._held.items()))
            if since_s > now_s - self._hold_s and len(self._held) <= self._most:
                break
            del self._held[key]
            self._settled.setdefault(key[:2], _Settled()).add(cycle.number)
            taken.append(cycle)
        return taken

    def forget(self, run_id: str) -> None:
        """Lets go of everything of a run."""
        self._held = {key: held for key, held in self._held.items() if key[0] != run_id}
        self._settled = {key: one for key, one in self._settled.items() if key[0] != run_id}
