"""What /proc says about a process: parent, title, owner, start time, tracer, namespaces.

Where a function takes `proc`, that is the folder to read: a test may supply a copy.
"""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from spectrace.errors import SpectraceError

PROC = Path("/proc")
_CAP_SYS_PTRACE = 19


def _read(pid: int | str, name: str, proc: Path = PROC) -> bytes:
    try:
        return (proc / str(pid) / name).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        raise no_such_process(pid) from None


def no_such_process(pid: int | str) -> SpectraceError:
    """The error for a process that is not there (any more)."""
    return SpectraceError(
        f"There is no process {pid}: it has ended, or the number is one of another container; "
        "look at the servers with `spectrace status`."
    )


def _stat(pid: int, proc: Path = PROC) -> list[str]:
    """The fields of /proc/PID/stat from the third one on; the name before may hold spaces."""
    return _read(pid, "stat", proc).decode(errors="replace").rpartition(")")[2].split()


def parent(pid: int, proc: Path = PROC) -> int:
    """Process id of the parent, 0 for the first process.

    Raises:
        SpectraceError: There is no such process.
    """
    return int(_stat(pid, proc)[1])


def start_ticks(pid: int) -> int:
    """When the process began, in clock ticks since boot: tells a reused process id apart.

    Raises:
        SpectraceError: There is no such process.
    """
    return int(_stat(pid)[19])


def is_alive(pid: int, ticks: int | None = None) -> bool:
    """Whether the process runs and, with `ticks`, is the very one that began then."""
    try:
        fields = _stat(pid)
    except SpectraceError:
        return False
    return fields[0] not in "ZX" and (ticks is None or int(fields[19]) == ticks)


def has_mapped(pid: int, file_name: str) -> bool:
    """Whether a process has a file of that name in its memory; False once it has ended."""
    try:
        return f"/{file_name}".encode() in _read(pid, "maps")
    except (SpectraceError, OSError):
        return False


def command(pid: int, proc: Path = PROC) -> tuple[str, ...]:
    """The command line; a process that set a title has that as its first word.

    Raises:
        SpectraceError: There is no such process.
    """
    text = _read(pid, "cmdline", proc).decode(errors="replace").rstrip("\0")
    return tuple(text.split("\0")) if text else ()


def status(pid: int | str, proc: Path = PROC) -> dict[str, str]:
    """The lines of /proc/PID/status by name.

    Raises:
        SpectraceError: There is no such process.
    """
    lines = _read(pid, "status", proc).decode(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def owner(pid: int) -> tuple[int, int]:
    """Effective user and group id of the process.

    Raises:
        SpectraceError: There is no such process.
    """
    fields = status(pid)
    return int(fields["Uid"].split()[1]), int(fields["Gid"].split()[1])


def inner_pid(pid: int) -> int:
    """The process id by which the process knows itself, in the innermost PID namespace.

    Raises:
        SpectraceError: There is no such process.
    """
    return int(status(pid).get("NSpid", str(pid)).split()[-1])


def user_name(uid: int) -> str:
    """The name of a user, or its number where it has none on this machine."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def may_trace_others(proc: Path = PROC) -> bool:
    """Whether this process has CAP_SYS_PTRACE."""
    return bool(int(status("self", proc)["CapEff"], 16) >> _CAP_SYS_PTRACE & 1)


def require_rights(pid: int) -> None:
    """Makes sure that the process is one that we may look into.

    Raises:
        SpectraceError: It belongs to another user, or is gone.
    """
    uid = owner(pid)[0]
    if uid != os.geteuid() and not may_trace_others():
        raise SpectraceError(
            f"Process {pid} belongs to user {user_name(uid)}, and you are "
            f"{user_name(os.geteuid())}: run spectrace as {user_name(uid)} or with sudo."
        )


def pid_namespace() -> int:
    """The number of the PID namespace that we are in: who has the same means the same ids."""
    return Path("/proc/self/ns/pid").stat().st_ino


def shares_files(pid: int) -> bool:
    """Whether the process sees the same files as we do: same mount namespace, same root.

    Raises:
        SpectraceError: There is no such process, or we may not look into it.
    """
    try:
        process = Path(f"/proc/{pid}")
        same_namespace = (process / "ns/mnt").samefile("/proc/self/ns/mnt")
        return same_namespace and (process / "root").samefile("/")
    except FileNotFoundError:
        raise no_such_process(pid) from None
    except PermissionError:
        raise may_not_look_into(pid) from None


def shares_processes(pid: int) -> bool:
    """Whether the process sees the same process ids as we do.

    Raises:
        SpectraceError: There is no such process, or we may not look into it.
    """
    return _shares(pid, "pid")


def shares_users(pid: int) -> bool:
    """Whether user ids mean the same to the process as to us.

    Raises:
        SpectraceError: There is no such process, or we may not look into it.
    """
    return _shares(pid, "user")


def _shares(pid: int, namespace: str) -> bool:
    try:
        return Path(f"/proc/{pid}/ns/{namespace}").samefile(f"/proc/self/ns/{namespace}")
    except FileNotFoundError:
        raise no_such_process(pid) from None
    except PermissionError:
        raise may_not_look_into(pid) from None


def may_not_look_into(pid: int) -> SpectraceError:
    """The error for a process whose memory and files the kernel does not show us."""
    uid = owner(pid)[0]
    return SpectraceError(
        f"The kernel does not let us look into process {pid} of user {user_name(uid)}: "
        f"run spectrace as {user_name(uid)} or with sudo; in a container start it with "
        f"--cap-add SYS_PTRACE. `spectrace doctor {pid}` says what is in the way."
    )
