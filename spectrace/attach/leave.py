"""Leaves a rank: takes the probe out of it, or leaves it to those who read on."""

from __future__ import annotations

import time
from pathlib import Path

from spectrace.attach import elf, handover, procfs, readers, ring_file, sleepers
from spectrace.attach.handle import OVER, Attached, TakenOut
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.probe.layout import State, Word

_POLL_S = 0.001
_UNMAP_TIMEOUT_S = 1.0
_PATIENCE_NS = 2_000_000_000  # of a command, before what carries it out is put in
_PUSHED_TIMEOUT_S = 1.0  # from then on


def ask_to_leave(attached: Attached) -> None:
    """Gives up our seat in a rank; returns at once.

    Where nobody else reads, the probe is told to leave at its next cycle boundary. Told before
    any of them is waited for, the ranks of a server leave together.
    """
    try:
        ring = RingView(attached.path)
    except (OSError, SpectraceError):  # taking it out will say it
        return
    readers.get_up(ring, attached.key)
    ring.close()


def take_out(attached: Attached, *, timeout_s: float = 5.0) -> TakenOut:
    """Takes the probe out of a rank, unless others read on.

    Args:
        attached: As `put_in` returned it.
        timeout_s: How long to wait for the server to let it go.

    Returns:
        Whether it is out, and why not.

    Raises:
        SpectraceError: The ring cannot be read or removed.
    """
    return _take_out(attached.rank.pid, attached.path, timeout_s, attached.key)


def take_out_pid(pid: int, *, timeout_s: float = 5.0, was_there: bool = False) -> TakenOut:
    """Takes the probe out of a process, whoever put it in or reads.

    Args:
        pid: The process.
        timeout_s: How long to wait for the server to let it go.
        was_there: It has been told to leave, and may have: a reader that sees that it has
            left removes its file.

    Returns:
        Whether it is out, and why not.

    Raises:
        SpectraceError: There is no such process, no probe in it, or its ring cannot be read.
    """
    path = ring_file.ring_path(pid) if was_there else _ring_of(pid)
    return _take_out(pid, path, timeout_s)


def ask_pid_to_leave(pid: int) -> None:
    """As `ask_to_leave`, whoever put the probe in or reads.

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


def _take_out(pid: int, path: Path, timeout_s: float, key: int | None = None) -> TakenOut:
    """Takes it out; with the key of our seat only if nobody sits on another one."""
    try:
        ring = RingView(path)
    except FileNotFoundError:
        return TakenOut(removed=True, foreign=(), reason="The probe had already left.")
    try:
        if key is None:
            readers.command_detach(ring)
        elif (rest := readers.get_up(ring, key)) and ring.word(Word.STATE) not in OVER:
            return TakenOut(False, (), f"It is left to {rest[0]}, which reads on.", left_to=True)
        if sleepers.name_of(ring):
            why = sleepers.put_to_sleep(pid, ring, timeout_s)
            return TakenOut(removed=True, foreign=(), reason=why)
        inode = ring.inode  # by now another spectrace may have made a new one
        answer = _wait_until_out(pid, ring, timeout_s)
        foreign = tuple(str(name) for name in ring.info().get("foreign", ()))
    finally:
        ring.close()
    if answer.removed:
        ring_file.remove(path, inode)
    return TakenOut(answer.removed, foreign, answer.reason)


def _wait_until_out(pid: int, ring: RingView, timeout_s: float) -> TakenOut:
    ticks = ring.word(Word.TARGET_START_TICKS)
    if ring.word(Word.STATE) == State.EMPTY:
        return TakenOut(removed=True, foreign=(), reason="The probe had not started.")
    deadline = time.monotonic() + timeout_s
    push_at_ns: float = ring.word(Word.COMMAND_NS) + _PATIENCE_NS
    hindrance = "paused, or blocked"
    while True:
        state = ring.word(Word.STATE)
        if state in OVER:
            _wait_until_unmapped(pid, ring.path.name)
            why = "The probe is out." if state == State.DETACHED else "The probe had failed."
            return TakenOut(removed=True, foreign=(), reason=why)
        if not procfs.is_alive(pid, ticks):
            return TakenOut(removed=True, foreign=(), reason="The server has ended.")
        if time.monotonic() > deadline:
            return TakenOut(False, (), _not_out(pid, timeout_s, hindrance))
        if time.monotonic_ns() > push_at_ns:
            push_at_ns = float("inf")
            hindrance = _push_out(pid, ring) or hindrance
            deadline = max(deadline, time.monotonic() + _PUSHED_TIMEOUT_S)
        time.sleep(_POLL_S)


def _push_out(pid: int, ring: RingView) -> str:
    """Has the probe leave where the server does not come to a cycle; says why that cannot be.

    What is put in asks the probe to look at its command, at the main thread's next safe point.
    """
    try:
        order = handover.Order(
            pid=pid,
            functions=elf.interpreter(pid).functions,
            ring=str(ring.path),
            name_in_target=ring_file.name_in_target(pid),
            leave=True,
        )
        handover.in_its_own_process(order)
    except SpectraceError as error:
        return str(error)
    return ""


def _not_out(pid: int, timeout_s: float, hindrance: str) -> str:
    return (
        f"Process {pid} did not come to a cycle boundary within {timeout_s:g} s ({hindrance}): "
        "the probe has been told to leave and will at the next one; "
        f"run `spectrace detach {pid}` later to remove its file."
    )


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
    readers.command_detach(ring)
    ring.close()
