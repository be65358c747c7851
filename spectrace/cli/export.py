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
from spectrace.errors import SpectraceError
from spectrace.store.extract import Extract
from spectrace.store.publish import published, refuse_existing, unwritable
from spectrace.store.recording import files_of

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
    path = output or beside(file, exporter.suffix)
    refuse_existing(path, force=force)
    refuse_own(path, file)
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


def beside(file: Path, suffix: str) -> Path:
    """Where the export of a recording goes if nobody says: a folder as `.` has a name, too."""
    named = file.resolve() if file.name in {"", ".."} else file
    return named.parent / (named.name.removesuffix(".spectrace") + suffix)


def refuse_own(path: Path, file: Path) -> None:
    """Refuses to put an export in the place of what it is made from.

    Raises:
        SpectraceError: `path` is the recording, or one of its files.
    """
    if path.exists() and any(
        part.exists() and path.samefile(part) for part in (file, *files_of(file))
    ):
        raise SpectraceError(f"{path} is the recording itself: choose another name for its export.")


def estimate(exporter: FileExporter, file: Path, path: Path, count: int) -> int:
    """About how many bytes an export will take, from writing its first cycles.

    Args:
        exporter: Of the format.
        file: The recording.
        path: Where the export will go; the trial is written beside it, and removed.
        count: Cycles of the recording, more than are tried.

    Raises:
        SpectraceError: The trial cannot be written.
    """
    try:
        with (
            closing(Extract(file, limit=_SAMPLE_CYCLES)) as sample,
            tempfile.TemporaryDirectory(prefix=".spectrace-", dir=path.parent) as work,
        ):
            trial = Path(work) / path.name
            exporter.write(Watched(sample, Progress(disable=True)), trial)
            return round(size_of(trial) * count / sample.count)
    except OSError as error:
        raise unwritable(path, error) from error


def size_of(path: Path) -> int:
    """Bytes of a file, or of the files in a folder."""
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files)
