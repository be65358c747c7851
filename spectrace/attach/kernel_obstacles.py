"""What keeps a kernel window shut: the causes, and a sentence for each with what to do."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from spectrace.attach.facts import Process
from spectrace.errors import SpectraceError
from spectrace.probe import layout
from spectrace.probe.layout_window import Refusal

PACKAGE = "cupti-python"
_OLD = 12  # release of CUDA: its package cannot be beside torch's own CUPTI
_LIBRARY = "libcupti.so."
_INJECTED = ("libToolsInjection", "libInterceptorInjectionTarget", "libcuinj", "libcuda-injection")


class Obstacle(str, Enum):
    """Why there is no window on kernels."""

    NO_GPU = "no_gpu"
    ROCM = "rocm"
    TOOL = "tool"
    CUDA_12 = "cuda_12"
    TWO_COPIES = "two_copies"
    NO_PACKAGE = "no_package"
    NO_DRIVER = "no_driver"
    TAKEN = "taken"
    NOT_PERMITTED = "not_permitted"
    TOO_OLD = "too_old"
    UNSUPPORTED = "unsupported"
    PROFILER = "profiler"
    LATE = "late"
    LOOP = "loop"
    NO_CYCLES = "no_cycles"
    NO_RECORDS = "no_records"
    CONTROL = "control"
    ENDED = "ended"
    TAKEN_OUT = "taken_out"
    LEFT = "left"
    BROKEN = "broken"
    OTHER = "other"


class _Told(NamedTuple):
    what: str
    mend: str


_SAID = {
    Obstacle.NO_GPU: _Told(
        what="This server has no GPU, so there are no kernels to look at.",
        mend="Ask a server on a GPU; `spectrace attach` shows what this one's host does.",
    ),
    Obstacle.ROCM: _Told(
        what="This server runs on an AMD GPU, and kernels are seen by CUPTI, which is NVIDIA's.",
        mend="`spectrace attach` times its phases all the same.",
    ),
    Obstacle.TOOL: _Told(
        what="A tool of NVIDIA's (Nsight Systems or Compute, nvprof) has been started with this "
        "server, and CUPTI serves one at a time.",
        mend="Look at kernels in that tool, or start the server without it; `spectrace import` "
        "reads what Nsight Systems exports.",
    ),
    Obstacle.CUDA_12: _Told(
        what="This server runs with CUDA 12, for whose CUPTI there is no package that could be "
        "loaded beside the one that torch brings.",
        mend="Use a server with a torch built for CUDA 13, or SGLang's own profiler and "
        "`spectrace import`.",
    ),
    Obstacle.TWO_COPIES: _Told(
        what="Two copies of CUPTI's library would be in this server, which disturb each other.",
        mend="Install torch, nvidia-cuda-cupti and cupti-python of the same CUDA release in the "
        "server's environment, and restart it.",
    ),
    Obstacle.NO_PACKAGE: _Told(
        what="The server's environment lacks the package cupti-python, or CUPTI's library.",
        mend="pip install 'cupti-python>=13' there: the server need not be restarted.",
    ),
    Obstacle.NO_DRIVER: _Told(
        what="CUPTI finds no driver of an NVIDIA GPU in the server.",
        mend="Where the server is in a container, start it with the driver's libraries (Docker: "
        "--gpus all, and NVIDIA_DRIVER_CAPABILITIES with compute,utility).",
    ),
    Obstacle.TAKEN: _Told(
        what="Another tool has CUPTI for itself in this server, such as Nsight Systems, a debugger "
        "or an agent that watches GPUs.",
        mend="End that tool, or restart the server without it, and ask again.",
    ),
    Obstacle.NOT_PERMITTED: _Told(
        what="The driver lets only administrators look at kernels on this machine.",
        mend="Its administrator allows it with the module's option "
        "NVreg_RestrictProfilingToAdminUsers=0 and a restart; in a container --cap-add SYS_ADMIN "
        "does it, too.",
    ),
    Obstacle.TOO_OLD: _Told(
        what="The driver or CUPTI's library is older than the package cupti-python, or the other "
        "way round.",
        mend="Install cupti-python and nvidia-cuda-cupti of the same release, no newer than the "
        "driver supports (nvidia-smi names its CUDA release).",
    ),
    Obstacle.UNSUPPORTED: _Told(
        what="CUPTI does not record kernels on this GPU as it is set up (a slice of MIG or a "
        "virtual GPU without profiling, confidential computing, WSL).",
        mend="Use a whole GPU, or allow profiling where the GPU is shared out.",
    ),
    Obstacle.PROFILER: _Told(
        what="The torch profiler is at work in this server, and CUPTI serves one at a time.",
        mend="Wait until it has ended, or import its trace with `spectrace import`.",
    ),
    Obstacle.LATE: _Told(
        what="A rank came to the first cycle of the window before it had read that one was wanted.",
        mend="Ask again.",
    ),
    Obstacle.LOOP: _Told(
        what="This is a program with a loop of its own, in which spectrace opens no such window.",
        mend="Use the torch profiler there, and `spectrace import`.",
    ),
    Obstacle.NO_CYCLES: _Told(
        what="The server ran too few cycles for the window.",
        mend="Send it requests meanwhile, or ask for fewer.",
    ),
    Obstacle.NO_RECORDS: _Told(
        what="CUPTI let the window be opened, and handed over no record of a kernel.",
        mend="A profiler may have begun meanwhile, which takes them: ask again when none runs.",
    ),
    Obstacle.CONTROL: _Told(
        what="Another spectrace decides what this server is asked for.",
        mend="End that one and ask again, or attach with --take-control.",
    ),
    Obstacle.ENDED: _Told(
        what="The server has ended before its window was over: nothing is shown of it.",
        mend="Start it again, and ask again.",
    ),
    Obstacle.TAKEN_OUT: _Told(
        what="The probe left the server before its window was over: nothing is shown of it.",
        mend="Attach again, and ask again.",
    ),
    Obstacle.LEFT: _Told(
        what="Tracing was ended before the window was over: nothing is shown of it.",
        mend="Ask again, and let it come to its last cycle.",
    ),
    Obstacle.BROKEN: _Told(
        what="spectrace met an error of its own with this window.",
        mend="Tracing goes on without kernels. Please report it, with what is in the brackets.",
    ),
    Obstacle.OTHER: _Told(
        what="CUPTI refuses.",
        mend="Tracing goes on without kernels; what CUPTI said is a good beginning for a search.",
    ),
}
_REFUSALS = {
    Refusal.NO_PACKAGE: Obstacle.NO_PACKAGE,
    Refusal.NO_DRIVER: Obstacle.NO_DRIVER,
    Refusal.TAKEN: Obstacle.TAKEN,
    Refusal.NOT_PERMITTED: Obstacle.NOT_PERMITTED,
    Refusal.TOO_OLD: Obstacle.TOO_OLD,
    Refusal.UNSUPPORTED: Obstacle.UNSUPPORTED,
    Refusal.PROFILER: Obstacle.PROFILER,
    Refusal.LATE: Obstacle.LATE,
}


class ShutError(SpectraceError):
    """There is no window on kernels.

    Args:
        why: A sentence.
        mend: What to do about it, a sentence or nothing.
    """

    def __init__(self, why: str, mend: str = "") -> None:
        super().__init__(f"{why} {mend}".rstrip())
        self.why = why
        self.mend = mend


def refusal(obstacle: Obstacle, rank: str = "", said: str = "") -> ShutError:
    """The error that says why there is no window, and what to do.

    Args:
        obstacle: The cause.
        rank: The name of the rank that refuses; empty where all do.
        said: What CUPTI itself said, or who it is.
    """
    where = f"{rank}: " if rank else ""
    return ShutError(where + why(obstacle, said), mend(obstacle))


def why(obstacle: Obstacle, said: str = "") -> str:
    """What it is, as a sentence.

    Args:
        obstacle: The cause.
        said: What CUPTI itself said, or who it is; empty for nothing.
    """
    what = _SAID[obstacle].what
    return f"{what} ({said})" if said else what


def mend(obstacle: Obstacle) -> str:
    """What to do about it, as a sentence."""
    return _SAID[obstacle].mend


def of_refusal(refusal: int) -> Obstacle:
    """The cause behind a number of the probe's, see `layout_window.Refusal`."""
    return _REFUSALS.get(refusal, Obstacle.OTHER)


