"""Stops the main thread of a process for less than a millisecond and calls functions in it.

Only Linux on x86-64. Only the main thread stands; the other threads go on. Whatever fails,
the thread goes on as it was: all its registers, the extended state (vector registers, x87,
MXCSR) and its signal mask are saved before and put back after.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any, Literal, TypeVar

from spectrace.attach import procfs, ways
from spectrace.errors import SpectraceError

T = TypeVar("T")

_CONT, _GETREGS, _SETREGS, _DETACH = 7, 12, 13, 17
_GETREGSET, _SETREGSET, _SEIZE, _INTERRUPT = 0x4204, 0x4205, 0x4206, 0x4207
_GETSIGMASK, _SETSIGMASK = 0x420A, 0x420B
_NT_X86_XSTATE = 0x202
_XSTATE_BYTES = 64 * 1024  # 11 KB with AMX; the kernel says how much it is
_EVENT_STOP = 128
_WALL = 0x40000000
# Left unread: an exit status is for the parent, which may be this process.
_ANY_CHANGE = os.WEXITED | os.WSTOPPED | os.WNOWAIT | _WALL
_SIGMASK_BYTES = 8
_SIGINFO_BYTES = 128

_UNSIGNED = 1 << 64
_DIRECTION_FLAG = 0x400
_RED_ZONE = 1024  # 128 bytes by the ABI; the rest is distance

_STOP_TIMEOUT_S = 1.0
_NO_CPU_PATIENCE_S = 10.0  # with others on every core a thread may not run for seconds
_KNOCK_S = 0.05
_KNOCK = signal.SIGURG  # what it means by default is nothing

# Codes inside the kernel for "asleep in a system call that goes on or ends with EINTR".
_RESTART_BLOCK = -516
_ASLEEP = {-512, -513, -514, _RESTART_BLOCK, -errno.EINTR}
_SYSTEM_CALL_FUTEX = 202
_FUTEX_COMMAND = 0x7F
_FUTEX_WAITS = {0, 9}

# A stopping signal or one that the CPU raised cannot be held back.
_OF_THE_CPU = {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP}
_ENDED = {os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED}
_STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


class TargetGone(SpectraceError):  # noqa: N818 - reads as what happened
    """The process ended while we had it in hand."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"Process {pid} ended while spectrace attached to it.")


class CallFailed(SpectraceError):  # noqa: N818 - reads as what happened
    """A function that we called in the process did not come back as it should."""


_REGISTERS = (
    "r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss "
    "fs_base gs_base ds es fs gs"
)


class _Registers(ctypes.Structure):
    """`struct user_regs_struct` of x86-64."""

    _fields_ = tuple((name, ctypes.c_ulonglong) for name in _REGISTERS.split())


class _Vector(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.signal.restype = ctypes.c_void_p
_libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, pid, address, data) == -1:
        code = ctypes.get_errno()
        if code == errno.ESRCH:  # of a thread that stands: killed
            raise TargetGone(pid)
        raise OSError(code, os.strerror(code))


def operate(pid: int, work: Callable[[StoppedThread], T]) -> tuple[T, int]:
    """Stops the main thread of a process, does something to it, and lets it go on.

    The work runs in a thread of its own in which no signal is handled: Ctrl-C cannot cut it
    in two, and should it fail beyond repair the kernel lets the process go when the thread
    ends.

    Args:
        pid: The process.
        work: Called with the stopped thread; its result is handed through.

    Returns:
        What `work` returned, and for how long the main thread stood, in ns.

    Raises:
        WayClosed: The processor is another one.
        SpectraceError: The process cannot be stopped, is gone, is paused, or a call failed.
        Exception: What `work` raises.
    """
    if platform.machine() != ways.PTRACE_MACHINE:
        raise ways.WayClosed(
            f"By ptrace spectrace comes in on x86-64 only, and this machine is "
            f"{platform.machine()}: use --method gdb."
        )
    outcome: list[Any] = []

    def run() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [_KNOCK])
        try:
            outcome.append(_stopped(pid, work))
        except BaseException as error:  # noqa: BLE001 - raised again in the caller's thread
            outcome.append(error)

    with _signals_held_back(), _knocking_allowed():
        thread = threading.Thread(target=run, name="spectrace-ptrace")
        thread.start()
        while thread.is_alive():
            thread.join(_KNOCK_S)
            _knock(thread)
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    result, stop_ns = outcome[0]
    return result, stop_ns


