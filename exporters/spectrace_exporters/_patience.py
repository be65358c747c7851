"""Tells at the end whether an answer can still be expected, by how long the last ones took."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

_ANSWERS = 8  # that are remembered: who was slow once is not waited for longer for good
_SLOWER = 2  # times as long as the slowest of them


class Patience:
    """Watches the tries of one thread; others may ask at any time.

    Args:
        clock_s: A clock that never goes back, in s.
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._began_s = 0.0  # the try under way, 0 if there is none
        self._is_new = True  # no try has ended yet
        self._took_s: deque[float] = deque(maxlen=_ANSWERS)

    def begin(self) -> None:
        """A try begins."""
        self._began_s = self._clock_s()

    def end(self, *, answered: bool) -> None:
        """It has ended, and its time counts where somebody answered."""
        began_s, self._began_s = self._began_s, 0.0
        self._is_new = False
        if answered:
            self._took_s.append(self._clock_s() - began_s)

    def is_over(self, since_s: float, least_s: float, first_s: float = 0.0) -> bool:
        """Whether the try under way has taken too long: twice as long as the last ones.

        Args:
            since_s: Where somebody has answered before, a try that began earlier counts from
                then on: it gets a last chance.
            least_s: So long an answer is waited for however fast the last ones were.
            first_s: The same for the first try of all, where that is more.
        """
        began_s, took_s = self._began_s, list(self._took_s)
        patience_s = max(least_s, first_s * self._is_new, *(_SLOWER * one for one in took_s))
        until_s = (max(began_s, since_s) if took_s else began_s) + patience_s
        return bool(began_s) and self._clock_s() > until_s