def before(process: Process) -> Obstacle | None:
    """What can be told from outside, without touching the server; None if nothing is in the way.

    Args:
        process: One of its ranks.
    """
    libraries = process.libraries
    if not _loaded(libraries, ("libcuda.so",)):
        return Obstacle.ROCM if _loaded(libraries, ("libamdhip64.so",)) else Obstacle.NO_GPU
    if _loaded(libraries, _INJECTED) or _started_by_a_tool(process):
        return Obstacle.TOOL
    return _by_releases(process)


def _by_releases(process: Process) -> Obstacle | None:
    """Whether the package fits the library that is loaded."""
    version = process.packages.get(PACKAGE, "")
    release = _major(version)
    loaded = {_major(one.removeprefix(_LIBRARY)) for one in process.libraries if _is_cupti(one)}
    if _OLD in loaded or release == _OLD:
        return Obstacle.CUDA_12
    if not version:
        return Obstacle.NO_PACKAGE
    if release < _OLD:
        return Obstacle.TOO_OLD
    if len(process.cuptis) > 1 or loaded - {release}:
        return Obstacle.TWO_COPIES
    return None


def _loaded(libraries: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(one.startswith(names) for one in libraries)


def _started_by_a_tool(process: Process) -> bool:
    tools = (*layout.TOOL_VARIABLES[1:], "CUDA_INJECTION64_PATH")  # without who listens to NVTX
    return any(process.environment.get(name) for name in tools)


def _is_cupti(library: str) -> bool:
    return library.startswith(_LIBRARY)


def _major(version: str) -> int:
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else 0
