"""Stores the cycles of a traced session."""

from __future__ import annotations

from collections.abc import Sequence

from spectrace.attach.session import End, SessionFacts, Stall
from spectrace.model import Cycle, Run
from spectrace.store.store import CycleStore


class StoreTap:
    """A tap on a session (`attach.tapped.Tap`) that stores its cycles.

    Args:
        store: Where they go.

    Attributes:
        first_ns: UNIX time in ns at which the first cycle began, None before it came.
    """

    def __init__(self, store: CycleStore) -> None:
        self._store = store
        self._run: Run | None = None
        self.first_ns: int | None = None

    def tell(self, run: Run, facts: SessionFacts, stalls: Sequence[Stall]) -> None:
        """Writes down what more is known of the run."""
        del facts, stalls
        if run != self._run:
            self._run = run
            self._store.put_run(run)

    def feed(self, cycles: Sequence[Cycle]) -> None:
        """Hands cycles over."""
        if self.first_ns is None and cycles:
            self.first_ns = min(cycle.start_ns for cycle in cycles)
        self._store.add(cycles, wait=False)

    def end(self, run: Run, end: End | None) -> None:
        """Nothing: the file is written when the probe is out."""
