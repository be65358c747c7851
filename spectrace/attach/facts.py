"""What `spectrace doctor` knows of the machine and of a process, as plain values."""

from __future__ import annotations

import msgspec


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where spectrace runs, and with which rights.

    Attributes:
        processor: Such as `x86_64`.
        uid: Our effective user.
        user: Its name.
        may_trace_others: We have CAP_SYS_PTRACE.
        ptrace_scope: Yama's setting, None without Yama.
        container: `docker`, `podman`, `kubernetes` or `container`; empty outside of one.
        no_new_privileges: sudo gives us nothing.
        ptrace_refused: The kernel refuses ptrace even of our own child.
        gdb: Path of gdb, empty without.
    """

    processor: str
    uid: int
    user: str
    may_trace_others: bool
    ptrace_scope: int | None = None
    container: str = ""
    no_new_privileges: bool = False
    ptrace_refused: bool = False
    gdb: str = ""


class SharedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A process's /dev/shm.

    Attributes:
        total_bytes: Its size.
        free_bytes: Of these not taken.
        writable: We may make files there.
    """

    total_bytes: int
    free_bytes: int
    writable: bool


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """The Python of a process.

    Attributes:
        file: What holds it.
        version: Major and minor, None where nothing tells.
        problem: Why it cannot be used, or that there is none, a sentence; empty if it can.
    """

    file: str = ""
    version: tuple[int, int] | None = None
    problem: str = ""


class Ring(msgspec.Struct, frozen=True, kw_only=True):
    """What is left or at work of spectrace in a process.

    Attributes:
        state: As `spectrace status` calls it.
        controller: Who decides how it is timed; empty where nobody reads.
        problem: Why the ring cannot be used, a sentence; empty if it can.
    """

    state: str = ""
    controller: str = ""
    problem: str = ""


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One process, as /proc shows it. What we may not look into is None or empty.

    Attributes:
        pid: Its id, as we number it.
        rank: Its name as a rank, empty where it is none.
        above: The process that started it, 0 where that does not matter.
        state: As in /proc/PID/stat, such as `S`; empty where there is no such process.
        command: Its command line.
        uid: Its effective user.
        user: That user's name.
        tracer_pid: Who has it in ptrace, 0 for nobody.
        tracer: That process's name.
        profilers: Other tools at work on it, `NAME (process PID)`.
        may_attach: The kernel would let us; None where that could not be asked.
        container: As `Machine.container`, of the process.
        same_files: It sees the files that we see; the next ones likewise.
        same_processes: Process ids.
        same_users: User ids.
        same_clock: CLOCK_MONOTONIC.
        interpreter: Its Python.
        shared_memory: Its /dev/shm; None where there is none.
        ring: What of spectrace is there; None for nothing.
        packages: Version of each installed package that matters, by name.
        environment: Variables that matter, as it was started.
        libraries: File names of what it has mapped, as far as it matters.
        cuptis: The files of CUPTI's library that it has mapped.
        devices: Such as `/dev/nvidia0`, which it has open.
        searched: Folders in which packages were looked for.
    """

    pid: int
    rank: str = ""
    above: int = 0
    state: str = ""
    command: tuple[str, ...] = ()
    uid: int = 0
    user: str = ""
    tracer_pid: int = 0
    tracer: str = ""
    profilers: tuple[str, ...] = ()
    may_attach: bool | None = None
    container: str = ""
    same_files: bool | None = None
    same_processes: bool | None = None
    same_users: bool | None = None
    same_clock: bool | None = None
    interpreter: Interpreter | None = None
    shared_memory: SharedMemory | None = None
    ring: Ring | None = None
    packages: dict[str, str] = {}
    environment: dict[str, str] = {}
    libraries: tuple[str, ...] = ()
    cuptis: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    searched: tuple[str, ...] = ()
