"""Takes the probe out of a rank."""

from __future__ import annotations

import time
from pathlib import Path

from spectrace.attach import procfs, ring_file, sleepers
from spectrace.attach.handle import OVER, Attached, TakenOut
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.probe.layout import Command, State, Word

_POLL_S = 0.001
_UNMAP_TIMEOUT_S = 1.0


def ask_to_leave(attached: Attached) -> None:
    """Tells the probe in a rank to leave at its next cycle boundary; returns at once.

    Told before any of them is waited for, the ranks of a server leave together.
    """
    command_detach(attached.path)


def take_out(attached: Attached, *, timeout_s: float = 5.0) -> TakenOut:
    """Takes the probe out of a rank.

    Args:
        attached: As `put_in` returned it.
        timeout_s: How long to wait for the server to let it go.

    Returns:
        Whether it is out, and why not.

    Raises:
        SpectraceError: The ring cannot be read or removed.
    """
    return _take_out(attached.rank.pid, attached.path, timeout_s)


def take_out_pid(pid: int, *, timeout_s: float = 5.0) -> TakenOut:
    """Takes the probe out of a process, whoever put it in or controls it.

    Args:
        pid: The process.
        timeout_s: How long to wait for the server to let it go.

    Returns:
        Whether it is out, and why not.

    Raises:
        SpectraceError: There is no such process, no probe in it, or its ring cannot be read.
    """
    return _take_out(pid, _ring_of(pid), timeout_s)


def ask_pid_to_leave(pid: int) -> None:
    """As `ask_to_leave`, whoever put the probe in or controls it.

    Raises:
        SpectraceError: As `take_out_pid`.
    """
    command_detach(_ring_of(pid))


def _ring_of(pid: int) -> Path:
    procfs.require_rights(pid)
    path = ring_file.ring_path(pid)
    if not path.exists():
        raise SpectraceError(
            f"There is no spectrace in process {pid}: `spectrace status` lists the servers that "
            "are traced."
        )
    return path


def _take_out(pid: int, path: Path, timeout_s: float) -> TakenOut:
    try:
        ring = RingView(path)
    except FileNotFoundError:
        return TakenOut(removed=True, foreign=(), reason="The probe had already left.")
    try:
        if sleepers.name_of(ring):
            why = sleepers.put_to_sleep(pid, ring, timeout_s)
            return TakenOut(removed=True, foreign=(), reason=why)
        inode = ring.inode  # by now another spectrace may have made a new one
        answer = _ask_to_leave(pid, ring, timeout_s)
        foreign = tuple(str(name) for name in ring.info().get("foreign", ()))
    finally:
        ring.close()
    if answer.removed:
        ring_file.remove(path, inode)
    return TakenOut(answer.removed, foreign, answer.reason)


def _ask_to_leave(pid: int, ring: RingView, timeout_s: float) -> TakenOut:
    ticks = ring.word(Word.TARGET_START_TICKS)
    never_ran = ring.word(Word.STATE) == State.EMPTY
    ring.set_word(Word.COMMAND, Command.DETACH)
    if never_ran:
        return TakenOut(removed=True, foreign=(), reason="The probe had not started.")
    deadline = time.monotonic() + timeout_s
    while True:
        state = ring.word(Word.STATE)
        if state in OVER:
            _wait_until_unmapped(pid, ring.path.name)
            why = "The probe is out." if state == State.DETACHED else "The probe had failed."
            return TakenOut(removed=True, foreign=(), reason=why)
        if not procfs.is_alive(pid, ticks):
            return TakenOut(removed=True, foreign=(), reason="The server has ended.")
        if time.monotonic() > deadline:
            return TakenOut(
                removed=False,
                foreign=(),
                reason=f"Process {pid} did not come to a cycle boundary within {timeout_s:g} s "
                "(paused, or blocked): the probe has been told to leave and will at the next "
                f"one; run `spectrace detach {pid}` later to remove its file.",
            )
        time.sleep(_POLL_S)


def _wait_until_unmapped(pid: int, name: str) -> None:
    """The last that the probe does, just after it has said that it is out."""
    deadline = time.monotonic() + _UNMAP_TIMEOUT_S
    while procfs.has_mapped(pid, name) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def command_detach(path: Path) -> None:
    """Writes the command to leave into a ring, if it is there."""
    try:
        ring = RingView(path)
    except (OSError, SpectraceError):
        return
    ring.set_word(Word.COMMAND, Command.DETACH)
    ring.close()
