"""Opens what was saved or left behind, for reading only."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from spectrace.errors import SpectraceError
from spectrace.store.database import Database
from spectrace.store.reads import ShelfReads
from spectrace.store.shelf import Shelf
from spectrace.store.source import CycleSource

PATTERN = "slice-*.duckdb"
_Result = TypeVar("_Result")


def open_recording(path: Path) -> CycleSource:
    """Opens a file that was saved, or the directory of a store whose owner has ended.

    Raises:
        SpectraceError: There is no such file, it is in use, damaged, or none of spectrace's.
    """
    files = files_of(path)
    recording = Recording(files[0].parent)
    try:
        for number, file in enumerate(files):
            recording.take_in(file, f"part_{number}")
    except BaseException:
        recording.close()
        raise
    return recording


def files_of(path: Path) -> list[Path]:
    """The files of a recording: the one that was saved, or the slices of a store.

    Returns:
        Absolute paths in one directory, the oldest first; a file that was saved need not exist.

    Raises:
        SpectraceError: It is a directory without slices.
    """
    path = path.absolute()
    files = sorted(path.glob(PATTERN)) if path.is_dir() else [path]
    if not files:
        raise SpectraceError(f"{path} holds no recording: name a file, or a store's directory.")
    return files


class Recording(ShelfReads):
    """A `CycleSource` over files that nobody writes any more; any thread may ask.

    Args:
        directory: Where the files lie.
    """

    def __init__(self, directory: Path) -> None:
        self._room = Path(tempfile.gettempdir(), f"spectrace-{secrets.token_hex(8)}")
        self._database = Database(directory, scratch=self._room)
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

    def _scratch(self) -> Path:
        self._room.mkdir(mode=0o700, exist_ok=True)
        return self._room

    def close(self) -> None:
        """Lets go of the files."""
        with self._lock:
            self._database.close()
        shutil.rmtree(self._room, ignore_errors=True)
