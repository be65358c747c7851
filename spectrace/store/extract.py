"""Reads a recording from end to end, as Cycles or as Arrow tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from spectrace.model import Cycle, Run
from spectrace.store.columns import Batch
from spectrace.store.database import Database
from spectrace.store.recording import files_of
from spectrace.store.schema import TABLES

if TYPE_CHECKING:  # it takes long to import, and most readers need none of it
    from pyarrow import RecordBatchReader

_CYCLES = 500  # that are in memory at once
_ROWS = 100_000  # of a table, likewise


class Extract:
    """The cycles of a recording, each once and in its newest version.

    It belongs to one thread, and one stream or reader is to be at its end before the next.

    Args:
        path: A file that was saved, or the directory of a store whose owner has ended.
        limit: As many cycles at most, the oldest first, with the kernels of these, and of spans
            of others what began by then; None for all.

    Attributes:
        count: How many cycles there are.
        first_ns: UNIX time in ns before which nothing of them began, never before 1970.
        runs: The runs that they belong to, in the order in which they were first seen.

    Raises:
        SpectraceError: There is no such recording, it is in use, damaged, or none of
            spectrace's.
    """

    def __init__(self, path: Path, limit: int | None = None) -> None:
        files = files_of(path)
        self._names = [f"part_{number}" for number in range(len(files))]
        self._database = Database(files[0].parent)
        try:
            for file, name in zip(files, self._names, strict=True):
                self._database.attach(file, name, read_only=True)
            self.count = self._database.note_newest(self._names, limit)
            self.first_ns = self._database.first_ns_of_newest(self._names)
            known = [run for name in self._names for run in self._database.runs(name)]
        except BaseException:
            self.close()
            raise
        self.runs: list[Run] = list({run.run_id: run for run in known}.values())

    def cycles(self) -> Iterator[Cycle]:
        """The cycles in the order in which they began."""
        return self._database.stream_newest(self._names, _CYCLES)

    def table(self, name: str) -> RecordBatchReader:
        """A table of the recording, piece by piece.

        Args:
            name: `cycles`, `ranks`, `phases`, `requests`, `spans`, `looks`, `kernels` or
                `kernel_names`, with columns as in docs/files.md.

        Raises:
            KeyError: There is no such table.
        """
        if name not in TABLES:
            raise KeyError(name)
        return self._database.read_newest(self._names, name, _ROWS)

    def served(self) -> Batch:
        """Of every cycle its time on the first rank and what it gave to requests, by their ends.

        Returns:
            Columns of equal length: `group_name`, `kind`, `batch_size`, `steps`, `topk`,
            `draft_tokens`, `start_ns`, `end_ns`, `mode`, `probe_ns`, `ended_idle`,
            `incomplete` as in the recording; `tokens` (output, health checks left out),
            `verifies` and `correct_drafts` (rows that count), 0 where none are known.
        """
        return self._database.served_of_newest(self._names)

    def rows(self, name: str) -> int:
        """How many rows `table` will give."""
        return self._database.count_newest(self._names, name)

    def close(self) -> None:
        """Lets go of the files."""
        self._database.close()
