"""What attaching to a server needs, checked one by one, from plain facts to plain findings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import Enum

import msgspec

from spectrace.attach.facts import Machine, Process, SharedMemory
from spectrace.attach.rights import obstacle
from spectrace.probe import layout

OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 14)
OLDEST_SGLANG, NEWEST_SGLANG = (0, 5, 23), (0, 5, 23)  # those that the engine table has rows for

_CODE_BYTES = 256 * 1024  # the probe's code takes less
RING_BYTES = layout.units_offset(_CODE_BYTES) + layout.DEFAULT_UNITS * layout.UNIT_BYTES
_MB = 1e6
_ROOM = "1g"
_ENDED, _PAUSED = "ZX", "T"
_PROFILER_LIBRARIES = {
    "libToolsInjection": "Nsight Systems",
    "libInterceptorInjectionTarget": "Nsight Systems or Compute",
    "libcuinj": "nvprof",
}
_DRIVERS = {"libcuda.so": "CUDA", "libamdhip64.so": "ROCm"}
_TORCH_BUILDS = {"libtorch_cuda.so": "CUDA", "libtorch_hip.so": "ROCm", "libtorch_cpu.so": "CPU"}


class State(str, Enum):
    """What came of a check."""

    OK = "ok"
    WARN = "warn"  # attaching works, something of what it shows will be missing
    FAIL = "fail"  # attaching does not work


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at.

    Attributes:
        name: What, in a word or two.
        state: What came of it.
        found: What is there, a phrase.
        mend: The command or setting that mends it; empty where nothing is to be mended.
        ranks: The ranks that it is about; empty where it is about all, or none.
    """

    name: str
    state: State
    found: str
    mend: str = ""
    ranks: tuple[str, ...] = ()


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
    if process.rank:
        checks += [_sglang(process), _torch(process), _device(process)]
        checks += [_nvtx(process), _cupti(process), _others(process)]
    return [check for check in checks if check is not None]


def of_command(command: tuple[str, ...]) -> list[Check]:
    """What the command line of SGLang's own server says of speculation and the scheduler."""
    return [_speculation(command), _scheduler(command)]


def merged(by_rank: dict[str, list[Check]]) -> list[Check]:
    """The checks of all ranks of a server, what is the same for several of them once."""
    ranks: dict[Check, list[str]] = {}
    for rank, checks in by_rank.items():
        for check in checks:
            ranks.setdefault(check, []).append(rank)
    names = list(dict.fromkeys(check.name for checks in by_rank.values() for check in checks))
    return [
        check if len(ranks[check]) == len(by_rank) else _of(check, ranks[check])
        for check in sorted(ranks, key=lambda check: names.index(check.name))
    ]


def _of(check: Check, ranks: Iterable[str]) -> Check:
    return msgspec.structs.replace(check, ranks=tuple(ranks))


def _ok(name: str, found: str) -> Check:
    return Check(name=name, state=State.OK, found=found)


def _warn(name: str, found: str, mend: str = "") -> Check:
    return Check(name=name, state=State.WARN, found=found, mend=mend)


def _fail(name: str, found: str, mend: str) -> Check:
    return Check(name=name, state=State.FAIL, found=found, mend=mend)


# The machine.


def _processor(machine: Machine) -> Check:
    if machine.processor == "x86_64":
        return _ok("processor", "x86-64")
    found = f"{machine.processor}: threads are stopped on x86-64 only"
    if machine.gdb:
        return _warn("processor", f"{found}, elsewhere through gdb, which takes longer")
    return _fail("processor", f"{found}, elsewhere through gdb", "apt install gdb")


def _rights_here(machine: Machine) -> Check:
    place = f" in a container ({machine.container})" if machine.container else ""
    who = f"you are {machine.user}{place}"
    everyone = Process(pid=0, uid=machine.uid, user=machine.user)
    found = obstacle(machine, everyone)
    if found is not None:
        return _fail("rights", f"{who}; {found.why}", found.mend)
    if machine.may_trace_others:
        return _ok("rights", f"{who}, with CAP_SYS_PTRACE: every process can be attached to")
    yama = "no Yama" if machine.ptrace_scope is None else f"ptrace_scope {machine.ptrace_scope}"
    return _ok("rights", f"{who}, {yama}: your own processes can be attached to")


def _gdb(machine: Machine) -> Check:
    if machine.gdb:
        return _ok("gdb", machine.gdb)
    return _ok("gdb", "not there; only needed where ptrace is no way in (apt install gdb)")


# The process.


def _ended(process: Process) -> Check:
    how = "has ended, its parent has not asked how yet" if process.state else "is not there"
    return _fail(
        "process",
        f"process {process.pid} {how}",
        "spectrace status lists the servers; in a container the number is another one",
    )


