"""Writes the tables of a recording as CSV, one file each, with the names of columns first."""

from __future__ import annotations

from pathlib import Path

from pyarrow import csv

from spectrace_exporters import TABLES, Recorded


class CsvFiles:
    """A folder of `cycles.csv` and the like, one for each of `TABLES`.

    A missing value is an empty field, an empty text `""`.
    """

    suffix = ".csv"

    def write(self, recorded: Recorded, path: Path) -> None:
        """As `FileExporter.write`."""
        path.mkdir()
        for name in TABLES:
            batches = recorded.table(name)
            with csv.CSVWriter(path / f"{name}.csv", batches.schema) as out:
                for batch in batches:
                    out.write_batch(batch)
