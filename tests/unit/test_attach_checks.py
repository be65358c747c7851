"""What doctor finds in each broken situation: the cause is named, and what mends it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from spectrace.attach import checks, engine_checks
from spectrace.attach.check import Check, State, merged
from spectrace.attach.facts import Interpreter, Machine, Process, Ring, SharedMemory

USER = Machine(processor="x86_64", uid=1000, user="ann", may_trace_others=False)
ROOT = Machine(processor="x86_64", uid=0, user="root", may_trace_others=True)
MB = 1_000_000
SHM = "/dev/shm"  # noqa: S108 - the name of the check

# A rank with nothing wrong, of the user.
WELL = Process(
    pid=71,
    rank="TP0",
    above=70,
    state="S",
    command=("sglang::scheduler",),
    uid=1000,
    user="ann",
    may_attach=True,
    same_files=True,
    same_processes=True,
    same_users=True,
    same_clock=True,
    interpreter=Interpreter(file="/usr/bin/python3.12", version=(3, 12)),
    shared_memory=SharedMemory(total_bytes=64 * MB, free_bytes=60 * MB, writable=True),
    packages={
        "sglang": "0.5.23",
        "torch": "2.14.1",
        "nvtx": "0.2.15",
        "nvidia-cuda-cupti": "13.4.92",
        "cupti-python": "13.4.0",
    },
    libraries=("libcuda.so.1", "libcupti.so.13", "libtorch_cpu.so", "libtorch_cuda.so"),
    devices=("/dev/nvidia0",),
)
REFUSED = msgspec.structs.replace(WELL, may_attach=False)


def with_(base: Any, **changes: Any) -> Any:
    """The same facts with some of them changed."""
    return msgspec.structs.replace(base, **changes)


def all_of(process: Process) -> list[Check]:
    """What is checked of a rank, by its user."""
    return checks.of_process(USER, process) + engine_checks.of_rank(process)


def named(found: list[Check], name: str) -> Check:
    """The only check of that name."""
    (check,) = (check for check in found if check.name == name)
    return check


def test_nothing_is_wrong_with_what_is_well() -> None:
    """Every check of such a rank is fine, and none says what would mend it."""
    found = all_of(WELL)
    assert [check.name for check in found if check.state is not State.OK] == []
    assert [check.mend for check in found if check.mend] == []
    assert named(found, "torch").found == "2.14.1, CUDA build"
    assert named(found, "device").found == "CUDA (/dev/nvidia0)"


@pytest.mark.parametrize(
    ("machine", "process", "cause", "mend"),
    [
        (
            USER,
            with_(REFUSED, uid=0, user="root"),
            "belongs to user root, and you are ann",
            "sudo spectrace attach 71, or sudo -u root spectrace attach 71",
        ),
        (
            with_(USER, ptrace_scope=1),
            REFUSED,
            "ptrace_scope is 1: its own ancestors alone",
            "sudo spectrace attach 71, or sudo sysctl kernel.yama.ptrace_scope=0",
        ),
        (with_(USER, ptrace_scope=2), REFUSED, "ptrace_scope is 2: root alone", "ptrace_scope=0"),
        (
            with_(ROOT, ptrace_scope=3),
            REFUSED,
            "ptrace_scope is 3: nobody",
            "start the machine again",
        ),
        (
            with_(USER, ptrace_scope=1, container="docker"),
            REFUSED,
            "ptrace_scope is 1",
            "--cap-add SYS_PTRACE (docker, podman)",
        ),
        (
            with_(USER, container="kubernetes"),
            with_(REFUSED, uid=0, user="root"),
            "belongs to user root",
            "shareProcessNamespace: true",
        ),
        (
            with_(USER, no_new_privileges=True, ptrace_scope=1),
            REFUSED,
            "ptrace_scope is 1",
            "cannot gain rights (no_new_privs)",
        ),
        (USER, REFUSED, "it has more rights than you", "sudo spectrace attach 71"),
        (ROOT, REFUSED, "a security module (AppArmor, SELinux)", "attach from the host"),
        (
            with_(ROOT, ptrace_refused=True),
            REFUSED,
            "by a filter of system calls (seccomp)",
            "--security-opt seccomp=unconfined",
        ),
    ],
)
def test_missing_rights_are_told_by_their_cause(
    machine: Machine, process: Process, cause: str, mend: str
) -> None:
    """The user, Yama, a container without the capability, a filter, a security module."""
    check = named(checks.of_process(machine, process), "rights")
    assert check.state is State.FAIL
    assert cause in check.found
    assert mend in check.mend


def test_the_kernel_is_believed_where_it_lets_us_in() -> None:
    """Under Yama an ancestor may attach, and whom the server named."""
    found = checks.of_process(with_(USER, ptrace_scope=1), WELL)
    assert named(found, "rights").state is State.OK


def test_without_asking_the_kernel_the_settings_alone_decide() -> None:
    """Of a copy of /proc only these are known."""
    asked = with_(WELL, may_attach=None)
    assert named(checks.of_process(USER, asked), "rights").state is State.OK
    refused = checks.of_process(with_(USER, ptrace_scope=1), asked)
    assert named(refused, "rights").state is State.FAIL


@pytest.mark.parametrize(
    ("changes", "name", "state", "found", "mend"),
    [
        ({"state": ""}, "process", State.FAIL, "process 71 is not there", "spectrace status"),
        ({"state": "Z"}, "process", State.FAIL, "has ended", "spectrace status"),
        ({"state": "T"}, "process", State.FAIL, "paused by a signal", "kill -CONT 71"),
        (
            {"tracer_pid": 9, "tracer": "gdb"},
            "ptrace",
            State.FAIL,
            "taken by gdb (process 9)",
            "end gdb (process 9), then attach",
        ),
        (
            {"interpreter": Interpreter(problem="Process 71 is no Python process.")},
            "Python",
            State.FAIL,
            "is no Python process",
            "",
        ),
        (
            {"interpreter": Interpreter(file="/py", version=(3, 9))},
            "Python",
            State.FAIL,
            "3.9 (/py)",
            "Python 3.10 to 3.14",
        ),
        (
            {"interpreter": Interpreter(file="/py", version=(3, 15))},
            "Python",
            State.FAIL,
            "3.15 (/py)",
            "Python 3.10 to 3.14",
        ),
        (
            {"interpreter": Interpreter(file="/py")},
            "Python",
            State.WARN,
            "/py, of unknown version",
            "Python 3.10 to 3.14",
        ),
        ({"same_clock": False}, "place", State.FAIL, "time namespace", "nsenter -t 71 -T"),
        (
            {"shared_memory": None},
            SHM,
            State.FAIL,
            "not there",
            "sudo mount -t tmpfs -o mode=1777",
        ),
        (
            {"shared_memory": SharedMemory(total_bytes=MB, free_bytes=MB, writable=False)},
            SHM,
            State.FAIL,
            "not writable for you",
            "sudo chmod 1777 /dev/shm",
        ),
        (
            {
                "shared_memory": SharedMemory(
                    total_bytes=64 * MB, free_bytes=MB // 2, writable=True
                ),
                "same_files": False,
            },
            SHM,
            State.FAIL,
            "0.5 of 64.0 MB free",
            "sudo nsenter -t 70 -m mount -o remount,size=1g /dev/shm",
        ),
        (
            {"ring": Ring(state="traced", controller="process 5")},
            "spectrace",
            State.OK,
            "traced by process 5: attaching reads along",
            "",
        ),
        (
            {"ring": Ring(problem="it has layout 99")},
            "spectrace",
            State.FAIL,
            "it has layout 99",
            "end the spectrace that attached",
        ),
        (
            {"packages": {}, "searched": ("/opt/lib",)},
            "SGLang",
            State.WARN,
            "of unknown release (looked in /opt/lib)",
            "",
        ),
        (
            {"packages": {"sglang": "0.9.1"}},
            "SGLang",
            State.WARN,
            "0.9.1, not among",
            "pip install",
        ),
        ({"libraries": ()}, "device", State.WARN, "no GPU driver is loaded", ""),
        ({"packages": {}, "libraries": ()}, "torch", State.WARN, "not found", ""),
        (
            {"packages": {}, "environment": {"NSYS_PROFILING_SESSION_ID": "1"}},
            "NVTX",
            State.WARN,
            "NSYS_PROFILING_SESSION_ID is set, but package nvtx not installed",
            "pip install nvtx",
        ),
        (
            {"environment": {"NVTX_INJECTION64_PATH": "/a.so", "NVTX_DISABLE": "1"}},
            "NVTX",
            State.WARN,
            "NVTX_DISABLE too",
            "unset NVTX_DISABLE",
        ),
        (
            {"packages": {}, "libraries": ("libcuda.so.1",)},
            "CUPTI",
            State.WARN,
            "not found",
            "pip install nvidia-cuda-cupti",
        ),
        (
            {"libraries": ("libcuda.so.1", "libcupti.so.12")},
            "kernels",
            State.WARN,
            "CUDA 12",
            "spectrace import",
        ),
        (
            {"profilers": ("py-spy (process 8)",)},
            "other tools",
            State.WARN,
            "py-spy (process 8)",
            "end them",
        ),
        (
            {"libraries": ("libToolsInjection64.so",), "environment": {"LD_PRELOAD": "/x.so"}},
            "other tools",
            State.WARN,
            "Nsight Systems (libToolsInjection), LD_PRELOAD=/x.so",
            "end them",
        ),
    ],
)
def test_each_broken_situation_names_its_cause(
    changes: dict[str, Any], name: str, state: State, found: str, mend: str
) -> None:
    """One thing is wrong: its check says what, and with which command or setting it is mended."""
    check = named(all_of(with_(WELL, **changes)), name)
    assert check.state is state
    assert found in check.found
    assert mend in check.mend


def test_what_we_may_not_look_into_is_not_guessed() -> None:
    """Without rights nothing is said of the interpreter, shared memory and what is traced."""
    hidden = with_(REFUSED, interpreter=None, shared_memory=None, same_files=None)
    names = [check.name for check in checks.of_process(USER, hidden)]
    assert names[:3] == ["process", "rights", "ptrace"]
    assert not {"Python", SHM, "place", "spectrace"} & set(names)


def test_each_rank_takes_a_ring_of_the_shared_memory() -> None:
    """A ring has 65,536 units of 32 bytes, and its code and header come on top."""
    assert 65_536 * 32 < checks.RING_BYTES < 65_536 * 32 + 400_000
    memory = SharedMemory(total_bytes=5 * MB, free_bytes=5 * MB, writable=True)
    process = with_(WELL, shared_memory=memory)
    states = [named(checks.of_process(USER, process, ranks), SHM).state for ranks in (2, 3)]
    assert states == [State.OK, State.FAIL]


def test_a_container_is_told_with_what_it_has_of_its_own() -> None:
    """That is no obstacle."""
    inside = with_(WELL, same_files=False, same_processes=False, container="docker")
    place = named(checks.of_process(USER, inside), "place")
    assert (place.state, place.found) == (
        State.OK,
        "docker with its own files, process ids: reached through /proc",
    )


@pytest.mark.parametrize(
    ("machine", "name", "state", "found"),
    [
        (USER, "rights", State.OK, "you are ann, no Yama: your own processes"),
        (with_(USER, ptrace_scope=0), "rights", State.OK, "ptrace_scope 0"),
        (ROOT, "rights", State.OK, "with CAP_SYS_PTRACE: every process"),
        (
            with_(USER, ptrace_scope=1),
            "rights",
            State.FAIL,
            "you are ann; Yama's ptrace_scope is 1",
        ),
        (USER, "processor", State.OK, "x86-64"),
        (with_(USER, processor="aarch64", gdb="/gdb"), "processor", State.WARN, "through gdb"),
        (with_(USER, processor="aarch64"), "processor", State.FAIL, "aarch64"),
        (with_(USER, gdb="/usr/bin/gdb"), "gdb", State.OK, "/usr/bin/gdb"),
        (USER, "gdb", State.OK, "not there; only needed"),
    ],
)
def test_the_machine_is_checked_without_any_server(
    machine: Machine, name: str, state: State, found: str
) -> None:
    """The processor, what we may do here, and the debugger."""
    check = named(checks.of_machine(machine), name)
    assert check.state is state
    assert found in check.found
    assert "attach 0" not in check.mend


def test_what_the_ranks_have_in_common_is_said_once() -> None:
    """What differs carries the names of its ranks, and the order of the checks stays."""
    taken = with_(WELL, rank="TP1", tracer_pid=9, tracer="gdb")
    by_rank = {
        "TP0": checks.of_process(USER, WELL),
        "TP1": checks.of_process(USER, taken),
        "TP2": checks.of_process(USER, WELL),
    }
    found = merged(by_rank)
    assert [(check.name, check.state, check.ranks) for check in found[:4]] == [
        ("process", State.OK, ()),
        ("rights", State.OK, ()),
        ("ptrace", State.OK, ("TP0", "TP2")),
        ("ptrace", State.FAIL, ("TP1",)),
    ]


SIZES = "--speculative-num-steps 5 --speculative-eagle-topk=1 --speculative-num-draft-tokens 6"
PARALLEL = "--dp-size 2 --tp-size 4 --enable-dp-attention"


@pytest.mark.parametrize(
    ("words", "speculation", "scheduler"),
    [
        (
            f"--speculative-algorithm EAGLE3 {SIZES} --tp 2",
            "EAGLE3, steps 5, top-k 1, draft tokens 6",
            "overlap if it can, TP 2",
        ),
        (
            f"--speculative-algorithm=EAGLE --disable-overlap-schedule {PARALLEL}",
            "EAGLE",
            "without overlap, TP 4, DP 2, DP attention",
        ),
        (
            "--port 1",
            "none by its command line: plain decode alone will be seen",
            "overlap if it can",
        ),
        (
            "--speculative-algorithm",
            "none by its command line: plain decode alone will be seen",
            "",
        ),
    ],
)
def test_speculation_and_scheduler_are_read_from_the_command_line(
    words: str, speculation: str, scheduler: str
) -> None:
    """Options in two words or with an equals sign, in any of their spellings."""
    found = engine_checks.of_command(("python", "-m", "sglang.launch_server", *words.split()))
    assert named(found, "speculation").found == speculation
    assert scheduler in named(found, "scheduler").found
