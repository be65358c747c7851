"""A ring file from outside: its header words, its text and its records, mapped here."""

from __future__ import annotations

import json
import mmap
import os
import stat
from pathlib import Path
from typing import Any

from spectrace.errors import SpectraceError
from spectrace.probe import layout
from spectrace.probe.layout import Word


def _check(path: Path, status: os.stat_result) -> None:
    """Anybody may make files in shared memory: those of others are not to be believed."""
    others = stat.S_IMODE(status.st_mode) & 0o077
    if others or (os.geteuid() and status.st_uid != os.geteuid()):
        raise SpectraceError(
            f"{path} belongs to somebody else, or others may write to it: it is no ring of "
            "spectrace. Remove it, then attach again."
        )
    if status.st_size < layout.CODE_OFFSET:
        raise SpectraceError(f"{path} is no ring of spectrace: it is too short.")


class RingView:
    """One mapped ring file.

    Args:
        path: The file, as this process sees it.

    Attributes:
        path: The same.
        inode: Its number, by which a file that was made since under its name shows.
        descriptor: The open file, for who locks it.
        units: How many units of `layout.UNIT_BYTES` it holds.

    Raises:
        SpectraceError: The file is no ring, or of another layout version.
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            status = os.fstat(self.descriptor)
            _check(path, status)
            self.inode = status.st_ino
            self._map = mmap.mmap(self.descriptor, 0)
            # Whole words at a time, as the probe does: `struct` writes byte by byte, and others
            # would see a heartbeat that is half of one time and half of another.
            self._words = memoryview(self._map)[: layout.HEADER_BYTES].cast("Q")
        except BaseException:
            os.close(self.descriptor)
            raise
        try:
            self._check()
        except SpectraceError:
            self.close()
            raise
        self.units = self.word(Word.UNITS)
        self._start = self.word(Word.UNITS_OFFSET)
        self._end = self._start + self.units * layout.UNIT_BYTES

    def _check(self) -> None:
        if self.word(Word.MAGIC) != layout.MAGIC:
            raise SpectraceError(f"{self.path} is no ring of spectrace.")
        version = self.word(Word.LAYOUT_VERSION)
        if version != layout.LAYOUT_VERSION:
            raise SpectraceError(
                f"{self.path} has ring layout {version}, this spectrace speaks layout "
                f"{layout.LAYOUT_VERSION}: use the spectrace that attached, or detach with it."
            )
        units = self.word(Word.UNITS)
        end = self.word(Word.UNITS_OFFSET) + units * layout.UNIT_BYTES
        if units < layout.MIN_UNITS or end > len(self._map):
            raise SpectraceError(f"{self.path} is cut off: detach and attach again.")

    def word(self, place: int) -> int:
        """The 64-bit header word at `place` (see `layout.Word`)."""
        return self._words[place]

    def set_word(self, place: int, value: int) -> None:
        """Writes the 64-bit header word at `place`."""
        self._words[place] = value

    def info(self) -> dict[str, Any]:
        """What the probe says about its server, an empty dict before it has spoken."""
        length = min(self.word(Word.INFO_LENGTH), layout.INFO_BYTES)
        text = self._map[layout.INFO_OFFSET : layout.INFO_OFFSET + length]
        try:
            info = json.loads(text) if length else {}
        except ValueError:  # the probe is writing it at this moment
            return {}
        return info if isinstance(info, dict) else {}

    def read(self, position: int, units: int = 1) -> bytes:
        """A copy of so many units, the first of which has this position."""
        start = self._start + position % self.units * layout.UNIT_BYTES
        end = start + units * layout.UNIT_BYTES
        if end <= self._end:
            return self._map[start:end]
        return self._map[start : self._end] + self._map[self._start : self._start + end - self._end]

    def close(self) -> None:
        """Unmaps and closes the file; closing it again does nothing."""
        if not self._map.closed:
            self._words.release()
            self._map.close()
            os.close(self.descriptor)