def _alive(process: Process) -> Check:
    if process.state == _PAUSED:
        return _fail("process", "paused by a signal", f"kill -CONT {process.pid}")
    return _ok("process", "runs")


def _rights(machine: Machine, process: Process) -> Check:
    found = obstacle(machine, process)
    # Being asked, the kernel knows best: Yama lets ancestors in, and whom the server named.
    if found is None or process.may_attach:
        return _ok("rights", f"of user {process.user}; you are {machine.user}")
    return _fail("rights", found.why, found.mend)


def _traced(process: Process) -> Check:
    if process.tracer_pid:
        who = f"{process.tracer} (process {process.tracer_pid})"
        return _fail("ptrace", f"taken by {who}", f"end {who}, then attach")
    return _ok("ptrace", "free")


def _python(process: Process) -> Check | None:
    python = process.interpreter
    if python is None:
        return None
    if python.problem:
        return _fail("Python", python.problem, "restart the server with a usual build of Python")
    if python.version is None:
        return _warn("Python", f"{python.file}, of unknown version", _pythons())
    version = f"{python.version[0]}.{python.version[1]}"
    if not OLDEST_PYTHON <= python.version <= NEWEST_PYTHON:
        return _fail("Python", f"{version} ({python.file})", _pythons())
    return _ok("Python", f"{version} ({python.file})")


def _pythons() -> str:
    oldest, newest = (f"{major}.{minor}" for major, minor in (OLDEST_PYTHON, NEWEST_PYTHON))
    return f"run the server with Python {oldest} to {newest}"


