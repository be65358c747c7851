"""Puts a finished file or folder in its place, where it appears whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spectrace.errors import SpectraceError

_OF_WRITING = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


@contextmanager
def published(path: Path, *, force: bool) -> Iterator[Path]:
    """Gives a path beside `path`; what is written there takes its place when the block ends well.

    A file gets mode 0600, a folder 0700. Whatever else happens, an exception or Ctrl-C,
    nothing is left.

    Args:
        path: Where the file or folder is to appear.
        force: Replace a file that is there, or a folder in which no other names stand than in
            the new one.

    Raises:
        SpectraceError: There is something and `force` is not given, or `path` cannot be written.
    """
    refuse_existing(path, force=force)
    try:
        with tempfile.TemporaryDirectory(prefix=".spectrace-", dir=path.parent) as work:
            fresh = Path(work) / path.name
            yield fresh
            _place(fresh, path, force=force)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise unwritable(path, error) from error


def reason_of(error: Exception) -> str:
    """Why something could not be written: the system's own words, where a database hides them."""
    text = str(error)
    known = (os.strerror(code) for code in _OF_WRITING)
    return (
        next((why for why in known if why in text), text.partition("\n")[0]) or type(error).__name__
    )


def unwritable(path: Path, error: OSError) -> SpectraceError:
    """The sentence for a file or folder that the system lets nobody write."""
    why = os.strerror(error.errno) if error.errno else str(error)  # libraries add their own words
    return SpectraceError(f"{path} cannot be written: {why}. {_way(path, error)}.")


def _way(path: Path, error: OSError) -> str:
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"Make room in {path.parent.absolute()}, or name a file on another disk"
    if error.errno == errno.EFBIG:
        return "Raise the limit of a file's size (ulimit -f), or name a file on another disk"
    return "Name a file in another folder"


def refuse_existing(path: Path, *, force: bool) -> None:
    """Refuses what `published` would refuse, before any work is done.

    Raises:
        SpectraceError: There is something at `path` and `force` is not given, or it is a device or
            a pipe, which nothing takes the place of.
    """
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise SpectraceError(f"{path} is no file that could be replaced: name another one.")
    if path.exists() and not force:
        raise _exists(path)


def refuse_unwritable(path: Path, *, force: bool) -> None:
    """Refuses a file that `published` could not put in its place, before any work is done.

    Raises:
        SpectraceError: It is a folder, its own folder is missing or takes no files, or there is
            something and `force` is not given.
    """
    if path.is_dir():
        inside = path / (path.name or "page.html")
        raise SpectraceError(f"{path} is a folder: name a file in it, such as {inside}.")
    if not path.parent.is_dir():
        raise SpectraceError(f"{path} cannot be written: there is no folder {path.parent}.")
    refuse_existing(path, force=force)
    try:
        with tempfile.TemporaryDirectory(prefix=".spectrace-", dir=path.parent):
            pass
    except OSError as error:
        raise unwritable(path, error) from error


def _exists(path: Path) -> SpectraceError:
    return SpectraceError(f"{path} exists: choose another name, or replace it with -f.")


def _place(fresh: Path, path: Path, *, force: bool) -> None:
    if fresh.is_dir():
        fresh.chmod(0o700)
        _place_folder(fresh, path)
        return
    fresh.chmod(0o600)
    if force:
        fresh.replace(path)
    else:
        path.hardlink_to(fresh)  # unlike a rename it does not replace what came meanwhile


def _place_folder(fresh: Path, path: Path) -> None:
    if path.exists():
        others = {file.name for file in path.iterdir()} - {file.name for file in fresh.iterdir()}
        if others:
            raise SpectraceError(
                f"{path} holds other files ({', '.join(sorted(others)[:3])}): choose another name."
            )
        path.rename(fresh.with_name("replaced"))
    fresh.rename(path)
