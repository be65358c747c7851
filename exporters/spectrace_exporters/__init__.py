"""Where Cycles go besides the page: one file per format, found by their entry points.

Entry points of the group `spectrace.exporters` come in these kinds, told apart by their names:

- `NAME` names an `ExporterFactory`, which sends the cycles of a session on while it runs. It is
  called with the target that the person named (an URL, None for the format's own default) and
  the run that the cycles belong to.
- `NAME.file` names a class, or a function without arguments, that gives a `FileExporter`:
  `spectrace export FILE --to NAME` has it write a recording as a file of its format.

- `otlp.metrics` names what pushes metrics, see `otlp_metrics.OtlpMetrics`.

An own format is a class in any package, installed beside spectrace:

    [project.entry-points."spectrace.exporters"]
    "lines.file" = "my_package.lines:Lines"

    class Lines:
        suffix = ".txt"

        def write(self, recorded: Recorded, path: Path) -> None:
            with path.open("w") as out:
                for cycle in recorded.cycles():
                    print(cycle.number, cycle.end_ns - cycle.start_ns, file=out)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from spectrace.model import Cycle, Run

if TYPE_CHECKING:  # it takes long to import, and few exporters need it
    from pyarrow import RecordBatchReader

ENTRY_POINT_GROUP = "spectrace.exporters"
FILE_ENTRY_POINT = ".file"
"""What the name of an entry point ends with that names a `FileExporter`."""
TABLES = (
    *("cycles", "ranks", "phases", "requests", "spans"),
    *("looks", "kernels", "kernel_names"),
)
"""What `Recorded.table` knows."""


class ExportStats(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the cycles that an exporter was given, and of their spans.

    A cycle that is amended after it was sent is sent, and counted, again. A cycle counts as
    failed or dropped where not all of its spans were taken. Counts of spans are exact.

    Attributes:
        sent_cycles: Cycles that the other side took.
        sent_spans: Spans that the other side took.
        rejected_spans: Of these, spans that the other side then said it did not store.
        failed_cycles: Cycles that the other side did not take.
        failed_spans: Spans likewise.
        dropped_cycles: Cycles that were given up: too many waited, or there was no time left. Those
            that were under way may have arrived all the same.
        dropped_spans: Their spans.
        unsampled_cycles: Cycles that sampling left out; they are no loss.
        last_error: What last went wrong, empty if nothing did.
    """

    sent_cycles: int = 0
    sent_spans: int = 0
    rejected_spans: int = 0
    failed_cycles: int = 0
    failed_spans: int = 0
    dropped_cycles: int = 0
    dropped_spans: int = 0
    unsampled_cycles: int = 0
    last_error: str = ""

    @property
    def lost_cycles(self) -> int:
        """Cycles of which it is not known that they arrived."""
        return self.failed_cycles + self.dropped_cycles

    @property
    def lost_spans(self) -> int:
        """Spans that are not stored on the other side, as far as it tells."""
        return self.failed_spans + self.dropped_spans + self.rejected_spans

    def loss(self) -> str:
        """One sentence on what is not known to have arrived, empty if everything did."""
        if not self.lost_cycles and not self.lost_spans:
            return ""
        counts = (
            f"{self.lost_spans} spans may be lost: {self.failed_spans} failed, "
            f"{self.dropped_spans} were given up, {self.rejected_spans} were rejected; "
            f"{self.lost_cycles} cycles may not have arrived"
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

    def close(self) -> ExportStats:
        """Sends what waits, and gives up what is not gone soon.

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


class Recorded(Protocol):
    """A recording as a file exporter reads it; one iterator at a time, each to its end."""

    @property
    def count(self) -> int:
        """How many cycles there are."""

    @property
    def first_ns(self) -> int:
        """UNIX time in ns before which nothing began."""

    @property
    def runs(self) -> Sequence[Run]:
        """The runs that the cycles belong to."""

    def cycles(self) -> Iterator[Cycle]:
        """Every cycle once, in the order in which they began; none ends before it begins."""

    def table(self, name: str) -> RecordBatchReader:
        """One of `TABLES` as it stands in the recording, see docs/files.md."""


class FileExporter(Protocol):
    """Writes recordings in one format."""

    @property
    def suffix(self) -> str:
        """What is put in the place of `.spectrace` in a file's name, such as `.jaeger.json`."""

    def write(self, recorded: Recorded, path: Path) -> None:
        """Writes a file, or a folder of files.

        It need not clean up: `path` is a temporary one, which is put in its place when this
        returns, and removed when it raises.

        Args:
            recorded: What to write; to be streamed, it may not fit into memory.
            path: Where, it does not exist.

        Raises:
            OSError: It cannot be written.
            SpectraceError: It cannot be written in this format.
        """