def _place(process: Process) -> Check | None:
    if process.same_clock is False:
        return _fail(
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
        return _ok("place", "the same files, process ids and users as here")
    kind = process.container or "container"
    return _ok("place", f"{kind} with its own {', '.join(others)}: reached through /proc")


def _shared_memory(process: Process, ranks: int) -> Check | None:
    name = "/dev/shm"  # noqa: S108 - looked at, not used
    memory = process.shared_memory
    if memory is None:
        if process.may_attach is False:
            return None  # we may not look
        return _fail(name, "not there", _mount(process))
    if not memory.writable and process.same_users is not False:
        return _fail(name, "not writable for you", f"{_enter(process)}chmod 1777 {name}")
    needed = RING_BYTES * ranks
    found = f"{_size(memory)}; {ranks} ring{'s' * (ranks > 1)} of {RING_BYTES / _MB:.1f} MB"
    if memory.free_bytes < needed:
        return _fail(
            name,
            found,
            f"{_enter(process)}mount -o remount,size={_ROOM} {name}, or start the container with "
            f"--shm-size {_ROOM} (Kubernetes: an emptyDir with medium: Memory there), or attach "
            "with a smaller --ring-size",
        )
    return _ok(name, found)


def _size(memory: SharedMemory) -> str:
    return f"{memory.free_bytes / _MB:,.1f} of {memory.total_bytes / _MB:,.1f} MB free"


def _mount(process: Process) -> str:
    name = "/dev/shm"  # noqa: S108 - looked at, not used
    return f"{_enter(process)}mount -t tmpfs -o mode=1777,size={_ROOM} tmpfs {name}"


def _enter(process: Process) -> str:
    """What a command begins with that is to act where the process is."""
    through = process.above or process.pid
    return "sudo " if process.same_files else f"sudo nsenter -t {through} -m "


def _ring(process: Process) -> Check | None:
    ring = process.ring
    if process.may_attach is False:
        return None  # we may not look
    if ring is None:
        return _ok("spectrace", "not in it yet")
    if ring.problem:
        return _fail("spectrace", ring.problem, f"spectrace detach {process.pid}")
    if ring.controller_pid is not None:
        return _warn(
            "spectrace",
            f"{ring.state} by process {ring.controller_pid}",
            f"use that one, or spectrace detach {process.pid} first",
        )
    return _ok("spectrace", f"{ring.state}, nobody reads: attaching takes it over")


# What is in the server.


def _sglang(process: Process) -> Check:
    version = process.packages.get("sglang", "")
    if not version:
        searched = ", ".join(process.searched[:3]) or "no folder that we may look into"
        return _warn("SGLang", f"of unknown release (looked in {searched})")
    numbers = _numbers(version)
    rows = f"{_spelled(OLDEST_SGLANG)} to {_spelled(NEWEST_SGLANG)}"
    if OLDEST_SGLANG <= numbers <= NEWEST_SGLANG:
        return _ok("SGLang", f"{version}, in the engine table ({rows})")
    return _warn(
        "SGLang",
        f"{version}, not among the releases of the engine table ({rows}): phases may be missing",
        "pip install --upgrade spectrace",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def _spelled(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _torch(process: Process) -> Check:
    version = process.packages.get("torch", "")
    build = _first(_TORCH_BUILDS, process.libraries)
    if not version and not build:
        return _warn("torch", "not found: the device cannot be timed")
    return _ok("torch", f"{version or 'of unknown version'}, {build or 'not loaded yet'} build")


def _device(process: Process) -> Check:
    driver = _first(_DRIVERS, process.libraries)
    devices = ", ".join(process.devices)
    if driver:
        return _ok("device", f"{driver}{f' ({devices})' if devices else ''}")
    return _warn("device", "no GPU driver is loaded: phases are timed by the host's clock alone")


def _first(names: dict[str, str], libraries: Iterable[str]) -> str:
    """What the first of the names that a library begins with stands for; empty for none."""
    loaded = tuple(libraries)
    return next(
        (said for name, said in names.items() if any(one.startswith(name) for one in loaded)), ""
    )


def _nvtx(process: Process) -> Check:
    tool = next((name for name in layout.TOOL_VARIABLES if process.environment.get(name)), "")
    version = process.packages.get("nvtx", "")
    package = f"package nvtx {version}" if version else "package nvtx not installed"
    if not tool:
        return _ok("NVTX", f"off: it was started without a tool that listens; {package}")
    if process.environment.get("NVTX_DISABLE"):
        return _warn("NVTX", f"{tool} is set, but NVTX_DISABLE too", "unset NVTX_DISABLE")
    if not version:
        return _warn(
            "NVTX",
            f"{tool} is set, but {package}: ranges come without domain and payload",
            "pip install nvtx in the server's environment, and restart it",
        )
    return _ok("NVTX", f"on: {tool} is set; {package}")


def _cupti(process: Process) -> Check:
    package = next((one for one in process.packages if one.startswith("nvidia-cuda-cupti")), "")
    if any(one.startswith("libcupti.so") for one in process.libraries):
        return _ok("CUPTI", "loaded")
    if package:
        return _ok("CUPTI", f"{package} {process.packages[package]}")
    if not _first(_DRIVERS, process.libraries):
        return _ok("CUPTI", "not there, and no GPU")
    return _warn("CUPTI", "not found: no window on kernels", "pip install nvidia-cuda-cupti-cu13")


def _others(process: Process) -> Check:
    others = list(_tools_in(process))
    if not others:
        return _ok("other tools", "none seen")
    return _warn(
        "other tools",
        f"{', '.join(others)}: their cost is in what spectrace measures",
        "end them for figures of the server alone",
    )


def _tools_in(process: Process) -> Iterator[str]:
    yield from process.profilers
    for library, tool in _PROFILER_LIBRARIES.items():
        if any(one.startswith(library) for one in process.libraries):
            yield f"{tool} ({library})"
    for name in ("CUDA_INJECTION64_PATH", "LD_PRELOAD"):
        if name in process.environment:
            yield f"{name}={process.environment[name]}"


# What the command line says.


def _option(command: tuple[str, ...], name: str) -> str | None:
    """The value of an option, written in two words or with an equals sign; None without it."""
    for word, following in zip(command, (*command[1:], ""), strict=True):
        if word == name:
            return following
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
    return None


def _speculation(command: tuple[str, ...]) -> Check:
    algorithm = _option(command, "--speculative-algorithm") or _option(
        command, "--speculative-algo"
    )
    if not algorithm:
        return _warn("speculation", "none by its command line: plain decode alone will be seen")
    sizes = (
        ("steps", "--speculative-num-steps"),
        ("top-k", "--speculative-eagle-topk"),
        ("draft tokens", "--speculative-num-draft-tokens"),
    )
    said = [f"{what} {_option(command, name)}" for what, name in sizes if _option(command, name)]
    return _ok("speculation", ", ".join([algorithm, *said]))


def _scheduler(command: tuple[str, ...]) -> Check:
    overlap = "without overlap" if "--disable-overlap-schedule" in command else "overlap if it can"
    sizes = (
        ("TP", ("--tp-size", "--tp", "--tensor-parallel-size")),
        ("DP", ("--dp-size", "--dp", "--data-parallel-size")),
        ("PP", ("--pp-size", "--pp", "--pipeline-parallel-size")),
        ("EP", ("--ep-size", "--ep", "--expert-parallel-size")),
    )
    said = [
        f"{what} {value}"
        for what, names in sizes
        for value in [next(filter(None, (_option(command, name) for name in names)), "")]
        if value
    ]
    if "--enable-dp-attention" in command:
        said.append("DP attention")
    return _ok("scheduler", ", ".join([overlap, *said]))
