"""Stops a server's main thread and hands it the loader, in a process of its own.

Should spectrace be killed while the thread stands, with its registers changed, the server
would die with it. So the surgery is done by a child that neither a Ctrl-C nor a closed
terminal nor the death of spectrace reaches; it is over in milliseconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec

from spectrace.attach import gdb, loader, procfs, ptrace
from spectrace.attach.ways import WayClosed
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.probe.layout import Word

_CALL_TIMEOUT_S = 0.2  # the calls made under it take microseconds
_FIRST_IN_LINE = -20
_NEVER_FOR_MEMORY = "-1000"

# System calls in which the thread can sleep for long and in which nothing of the C library
# is half done, so that Python may run in its place. Not among them: futex, which malloc and
# the dynamic linker wait in, and ioctl, in which GPU drivers wait with their locks held.
_SAFE_SLEEPS = {
    0,  # read
    7,  # poll
    23,  # select
    34,  # pause
    35,  # nanosleep
    43,  # accept
    45,  # recvfrom
    47,  # recvmsg
    61,  # wait4
    128,  # rt_sigtimedwait
    230,  # clock_nanosleep
    232,  # epoll_wait
    247,  # waitid
    270,  # pselect6
    271,  # ppoll
    281,  # epoll_pwait
    288,  # accept4
    441,  # epoll_pwait2
}

_PAGE_BYTES = 4096
_PROT_READ_WRITE = 3
_MAP_PRIVATE_ANONYMOUS = 0x22
_INT_BITS = 0xFFFFFFFF


@dataclass(frozen=True)
class Order:
    """What is to be done.

    Attributes:
        pid: The process.
        functions: Addresses of the functions that are called in it, by name.
        ring: Its ring file, as we see it.
        name_in_target: The ring file, as the process sees it.
        loader: As `payload.Payload` has it.
        only_free: Only free the memory of a loader's text that has run.
        leave: Hand over what has the probe leave, not what loads it.
        by_gdb: gdb stops the process, not we.
    """

    pid: int
    functions: dict[str, int]
    ring: str
    name_in_target: str
    loader: bytes = b""
    only_free: bool = False
    leave: bool = False
    by_gdb: bool = False


@dataclass(frozen=True)
class Done:
    """What was done.

    Attributes:
        in_place: The thread slept in the kernel, and the loader ran meanwhile; else the
            interpreter runs it at its next safe point.
        stop_ns: For how long the thread stood, in ns.
        error: What went wrong, one sentence; empty if nothing did.
        closed: This way is not open, and nothing has been done.
    """

    in_place: bool = False
    stop_ns: int = 0
    error: str = ""
    closed: bool = False


class Stopped(Protocol):
    """The main thread of a process, standing: of `ptrace` or of `gdb`."""

    @property
    def asleep_in(self) -> int | None:
        """Number of the system call that it sleeps in, None if it is awake."""

    @property
    def waits_for_lock(self) -> bool:
        """Whether it sleeps in a futex wait."""

    def end_sleep(self) -> None:
        """Lets the system call end as a signal would."""

    def write(self, address: int, data: bytes) -> None:
        """Writes into the memory of the process."""

    def call(self, function: int, *arguments: int, timeout_s: float | None) -> int:
        """Calls a function of the process."""


def in_its_own_process(order: Order) -> Done:
    """Has a child carry out an order.

    Raises:
        WayClosed: This machine does not have what it takes; another way may be open.
        SpectraceError: With what stood in the way; the server goes on as before.
    """
    command = [sys.executable, "-c", "from spectrace.attach.handover import main; main()"]
    done = subprocess.run(
        command,
        input=msgspec.json.encode(asdict(order)),
        capture_output=True,
        check=False,
        start_new_session=True,  # the terminal's Ctrl-C is not for it
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    if done.returncode and not procfs.is_alive(order.pid):
        raise ptrace.TargetGone(order.pid)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SpectraceError(
            f"The process that hands the loader over to {order.pid} failed: "
            f"{' '.join(said) or f'status {done.returncode}'}. Please report this."
        )
    result = msgspec.json.decode(done.stdout, type=Done)
    if result.error:
        raise (WayClosed if result.closed else SpectraceError)(result.error)
    return result


def main() -> None:
    """What the child does: reads the order, carries it out, and writes what came of it."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    _be_undisturbed()
    try:
        done = perform(order)
    except SpectraceError as error:
        done = Done(error=str(error), closed=isinstance(error, WayClosed))
    sys.stdout.buffer.write(msgspec.json.encode(done))


