"""Sees to it that a store has one owner."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from spectrace.errors import SpectraceError

FILE = "owner"


class OwnerLock:
    """Holds a directory for this process until `release` or the end of the process.

    The system drops the lock with the process, however it ends; the file only says who.

    Args:
        directory: An existing directory.

    Raises:
        SpectraceError: Another owner holds it, or its lock cannot be opened or written.
    """

    def __init__(self, directory: Path) -> None:
        path = directory / FILE
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SpectraceError(
                f"The store {directory} cannot be used ({error.strerror}): "
                "choose another directory with --store."
            ) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(self._descriptor, 20).decode(errors="replace").strip()
            os.close(self._descriptor)
            raise SpectraceError(
                f"The store {directory} belongs to the running spectrace with process id "
                f"{owner or 'unknown'}: use its page, stop it, or choose another directory "
                "with --store."
            ) from error
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            os.close(self._descriptor)
            raise SpectraceError(
                f"Nothing can be written into {directory} ({error.strerror}): make room where it "
                "lies, or start again on another disk (--store, or -o)."
            ) from error

    def release(self) -> None:
        """Lets the next owner in; the lock cannot be used any more."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
