"""Makes the ring file of this very process: of a loop, or of a scheduler that has the plugin.

Not part of what is injected: there spectrace makes the ring. Who makes its own sleeps in it
until a reader joins, and the file stays as long as the process.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from contextlib import suppress
from pathlib import Path

from . import layout
from .layout import Word

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - files there are made exclusively, never followed
PATTERN = "spectrace-*.ring"
_WORD = struct.Struct("<Q")


def own_path() -> Path:
    """Where the ring of this process is, or would be.

    Raises:
        OSError: /proc cannot be read.
    """
    fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return SHARED_MEMORY / f"spectrace-{os.getpid()}-{fields[19]}.ring"


def create(path: Path, origin: int, units: int, *, reserved: bool = True) -> mmap.mmap:
    """Makes the ring of this process and maps it.

    It appears under its name only when it is whole. The file's path does not stand in it: by
    that the probe would remove it when its reader has gone.

    Args:
        path: As `own_path` gives it.
        origin: `layout.Origin`.
        units: How much it holds, in units of `layout.UNIT_BYTES`.
        reserved: Take all its memory here: a page that could not be had later would end the
            process with SIGBUS. Else only the header is, and is mapped; whoever joins has to
            take the rest.

    Raises:
        FileExistsError: This process has a ring already.
        OSError: Shared memory is full or not writable.
    """
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    head, whole = layout.units_offset(0), layout.units_offset(0) + units * layout.UNIT_BYTES
    try:
        os.fchmod(descriptor, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # held for as long as the map
        os.ftruncate(descriptor, whole)
        os.posix_fallocate(descriptor, 0, whole if reserved else head)
        for place, value in _header(path, origin, units).items():
            os.pwrite(descriptor, _WORD.pack(value), place * _WORD.size)
        ring = mmap.mmap(descriptor, whole if reserved else head)
        os.link(temporary, path, follow_symlinks=False)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
    return ring


def _header(path: Path, origin: int, units: int) -> dict[int, int]:
    return {
        Word.MAGIC: layout.MAGIC,
        Word.LAYOUT_VERSION: layout.LAYOUT_VERSION,
        Word.UNITS: units,
        Word.UNITS_OFFSET: layout.units_offset(0),
        Word.TARGET_PID: os.getpid(),
        Word.TARGET_START_TICKS: int(path.stem.rpartition("-")[2]),
        Word.PID_NAMESPACE: Path("/proc/self/ns/pid").stat().st_ino,
        Word.ORIGIN: origin,
        Word.STATE: layout.State.LOADED,
        Word.MODE: layout.mode_word(layout.Mode.DEVICE),
    }


def remove(path: Path, pid: int) -> None:
    """Removes the ring that process `pid` made; a forked child leaves it to its parent."""
    if os.getpid() == pid:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def sweep() -> None:
    """Removes what processes of ours that were killed have left: their locks are gone."""
    for path in SHARED_MEMORY.glob(PATTERN):
        with suppress(OSError):
            if is_left_over(path):
                path.unlink(missing_ok=True)


def is_left_over(path: Path) -> bool:
    """Whether a ring is one that its own process made, and that process is gone.

    Raises:
        OSError: The file may not be opened.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid() or not _made_itself(descriptor):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _made_itself(descriptor: int) -> bool:
    def word(place: int) -> int:
        found = os.pread(descriptor, _WORD.size, place * _WORD.size)
        return int.from_bytes(found, "little")

    known = (word(Word.MAGIC), word(Word.LAYOUT_VERSION)) == (layout.MAGIC, layout.LAYOUT_VERSION)
    return known and word(Word.ORIGIN) != layout.Origin.INJECTED
