"""What in a server makes a difference to what tracing shows: engine, device, other tools."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spectrace.attach.check import Check, ok, warn
from spectrace.attach.facts import Process
from spectrace.attach.kernel_obstacles import PACKAGE, Obstacle, before, mend, why
from spectrace.probe import layout
from spectrace.probe.engines.sglang_rows import NEWEST, OLDEST, parsed, spelled

_PROFILER_LIBRARIES = {
    "libToolsInjection": "Nsight Systems",
    "libInterceptorInjectionTarget": "Nsight Systems or Compute",
    "libcuinj": "nvprof",
}
_DRIVERS = {"libcuda.so": "CUDA", "libamdhip64.so": "ROCm"}
_TORCH_BUILDS = {"libtorch_cuda.so": "CUDA", "libtorch_hip.so": "ROCm", "libtorch_cpu.so": "CPU"}


def of_rank(process: Process) -> list[Check]:
    """What can be told of a scheduler's process from its files."""
    return [
        _sglang(process),
        _torch(process),
        _device(process),
        _nvtx(process),
        _cupti(process),
        _kernels(process),
        _others(process),
    ]


def of_command(command: tuple[str, ...]) -> list[Check]:
    """What the command line of SGLang's own server says of speculation and the scheduler."""
    return [_speculation(command), _scheduler(command)]


def _sglang(process: Process) -> Check:
    version = process.packages.get("sglang", "")
    if not version:
        searched = ", ".join(process.searched[:3]) or "no folder that we may look into"
        return warn("SGLang", f"of unknown release (looked in {searched})")
    numbers = parsed(version)
    rows = f"{spelled(OLDEST)} to {spelled(NEWEST)}"
    if numbers is not None and OLDEST <= numbers <= NEWEST:
        return ok("SGLang", f"{version}, in the engine table ({rows})")
    return warn(
        "SGLang",
        f"{version}, not among the releases of the engine table ({rows}): phases may be missing",
        "pip install --upgrade spectrace",
    )


def _torch(process: Process) -> Check:
    version = process.packages.get("torch", "")
    build = _first(_TORCH_BUILDS, process.libraries)
    if not version and not build:
        return warn("torch", "not found: the device cannot be timed")
    loaded = f"{build} build" if build else "not loaded yet"
    return ok("torch", f"{version or 'of unknown version'}, {loaded}")


def _device(process: Process) -> Check:
    driver = _first(_DRIVERS, process.libraries)
    devices = ", ".join(process.devices)
    if driver:
        return ok("device", f"{driver}{f' ({devices})' if devices else ''}")
    return warn(
        "device",
        "no GPU driver is loaded: phases are timed by the host's clock alone, unless torch has a "
        "device of another make",
    )


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
        return ok("NVTX", f"off: it was started without a tool that listens; {package}")
    if process.environment.get("NVTX_DISABLE"):
        return warn("NVTX", f"{tool} is set, but NVTX_DISABLE too", "unset NVTX_DISABLE")
    if not version:
        return warn(
            "NVTX",
            f"{tool} is set, but {package}: ranges come without domain and payload",
            "pip install nvtx in the server's environment, and restart it",
        )
    return ok("NVTX", f"on: {tool} is set; {package}")


def _cupti(process: Process) -> Check:
    package = next((one for one in process.packages if one.startswith("nvidia-cuda-cupti")), "")
    if any(one.startswith("libcupti.so") for one in process.libraries):
        return ok("CUPTI", "loaded")
    if package:
        return ok("CUPTI", f"{package} {process.packages[package]}")
    if not _first(_DRIVERS, process.libraries):
        return ok("CUPTI", "not there, and no GPU")
    return warn("CUPTI", "not found: no window on kernels", "pip install nvidia-cuda-cupti-cu13")


def _kernels(process: Process) -> Check:
    """Whether `spectrace kernels` would find the way open; most servers never need it."""
    obstacle = before(process)
    if obstacle is None:
        return ok("kernels", f"{PACKAGE} {process.packages[PACKAGE]}: a window can be opened")
    if obstacle in {Obstacle.NO_GPU, Obstacle.ROCM}:
        return ok("kernels", f"no window: {why(obstacle)}")
    if obstacle is Obstacle.NO_PACKAGE:
        return ok(
            "kernels", f"no window: {why(obstacle)} For `spectrace kernels`: {mend(obstacle)}"
        )
    return warn("kernels", f"no window: {why(obstacle)}", mend(obstacle))


def _others(process: Process) -> Check:
    others = list(_tools_in(process))
    if not others:
        return ok("other tools", "none seen")
    return warn(
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
        return warn("speculation", "none by its command line: plain decode alone will be seen")
    sizes = (
        ("steps", "--speculative-num-steps"),
        ("top-k", "--speculative-eagle-topk"),
        ("draft tokens", "--speculative-num-draft-tokens"),
    )
    said = [f"{what} {_option(command, name)}" for what, name in sizes if _option(command, name)]
    return ok("speculation", ", ".join([algorithm, *said]))


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
    return ok("scheduler", ", ".join([overlap, *said]))
