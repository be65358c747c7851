"""A child of this process that sleeps, for what shall be tried before it is done to a server."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_PR_SET_PTRACER = 0x59616D61
_ANYBODY = ctypes.c_ulong(-1)


@dataclass(frozen=True)
class SleepingChild:
    """The child, asleep in a system call.

    Attributes:
        pid: Its process.
        getpid: Address of the C library's `getpid` in it.
    """

    pid: int
    getpid: int
    _awake: int  # our end of the pipe that it reads

    def wakes_well(self) -> bool:
        """Wakes it, once; whether it slept undisturbed and ends as it was to."""
        os.close(self._awake)
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status) == 0


@contextmanager
def sleeping_child() -> Iterator[SleepingChild]:
    """Forks, so there must be no other thread; `wakes_well` is called before the end.

    However this process ends, the child ends with it: its pipe is closed then.
    """
    library = ctypes.CDLL(None)
    getpid = ctypes.cast(library.getpid, ctypes.c_void_p).value or 0
    asleep, awake = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(awake)
        _sleep(library, asleep)
    os.close(asleep)
    yield SleepingChild(pid, getpid, awake)


def _sleep(library: ctypes.CDLL, pipe: int) -> None:
    """Sleeps until the pipe is closed, and ends; with an error if the sleep ended otherwise."""
    status = 1
    try:
        # Else, of processes without rights, only a parent may look into this one.
        library.prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
        status = len(os.read(pipe, 1))
    finally:
        os._exit(status)
