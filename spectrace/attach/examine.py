"""Reads what `spectrace doctor` wants to know, from /proc and files alone.

Nothing is written to a process, and none is stopped. The folder to read may be a copy of
/proc; what only a living process can tell is left out there.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from spectrace.attach import elf, procfs, ptrace, readers, ring_file
from spectrace.attach.facts import Interpreter, Machine, Process, Ring, SharedMemory
from spectrace.attach.procfs import PROC
from spectrace.attach.ring_state import state_of
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Run
from spectrace.probe.layout import TOOL_VARIABLES

_VARIABLES = (
    *TOOL_VARIABLES,
    "CUDA_INJECTION64_PATH",
    "LD_PRELOAD",
    "NVTX_DISABLE",
    "PYTHONPATH",
    "VIRTUAL_ENV",
)
_PACKAGES = (
    *("sglang", "torch", "nvtx", "cupti-python"),
    *("nvidia-cuda-cupti", "nvidia-cuda-cupti-cu12", "nvidia-cuda-cupti-cu13"),
)
_LIBRARIES = re.compile(
    r"libcuda\.so|libcupti\.so|libtorch_(?:cuda|hip|cpu)\.so|libamdhip64\.so|"
    r"libToolsInjection|libInterceptorInjectionTarget|libcuinj|libcuda-injection"
)
_CUPTI = "libcupti.so"
_DEVICES = re.compile(r"/dev/(?:nvidia\d+|kfd|dri/renderD\d+)")
_SITE = re.compile(r"(/.*?/(?:site|dist)-packages)/")
_PROFILERS = ("py-spy", "austin", "gdb", "lldb", "strace", "ltrace", "perf", "bpftrace", "memray")
_PACKAGE_FOLDERS = tuple(
    f"{library}/python3*/{kind}-packages"
    for library in ("lib", "lib64", "local/lib")
    for kind in ("site", "dist")
)
_LETTERS_OF_AN_OPTION = re.compile(r"^-+[A-Za-z-]+=?")
_CONTAINERS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "container"),
    ("crio", "kubernetes"),
    ("lxc", "container"),
)
_MARKS = ((".dockerenv", "docker"), ("run/.containerenv", "podman"))


def machine(proc: Path = PROC) -> Machine:
    """This machine, and what we may do here."""
    own = procfs.status("self", proc)
    uid = int(own["Uid"].split()[1])
    return Machine(
        processor=platform.machine(),
        uid=uid,
        user=procfs.user_name(uid),
        may_trace_others=procfs.may_trace_others(proc),
        ptrace_scope=_ptrace_scope(proc),
        container=_container_of("self", proc),
        no_new_privileges=own.get("NoNewPrivs", "0") != "0",
        ptrace_refused=proc == PROC and _ptrace_refused(),
        gdb=shutil.which("gdb") or "",
    )


def process(pid: int, *, rank: str = "", above: int = 0, proc: Path = PROC) -> Process:
    """What can be said of a process.

    Args:
        pid: The process.
        rank: Its name as a rank.
        above: The process that started it, whose command line names the Python of both.
        proc: The folder to read.
    """
    try:
        status = procfs.status(pid, proc)
        command = procfs.command(pid, proc)
    except SpectraceError:
        return Process(pid=pid, rank=rank)
    uid = int(status["Uid"].split()[1])
    tracer_pid = int(status.get("TracerPid", "0"))
    mapped = _mapped_files(pid, proc)
    environment = _environment(pid, proc)
    starters = [command, *_commands(above, proc)]
    folders = list(dict.fromkeys(_package_folders(pid, mapped, environment, starters, proc)))
    facts = Process(
        pid=pid,
        rank=rank,
        above=above,
        state=status.get("State", "?")[:1],
        command=command,
        uid=uid,
        user=procfs.user_name(uid),
        tracer_pid=tracer_pid,
        tracer=_name_of(tracer_pid, proc),
        profilers=tuple(_profilers_of(pid, proc)),
        container=_container_of(pid, proc),
        same_files=_same(pid, "mnt", proc),
        same_processes=_same(pid, "pid", proc),
        same_users=_same(pid, "user", proc),
        same_clock=_same(pid, "time", proc),
        shared_memory=_shared_memory(pid, proc),
        packages=_packages(folders, proc / str(pid) / "root"),
        environment=environment,
        libraries=tuple(sorted({name for name in map(_base, mapped) if _LIBRARIES.match(name)})),
        cuptis=tuple(sorted({name for name in mapped if _base(name).startswith(_CUPTI)})),
        devices=tuple(_devices(pid, proc)),
        searched=tuple(folders),
    )
    return _with_what_lives(facts) if proc == PROC else facts


def ranks(run: Run) -> list[Process]:
    """What can be said of each rank of a server."""
    return [process(rank.pid, rank=rank.name, above=run.server_pid) for rank in run.ranks]


# What only a living process can tell.


def _with_what_lives(facts: Process) -> Process:
    return msgspec.structs.replace(
        facts,
        may_attach=_may_attach(facts.pid),
        interpreter=_interpreter(facts.pid),
        ring=_ring(facts.pid),
    )


def _may_attach(pid: int) -> bool | None:
    """Whether the kernel would let us: it asks the same where memory is opened."""
    try:
        ptrace.read_memory(pid, 0, 1)
    except SpectraceError:
        return False
    except OSError:  # nothing stands at address 0, but we were let so far
        return True
    return True


def _interpreter(pid: int) -> Interpreter | None:
    """Its Python; None where we may not look."""
    if not _may_attach(pid):
        return None
    try:
        found = elf.interpreter(pid)
        name = elf.changed(pid, found)
    except SpectraceError as error:
        return Interpreter(problem=str(error))
    problem = (
        f"Memory and file differ at {name}: Python was replaced since the server started, or a "
        "debugger has changed it. Restart the server."
    )
    return Interpreter(file=found.name, version=found.version, problem=problem if name else "")


def _ring(pid: int) -> Ring | None:
    try:
        view = RingView(ring_file.ring_path(pid))
    except FileNotFoundError:
        return None
    except OSError as error:
        return Ring(problem=f"The ring cannot be opened ({error.strerror}).")
    except SpectraceError as error:
        return Ring(problem=str(error))
    try:
        return Ring(state=state_of(view), controller=str(readers.controller(view) or ""))
    finally:
        view.close()


def _ptrace_refused() -> bool:
    """Tries ptrace on a child of our own, which every rule but a filter of system calls allows."""
    if platform.machine() != "x86_64":
        return False
    try:
        child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL)  # noqa: S607 - any will do
    except OSError:  # nothing to try it on
        return False
    with child:
        try:
            ptrace.operate(child.pid, lambda _thread: None)
        except (ptrace.CallFailed, ptrace.TargetGone):  # let in, and too slow on a busy machine
            return False
        except (SpectraceError, OSError):
            return True
        finally:
            child.kill()
    return False


# What stands in /proc.


def _ptrace_scope(proc: Path) -> int | None:
    text = _text(proc / "sys/kernel/yama/ptrace_scope").strip()
    return int(text) if text.isdigit() else None


def _container_of(pid: int | str, proc: Path) -> str:
    """Told by the control group, by what a container's runtime leaves, or by its namespaces."""
    groups = _text(proc / str(pid) / "cgroup")
    for word, kind in _CONTAINERS:
        if word in groups:
            return kind
    for mark, kind in _MARKS:
        with suppress(OSError):
            if (proc / str(pid) / "root" / mark).exists():
                return kind
    if "KUBERNETES_SERVICE_HOST=" in _text(proc / str(pid) / "environ"):
        return "kubernetes"
    return "container" if _same(pid, "mnt", proc) is False else ""