@contextlib.contextmanager
def _signals_held_back() -> Iterator[None]:
    """Signals to this thread, and to threads that it starts, wait until the end."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _knocking_allowed() -> Iterator[None]:
    """Lets the knock end a sleep in the kernel, and do nothing else.

    Python installs handlers in its main thread only, and its own waitpid goes on sleeping
    after a signal: hence the C library's functions. Any of them that takes an int and has
    no effect is a handler.
    """
    before = _libc.signal(_KNOCK, ctypes.cast(_libc.abs, ctypes.c_void_p))
    _libc.siginterrupt(_KNOCK, 1)
    try:
        yield
    finally:
        _libc.signal(_KNOCK, before)


def _knock(thread: threading.Thread) -> None:
    """Ends the sleep of a thread of ours, so that it looks at the time."""
    _libc.tgkill(os.getpid(), thread.native_id, _KNOCK)


def _stopped(pid: int, work: Callable[[StoppedThread], T]) -> tuple[T, int]:
    with _memory(pid, "r+b") as memory:
        thread = StoppedThread(pid, memory.fileno())
        start_ns = thread.stop()
        try:
            thread.save()
            result = work(thread)
        finally:
            thread.release()
        return result, time.monotonic_ns() - start_ns


def not_permitted(pid: int) -> SpectraceError:
    """The error for a process that the kernel does not let us stop, and why."""
    if not procfs.is_alive(pid):  # the kernel says the same of a dead process
        return procfs.no_such_process(pid)
    tracer = int(procfs.status(pid)["TracerPid"])
    if tracer:
        return already_traced(pid, tracer)
    if procfs.may_trace_others() or procfs.owner(pid)[0] != os.geteuid():
        return procfs.may_not_look_into(pid)
    try:
        scope = int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text("ascii"))
    except OSError:
        scope = 0
    why = f" (Yama's ptrace_scope is {scope})" if scope else ""
    return SpectraceError(
        f"The kernel does not let you attach to process {pid}{why}: run spectrace with sudo; "
        "in a container start it with --cap-add SYS_PTRACE."
    )


def paused(pid: int) -> SpectraceError:
    """The error for a process that somebody has stopped by a signal."""
    return SpectraceError(
        f"Process {pid} is paused by a signal: let it go on with `kill -CONT {pid}`, "
        "then attach again."
    )


def already_traced(pid: int, tracer: int) -> SpectraceError:
    """The error for a process that a debugger has in hand."""
    try:
        name = procfs.status(tracer)["Name"]
    except SpectraceError:
        name = "unknown"
    return SpectraceError(
        f"Process {pid} is traced by {name} (process {tracer}): end that first, then attach again."
    )


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Bytes of the memory of a process that goes on running.

    Raises:
        SpectraceError: The process is gone or not ours to look into.
        OSError: There is no memory at that address.
    """
    with _memory(pid, "rb") as memory:
        return os.pread(memory.fileno(), size, address)


def write_memory(pid: int, address: int, data: bytes) -> None:
    """Writes into the memory of a process.

    Raises:
        SpectraceError: The process is gone or not ours to look into.
        OSError: There is no memory at that address.
    """
    with _memory(pid, "r+b") as memory:
        os.pwrite(memory.fileno(), data, address)


def _memory(pid: int, mode: Literal["rb", "r+b"]) -> FileIO:
    try:
        return Path(f"/proc/{pid}/mem").open(mode, buffering=0)
    except (FileNotFoundError, ProcessLookupError):  # the latter before its parent has noticed
        raise procfs.no_such_process(pid) from None
    except PermissionError:
        raise not_permitted(pid) from None


