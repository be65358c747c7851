"""Puts the probe into one rank of a server and takes it out again."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from spectrace.attach import elf, handover, loops, payload, procfs, ptrace, ring_file
from spectrace.attach.elf import Interpreter
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe import layout
from spectrace.probe.layout import Command, State, Word

_POLL_S = 0.001
_UNMAP_TIMEOUT_S = 1.0

_RUNNING = {State.LOADED, State.ARMED, State.TRACING}
_OVER = {State.DETACHED, State.FAILED}


@dataclass(frozen=True)
class Options:
    """How a rank is to be traced.

    Attributes:
        units: Size of a new ring, in units of `layout.UNIT_BYTES`.
        mode: Timing mode, one of `layout.Mode`.
        every: Record in full only cycles whose number this divides; 0 for all.
    """

    units: int = layout.DEFAULT_UNITS
    mode: int = layout.Mode.DEVICE
    every: int = 0


@dataclass(frozen=True)
class Attached:
    """A rank with the probe in it, under our control.

    Attributes:
        rank: The process.
        path: Its ring file, as this process sees it.
        way: "pending": the interpreter ran the loader at its next safe point; "in place":
            the main thread slept in the kernel, and the loader ran meanwhile.
        stop_ns: For how long the main thread was kept from its own work by stops, in ns,
            measured from outside; what the loader does at a safe point is not in it, the
            header words LOAD_NS and ARM_NS say that.
        joined: The probe was there already, its reader had gone, and we took over.
    """

    rank: Rank
    path: Path
    way: str
    stop_ns: int
    joined: bool


@dataclass(frozen=True)
class TakenOut:
    """What came of taking the probe out.

    Attributes:
        removed: The probe is out, and so is its file.
        foreign: Functions that somebody wrapped after us: there ours stays, doing nothing.
        reason: One sentence.
    """

    removed: bool
    foreign: tuple[str, ...]
    reason: str


def put_in(
    rank: Rank,
    *,
    options: Options | None = None,
    timeout_s: float = 5.0,
    sources: payload.Sources | None = None,
) -> Attached:
    """Puts the probe into one rank, or takes over one whose reader has gone.

    Args:
        rank: The process.
        options: How to trace it; by default as `Options` says. The size is that of a new ring.
        timeout_s: How long to wait until the probe is armed.
        sources: Names and texts of the modules to put in; the probe by default.

    Returns:
        The rank with the probe in it. From now on the caller must write HEARTBEAT_NS every
        second, else the probe leaves by itself.

    Raises:
        SpectraceError: With what stood in the way; nothing is left behind in the server.
    """
    options = options or Options()
    procfs.require_rights(rank.pid)
    existing = _existing(rank, options)
    if existing is not None:
        return existing
    tracer = int(procfs.status(rank.pid)["TracerPid"])
    if tracer:
        raise ptrace.already_traced(rank.pid, tracer)
    interpreter = elf.interpreter(rank.pid)
    _check_content(rank.pid, interpreter)
    code = payload.build(rank.pid, interpreter, sources)
    words = {
        Word.HEARTBEAT_NS: time.monotonic_ns(),
        Word.CONTROLLER_PID: os.getpid(),
        Word.MODE: layout.mode_word(options.mode),
        Word.SAMPLE_EVERY: options.every,
    }
    path = ring_file.create(rank, code, options.units, words)
    try:
        return _inject(rank, path, interpreter, timeout_s)
    except BaseException:
        # A loader that comes late finds no file, one that is at work finds the command.
        _command_detach(path)
        ring_file.remove(path)
        raise


def ask_to_leave(attached: Attached) -> None:
    """Tells the probe in a rank to leave at its next cycle boundary; returns at once.

    Told before any of them is waited for, the ranks of a server leave together.
    """
    _command_detach(attached.path)


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
    _command_detach(_ring_of(pid))


def _ring_of(pid: int) -> Path:
    procfs.require_rights(pid)
    path = ring_file.ring_path(pid)
    if not path.exists():
        raise SpectraceError(
            f"There is no spectrace in process {pid}: `spectrace status` lists the servers that "
            "are traced."
        )
    return path


# A ring that is there already.


def _existing(rank: Rank, options: Options) -> Attached | None:
    """Takes over what is there; None where nothing is, or only remains."""
    path = ring_file.ring_path(rank.pid)
    try:
        ring = RingView(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpectraceError(
            f"The ring file {path} cannot be opened ({error.strerror}): "
            "remove it, then attach again."
        ) from None
    try:
        _refuse_if_controlled(rank, ring)
        if loops.is_of_a_loop(ring):
            loops.wake(rank.pid, ring)
        elif ring.word(Word.STATE) not in _RUNNING:
            ring.set_word(Word.COMMAND, Command.DETACH)
            ring_file.remove(path)
            return None
        ring.set_word(Word.CONTROLLER_PID, os.getpid())
        ring.set_word(Word.HEARTBEAT_NS, time.monotonic_ns())
        ring.set_word(Word.COMMAND, Command.NONE)
        ring.set_word(Word.MODE, layout.mode_word(options.mode))
        ring.set_word(Word.SAMPLE_EVERY, options.every)
        ring.set_word(Word.JOINS, ring.word(Word.JOINS) + 1)
        return Attached(rank, path, "pending", 0, joined=True)
    finally:
        ring.close()


def _refuse_if_controlled(rank: Rank, ring: RingView) -> None:
    controller = ring.word(Word.CONTROLLER_PID)
    fresh = time.monotonic_ns() - ring.word(Word.HEARTBEAT_NS) < layout.QUIET_NS
    over = ring.word(Word.STATE) in _OVER
    # In another container the number means another process: there the heartbeat alone counts.
    there = not procfs.shares_processes(rank.pid) or procfs.is_alive(controller)
    if fresh and there and not over and controller != os.getpid():
        raise SpectraceError(
            f"Rank {rank.name} (process {rank.pid}) is already traced by spectrace, process "
            f"{controller}: use that one, or `spectrace detach {rank.pid}` first."
        )


# Putting it in.


def _check_content(pid: int, interpreter: Interpreter) -> None:
    """Makes sure that the files we looked into are what the process has in its memory."""
    for name, address in interpreter.functions.items():
        content = interpreter.content[name]
        try:
            same = ptrace.read_memory(pid, address, len(content)) == content
        except OSError:
            same = False
        if not same:
            raise SpectraceError(
                f"The memory of process {pid} and its file {interpreter.name} differ at {name}: "
                "Python was replaced since the server started, or a debugger has changed it; "
                "restart the server to attach to it."
            )


def _inject(rank: Rank, path: Path, interpreter: Interpreter, timeout_s: float) -> Attached:
    deadline = time.monotonic() + timeout_s
    order = handover.Order(
        pid=rank.pid,
        functions=interpreter.functions,
        ring=str(path),
        name_in_target=ring_file.name_in_target(rank.pid),
    )
    done = handover.in_its_own_process(order)
    ring = RingView(path)
    try:
        _wait_until_armed(rank, ring, deadline, timeout_s)
        stop_ns = done.stop_ns
        if ring.word(Word.LOADER_TEXT_ADDRESS):  # the probe has not freed it
            stop_ns += handover.in_its_own_process(replace(order, only_free=True)).stop_ns
        return Attached(rank, path, done.way, stop_ns, joined=False)
    finally:
        ring.close()


def _wait_until_armed(rank: Rank, ring: RingView, deadline: float, timeout_s: float) -> None:
    while True:
        state = ring.word(Word.STATE)
        if state in _OVER:
            error = ring.info().get("error", "it says nothing about why")
            raise SpectraceError(f"The probe could not start in rank {rank.name}: {error}.")
        if state in {State.ARMED, State.TRACING}:
            return
        if not procfs.is_alive(rank.pid):
            raise ptrace.TargetGone(rank.pid)
        if time.monotonic() > deadline:
            raise _not_armed(rank, ring, timeout_s)
        ring.set_word(Word.HEARTBEAT_NS, time.monotonic_ns())
        time.sleep(_POLL_S)


def _not_armed(rank: Rank, ring: RingView, timeout_s: float) -> SpectraceError:
    if ring.word(Word.LOADER_ENTERED_NS):
        return SpectraceError(
            f"The loader ran in rank {rank.name} (process {rank.pid}), but the probe was not armed "
            f"within {timeout_s:g} s; it has been told to leave. Try again."
        )
    return SpectraceError(
        f"The main thread of rank {rank.name} (process {rank.pid}) did not come to a safe point "
        f"within {timeout_s:g} s: it is busy or blocked in native code. Nothing was put in; "
        "try again when the server answers requests."
    )


# Taking it out.


def _take_out(pid: int, path: Path, timeout_s: float) -> TakenOut:
    try:
        ring = RingView(path)
    except FileNotFoundError:
        return TakenOut(removed=True, foreign=(), reason="The probe had already left.")
    try:
        if loops.is_of_a_loop(ring):
            why = loops.put_to_sleep(pid, ring, timeout_s)
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
        if state in _OVER:
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


def _command_detach(path: Path) -> None:
    try:
        ring = RingView(path)
    except (OSError, SpectraceError):
        return
    ring.set_word(Word.COMMAND, Command.DETACH)
    ring.close()
