"""Reading the machine and its processes from a supplied copy of /proc, and what doctor says."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrace.attach import checks, engine_checks, examine
from spectrace.attach.check import Check, State
from spectrace.attach.ring_file import SHARED_MEMORY

PID = 71
USER, OTHER = 54321, 54322  # nobody's, so that their numbers are their names
CAP_SYS_PTRACE = 1 << 19
SITE = "opt/venv/lib/python3.12/site-packages"


class CopyOfProc:
    """A folder like /proc with this process, `self`, and a scheduler.

    Args:
        folder: Where to make it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("self/status", status_of(USER))
        self.write(f"{PID}/status", status_of(USER, name="sglang::schedul"))
        self.write(f"{PID}/cmdline", "sglang::scheduler_TP0\0")
        self.write(
            f"{PID}/maps", maps_of("/opt/venv/bin/python3.12", f"/{SITE}/torch/lib/libc10.so")
        )
        for process in ("self", str(PID)):
            for namespace in ("mnt", "pid", "user", "time"):
                self.link(f"{process}/ns/{namespace}", f"{namespace}:[1]")
        (folder / f"{PID}/root/dev/shm").mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        """Makes or replaces one of its files."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def link(self, name: str, to: str) -> None:
        """Makes or replaces one of its links."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(to)

    def install(self, package: str, version: str, site: str = SITE) -> None:
        """Installs a package for the scheduler."""
        metadata = f"{PID}/root/{site}/{package}-{version}.dist-info/METADATA"
        self.write(metadata, f"Metadata-Version: 2.4\nName: {package}\nVersion: {version}\n\ntext")

    def checks(self) -> dict[str, Check]:
        """What doctor says of the machine and of the scheduler, which is checked last."""
        machine = examine.machine(self.folder)
        process = examine.process(PID, rank="TP0", proc=self.folder)
        found = [*checks.of_machine(machine), *checks.of_process(machine, process)]
        found += engine_checks.of_rank(process)
        return {check.name: check for check in found}


def status_of(uid: int, *, name: str = "python3", rights: int = 0, more: str = "") -> str:
    """What stands in /proc/PID/status."""
    return (
        f"Name:\t{name}\nState:\tS (sleeping)\nTracerPid:\t0\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        f"Gid:\t{uid}\t{uid}\t{uid}\t{uid}\nCapEff:\t{rights:016x}\n{more}"
    )


def maps_of(*files: str) -> str:
    """What stands in /proc/PID/maps for so many files."""
    return "".join(
        f"{place:012x}-{place + 0x1000:012x} r-xp 00000000 08:01 {place}    {file}\n"
        for place, file in enumerate(files, start=1)
    )


@pytest.fixture
def proc(tmp_path: Path) -> CopyOfProc:
    """A copy in which all is well."""
    return CopyOfProc(tmp_path)


@pytest.mark.parametrize(
    ("scope", "rights", "cause"),
    [
        ("0", 0, ""),
        ("1", 0, "Yama's ptrace_scope is 1: its own ancestors alone may attach"),
        ("2", 0, "Yama's ptrace_scope is 2: root alone may attach"),
        ("3", 0, "Yama's ptrace_scope is 3: nobody may attach"),
        ("1", CAP_SYS_PTRACE, ""),
        ("3", CAP_SYS_PTRACE, "Yama's ptrace_scope is 3: nobody may attach"),
    ],
)
def test_yama_is_named_where_it_forbids(
    proc: CopyOfProc, scope: str, rights: int, cause: str
) -> None:
    """Its setting decides with the capability, and without Yama there is nothing to say."""
    proc.write("self/status", status_of(USER, rights=rights))
    assert proc.checks()["rights"].state is State.OK
    proc.write("sys/kernel/yama/ptrace_scope", f"{scope}\n")
    check = proc.checks()["rights"]
    assert check.state is (State.FAIL if cause else State.OK)
    assert cause in check.found


