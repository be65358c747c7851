"""Puts the probe into one rank of a server."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from spectrace.attach import (
    elf,
    handover,
    leave,
    payload,
    procfs,
    ptrace,
    readers,
    remote_exec,
    ring_file,
    takeover,
    ways,
)
from spectrace.attach.elf import Interpreter
from spectrace.attach.handle import OVER, Attached, Options
from spectrace.attach.ways import Method, Way, WayClosed
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe.layout import Seat, State, Word

_POLL_S = 0.001
_DYING_S = 0.5


def put_in(
    rank: Rank,
    *,
    options: Options | None = None,
    timeout_s: float = 5.0,
    sources: payload.Sources | None = None,
) -> Attached:
    """Puts the probe into one rank, or joins the one that is there.

    Args:
        rank: The process.
        options: How to trace it; by default as `Options` says. The size is that of a new ring.
        timeout_s: How long to wait until the probe is armed.
        sources: Names and texts of the modules to put in; the probe by default.

    Returns:
        The rank with the probe in it. From now on the caller must give a sign of life every
        second (`readers.sign_of_life`), else the probe leaves by itself.

    Raises:
        SpectraceError: With what stood in the way; nothing is left behind in the server.
    """
    options = options or Options()
    procfs.require_rights(rank.pid)
    existing = takeover.existing(rank, options, timeout_s)
    if existing is not None:
        return existing
    if options.method is Method.PLUGIN:
        raise _no_plugin(rank)
    tracer = int(procfs.status(rank.pid)["TracerPid"])
    if tracer:
        raise ptrace.already_traced(rank.pid, tracer)
    interpreter = elf.interpreter(rank.pid)
    _check_content(rank.pid, interpreter)
    made = payload.build(rank.pid, interpreter, sources)
    try:
        words = {**readers.first_seat(), **options.words()}
        path = ring_file.create(rank, made.code, options.units, words)
    except ring_file.AlreadyThereError:
        existing = takeover.existing(rank, options, timeout_s)  # another one was faster
        if existing is None:
            raise
        return existing
    try:
        target = _Target(rank, path, interpreter, made.loader)
        return _first_open(target, options.method, timeout_s)
    except BaseException:
        # A loader that comes late finds no file, one that is at work finds the command.
        leave.command_detach(path)
        ring_file.remove(path)
        raise


def _check_content(pid: int, interpreter: Interpreter) -> None:
    """Makes sure that the files we looked into are what the process has in its memory."""
    name = elf.changed(pid, interpreter)
    deadline = time.monotonic() + _DYING_S
    while name and time.monotonic() < deadline:  # one that ends loses its memory first
        if not procfs.is_alive(pid):
            raise ptrace.TargetGone(pid)
        time.sleep(_POLL_S)
    if name:
        raise SpectraceError(
            f"The memory of process {pid} and its file {interpreter.name} differ at {name}: "
            "Python was replaced since the server started, or a debugger has changed it; "
            "restart the server to attach to it."
        )


def _no_plugin(rank: Rank) -> SpectraceError:
    return SpectraceError(
        f"Rank {rank.name} (process {rank.pid}) has no plugin of spectrace that is asleep: "
        "`pip install --no-deps spectrace` in the server's environment and start the server "
        "again, or leave --method plugin away."
    )


@dataclass(frozen=True)
class _Target:
    """A rank with all that has been made ready for it: its ring, and the compiled loader."""

    rank: Rank
    path: Path
    interpreter: Interpreter
    loader: bytes


def _first_open(target: _Target, method: Method, timeout_s: float) -> Attached:
    """Puts the probe in by the first way that is open."""
    closed: list[str] = []
    for way in ways.order(method, target.interpreter.version):
        try:
            attached = _by(way, target, timeout_s)
        except WayClosed as error:  # noqa: PERF203 - of two ways at most
            closed.append(str(error))
        else:
            return replace(attached, closed=tuple(closed))
    raise ways.all_closed(target.rank.pid, closed)


def _by(way: Way, target: _Target, timeout_s: float) -> Attached:
    deadline = time.monotonic() + timeout_s
    rank, path = target.rank, target.path
    if way is Way.REMOTE_EXEC:
        remote_exec.hand_over(rank.pid, target.interpreter, path)
        try:
            _, key = _wait_until_armed(rank, path, deadline, timeout_s)
        except BaseException:
            remote_exec.take_back(rank.pid, path)
            raise
        return Attached(rank, path, way, 0, joined=False, key=key)
    order = handover.Order(
        pid=rank.pid,
        functions=target.interpreter.functions,
        ring=str(path),
        name_in_target=ring_file.name_in_target(rank.pid),
        loader=target.loader,
        by_gdb=way is Way.GDB,
    )
    done = handover.in_its_own_process(order)
    stop_ns = done.stop_ns
    freed, key = _wait_until_armed(rank, path, deadline, timeout_s)
    if not freed:
        stop_ns += handover.in_its_own_process(replace(order, only_free=True)).stop_ns
    return Attached(rank, path, way, stop_ns, joined=False, key=key, in_place=done.in_place)


def _wait_until_armed(
    rank: Rank, path: Path, deadline: float, timeout_s: float
) -> tuple[bool, int]:
    """Waits for the probe; gives whether it has freed the loader's text, and our key."""
    ring = RingView(path)
    key = ring.word(Word.SEATS + Seat.KEY)  # the first seat is its maker's, whoever controls
    try:
        _watch(rank, ring, key, deadline, timeout_s)
        return not ring.word(Word.LOADER_TEXT_ADDRESS), key
    finally:
        ring.close()


def _watch(rank: Rank, ring: RingView, key: int, deadline: float, timeout_s: float) -> None:
    while True:
        state = ring.word(Word.STATE)
        if state in OVER:
            error = ring.info().get("error", "it says nothing about why")
            raise SpectraceError(f"The probe could not start in rank {rank.name}: {error}.")
        if state in {State.ARMED, State.TRACING}:
            return
        if not procfs.is_alive(rank.pid):
            raise ptrace.TargetGone(rank.pid)
        if time.monotonic() > deadline:
            raise _not_armed(rank, ring, timeout_s)
        readers.sign_of_life(ring, key)
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
