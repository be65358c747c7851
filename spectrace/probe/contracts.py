"""What the recorder asks of whoever times the device, waits for it, or tells other tools.

For type checkers alone: it never goes into a server.
"""

from __future__ import annotations

from typing import Protocol


class Boundaries(Protocol):
    """What times boundaries beside the host's clock, without ever waiting or raising."""

    @property
    def pending(self) -> int:
        """Cycles whose times are still on their way."""

    @property
    def failed(self) -> bool:
        """Whether it does nothing any more, for good."""

    def begin(self, number_hint: int) -> None:
        """A cycle starts; its first mark follows."""

    def mark(self, phase: int) -> None:
        """A phase begins, right after the host's stamp."""

    def end(self, number: int) -> None:
        """The cycle is whole, and this is its number."""

    def drain(self, now_ns: int) -> None:
        """Polls for what has come; `now_ns` is CLOCK_MONOTONIC."""

    def close(self) -> None:
        """Lets go of everything."""


class Synchronizer(Protocol):
    """What makes the host wait for the device, in mode `sync` alone."""

    failed: bool  # it cannot wait any more

    def before(self) -> None:
        """Waits until the device has done all that was asked of it."""


class CycleRanges(Protocol):
    """What tells other tools about cycles and phases, as NVTX ranges.

    Attributes:
        error: Why it has switched itself off; empty while it works.
    """

    error: str

    def cycle_begin(self, number: int) -> None:
        """A cycle begins that will have this number."""

    def phase(self, mark: int) -> None:
        """A phase begins, and the one before it ends; with its lag."""

    def cycle_end(self, number: int) -> None:
        """The cycle ends, and this is its number."""

    def close(self) -> None:
        """Lets go of everything."""