def test_another_user_is_named(proc: CopyOfProc) -> None:
    """With the command that helps; the capability helps too."""
    proc.write(f"{PID}/status", status_of(OTHER))
    check = proc.checks()["rights"]
    assert check.found == f"it belongs to user {OTHER}, and you are {USER}"
    assert check.mend == f"sudo spectrace attach {PID}, or sudo -u {OTHER} spectrace attach {PID}"
    proc.write("self/status", status_of(USER, rights=CAP_SYS_PTRACE))
    assert proc.checks()["rights"].state is State.OK


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("self/root/.dockerenv", "", "docker"),
        ("self/root/run/.containerenv", "", "podman"),
        ("self/environ", "A=1\0KUBERNETES_SERVICE_HOST=10.0.0.1\0", "kubernetes"),
        ("self/cgroup", "0::/system.slice/docker-0123456789abcdef.scope\n", "docker"),
        ("self/cgroup", "12:cpu:/kubepods/besteffort/pod1/0123\n", "kubernetes"),
        ("self/cgroup", "0::/machine.slice/libpod-0123.scope\n", "podman"),
    ],
)
def test_container_without_the_capability_is_named(
    proc: CopyOfProc, name: str, text: str, kind: str
) -> None:
    """By what its runtime leaves there; the mend is a setting of the container."""
    proc.write(name, text)
    assert examine.machine(proc.folder).container == kind
    proc.write("sys/kernel/yama/ptrace_scope", "1\n")
    check = proc.checks()["rights"]
    assert check.state is State.FAIL
    assert "--cap-add SYS_PTRACE" in check.mend
    assert "securityContext.capabilities.add" in check.mend


def test_server_in_a_container_is_told_by_its_namespaces(proc: CopyOfProc) -> None:
    """What it has of its own stands there, and a clock of its own is an obstacle."""
    assert proc.checks()["place"].found == "the same files, process ids and users as here"
    proc.link(f"{PID}/ns/mnt", "mnt:[2]")
    proc.link(f"{PID}/ns/pid", "pid:[2]")
    assert proc.checks()["place"].found.startswith("container with its own files, process ids:")
    proc.link(f"{PID}/ns/time", "time:[2]")
    assert proc.checks()["place"].state is State.FAIL


@pytest.mark.parametrize(("state", "name"), [("T (stopped)", "process"), ("Z (zombie)", "process")])
def test_stopped_and_ended_processes_are_named(proc: CopyOfProc, state: str, name: str) -> None:
    """Neither can be attached to."""
    proc.write(f"{PID}/status", status_of(USER).replace("S (sleeping)", state))
    assert proc.checks()[name].state is State.FAIL


def test_missing_process_is_the_only_thing_to_say(proc: CopyOfProc) -> None:
    """Nothing else is looked at."""
    (check,) = checks.of_process(
        examine.machine(proc.folder), examine.process(PID + 1, proc=proc.folder)
    )
    assert (check.name, check.state) == ("process", State.FAIL)


def test_debugger_is_named(proc: CopyOfProc) -> None:
    """With its process, also where that cannot be seen from here."""
    traced = status_of(USER).replace("TracerPid:\t0", "TracerPid:\t9")
    proc.write(f"{PID}/status", traced)
    assert proc.checks()["ptrace"].found == "taken by a process of another container (process 9)"
    proc.write("9/status", status_of(USER, name="gdb"))
    assert proc.checks()["ptrace"].found == "taken by gdb (process 9)"


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        ("/usr/bin/gdb\0-p\0{pid}\0", "gdb (process 8)"),
        ("python3\0/opt/bin/py-spy\0record\0--pid\0{pid}\0", "py-spy (process 8)"),
        ("strace\0-p{pid}\0", "strace (process 8)"),
        ("py-spy\0dump\0--pid\0{pid}1\0", ""),
        ("vim\0{pid}\0", ""),
    ],
)
def test_profilers_at_work_are_named(proc: CopyOfProc, command: str, tool: str) -> None:
    """They are known by their command line, which has the process's id."""
    proc.write("8/cmdline", command.format(pid=PID))
    check = proc.checks()["other tools"]
    assert tool in check.found
    assert check.state is (State.WARN if tool else State.OK)