def _same(pid: int | str, namespace: str, proc: Path) -> bool | None:
    """Whether a process is in the namespace that we are in; None where we may not know."""
    try:
        theirs = (proc / str(pid) / "ns" / namespace).readlink()
        return theirs == (proc / "self/ns" / namespace).readlink()
    except OSError:
        return None


def _name_of(pid: int, proc: Path) -> str:
    if not pid:
        return ""
    try:
        return procfs.status(pid, proc)["Name"]
    except SpectraceError:
        return "a process of another container"


def _commands(pid: int, proc: Path) -> list[tuple[str, ...]]:
    try:
        return [procfs.command(pid, proc)] if pid else []
    except SpectraceError:
        return []


def _profilers_of(pid: int, proc: Path) -> Iterator[str]:
    """Tools that were started for a process by its number."""
    for entry in sorted(proc.iterdir()):
        if not entry.name.isdigit():
            continue
        words = _text(entry / "cmdline").split("\0")
        names = {_base(word) for word in words[:2]}  # a script stands behind its interpreter
        tool = next((name for name in _PROFILERS if name in names), "")
        if tool and str(pid) in {_LETTERS_OF_AN_OPTION.sub("", word) for word in words[1:]}:
            yield f"{tool} (process {entry.name})"


def _mapped_files(pid: int, proc: Path) -> list[str]:
    lines = (line.split(None, 5) for line in _text(proc / str(pid) / "maps").splitlines())
    return list(dict.fromkeys(line[5] for line in lines if line[5:] and line[5][0] == "/"))


