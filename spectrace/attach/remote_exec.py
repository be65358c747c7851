"""Has the server's own interpreter hand the loader over, by `sys.remote_exec` of Python 3.14.

Nothing is stopped: a word in the server's memory tells its main thread to run a script at its
next safe point.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from spectrace.attach import loader, own_python, procfs, ring_file
from spectrace.attach.elf import Interpreter
from spectrace.attach.ways import WayClosed, has_remote_exec
from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import Word

_SUFFIX = ".py"
_CALL = "import sys; sys.remote_exec(int(sys.argv[1]), sys.argv[2])"


def hand_over(pid: int, interpreter: Interpreter, ring_path: Path) -> None:
    """Asks the interpreter of a process to run the loader.

    Args:
        pid: The process.
        interpreter: Its Python.
        ring_path: Its ring, with the probe's code in it.

    Raises:
        WayClosed: Its Python is older, cannot be run from here, or does not let itself be
            told; nothing has been done.
    """
    if not has_remote_exec(interpreter.version):
        found = ".".join(map(str, interpreter.version)) if interpreter.version else "unknown"
        raise WayClosed(
            f"Process {pid} runs Python {found}, and sys.remote_exec came with 3.14: "
            "leave --method remote-exec away."
        )
    executable = own_python.executable(pid)
    if not executable:
        raise WayClosed(
            f"The Python of process {pid} cannot be run from here (another container, or its "
            "file was replaced), so that it cannot be asked for sys.remote_exec."
        )
    script = ring_path.with_suffix(_SUFFIX)
    _write(script, pid, ring_path)
    failed = _call(executable, pid, script)
    if failed:
        script.unlink(missing_ok=True)
        raise WayClosed(f"sys.remote_exec was refused for process {pid}: {failed.rstrip('.')}.")


def take_back(pid: int, ring_path: Path) -> None:
    """Sees to it that a script that comes too late does nothing but remove itself.

    Were it gone, the interpreter would complain of that on the server's stderr.
    """
    script = ring_path.with_suffix(_SUFFIX)
    with suppress(FileNotFoundError):  # it has run
        descriptor = os.open(script, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, loader.vain_script(_name_in_target(pid)).encode())
        finally:
            os.close(descriptor)


def _write(script: Path, pid: int, ring_path: Path) -> None:
    """Writes the script for its owner, and into the ring by which number it is known."""
    number = time.monotonic_ns()
    ring = RingView(ring_path)
    ring.set_word(Word.LOADER_TEXT_BYTES, 0)
    ring.set_word(Word.LOADER_TEXT_ADDRESS, number)
    ring.close()
    text = loader.script(ring_file.name_in_target(pid), number, _name_in_target(pid))
    script.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(script, flags, 0o600)
    try:
        ring_file.give_to_owner(descriptor, pid)
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _name_in_target(pid: int) -> str:
    """The script as the process itself names it."""
    return str(Path(ring_file.name_in_target(pid)).with_suffix(_SUFFIX))


def _call(executable: str, pid: int, script: Path) -> str:
    """Makes the call; gives why it failed, empty if it did not."""
    target = str(script)
    try:
        done = own_python.run(executable, procfs.owner(pid), _CALL, str(pid), target)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if not done.returncode:
        return ""
    with suppress(IndexError):
        return done.stderr.decode(errors="replace").strip().splitlines()[-1]
    return f"status {done.returncode}"
