"""Makes, reads and removes the file of a kernel window, beside the ring of the traced process."""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress
from pathlib import Path

from spectrace.attach.ring_file import as_owner, give_to_owner, reserve, ring_path
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe.layout_window import (
    DATA_OFFSET,
    MAGIC,
    SUFFIX,
    TEXT_BYTES,
    TEXT_OFFSET,
    VERSION,
    Place,
)

_WORD = struct.Struct("<Q")
_BYTES_AT_LEAST = 8 << 20
_BYTES_PER_CYCLE = 2 << 20  # some five thousand kernels and their calls
_MOST_BYTES = 512 << 20


class WindowFile:
    """The file of one window, mapped here.

    Args:
        path: The file, as this process sees it.

    Attributes:
        path: The same.

    Raises:
        OSError: The file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            self._map = mmap.mmap(descriptor, 0)
            self._file = _identity(os.fstat(descriptor))
        finally:
            os.close(descriptor)
        self._words = memoryview(self._map)[:DATA_OFFSET].cast("Q")

    def word(self, place: int) -> int:
        """The header word at a place of `layout_window.Place`."""
        return self._words[place]

    def set_word(self, place: int, value: int) -> None:
        """Writes the header word at a place."""
        self._words[place] = value

    def text(self) -> str:
        """What CUPTI said, empty where it said nothing."""
        length = min(self.word(Place.TEXT_LENGTH), TEXT_BYTES)
        return self._map[TEXT_OFFSET : TEXT_OFFSET + length].decode("utf-8", "replace")

    def content(self) -> bytes:
        """A copy of the file as far as it was written."""
        return self._map[: min(self.word(Place.HEAD), len(self._map))]

    def remove(self) -> None:
        """Lets go of the file and removes it, but not one that another spectrace made since."""
        with suppress(OSError):  # it is gone, or its process and the folder with it
            if _identity(self.path.lstat()) == self._file:  # whose number is ours while it is open
                self.path.unlink(missing_ok=True)
        self._words.release()
        self._map.close()


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def create(rank: Rank, cycles: int, graph_cycles: int) -> WindowFile:
    """Makes the file for a window on one rank; one that was left there is replaced.

    Args:
        rank: The process, to whose user the file will belong.
        cycles: How many are to be seen.
        graph_cycles: In how many of them, the first ones, graphs are seen whole.

    Raises:
        SpectraceError: Shared memory is too small or not writable.
    """
    path = ring_path(rank.pid).with_suffix(SUFFIX)
    size = min(_BYTES_AT_LEAST + cycles * _BYTES_PER_CYCLE, _MOST_BYTES)
    try:
        with as_owner(rank.pid):
            path.unlink(missing_ok=True)
            _make(path, rank.pid, size, graph_cycles)
        return WindowFile(path)
    except OSError as error:
        raise SpectraceError(
            f"The file of the kernel window, {path}, cannot be made ({error.strerror}): use the "
            "account that attached."
        ) from None


def _make(path: Path, pid: int, size: int, graph_cycles: int) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    try:
        reserve(descriptor, size)
        words = {Place.VERSION: VERSION, Place.BYTES: size, Place.GRAPH_CYCLES: graph_cycles}
        for place, value in {**words, Place.MAGIC: MAGIC}.items():
            os.pwrite(descriptor, _WORD.pack(value), place * _WORD.size)
        give_to_owner(descriptor, pid)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)
