"""`spectrace import`: makes a recording of traces that other tools wrote."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import Progress

from spectrace.analysis.kernel_classes import KernelClasses, parse_classes
from spectrace.cli import numbers
from spectrace.cli.kernel_table import render
from spectrace.cli.output import OutputConsole
from spectrace.cli.page_options import ForceOption
from spectrace.cli.stopping import interrupted_by_signals
from spectrace.errors import SpectraceError
from spectrace.importing.class_times import class_times
from spectrace.importing.imported import Imported, import_files
from spectrace.importing.trace_look import look_of_trace
from spectrace.kernels import ClassTime
from spectrace.store.recorded import SUFFIX, recorded

_UNBOUNDED_BYTES = 1 << 50  # nothing goes: what is imported is already on a disk
_TRACE_SUFFIXES = (".gz", ".json", ".trace", ".sqlite")
ClassesOption = Annotated[
    Path | None,
    typer.Option(
        "--classes",
        metavar="TOML",
        help='Further classes of kernels: a table [classes] of lines like moe = ["my_moe"].',
        show_default=False,
    ),
]


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes.

    Attributes:
        file: The recording.
        ranks: Names of the ranks in it.
        cycles: By kind.
        faults: What was mended or left out, by `importing.faults.Fault`.
        kernels: Time of kernels by rank, phase and class.
    """

    file: str
    ranks: tuple[str, ...]
    cycles: dict[str, int]
    faults: dict[str, int]
    kernels: tuple[ClassTime, ...]


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Traces of SGLang's torch profiler (.json, .json.gz), one of each rank, or an "
            "export of Nsight Systems (.sqlite).",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help=f"The recording to write; beside the first FILE, as {SUFFIX}, if not given.",
            show_default=False,
        ),
    ] = None,
    classes: ClassesOption = None,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    force: ForceOption = False,
) -> None:
    """Make a recording of traces that you have: the torch profiler's, or Nsight Systems'."""
    table = KernelClasses(classes_of(classes))
    path = output or beside(files[0])
    kept = recorded(path, force=force, max_bytes=_UNBOUNDED_BYTES, whole=True)
    with interrupted_by_signals(), kept as store:
        imported = _read(files)
        store.put_run(imported.run)
        store.add(imported.cycles)
        seen = look_of_trace(imported, table.of)
        if seen is not None:
            store.add_look(imported.run.run_id, seen)
    _say(path, imported, class_times(imported.kernels, table.of), json=json)


def beside(trace: Path) -> Path:
    """Where the recording of a trace goes: its name without the endings of traces."""
    path = trace
    while path.suffix in _TRACE_SUFFIXES:
        path = path.with_suffix("")
    return path.with_name(path.name + SUFFIX)


def classes_of(path: Path | None) -> dict[str, list[str]] | None:
    """The user's own classes of kernels.

    Args:
        path: As `ClassesOption` gives it.

    Raises:
        SpectraceError: The file cannot be read, or says something else.
    """
    if path is None:
        return None
    try:
        return parse_classes(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SpectraceError(f"{path} cannot be read ({error}): name a TOML file.") from error


def _read(files: Sequence[Path]) -> Imported:
    """Reads the files; on a terminal a bar shows how far."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        try:
            total = sum(file.stat().st_size for file in files)
        except OSError as error:
            raise SpectraceError(
                f"{error.filename} cannot be read ({error.strerror}): name a trace that is there."
            ) from error
        task = progress.add_task("reading", total=total)
        return import_files(files, lambda size: progress.advance(task, size))


def _say(path: Path, imported: Imported, times: tuple[ClassTime, ...], *, json: bool) -> None:
    kinds = Counter(cycle.kind.value for cycle in imported.cycles)
    ranks = tuple(rank.name for rank in imported.run.ranks)
    if json:
        report = ImportReport(
            file=str(path),
            ranks=ranks,
            cycles=dict(kinds),
            faults=imported.faults.counts(),
            kernels=times,
        )
        sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
        return
    console = OutputConsole()
    told = ", ".join(f"{numbers.count(many)} {kind}" for kind, many in kinds.most_common())
    size = numbers.size(path.stat().st_size)
    typer.echo(
        f"{numbers.count(len(imported.cycles))} cycles ({told}) of {', '.join(ranks)} "
        f"are in {path} ({size})."
    )
    for sentence in imported.faults.sentences():
        typer.echo(sentence)
    for rank in ranks:
        own = [time for time in times if time.rank == rank]
        if own:
            console.print(render(rank, own))
