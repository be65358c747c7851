"""A server that spectrace started itself: its process, its ranks as they come, and its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO

import psutil

from spectrace.attach import discover
from spectrace.errors import SpectraceError
from spectrace.model import Run

_POLL_S = 0.1
_LOOK_S = 0.25  # every process of the machine is looked at
_SETTLED_S = 1.0  # ranks of a server start within less, one after the other
_OF_A_SIGNAL = 128  # what a shell adds to the number


class Launched:
    """A command in a process group of its own, which a Ctrl-C of the terminal does not reach.

    Args:
        command: The program and its arguments.
        output: Where its output goes.

    Raises:
        SpectraceError: It cannot be started.
    """

    def __init__(self, command: Sequence[str], output: IO[bytes] | int) -> None:
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except OSError as error:
            raise SpectraceError(
                f"{command[0]} cannot be started ({error.strerror}): give the command that starts "
                "the server after `--`, as you would in a shell."
            ) from None

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """As a shell gives it, 128 and the number for a signal; None while it runs."""
        status = self._process.poll()
        return status if status is None or status >= 0 else _OF_A_SIGNAL - status

    def find(self) -> Run | None:
        """The server with the ranks that are there now, None before there is one."""
        for process in self._family():
            with contextlib.suppress(SpectraceError, psutil.Error):
                if discover.rank_name(" ".join(process.cmdline()[:1]).rstrip()) is not None:
                    return discover.find_by_pid(process.pid)
        return None

    def wait_for_ranks(self, stopped: Callable[[], bool]) -> Run | None:
        """Waits until there are ranks and no more have come for 1 s.

        Args:
            stopped: Whether to wait no longer.

        Returns:
            The server; None where it ended first, or the wait did.
        """
        known: tuple[int, ...] = ()
        since_s = time.monotonic()
        while not stopped() and self.exit_code is None:
            run = self.find()
            pids = tuple(rank.pid for rank in run.ranks) if run else ()
            if pids != known:
                known, since_s = pids, time.monotonic()
            elif run is not None and time.monotonic() - since_s >= _SETTLED_S:
                return run
            time.sleep(_LOOK_S)
        return None

    def stop(self, grace_s: float) -> None:
        """Ends it: by SIGTERM, as a service manager would, and what is left after a time by force.

        Args:
            grace_s: How long it has to answer the requests under way and to end.
        """
        for pid in self._heads():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        if not self._is_gone(grace_s):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            self._is_gone(grace_s)

    def _heads(self) -> list[int]:
        """What is told to end: a server takes the end of a rank for a crash, a shell tells none."""
        if self.exit_code is not None:
            return []
        run = self.find()
        return list(dict.fromkeys((*([run.server_pid] if run else []), self.pid)))

    def _is_gone(self, within_s: float) -> bool:
        """Waits until no process of its group is left; gives whether that came to be."""
        deadline = time.monotonic() + within_s
        while self.exit_code is None or _has_members(self.pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _family(self) -> list[psutil.Process]:
        try:
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        except psutil.Error:
            return []


def end_what_was_left(pid: int, created_s: float, grace_s: float = 10.0) -> bool:
    """Ends a server, or its load, that a spectrace had started which was killed.

    Args:
        pid: Of the first process of its group, as `Launched.pid`.
        created_s: When that process was created, as psutil says: another one may have its id now.
        grace_s: How long it has to end by itself, and then by force.

    Returns:
        Whether it was there.

    Raises:
        SpectraceError: It does not end.
    """
    try:
        leader = psutil.Process(pid)
        if leader.create_time() != created_s:
            return False
    except psutil.Error:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    if not _group_ends(pid, grace_s):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        if not _group_ends(pid, grace_s):
            raise SpectraceError(f"What was left running does not end: end process {pid} yourself.")
    return True


def end_group(group: int, grace_s: float) -> bool:
    """Ends every process of a group: by SIGTERM, and by force what is left after a time.

    Args:
        group: Its number, of a group that we made.
        grace_s: How long its processes have to end by themselves, and then by force.

    Returns:
        Whether none is left.
    """
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, number)
        if _group_ends(group, grace_s):
            return True
    return False


def _group_ends(group: int, within_s: float) -> bool:
    """Waits until no process of a group is left; gives whether that came to be."""
    deadline_s = time.monotonic() + within_s
    while _has_members(group):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(_POLL_S)
    return True


def _has_members(group: int) -> bool:
    """Whether a process group has a process that has not ended."""
    return any(_is_of(group, process) for process in psutil.process_iter())


def _is_of(group: int, process: psutil.Process) -> bool:
    """Whether a process is one of a group and has not ended."""
    try:
        return os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, psutil.Error):
        return False
