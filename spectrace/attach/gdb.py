"""Hands the loader over by gdb, for processors that our own ptrace does not know.

gdb knows the registers and calling conventions of every machine. It is given addresses and no
symbols, finds no libraries and sets no breakpoints, so that all threads stand for some 20 ms
(a server with 400 libraries and 23 threads) and not for seconds; only the main thread runs while
a function is called.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from spectrace.attach import procfs, ptrace
from spectrace.attach.sleeping_child import sleeping_child
from spectrace.attach.ways import PTRACE_MACHINE, WayClosed
from spectrace.errors import SpectraceError

T = TypeVar("T")

_PATIENCE_S = 5.0  # for a call: the functions take microseconds, gdb on a busy machine does not
_ATTACH_TIMEOUT_S = 20.0
_END_TIMEOUT_S = 10.0
_NOWHERE = "/nonexistent"
_RETURN_TO_STACK = {"x86_64"}
_SETTINGS = (
    "set auto-load off",
    "set auto-solib-add off",
    "set debuginfod enabled off",
    f"set libthread-db-search-path {_NOWHERE}",
    f"set sysroot {_NOWHERE}",
    "set unwindonsignal on",  # a call that fails or is given up leaves nothing behind
    "handle all nostop noprint pass",
    "handle SIGSEGV SIGBUS SIGILL SIGFPE SIGABRT stop print",
)
_TOKEN = "7"  # noqa: S105 - by which an answer shows among what else gdb tells
_VALUE = re.compile(r'value="(-?\d+)')
_MESSAGE = re.compile(r'msg="((?:[^"\\]|\\.)*)"')


class Debugger:
    """One gdb with a process in hand.

    Args:
        pid: The process.
        gdb: The program, started and not yet attached.
    """

    # Where the thread sleeps is not asked, so that the loader is always queued.
    asleep_in: int | None = None
    waits_for_lock = False

    def __init__(self, pid: int, gdb: subprocess.Popen[str]) -> None:
        self._pid = pid
        self._gdb = gdb

    def attach(self) -> int:
        """Stops all threads; returns CLOCK_MONOTONIC in ns just before.

        Raises:
            SpectraceError: gdb cannot.
        """
        self._ask("-gdb-version", _ATTACH_TIMEOUT_S)  # it has read what it reads at its start
        began_ns = time.monotonic_ns()
        self._ask(f"-target-attach {self._pid}", _ATTACH_TIMEOUT_S)
        self._ask("-thread-select 1", _ATTACH_TIMEOUT_S)
        self._ask("-gdb-set scheduler-locking on", _ATTACH_TIMEOUT_S)
        return began_ns

    def detach(self) -> None:
        """Lets the process go on.

        Raises:
            SpectraceError: gdb says that it could not.
        """
        self._ask("-target-detach", _ATTACH_TIMEOUT_S)

    def end_sleep(self) -> None:
        """Nothing: gdb itself has ended a wait for a lock, which then goes on."""

    def write(self, address: int, data: bytes) -> None:
        """Writes into the memory of the process."""
        ptrace.write_memory(self._pid, address, data)

    def call(self, function: int, *arguments: int, timeout_s: float | None) -> int:
        """Calls a function of the process in its main thread.

        Args:
            function: Its address.
            arguments: Integers or addresses.
            timeout_s: Give up after that, or a little later: gdb itself takes time.

        Returns:
            The register that it returned, 64 bits, unsigned.

        Raises:
            SpectraceError: It failed or took too long; the thread is as before.
        """
        kind = f"unsigned long (*)({', '.join(['long'] * len(arguments)) or 'void'})"
        values = ", ".join(map(str, arguments))
        patience_s = _PATIENCE_S + (timeout_s or 0.0)
        command = f'-data-evaluate-expression "(({kind}){function:#x})({values})"'
        answer = self._ask(command, patience_s)
        found = _VALUE.search(answer)
        if found is None:
            raise SpectraceError(f"gdb answered {answer.strip()!r}. Please report this.")
        return int(found[1])

    def _ask(self, command: str, timeout_s: float) -> str:
        """Says a command and waits for its answer."""
        answer = ""
        assert self._gdb.stdin is not None  # noqa: S101 - as it was started
        assert self._gdb.stdout is not None  # noqa: S101
        with _limited(self._gdb, timeout_s), contextlib.suppress(BrokenPipeError):
            self._gdb.stdin.write(f"{_TOKEN}{command}\n")
            self._gdb.stdin.flush()
            answer = next((line for line in self._gdb.stdout if line.startswith(f"{_TOKEN}^")), "")
        if not answer:
            raise SpectraceError(f"gdb ended while it had process {self._pid} in hand: try again.")
        if answer.startswith(f"{_TOKEN}^error"):
            raise self._refused(answer)
        return answer

    def _refused(self, answer: str) -> SpectraceError:
        found = _MESSAGE.search(answer)
        said = " ".join((found[1] if found else answer).replace("\\n", " ").split())
        if "not permitted" in said:
            return ptrace.not_permitted(self._pid)
        return SpectraceError(f"gdb failed with process {self._pid} in hand: {said}")


@contextlib.contextmanager
def _limited(gdb: subprocess.Popen[str], seconds: float) -> Iterator[None]:
    """Interrupts what gdb does after a time, and has it leave the process if that is no use."""
    timers = (
        threading.Timer(seconds, gdb.send_signal, [signal.SIGINT]),
        threading.Timer(seconds + _END_TIMEOUT_S, gdb.terminate),
    )
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()


def operate(pid: int, work: Callable[[Debugger], T]) -> tuple[T, int]:
    """Stops a process, does something to it, and lets it go on.

    Args:
        pid: The process.
        work: Called with the debugger that has it; its result is handed through.

    Returns:
        What `work` returned, and for how long the process stood at most, in ns.

    Raises:
        WayClosed: There is no gdb here, or none that is equal to this processor.
        SpectraceError: gdb cannot stop it, the process is paused, or a call failed.
    """
    if procfs.status(pid)["State"].startswith("T"):
        raise ptrace.paused(pid)
    rehearse()
    with _started(pid) as gdb:
        debugger = Debugger(pid, gdb)
        began_ns = debugger.attach()
        try:
            result = work(debugger)
        finally:
            debugger.detach()
        return result, time.monotonic_ns() - began_ns


def rehearse() -> None:
    """Has gdb call a function in a child of ours, before it does so in a server.

    gdb up to 13 does not know processors with AMX: it cannot write their registers, notices in
    the midst of a call, and the process dies of it.

    Raises:
        WayClosed: There is no gdb here, or it harmed the child.
    """
    wrong = ""
    with sleeping_child() as child:
        try:
            with _started(child.pid) as gdb:
                debugger = Debugger(child.pid, gdb)
                debugger.attach()
                if debugger.call(child.getpid, timeout_s=None) != child.pid:
                    wrong = "a function gave another result"
                debugger.detach()
        except WayClosed:
            raise
        except SpectraceError as error:
            wrong = str(error)
        finally:
            unharmed = child.wakes_well()
    if unharmed and not wrong:
        return
    other = ", or use --method ptrace" if platform.machine() == PTRACE_MACHINE else ""
    raise WayClosed(
        "The gdb of this machine would harm the server: tried on a process of spectrace's own, "
        f"it failed there ({(wrong or 'the process did not survive').rstrip('.')}). Install a gdb "
        f"that is not older than the processor (14 or newer for one with AMX){other}."
    )


@contextlib.contextmanager
def _started(pid: int) -> Iterator[subprocess.Popen[str]]:
    """A gdb that is ready to attach; at the end of its input it lets the process go."""
    program = shutil.which("gdb")
    if program is None:
        raise WayClosed("There is no gdb on this machine: install it (on Debian: apt install gdb).")
    settings = [part for setting in _SETTINGS for part in ("-iex", setting)]
    command = [program, "-q", "-nx", "--readnever", "--interpreter=mi3", *settings]
    # Elsewhere a called function returns to the executable's entry point, which is read from its
    # file. With it gdb looks at every library too, and the process stands ten times as long.
    file = [] if platform.machine() in _RETURN_TO_STACK else [f"/proc/{pid}/exe"]
    with subprocess.Popen(
        [*command, *file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        errors="replace",
        start_new_session=True,
        env={**os.environ, "LC_ALL": "C"},
    ) as gdb:
        try:
            yield gdb
        finally:
            assert gdb.stdin is not None  # noqa: S101 - as it was started
            with contextlib.suppress(BrokenPipeError):
                gdb.stdin.close()
            try:
                gdb.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                gdb.terminate()
