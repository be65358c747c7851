"""Where Cycles go besides the page: one file per format, found by their entry points.

An entry point of the group `spectrace.exporters` names an `ExporterFactory`. It is called
with the target that the person named (an URL, a file, None for the format's own default)
and the run that the cycles belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from spectrace.model import Cycle, Run

ENTRY_POINT_GROUP = "spectrace.exporters"


class ExportStats(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the cycles that an exporter was given.

    A cycle that is amended after it was sent is sent, and counted, again.

    Attributes:
        sent_cycles: Cycles that the other side took.
        sent_spans: Their spans.
        rejected_spans: Of these, spans that the other side took and then said it did not store.
        failed_cycles: Cycles that the other side did not take.
        failed_spans: Their spans.
        dropped_cycles: Cycles that were never sent: too many waited, or there was no time left.
        dropped_spans: Their spans, as estimated.
        last_error: What last went wrong, empty if nothing did.
    """

    sent_cycles: int = 0
    sent_spans: int = 0
    rejected_spans: int = 0
    failed_cycles: int = 0
    failed_spans: int = 0
    dropped_cycles: int = 0
    dropped_spans: int = 0
    last_error: str = ""

    @property
    def lost_cycles(self) -> int:
        """Cycles that did not arrive."""
        return self.failed_cycles + self.dropped_cycles

    def loss(self) -> str:
        """One sentence on what did not arrive, empty if everything did."""
        if not self.lost_cycles and not self.rejected_spans:
            return ""
        counts = (
            f"{self.lost_cycles} cycles did not arrive ({self.failed_cycles} failed, "
            f"{self.dropped_cycles} were not sent) and {self.rejected_spans} spans were rejected"
        )
        return f"{counts}. Last error: {self.last_error}" if self.last_error else f"{counts}."


class Exporter(Protocol):
    """Takes the cycles of one run to somewhere else.

    Attributes:
        run: The run; assign it anew when more of it is known.
    """

    run: Run

    def add(self, cycles: Sequence[Cycle]) -> None:
        """Takes cycles, new or amended; returns at once, whatever the other side does."""

    @property
    def stats(self) -> ExportStats:
        """What became of the cycles so far."""

    def close(self, timeout_s: float = 1.0) -> ExportStats:
        """Sends what waits and gives up what is not gone after `timeout_s` seconds.

        Returns:
            The final counts.
        """


class ExporterFactory(Protocol):
    """Makes an exporter."""

    def __call__(self, target: str | None, run: Run, /) -> Exporter:
        """Starts an exporter.

        Args:
            target: Where the cycles go, None for the format's own default.
            run: The run.

        Raises:
            SpectraceError: The target cannot be one.
        """
