"""Makes the ring file of this very process, in the layout and at the place that attach knows."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path

from spectrace.probe import layout
from spectrace.probe.layout import Word
from spectrace.probe.ring import RingWriter

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - files there are made exclusively, never followed
_WORD = struct.Struct("<Q")


def own_path() -> Path:
    """Where the ring of this process is, or would be.

    Raises:
        OSError: /proc cannot be read.
    """
    fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return SHARED_MEMORY / f"spectrace-{os.getpid()}-{fields[19]}.ring"


def create(path: Path, units: int, words: Mapping[int, int]) -> RingWriter:
    """Makes the ring of this process and maps it.

    It appears under its name only when it is whole, and all its memory is taken here: a page
    that could not be had later would end the process with SIGBUS. There is no code in it, by
    which attach knows that the process brings the probe itself.

    Args:
        path: As `own_path` gives it.
        units: How much it holds, in units of `layout.UNIT_BYTES`.
        words: Further header words.

    Raises:
        FileExistsError: This process has a ring already.
        OSError: Shared memory is full or not writable.
    """
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.posix_fallocate(descriptor, 0, layout.units_offset(0) + units * layout.UNIT_BYTES)
        os.pwrite(descriptor, os.fsencode(path) + b"\0", layout.PATH_OFFSET)
        for place, value in {**_header(path, units), **words}.items():
            os.pwrite(descriptor, _WORD.pack(value), place * _WORD.size)
        ring = RingWriter(mmap.mmap(descriptor, 0))
        os.link(temporary, path, follow_symlinks=False)
    finally:
        os.close(descriptor)
        temporary.unlink(missing_ok=True)
    return ring


def _header(path: Path, units: int) -> dict[int, int]:
    return {
        Word.MAGIC: layout.MAGIC,
        Word.LAYOUT_VERSION: layout.LAYOUT_VERSION,
        Word.UNITS: units,
        Word.UNITS_OFFSET: layout.units_offset(0),
        Word.CODE_BYTES: 0,
        Word.TARGET_PID: os.getpid(),
        Word.TARGET_START_TICKS: int(path.stem.rpartition("-")[2]),
        Word.PID_NAMESPACE: Path("/proc/self/ns/pid").stat().st_ino,
        Word.STATE: layout.State.LOADED,
    }
