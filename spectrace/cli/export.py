"""`spectrace export`: writes a recording in a format that other tools read."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from spectrace.cli import numbers
from spectrace.cli.exporting import FileExporter, file_exporter
from spectrace.cli.page_options import ForceOption, RecordingArgument
from spectrace.cli.stopping import interrupted_by_signals
from spectrace.cli.watched import Watched
from spectrace.store.extract import Extract
from spectrace.store.publish import published, refuse_existing

_SAMPLE_CYCLES = 200
_LARGE_CYCLES = 2000  # from here on the size is estimated


def export(
    file: RecordingArgument,
    to: Annotated[
        str,
        typer.Option(
            metavar="FORMAT", help="chrome, csv, jaeger, otlp, parquet or perfetto, or an own one."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="OUT", help="Beside FILE if not given.", show_default=False
        ),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Write a recording for Jaeger, an OTLP backend, Perfetto, Chrome, or as Parquet or CSV."""
    exporter = file_exporter(to)
    path = output or file.with_name(file.name.removesuffix(".spectrace") + exporter.suffix)
    refuse_existing(path, force=force)
    with interrupted_by_signals(), closing(Extract(file)) as extract:
        if extract.count >= _LARGE_CYCLES:
            size = estimate(exporter, file, path, extract.count)
            typer.echo(
                f"About {numbers.size(size)} for {numbers.count(extract.count)} cycles.", err=True
            )
        console = Console(stderr=True)
        with (
            Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
            published(path, force=force) as fresh,
        ):
            watched = Watched(extract, progress)
            exporter.write(watched, fresh)
    typer.echo(
        f"{numbers.count(extract.count)} cycles are in {path} ({numbers.size(size_of(path))})."
    )
    if watched.left_out:
        typer.echo(
            "Slices left out, since they end before they begin or begin before 1970: "
            f"{numbers.count(watched.left_out)}.",
            err=True,
        )


def estimate(exporter: FileExporter, file: Path, path: Path, count: int) -> int:
    """About how many bytes an export will take, from writing its first cycles.

    Args:
        exporter: Of the format.
        file: The recording.
        path: Where the export will go; the trial is written beside it, and removed.
        count: Cycles of the recording, more than are tried.

    Raises:
        OSError: The trial cannot be written.
    """
    with (
        closing(Extract(file, limit=_SAMPLE_CYCLES)) as sample,
        tempfile.TemporaryDirectory(prefix=".spectrace-", dir=path.parent) as work,
    ):
        trial = Path(work) / path.name
        exporter.write(Watched(sample, Progress(disable=True)), trial)
        return round(size_of(trial) * count / sample.count)


def size_of(path: Path) -> int:
    """Bytes of a file, or of the files in a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
