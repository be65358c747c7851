"""Opens what was saved or left behind, for reading only."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Run
from spectrace.store.database import Database
from spectrace.store.shelf import Shelf
from spectrace.store.source import PAGE, CycleSource, Stats

PATTERN = "slice-*.duckdb"
_Result = TypeVar("_Result")


def open_recording(path: Path) -> CycleSource:
    """Opens a file that was saved, or the directory of a store whose owner has ended.

    Raises:
        SpectraceError: There is no such file, it is in use, damaged, or none of spectrace's.
    """
    path = path.absolute()
    files = sorted(path.glob(PATTERN)) if path.is_dir() else [path]
    if not files:
        raise SpectraceError(f"{path} holds no recording: name a file, or a store's directory.")
    recording = Recording(path if path.is_dir() else path.parent)
    try:
        for number, file in enumerate(files):
            recording.take_in(file, f"part_{number}")
    except SpectraceError:
        recording.close()
        raise
    return recording


class Recording:
    """A `CycleSource` over files that nobody writes any more; any thread may ask.

    Args:
        directory: Where the files lie.
    """

    def __init__(self, directory: Path) -> None:
        self._database = Database(directory)
        self._shelf = Shelf(self._database)
        self._lock = threading.Lock()

    def take_in(self, path: Path, name: str) -> None:
        """Adds a file.

        Raises:
            SpectraceError: It is in use, damaged, or none of spectrace's.
        """
        with self._lock:
            self._shelf.take_in(path, name, read_only=True)

    def _ask(self, question: Callable[[], _Result]) -> _Result:
        with self._lock:
            return question()

    def runs(self) -> list[Run]:
        """As `CycleSource.runs`."""
        return self._ask(self._shelf.runs)

    def groups(self, run_id: str) -> list[str]:
        """As `CycleSource.groups`."""
        return self._ask(lambda: self._shelf.groups(run_id))

    def cycles(
        self, run_id: str, *, group: str = "", before: int | None = None, limit: int = PAGE
    ) -> list[Cycle]:
        """As `CycleSource.cycles`."""
        return self._ask(
            lambda: self._shelf.cycles(run_id, group=group, before=before, limit=limit)
        )

    def cycle(self, run_id: str, group: str, number: int) -> Cycle | None:
        """As `CycleSource.cycle`."""
        return self._ask(lambda: self._shelf.cycle(run_id, group, number))

    def recent(self, run_id: str, seconds: float) -> list[Cycle]:
        """As `CycleSource.recent`."""
        return self._ask(lambda: self._shelf.recent(run_id, seconds))

    def stats(self, run_id: str | None = None) -> Stats:
        """As `CycleSource.stats`."""
        return self._ask(lambda: self._shelf.stats(run_id))

    def close(self) -> None:
        """Lets go of the files."""
        with self._lock:
            self._database.close()
