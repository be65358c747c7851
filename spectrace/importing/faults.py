"""What was broken in a trace, or left out of it, and how often: a number for each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum


class Fault(str, Enum):
    """Something that was repaired or left out; the value is what is said about it."""

    CORRUPT = "Files whose compressed data are damaged; what lies behind the damage is missing"
    CUT_OFF = "Files that end in the midst of the trace; what should follow is missing"
    UNREADABLE = "Entries left out, since they are no JSON, or lack what makes an entry"
    NOT_A_NUMBER = "Slices left out, since their time is no number, or a century away"
    NEGATIVE = "Slices left out, since they end before they begin"
    CROSSING = "Ranges cut, since they end after the range around them"
    UNOPENED = "Ends of ranges (E) left out, since nothing began them"
    UNCLOSED = "Ranges (B) left out, since nothing ended them"
    OVERLAPPING = "Phases on the device cut, since they began before the one before had ended"
    CAPTURED = "Turns left out, since a graph was captured in them"
    OUTSIDE = "Ranges of the worker left out, since they lie in no turn, as at the edges of a trace"
    UNMATCHED = "Cycles of one rank alone, since no cycle of the first rank is like them"


class Faults:
    """Counts faults."""

    def __init__(self) -> None:
        self._counts: Counter[Fault] = Counter()

    def add(self, fault: Fault, times: int = 1) -> None:
        """Counts one kind."""
        if times:
            self._counts[fault] += times

    def counts(self) -> dict[str, int]:
        """How often each kind came that came at all, by its name in lower case."""
        return {fault.name.lower(): self._counts[fault] for fault in Fault if self._counts[fault]}

    def sentences(self) -> Iterator[str]:
        """One line for each kind that came."""
        for fault in Fault:
            if self._counts[fault]:
                yield f"{fault.value}: {self._counts[fault]:,}."
