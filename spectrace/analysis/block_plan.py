"""Plans in which order the timing modes take their turns, so that none is favoured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from spectrace.model import TimingMode


class Turn(NamedTuple):
    """One block of cycles that is to be timed in one mode.

    Attributes:
        round: Which round it belongs to, from 0.
        mode: How its cycles are timed.
    """

    round: int
    mode: TimingMode


class Plan:
    """Turns without end, in rounds; the same for the same seed.

    In the first of two rounds each mode follows each other mode exactly once, so that what a mode
    leaves behind for the next one meets all alike: it is an Eulerian circuit of the complete
    directed graph of the modes, in which every mode has as many turns as there are others. The
    second one goes back the same way, so that of both together all modes have the same mean
    place: what drifts evenly meets all alike. It begins with the mode that the first one ended
    with, which follows itself there and one other mode once less. Every two rounds take another
    way. Of two modes that is one, other, other, one.

    Args:
        modes: At least two, each once.
        seed: Of the order.

    Attributes:
        lead_in: The mode in which the server runs before the first turn, so that the first turn
            follows another mode as all others do. It is not measured.
        turns_per_round: How many turns a round has.

    Raises:
        ValueError: There is nothing to compare.
    """

    def __init__(self, modes: Sequence[TimingMode], seed: int) -> None:
        if len(modes) < 2 or len(set(modes)) < len(modes):  # noqa: PLR2004 - a pair
            raise ValueError("A comparison takes two modes at least, each once.")
        self._modes = tuple(modes)
        self._random = Random(seed)  # noqa: S311 - an order, no secret
        self.lead_in = self._random.choice(self._modes)
        self.turns_per_round = len(modes) * (len(modes) - 1)

    def turns(self) -> Iterator[Turn]:
        """All turns, one after the other; each call goes on with further rounds from 0."""
        number = 0
        before = self.lead_in
        while True:
            way = _circuit(self._modes, before, self._random)[1:]
            yield from (Turn(number, mode) for mode in way)
            yield from (Turn(number + 1, mode) for mode in reversed(way))
            before = way[0]
            number += 2


def _circuit(modes: tuple[TimingMode, ...], start: TimingMode, random: Random) -> list[TimingMode]:
    """A random closed way over every ordered pair of modes, which begins and ends at `start`.

    Hierholzer's algorithm (Mathematische Annalen 6, 1873) over exits in random order.
    """
    exits = {mode: [other for other in modes if other is not mode] for mode in modes}
    for others in exits.values():
        random.shuffle(others)
    way, stack = [], [start]
    while stack:
        others = exits[stack[-1]]
        if others:
            stack.append(others.pop())
        else:
            way.append(stack.pop())
    return way[::-1]
