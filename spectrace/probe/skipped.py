"""Sums up the cycles that sampling leaves out; loaded once a server samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .layout import LOW_HALF

if TYPE_CHECKING:
    from collections.abc import Sequence


class Skipped:
    """Sums of the cycles that sampling left out."""

    __slots__ = ("_correct", "_count", "_first", "_last", "_tokens", "_total_ns", "_verifies")

    def __init__(self) -> None:
        self._last = 0
        self._clear()

    def _clear(self) -> None:
        self._count = self._total_ns = self._verifies = self._correct = self._tokens = 0
        self._first = 0

    @property
    def something(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._count or self._verifies or self._tokens)

    def add_cycle(self, number: int, length_ns: int) -> None:
        """Counts a cycle."""
        if not self._count:
            self._first = number
        self._count += 1
        self._last = number
        self._total_ns += length_ns

    def add_results(self, rows: Sequence[tuple[str, int | None, int, bool]]) -> None:
        """Counts what a cycle brought; overshoot brings nothing."""
        for _, correct, tokens, overshoot in rows:
            if not overshoot:
                self._tokens += tokens
                if correct is not None:
                    self._verifies += 1
                    self._correct += correct

    def take(self) -> tuple[int, ...]:
        """The sums as `layout.SKIPPED`, which begin anew."""
        sums = (
            self._count,
            self._first,
            self._last,
            self._total_ns,
            self._verifies & LOW_HALF,
            self._correct & LOW_HALF,
            self._tokens & LOW_HALF,
        )
        self._clear()
        return sums
