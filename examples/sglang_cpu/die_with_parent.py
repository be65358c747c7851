"""Becomes the command in its arguments, which the kernel then kills as soon as its parent dies.

`python die_with_parent.py PARENT_PID COMMAND [ARGUMENT ...]`. The process id stays the same. Done
here, in a process of its own, and not between fork and exec of the parent, which may have threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for the signal, then replace this program by the command."""
    parent, *command = sys.argv[1:]
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}. The command was not started.")
    if os.getppid() != int(parent):  # it died before the kernel knew of our wish
        sys.exit(f"The parent {parent} is gone. The command was not started.")
    os.execv(command[0], command)  # noqa: S606  no shell is wanted


if __name__ == "__main__":
    main()