def test_missing_shared_memory_is_named(proc: CopyOfProc) -> None:
    """With the command that mounts it."""
    assert proc.checks()[SHARED_MEMORY].state is State.OK
    (proc.folder / f"{PID}/root/dev/shm").rmdir()
    check = proc.checks()[SHARED_MEMORY]
    assert (check.state, check.found) == (State.FAIL, "not there")


def test_packages_are_read_where_the_process_has_its_files(proc: CopyOfProc) -> None:
    """From the folder that mapped libraries lie in, below its own root."""
    assert proc.checks()["SGLang"].found == f"of unknown release (looked in /{SITE})"
    proc.install("sglang", "0.5.23")
    proc.install("torch", "2.14.1+cu130")
    proc.install("nvidia_cuda_cupti_cu13", "13.0.85")
    found = proc.checks()
    assert found["SGLang"].found.startswith("0.5.23, in the engine table")
    assert found["torch"].found == "2.14.1+cu130, not loaded yet"
    assert found["CUPTI"].found == "nvidia-cuda-cupti-cu13 13.0.85"
    proc.install("cupti_python", "13.4.0")
    assert examine.process(PID, proc=proc.folder).packages["cupti-python"] == "13.4.0"


def test_what_stands_first_on_its_path_counts(proc: CopyOfProc) -> None:
    """PYTHONPATH comes before what is installed; a checkout has its version in a file."""
    proc.install("sglang", "0.5.23")
    proc.write(f"{PID}/environ", "PYTHONPATH=/src/python:/other\0")
    proc.write(f"{PID}/root/src/python/sglang/version.py", '__version__ = "0.4.5.post5"\n')
    assert "0.4.5.post5, not among" in proc.checks()["SGLang"].found


def test_interpreter_of_the_starting_process_leads_to_its_packages(proc: CopyOfProc) -> None:
    """A scheduler has a title instead of a program; the one above it names its Python."""
    proc.write(f"{PID}/maps", "")
    proc.write("70/cmdline", "/opt/venv/bin/python\0-m\0sglang.launch_server\0")
    proc.install("sglang", "0.5.22")
    process = examine.process(PID, rank="TP0", above=70, proc=proc.folder)
    assert process.packages == {"sglang": "0.5.22"}
    assert process.searched == (f"/{SITE}",)


def test_device_and_torch_are_told_by_what_is_mapped_and_open(proc: CopyOfProc) -> None:
    """The driver, the build of torch, and the cards."""
    libraries = ("libtorch_cpu.so", "libtorch_cuda.so", "libcupti.so.13")
    torch = [f"/{SITE}/torch/lib/{name}" for name in libraries]
    proc.write(f"{PID}/maps", maps_of("/usr/lib/libcuda.so.1", *torch))
    for number, device in enumerate(
        ("/dev/nvidia3", "/dev/nvidiactl", "/dev/nvidia0", "/dev/null")
    ):
        proc.link(f"{PID}/fd/{number}", device)
    found = proc.checks()
    assert found["device"].found == "CUDA (/dev/nvidia0, /dev/nvidia3)"
    assert found["torch"].found == "of unknown version, CUDA build"
    assert found["CUPTI"].found == "loaded"
    copies = examine.process(PID, proc=proc.folder).cuptis
    assert copies == (f"/{SITE}/torch/lib/libcupti.so.13",)


def test_tool_that_listens_is_told_by_the_environment(proc: CopyOfProc) -> None:
    """As the process was started."""
    assert proc.checks()["NVTX"].found.startswith("off:")
    proc.write(f"{PID}/environ", "HOME=/\0NVTX_INJECTION64_PATH=/opt/nsys/lib.so\0")
    proc.install("nvtx", "0.2.15")
    assert proc.checks()["NVTX"].found == ("on: NVTX_INJECTION64_PATH is set; package nvtx 0.2.15")