class StoppedThread:
    """The main thread of a process, standing.

    Args:
        pid: The process.
        memory: Descriptor of /proc/PID/mem, open for writing.
    """

    def __init__(self, pid: int, memory: int) -> None:
        self._pid = pid
        self._memory = memory
        self._stands = False
        self._gone = False
        self._saved: _Registers | None = None
        self._extended = ctypes.create_string_buffer(_XSTATE_BYTES)
        self._extended_bytes = 0
        self._mask = ctypes.c_uint64()
        self._held_back: list[int] = []
        self._disturbed = False
        self._change = ctypes.create_string_buffer(_SIGINFO_BYTES)

    # Stopping and letting go.

    def stop(self) -> int:
        """Stops the thread; returns CLOCK_MONOTONIC in ns just before."""
        try:
            _ptrace(_SEIZE, self._pid)
        except PermissionError:
            raise not_permitted(self._pid) from None
        start_ns = time.monotonic_ns()
        _ptrace(_INTERRUPT, self._pid)
        while True:
            signal_number, event = self._wait(_STOP_TIMEOUT_S)
            if event == _EVENT_STOP and signal_number not in _STOPPING:
                return start_ns
            if event == _EVENT_STOP:
                self._detach()
                raise paused(self._pid)
            # A signal was on its way: it goes to its handler, and we stop right after.
            self._resume(0 if event else signal_number)

    def save(self) -> None:
        """Keeps everything that calls could change, and holds signals back."""
        saved = _Registers()
        _ptrace(_GETREGS, self._pid, 0, ctypes.addressof(saved))
        vector = _Vector(ctypes.addressof(self._extended), _XSTATE_BYTES)
        _ptrace(_GETREGSET, self._pid, _NT_X86_XSTATE, ctypes.addressof(vector))
        _ptrace(_GETSIGMASK, self._pid, _SIGMASK_BYTES, ctypes.addressof(self._mask))
        self._extended_bytes = vector.length
        self._saved = saved
        held = _UNSIGNED - 1
        for number in _OF_THE_CPU:
            held &= ~(1 << (number - 1))
        self._set_mask(held)

    def release(self) -> None:
        """Puts everything back and lets the thread go on; never raises for a dead process."""
        if self._gone:
            return
        try:
            if not self._stands:
                self._interrupt()
            if self._saved is not None:
                self._restore(self._saved)
            self._detach()
        except TargetGone:
            return

    def _restore(self, saved: _Registers) -> None:
        if self._disturbed and _signed(saved.rax) == _RESTART_BLOCK:
            # The kernel's note on how to go on with the system call may be overwritten.
            saved.rax = -errno.EINTR % _UNSIGNED
        _ptrace(_SETREGS, self._pid, 0, ctypes.addressof(saved))
        vector = _Vector(ctypes.addressof(self._extended), self._extended_bytes)
        _ptrace(_SETREGSET, self._pid, _NT_X86_XSTATE, ctypes.addressof(vector))
        self._set_mask(self._mask.value)

    def _detach(self) -> None:
        _ptrace(_DETACH, self._pid)
        self._stands = False
        self._gone = True
        for number in self._held_back:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)

    def _set_mask(self, mask: int) -> None:
        value = ctypes.c_uint64(mask)
        _ptrace(_SETSIGMASK, self._pid, _SIGMASK_BYTES, ctypes.addressof(value))

    # What it is doing.

    @property
    def asleep_in(self) -> int | None:
        """Number of the system call that the thread sleeps in, None if it is awake."""
        saved = self._kept()
        number = _signed(saved.orig_rax)
        return number if number >= 0 and _signed(saved.rax) in _ASLEEP else None

    @property
    def waits_for_lock(self) -> bool:
        """Whether the thread sleeps in a futex wait."""
        command = self._kept().rsi & _FUTEX_COMMAND
        return self.asleep_in == _SYSTEM_CALL_FUTEX and command in _FUTEX_WAITS

    def end_sleep(self) -> None:
        """Lets the system call that the thread sleeps in end with EINTR, as a signal would."""
        self._kept().rax = -errno.EINTR % _UNSIGNED

    def _kept(self) -> _Registers:
        if self._saved is None:
            raise RuntimeError("save comes first")
        return self._saved

    # Calls.

    def write(self, address: int, data: bytes) -> None:
        """Writes into the memory of the process."""
        os.pwrite(self._memory, data, address)

    def call(self, function: int, *arguments: int, timeout_s: float | None) -> int:
        """Calls a function of the process in its stopped thread.

        Args:
            function: Its address.
            arguments: Up to six integers or addresses.
            timeout_s: Give up after that; None for a function that must not be left halfway.

        Returns:
            The returned register, 64 bits, unsigned.

        Raises:
            TargetGone: The process ended.
            CallFailed: The function crashed, or took too long.
        """
        registers = _Registers.from_buffer_copy(self._kept())
        registers.rsp = ((registers.rsp - _RED_ZONE) & ~0xF) - 8
        self.write(registers.rsp, bytes(8))  # returns to address 0, which stops it with SIGSEGV
        registers.rip = function
        registers.rax = 0
        registers.orig_rax = _UNSIGNED - 1  # no system call to be taken up again
        registers.eflags &= ~_DIRECTION_FLAG
        for name, value in zip(("rdi", "rsi", "rdx", "rcx", "r8", "r9"), arguments, strict=False):
            setattr(registers, name, value % _UNSIGNED)
        _ptrace(_SETREGS, self._pid, 0, ctypes.addressof(registers))
        self._resume(0)
        return self._returned(timeout_s)

    def _returned(self, timeout_s: float | None) -> int:
        registers = _Registers()
        while True:
            number, event = self._wait(timeout_s)
            _ptrace(_GETREGS, self._pid, 0, ctypes.addressof(registers))
            if not event and number == signal.SIGSEGV and registers.rip == 0:
                return int(registers.rax)
            if not event and number in _OF_THE_CPU:
                raise CallFailed(
                    f"A call in process {self._pid} ended with signal {number} at "
                    f"{registers.rip:#x}; the process goes on as before. Please report this."
                )
            self._disturbed = True
            if not event:
                self._held_back.append(number)
            self._resume(0)

    def _resume(self, signal_number: int) -> None:
        _ptrace(_CONT, self._pid, 0, signal_number)
        self._stands = False

    def _interrupt(self) -> None:
        _ptrace(_INTERRUPT, self._pid)
        number, event = self._wait(_STOP_TIMEOUT_S)
        if not event and number not in _OF_THE_CPU:
            self._held_back.append(number)
        self._disturbed = True

    def _wait(self, timeout_s: float | None) -> tuple[int, int]:
        """Waits for a stop; returns the signal's number and the event's.

        Only a thread that sleeps in the kernel is woken at once. On a busy machine one that
        spins or naps has used up its share of the processor and stands in line meanwhile,
        and the server with it: 3 ms instead of 0.3. The knocks end the sleep when it is time.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            stop = self._poll()
            if stop is not None:
                self._stands = True
                return stop
            if deadline is not None and self._is_late(time.monotonic() - deadline):
                raise CallFailed(
                    f"The main thread of process {self._pid} did not answer within {timeout_s} s: "
                    "it hangs in the kernel, waits for a lock of the interpreter, or gets no "
                    "processor; try again."
                )
            # What went wrong here, if not a knock, the next look says.
            _libc.waitid(os.P_PID, self._pid, ctypes.byref(self._change), _ANY_CHANGE)

    def _is_late(self, over_s: float) -> bool:
        """Whether to give up so long after the time: not on one that only wants a processor."""
        if over_s <= 0:
            return False
        return over_s > _NO_CPU_PATIENCE_S or not procfs.status(self._pid)["State"].startswith("R")

    def _poll(self) -> tuple[int, int] | None:
        try:
            change = os.waitid(os.P_PID, self._pid, _ANY_CHANGE | os.WNOHANG)
            if change is None:
                return None
            if change.si_code not in _ENDED:
                stop = os.waitid(os.P_PID, self._pid, os.WSTOPPED | os.WNOHANG | _WALL)
                return (stop.si_status & 0xFF, stop.si_status >> 8) if stop else None
        except ChildProcessError:
            pass
        self._gone = True
        raise TargetGone(self._pid)


def _signed(value: int) -> int:
    return value - _UNSIGNED if value >> 63 else value
