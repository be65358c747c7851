"""What a command writes: fit for any terminal, and one sentence where it cannot be written."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterable
from typing import BinaryIO, NoReturn, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from spectrace.errors import SpectraceError

_OF_WRITING = (errno.ENOSPC, errno.EPIPE, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EBADF)


def harmless(text: str) -> str:
    """Text that moves no cursor and rings no bell: names come from servers, and may hold anything.

    Lines stay, other blanks become spaces, and what has no picture of its own is left out, as
    controls and marks of direction.
    """
    if text.isprintable():
        return text
    kept = (
        one if one.isprintable() or one == "\n" else " " if one.isspace() else "" for one in text
    )
    return "".join(kept)


class OutputConsole(Console):
    """A console on stdout for text from anywhere.

    It raises `BrokenPipeError` where its reader has left.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Everything that is printed, of which only rich's own controls reach the terminal."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=harmless(segment.text))

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


def write_whole(stream: TextIO, text: str) -> None:
    """Writes all of a text, also where a signal comes while a reader is slow.

    Without Python's buffer (PYTHONUNBUFFERED, as containers have it) a stream writes once, and what
    a signal keeps the system from taking is lost without a word.
    """
    buffer: BinaryIO | None = getattr(stream, "buffer", None)
    if buffer is None:  # of a test
        stream.write(text)
        return
    stream.flush()
    left = memoryview(text.encode(stream.encoding or "utf-8", stream.errors or "strict"))
    while left:
        taken = buffer.write(left)
        if not taken:  # it is not to wait, and there is no room
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        left = left[taken:]
    buffer.flush()


def drop_what_waits() -> None:
    """Lets go of output that cannot be written, or the interpreter would try again at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
