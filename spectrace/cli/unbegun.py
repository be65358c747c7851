"""Ends a process that Ctrl-C reaches before its command has begun; imports next to nothing."""

from __future__ import annotations

import os

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended."""
_STDERR = 2


def leave(*_: object) -> None:
    """Says so in a line and ends the process, whatever is under way; also as a signal's handler."""
    try:
        os.write(_STDERR, b"spectrace: Interrupted before it began: nothing was done.\n")
    finally:
        os._exit(INTERRUPTED)