def _environment(pid: int, proc: Path) -> dict[str, str]:
    entries = (entry.partition("=") for entry in _text(proc / str(pid) / "environ").split("\0"))
    return {name: value for name, _, value in entries if name in _VARIABLES and value}


def _devices(pid: int, proc: Path) -> list[str]:
    found = set()
    with suppress(OSError):
        for entry in (proc / str(pid) / "fd").iterdir():
            with suppress(OSError):
                found.update(_DEVICES.findall(str(entry.readlink())))
    return sorted(found)


def _shared_memory(pid: int, proc: Path) -> SharedMemory | None:
    folder = proc / str(pid) / "root" / ring_file.SHARED_MEMORY.lstrip("/")
    try:
        size = os.statvfs(folder)
    except OSError:
        return None
    return SharedMemory(
        total_bytes=size.f_blocks * size.f_frsize,
        free_bytes=size.f_bavail * size.f_frsize,
        writable=os.access(folder, os.W_OK | os.X_OK, effective_ids=True),
    )


# Packages.


def _package_folders(
    pid: int,
    mapped: list[str],
    environment: dict[str, str],
    commands: list[tuple[str, ...]],
    proc: Path,
) -> Iterator[str]:
    """Where its packages may be, as the process names the folders, the surest first."""
    yield from filter(None, environment.get("PYTHONPATH", "").split(":"))
    yield from (folder for file in mapped for folder in _SITE.findall(file)[:1])
    root = proc / str(pid) / "root"
    prefixes = [environment.get("VIRTUAL_ENV", "")]
    prefixes += [str(Path(command[0]).parents[1]) for command in commands if _has_folder(command)]
    with suppress(OSError):
        prefixes.append(str((proc / str(pid) / "exe").readlink().parents[1]))
    for prefix in filter(None, prefixes):
        for pattern in _PACKAGE_FOLDERS:
            with suppress(OSError):
                for folder in sorted((root / prefix.lstrip("/")).glob(pattern)):
                    yield f"/{folder.relative_to(root)}"


def _has_folder(command: tuple[str, ...]) -> bool:
    """Whether the first word is the path of a program, two folders deep."""
    return bool(command) and command[0].startswith("/") and command[0].count("/") > 1


def _packages(folders: list[str], root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in folders:
        for name in _PACKAGES:
            if name not in found:
                version = _version_in(root / folder.lstrip("/"), name)
                if version:
                    found[name] = version
    return found


def _version_in(folder: Path, name: str) -> str:
    """The version of a package that is installed in a folder, or lies there as a checkout."""
    with suppress(OSError):
        for metadata in sorted(folder.glob(f"{name.replace('-', '_')}-*.dist-info/METADATA")):
            found = re.search(r"^Version:\s*(\S+)", _text(metadata), re.MULTILINE)
            if found:
                return found[1]
    for file in ("_version.py", "version.py"):
        found = re.search(
            r"^(?:__version__|version)\s*(?:=\s*version\s*)?=\s*['\"]([^'\"]+)",
            _text(folder / name / file),
            re.MULTILINE,
        )
        if found:
            return found[1]
    return ""


def _text(path: Path) -> str:
    """What a file says; nothing where it cannot be read."""
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _base(path: str) -> str:
    return path.rpartition("/")[2]
