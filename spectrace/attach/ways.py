"""The ways into a process, the order in which they are tried, and what it means to be closed."""

from __future__ import annotations

import platform
from enum import Enum

from spectrace.errors import SpectraceError

_REMOTE_EXEC_CAME = (3, 14)
PTRACE_MACHINE = "x86_64"


class Method(str, Enum):
    """What a person asks for: the first way that is open, or one of them."""

    AUTO = "auto"
    PLUGIN = "plugin"
    REMOTE_EXEC = "remote-exec"
    PTRACE = "ptrace"
    GDB = "gdb"


class Way(str, Enum):
    """How the probe came into a process."""

    PLUGIN = "plugin"  # it was asleep there
    LOOP = "loop"  # the loop traces itself
    JOINED = "joined"  # an earlier spectrace had put it in
    REMOTE_EXEC = "remote-exec"
    PTRACE = "ptrace"
    GDB = "gdb"


INJECTING = {
    Method.REMOTE_EXEC: Way.REMOTE_EXEC,
    Method.PTRACE: Way.PTRACE,
    Method.GDB: Way.GDB,
}


class WayClosed(SpectraceError):  # noqa: N818 - reads as what happened
    """A way is not open, and nothing has been done: another one may be."""


def order(method: Method, python: tuple[int, int] | None) -> tuple[Way, ...]:
    """The ways of putting the probe in that are worth trying, the best first.

    Args:
        method: Other than `PLUGIN`, which puts nothing in.
        python: The version of the process's Python, None where it is not known.
    """
    if method is not Method.AUTO:
        return (INJECTING[method],)
    here = Way.PTRACE if platform.machine() == PTRACE_MACHINE else Way.GDB
    return (Way.REMOTE_EXEC, here) if has_remote_exec(python) else (here,)


def has_remote_exec(python: tuple[int, int] | None) -> bool:
    """Whether a Python of that version has `sys.remote_exec`."""
    return python is not None and python >= _REMOTE_EXEC_CAME


def all_closed(pid: int, closed: list[str]) -> SpectraceError:
    """The error where no way was open; `closed` says why of each."""
    if len(closed) == 1:
        return SpectraceError(closed[0])
    return SpectraceError(f"No way into process {pid} is open. {' '.join(closed)}")
