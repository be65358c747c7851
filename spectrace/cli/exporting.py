"""Finds the exporter for a format, lets it follow a session or write a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from spectrace.attach.session import End, SessionFacts, Stall
from spectrace.cli.report import Exported
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Run
from spectrace.shown import address
from spectrace.store.formats import ENTRY_POINTS, file_formats
from spectrace.store.formats import FILE as _FILE

if TYPE_CHECKING:  # it reads recordings, for which DuckDB takes long to import
    from spectrace.cli.watched import Watched


class Stats(Protocol):
    """What an exporter says of its work."""

    @property
    def lost_cycles(self) -> int:
        """Cycles that did not arrive."""

    def loss(self) -> str:
        """One sentence on what did not arrive, empty if everything did."""


class Exporter(Protocol):
    """What an entry point of the group `spectrace.exporters` makes."""

    run: Run

    @property
    def stats(self) -> Stats:
        """What became of the cycles so far."""

    def add(self, cycles: Sequence[Cycle]) -> None:
        """Takes cycles; returns at once."""

    def close(self) -> Stats:
        """Sends what waits and gives up what is not gone in time."""


class FileExporter(Protocol):
    """What an entry point whose name ends with `.file` makes."""

    @property
    def suffix(self) -> str:
        """What is put in the place of `.spectrace` in a file's name."""

    def write(self, recorded: Watched, path: Path) -> None:
        """Writes a file or a folder at `path`."""


class ExporterTap:
    """A tap on a session (`attach.tapped.Tap`) that sends its cycles on.

    Args:
        exporter: Where they go.
    """

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    @property
    def endpoint(self) -> str:
        """Where the exporter sends, as it says itself; empty if it does not."""
        return str(getattr(self._exporter, "endpoint", ""))

    @property
    def protocol(self) -> str | None:
        """What it speaks there, as it says itself; None if it does not."""
        return getattr(self._exporter, "protocol", None)

    def lost(self) -> int:
        """Cycles that did not arrive so far."""
        return self._exporter.stats.lost_cycles

    def exported(self) -> Exported:
        """What became of the cycles so far, as far as the exporter counts it."""
        stats = self._exporter.stats
        names = [name for name in Exported.__struct_fields__ if hasattr(stats, name)]
        return Exported(**{name: getattr(stats, name) for name in names})

    def tell(self, run: Run, facts: SessionFacts, stalls: Sequence[Stall]) -> None:
        """Tells the exporter what more is known of the run."""
        del facts, stalls
        self._exporter.run = run

    def feed(self, cycles: Sequence[Cycle]) -> None:
        """Hands cycles over."""
        self._exporter.add(cycles)

    def end(self, run: Run, end: End | None) -> None:
        """Sends what still waits, so that the last report knows what did not arrive."""
        del run, end
        self._exporter.close()


@contextmanager
def exporting(
    name: str, target: str | None, run: Run, note: Callable[[str], None], **options: Any
) -> Iterator[ExporterTap]:
    """An exporter that is closed at the end, within a few seconds.

    Args:
        name: Of the format, as the entry point.
        target: Where the cycles go; None for what the environment says.
        run: What is known of the run so far.
        note: Takes sentences: on what could not be followed, on what did not arrive.
        options: What else the exporter is told.

    Raises:
        SpectraceError: There is no such exporter, or the target cannot be one.
    """
    exporter = _factory(name)(target, run, **options)
    tap = ExporterTap(exporter)
    for notice in getattr(exporter, "notices", ()):
        note(notice)
    try:
        yield tap
    finally:
        loss = exporter.close().loss()
        if loss:
            note(f"To {address(target or tap.endpoint)}: {loss}")


def _factory(name: str) -> Callable[..., Exporter]:
    factory: Callable[..., Exporter] = loaded(name)
    return factory


def loaded(name: str) -> Any:
    """What an entry point of the group names.

    Raises:
        SpectraceError: There is no such entry point, or what it needs is missing.
    """
    found = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
    try:
        if found is not None:
            return found.load()
    except ImportError as error:
        why = f" ({error})"
    else:
        why = ""
    raise SpectraceError(
        f"The exporter {name!r} is not installed here{why}: install spectrace again, whole."
    )


def file_exporter(format_: str) -> FileExporter:
    """The exporter that writes files of a format.

    Raises:
        SpectraceError: There is none, or what it needs is missing.
    """
    known = file_formats()
    if format_ not in known:
        raise SpectraceError(
            f"There is no format {format_!r}: choose one of {', '.join(known)}.", exit_code=2
        )
    exporter: FileExporter = loaded(f"{format_}{_FILE}")()
    return exporter
