"""What attaching to a process needs, checked one by one, from plain facts to plain findings."""

from __future__ import annotations

from spectrace.attach.check import Check, fail, ok, warn
from spectrace.attach.facts import Machine, Process, SharedMemory
from spectrace.attach.rights import obstacle
from spectrace.attach.ring_file import SHARED_MEMORY
from spectrace.probe import layout

OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 14)

_CODE_BYTES = 256 * 1024  # the probe's code takes less
RING_BYTES = layout.units_offset(_CODE_BYTES) + layout.DEFAULT_UNITS * layout.UNIT_BYTES
_MB = 1e6
_ROOM = "1g"
_ENDED, _PAUSED = "ZX", "T"


def of_machine(machine: Machine) -> list[Check]:
    """What attaching to any process of this machine needs."""
    return [_processor(machine), _rights_here(machine), _gdb(machine)]


def of_process(machine: Machine, process: Process, ranks: int = 1) -> list[Check]:
    """What attaching to one process needs, in the order in which attaching comes to it.

    Args:
        machine: Where we run.
        process: A rank, or what was taken for one.
        ranks: How many ranks share its shared memory.
    """
    if not process.state or process.state in _ENDED:
        return [_ended(process)]
    checks: list[Check | None] = [
        _alive(process),
        _rights(machine, process),
        _traced(process),
        _python(process),
        _place(process),
        _shared_memory(process, ranks),
        _ring(process),
    ]
    return [check for check in checks if check is not None]


# The machine.


def _processor(machine: Machine) -> Check:
    if machine.processor == "x86_64":
        return ok("processor", "x86-64")
    found = f"{machine.processor}: threads are stopped on x86-64 only"
    if machine.gdb:
        return warn("processor", f"{found}, elsewhere through gdb, which takes longer")
    return fail("processor", f"{found}, elsewhere through gdb", "apt install gdb")


def _rights_here(machine: Machine) -> Check:
    place = f" in a container ({machine.container})" if machine.container else ""
    who = f"you are {machine.user}{place}"
    everyone = Process(pid=0, uid=machine.uid, user=machine.user)
    found = obstacle(machine, everyone)
    if found is not None:
        return fail("rights", f"{who}; {found.why}", found.mend)
    if machine.may_trace_others:
        return ok("rights", f"{who}, with CAP_SYS_PTRACE: every process can be attached to")
    yama = "no Yama" if machine.ptrace_scope is None else f"ptrace_scope {machine.ptrace_scope}"
    return ok("rights", f"{who}, {yama}: your own processes can be attached to")


def _gdb(machine: Machine) -> Check:
    if machine.gdb:
        return ok("gdb", machine.gdb)
    return ok("gdb", "not there; only needed where ptrace is no way in (apt install gdb)")


# The process.


def _ended(process: Process) -> Check:
    how = "has ended, its parent has not asked how yet" if process.state else "is not there"
    return fail(
        "process",
        f"process {process.pid} {how}",
        "spectrace status lists the servers; in a container the number is another one",
    )


def _alive(process: Process) -> Check:
    if process.state == _PAUSED:
        return fail("process", "paused by a signal", f"kill -CONT {process.pid}")
    return ok("process", "runs")


def _rights(machine: Machine, process: Process) -> Check:
    found = obstacle(machine, process)
    # Being asked, the kernel knows best: Yama lets ancestors in, and whom the server named.
    if found is None or process.may_attach:
        return ok("rights", f"of user {process.user}; you are {machine.user}")
    return fail("rights", found.why, found.mend)


def _traced(process: Process) -> Check:
    if process.tracer_pid:
        who = f"{process.tracer} (process {process.tracer_pid})"
        return fail("ptrace", f"taken by {who}", f"end {who}, then attach")
    return ok("ptrace", "free")


def _python(process: Process) -> Check | None:
    python = process.interpreter
    if python is None:
        return None
    if python.problem:
        return fail("Python", python.problem)
    if python.version is None:
        return warn("Python", f"{python.file}, of unknown version", _pythons())
    version = f"{python.version[0]}.{python.version[1]}"
    if not OLDEST_PYTHON <= python.version <= NEWEST_PYTHON:
        return fail("Python", f"{version} ({python.file})", _pythons())
    return ok("Python", f"{version} ({python.file})")


def _pythons() -> str:
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST_PYTHON, NEWEST_PYTHON))
    return f"run the server with Python {oldest} to {newest}"


def _place(process: Process) -> Check | None:
    if process.same_clock is False:
        return fail(
            "place",
            "it has a clock of its own (a time namespace): times would not fit together",
            f"run spectrace there: nsenter -t {process.pid} -T -m -p spectrace attach",
        )
    if process.same_files is None:
        return None
    own = {
        "files": process.same_files,
        "process ids": process.same_processes,
        "users": process.same_users,
    }
    others = [name for name, same in own.items() if same is False]
    if not others:
        return ok("place", "the same files, process ids and users as here")
    kind = process.container or "container"
    return ok("place", f"{kind} with its own {', '.join(others)}: reached through /proc")


def _shared_memory(process: Process, ranks: int) -> Check | None:
    name = SHARED_MEMORY
    memory = process.shared_memory
    if memory is None:
        if process.may_attach is False:
            return None  # we may not look
        return fail(name, "not there", _mount(process))
    if not memory.writable and process.same_users is not False:
        return fail(name, "not writable for you", f"{_enter(process)}chmod 1777 {name}")
    needed = RING_BYTES * ranks
    found = f"{_size(memory)}; {ranks} ring{'s' * (ranks > 1)} of {RING_BYTES / _MB:.1f} MB"
    if memory.free_bytes < needed:
        return fail(
            name,
            found,
            f"{_enter(process)}mount -o remount,size={_ROOM} {name}, or start the container with "
            f"--shm-size {_ROOM} (Kubernetes: an emptyDir with medium: Memory there), or attach "
            "with a smaller --ring-size",
        )
    return ok(name, found)


def _size(memory: SharedMemory) -> str:
    return f"{memory.free_bytes / _MB:,.1f} of {memory.total_bytes / _MB:,.1f} MB free"


def _mount(process: Process) -> str:
    options = f"mode=1777,size={_ROOM}"
    return f"{_enter(process)}mount -t tmpfs -o {options} tmpfs {SHARED_MEMORY}"


def _enter(process: Process) -> str:
    """What a command begins with that is to act where the process is."""
    through = process.above or process.pid
    return "sudo " if process.same_files else f"sudo nsenter -t {through} -m "


def _ring(process: Process) -> Check | None:
    ring = process.ring
    if process.may_attach is False:
        return None  # we may not look
    if ring is None:
        return ok("spectrace", "not in it yet")
    if ring.problem:
        mends = "end the spectrace that attached: its probe leaves by itself within 30 s"
        return fail("spectrace", ring.problem, mends)
    if ring.controller:
        return ok("spectrace", f"{ring.state} by {ring.controller}: attaching reads along")
    return ok("spectrace", f"{ring.state}, nobody reads: attaching takes it over")
