"""Writes the tables of a recording as Parquet, one file each."""

from __future__ import annotations

from pathlib import Path

from pyarrow import parquet

from spectrace_exporters import TABLES, Recorded


class ParquetFiles:
    """A folder of `cycles.parquet` and the like, one for each of `TABLES`."""

    suffix = ".parquet"

    def write(self, recorded: Recorded, path: Path) -> None:
        """As `FileExporter.write`."""
        path.mkdir()
        for name in TABLES:
            batches = recorded.table(name)
            with parquet.ParquetWriter(path / f"{name}.parquet", batches.schema) as out:
                for batch in batches:
                    out.write_batch(batch)
