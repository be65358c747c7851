"""A recording that is being exported: shows how far the exporter has come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.progress import Progress

from spectrace.analysis.sound import sound
from spectrace.model import Cycle, Run
from spectrace.store.extract import Extract

if TYPE_CHECKING:  # it takes long to import
    from pyarrow import RecordBatch, RecordBatchReader


class Watched:
    """A recording as an exporter reads it (`spectrace_exporters.Recorded`).

    Args:
        extract: The recording.
        progress: Where to show how much of it was read.

    Attributes:
        left_out: Phases and ranks that were left out, because they end before they begin.
    """

    def __init__(self, extract: Extract, progress: Progress) -> None:
        self._extract = extract
        self._progress = progress
        self.left_out = 0

    @property
    def count(self) -> int:
        """How many cycles there are."""
        return self._extract.count

    @property
    def first_ns(self) -> int:
        """UNIX time in ns before which nothing began."""
        return self._extract.first_ns

    @property
    def runs(self) -> list[Run]:
        """The runs that the cycles belong to."""
        return self._extract.runs

    def cycles(self) -> Iterator[Cycle]:
        """The cycles in the order in which they began, without what ends before it begins."""
        cycles = self._extract.cycles()
        for cycle in self._progress.track(cycles, total=self.count, description="cycles"):
            kept, left_out = sound(cycle)
            self.left_out += left_out
            if kept is not None:
                yield kept

    def table(self, name: str) -> RecordBatchReader:
        """A table of the recording, as it stands there."""
        import pyarrow as pa  # noqa: PLC0415 - takes long, and only tables need it

        task = self._progress.add_task(name, total=self._extract.rows(name))
        reader = self._extract.table(name)

        def batches() -> Iterator[RecordBatch]:
            for batch in reader:
                self._progress.advance(task, batch.num_rows)
                yield batch

        return pa.RecordBatchReader.from_batches(reader.schema, batches())
