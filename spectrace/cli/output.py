"""Says in one sentence when what a command writes cannot be written."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import NoReturn

from rich.console import Console

from spectrace.errors import SpectraceError

_OF_WRITING = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EBADF)


class OutputConsole(Console):
    """A console on stdout that raises `BrokenPipeError` where its reader has left."""

    def on_broken_pipe(self) -> NoReturn:
        """Lets the command end as after any error, instead of ending the process here."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def refused(error: OSError) -> SpectraceError:
    """The sentence for what the system refused.

    An error of writing that names no file is one of the output: all other files are opened,
    and other errors named, where they are used.
    """
    why = error.strerror or str(error)
    if error.filename is None and error.errno in _OF_WRITING:
        return SpectraceError(f"The output cannot be written ({why}): send it elsewhere.")
    what = "an operation" if error.filename is None else error.filename
    return SpectraceError(f"The system refuses {what}: {why}.")


def drop_what_waits() -> None:
    """Lets go of output that cannot be written, or the interpreter would try again at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