def _be_undisturbed() -> None:
    """Asks for a processor at once and for memory to the last; both need rights."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _FIRST_IN_LINE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_NEVER_FOR_MEMORY, "ascii")


def perform(order: Order) -> Done:
    """Carries out an order in this process.

    Raises:
        SpectraceError: With what stood in the way.
    """
    operate: Callable[..., Any] = gdb.operate if order.by_gdb else ptrace.operate
    ring = RingView(Path(order.ring))
    try:
        work = partial(_free if order.only_free else _prepared(order), order=order, ring=ring)
        in_place, stop_ns = operate(order.pid, work)
        return Done(in_place=in_place, stop_ns=stop_ns)
    finally:
        ring.close()


def _free(thread: Stopped, order: Order, ring: RingView) -> bool:
    """Frees the memory of the loader's text if the probe has not."""
    text = ring.word(Word.LOADER_TEXT_ADDRESS)
    if text:
        size = ring.word(Word.LOADER_TEXT_BYTES)
        thread.call(order.functions["munmap"], text, size, timeout_s=_CALL_TIMEOUT_S)
        ring.set_word(Word.LOADER_TEXT_ADDRESS, 0)
    return False


def _prepared(order: Order) -> Callable[..., bool]:
    """What is done to the thread, with all that can be made before it is stopped."""
    if order.leave:
        return partial(_hand_over, text=loader.LeavingText())
    return partial(_hand_over, text=loader.Text(order.name_in_target, order.loader))


def _hand_over(thread: Stopped, order: Order, ring: RingView, text: loader.Text) -> bool:
    """Gets a text to run in the stopped thread, for which it gives True, or soon after."""
    functions = order.functions
    address = thread.call(
        functions["mmap"],
        0,
        loader.TEXT_BYTES,
        _PROT_READ_WRITE,
        _MAP_PRIVATE_ANONYMOUS,
        -1,
        0,
        timeout_s=_CALL_TIMEOUT_S,
    )
    if address % _PAGE_BYTES:
        raise SpectraceError("The server has no memory left for the 8 KB of the loader.")
    kept = False
    try:
        if _may_run_in_place(thread, functions):
            _run_in_place(thread, functions, address, text.at(0))
            return True
        if not order.leave:  # by this a loader knows that the ring is still its own
            ring.set_word(Word.LOADER_TEXT_BYTES, loader.TEXT_BYTES)
            ring.set_word(Word.LOADER_TEXT_ADDRESS, address)
        _queue(thread, functions, ring, address, text.at(address))
        kept = True
        return False
    finally:
        if not kept:
            thread.call(functions["munmap"], address, loader.TEXT_BYTES, timeout_s=_CALL_TIMEOUT_S)


def _may_run_in_place(thread: Stopped, functions: dict[str, int]) -> bool:
    """Whether the thread sleeps where nothing is half done, and without the GIL."""
    if thread.asleep_in not in _SAFE_SLEEPS:
        return False
    if not _as_int(thread.call(functions["Py_IsInitialized"], timeout_s=_CALL_TIMEOUT_S)):
        raise SpectraceError("Python is just starting or ending in the server: try again.")
    # Native code that sleeps with the GIL held may be in the midst of anything.
    return not _as_int(thread.call(functions["PyGILState_Check"], timeout_s=_CALL_TIMEOUT_S))


def _run_in_place(thread: Stopped, functions: dict[str, int], address: int, text: bytes) -> None:
    thread.write(address, text)
    # None of these may be left halfway: it would break the interpreter's locks.
    state = thread.call(functions["PyGILState_Ensure"], timeout_s=None)
    thread.call(functions["PyRun_SimpleString"], address, timeout_s=None)
    thread.call(functions["PyGILState_Release"], state & _INT_BITS, timeout_s=None)


def _queue(
    thread: Stopped, functions: dict[str, int], ring: RingView, address: int, text: bytes
) -> None:
    thread.write(address, text)
    failed = thread.call(
        functions["Py_AddPendingCall"],
        functions["PyRun_SimpleString"],
        address,
        timeout_s=_CALL_TIMEOUT_S,
    )
    if _as_int(failed):
        ring.set_word(Word.LOADER_TEXT_ADDRESS, 0)
        raise SpectraceError("The interpreter's queue of pending calls is full: try again.")
    if thread.waits_for_lock:
        # Python's locks run pending calls when a signal ends their wait, then wait on; for
        # all others a futex wait that ends early is a case that they must know.
        thread.end_sleep()


def _as_int(value: int) -> int:
    """The low 32 bits of a returned register: what a C `int` left there."""
    return value & _INT_BITS
