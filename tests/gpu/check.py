"""Checks the probe's device timing and NVTX on a real CUDA device; prints one JSON object.

    python tests/gpu/check.py

Takes under a minute. Exits with 0 if every check passed or there is no CUDA device (then the
object says so under `skipped`), with 1 otherwise. What each check found stands under its name.

What "right" means is never taken from CUDA events: a kernel's time comes from the host clock
around a long run of it, synchronised.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from spectrace.probe import timers
from spectrace.probe.layout import DEVICE_PHASES, DeviceFlag, Ph
from tests.nvtx_recorder import recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).parents[2]
NVTX_CHILD = ROOT / "tests" / "nvtx_recorder" / "drive.py"

TOLERANCE = 0.05
SHORT_NS = 2_000_000  # below it a few microseconds of launching weigh more than the tolerance
CYCLES = 50
COST_CYCLES = 2_000
GRAPH_KERNELS = 4
DRAIN_TIMEOUT_S = 5.0
MARK_LIMIT_US = 20.0
CYCLE_LIMIT_US = 150.0
CLOCK_ERROR_LIMIT_NS = 100_000
WARM_UP_CYCLES = 200  # the clock narrows its error with every event

# The device's share of a speculative cycle: phase, milliseconds of work.
WORK_MS = ((Ph.DRAFT, 2.0), (Ph.VERIFY_FORWARD, 8.0), (Ph.DRAFT_EXTEND, 3.0))


@dataclass
class Emitted:
    """What the timer handed out of one cycle.

    Attributes:
        number: The cycle.
        start_ns: The first boundary on the host's CLOCK_MONOTONIC.
        error_ns: How far off `start_ns` may be.
        flags: Of `DeviceFlag`.
        phases: What begins at each boundary.
        distances: Nanoseconds from the first boundary.
    """

    number: int
    start_ns: int
    error_ns: int
    flags: int
    phases: bytes
    distances: Sequence[int]

    def durations(self) -> dict[int, int]:
        """Nanoseconds of each phase that runs on the device."""
        lengths: dict[int, int] = {}
        ends = [*self.distances[1:], self.distances[-1]]
        for phase, start, end in zip(self.phases, self.distances, ends, strict=True):
            if phase in DEVICE_PHASES:
                lengths[phase] = lengths.get(phase, 0) + end - start
        return lengths


@dataclass
class Sink:
    """Collects what a timer emits."""

    cycles: list[Emitted] = field(default_factory=list)

    def __call__(  # noqa: PLR0913, PLR0917 - what the timer calls
        self,
        number: int,
        start_ns: int,
        error_ns: int,
        flags: int,
        phases: bytes,
        distances: list[int],
    ) -> None:
        """Takes one cycle."""
        cycle = Emitted(number, start_ns, error_ns, flags, bytes(phases), list(distances))
        self.cycles.append(cycle)


def drive(timer: Any, sink: Sink, numbers: Sequence[int], work: Callable[[int], None]) -> None:
    """Runs cycles as a server does: a mark before each phase, one cycle ahead of the device.

    A server waits for the device by reading what it computed; here that would be a
    synchronisation of ours. So it polls, as the idle call does.

    Args:
        timer: Told of the boundaries.
        sink: Where the timer's cycles go.
        numbers: The cycles' numbers.
        work: Launches what a phase does.
    """
    before = len(sink.cycles)
    for count, number in enumerate(numbers):
        timer.begin(number)
        timer.mark(Ph.RESOLVE)
        for phase, _ in WORK_MS:
            timer.mark(phase)
            work(phase)
        timer.mark(Ph.SCHEDULE)
        timer.end(number)
        timer.drain(time.monotonic_ns())
        drain_all(timer, sink, before + count)


def drain_all(timer: Any, sink: Sink, count: int) -> None:
    """Drains, as the idle call does, until `count` cycles are there or it takes too long."""
    deadline = time.monotonic() + DRAIN_TIMEOUT_S
    while len(sink.cycles) < count and time.monotonic() < deadline:
        time.sleep(0.0002)
        timer.drain(time.monotonic_ns())


def deviations(cycles: Sequence[Emitted], expected_ns: dict[int, float]) -> dict[int, float]:
    """How far the median of each phase is from what it should be, as a share of that."""
    result = {}
    for phase, expected in expected_ns.items():
        measured = statistics.median(cycle.durations().get(phase, 0) for cycle in cycles)
        result[phase] = measured / expected - 1
    return result


def good(cycles: Sequence[Emitted]) -> list[Emitted]:
    """The cycles of which no boundary was lost."""
    return [cycle for cycle in cycles if not cycle.flags & DeviceFlag.LOST]


class Device:
    """The CUDA device, and kernels of a known time on it."""

    kind = "cuda"

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.cycles_per_ms = 1_000_000
        self.cycles_per_ms = self._measured_cycles_per_ms()  # the clock of the chip settles
        # A busy host sees the end of a kernel late, never early: the fastest is right.
        self.cycles_per_ms = max(self._measured_cycles_per_ms() for _ in range(4))

    def _measured_cycles_per_ms(self) -> int:
        cuda, cycles = self.torch.cuda, self.cycles_per_ms * 200
        cuda.synchronize()
        began_ns = time.monotonic_ns()
        cuda._sleep(cycles)
        cuda.synchronize()
        return int(cycles / ((time.monotonic_ns() - began_ns) / 1e6))

    def sleep(self, ms: float) -> None:
        """Launches a kernel that takes so long."""
        self.torch.cuda._sleep(int(ms * self.cycles_per_ms))

    def work(self, phase: int) -> None:
        """Launches what `WORK_MS` says of the phase."""
        self.sleep(dict(WORK_MS)[phase])

    def timer(self) -> tuple[Any, Sink, Any]:
        """A device timer, where its cycles go, and its counters."""
        sink, counters = Sink(), timers.Counters()
        return timers.DeviceTimer(self.torch, self.kind, sink, counters), sink, counters


def check_support(device: Device) -> dict[str, Any]:
    """`supports_events` says that this device can be timed."""
    reason = timers.supports_events(device.torch, device.kind)
    return {"passed": reason == "", "reason": reason}


def check_kernel(device: Device) -> dict[str, Any]:
    """Phases of a known kernel are within the tolerance."""
    timer, sink, _ = device.timer()
    drive(timer, sink, range(1, CYCLES + 1), device.work)
    drain_all(timer, sink, CYCLES)
    timer.close()
    return compared(sink, {phase: ms * 1e6 for phase, ms in WORK_MS}, CYCLES)


def compared(sink: Sink, expected_ns: dict[int, float], count: int) -> dict[str, Any]:
    """Whether all cycles came, in order, and each phase took what it should."""
    cycles = good(sink.cycles)
    off = deviations(cycles, expected_ns) if cycles else {}
    numbers = [cycle.number for cycle in sink.cycles]
    return {
        "passed": bool(off)
        and all(abs(share) <= TOLERANCE for share in off.values())
        and numbers == sorted(numbers)
        and len(cycles) == count,
        "cycles": len(cycles),
        "of": count,
        "deviation": {str(phase): round(share, 4) for phase, share in off.items()},
    }


def check_graph(device: Device) -> dict[str, Any]:
    """A replayed CUDA graph takes what its kernels take; marks while it is captured do no harm."""
    torch = device.torch
    timer, sink, counters = device.timer()
    graph = torch.cuda.CUDAGraph()
    timer.begin(1)
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_KERNELS):
            timer.mark(Ph.VERIFY_FORWARD)  # as if the server captured in the middle of a cycle
            device.sleep(dict(WORK_MS)[Ph.VERIFY_FORWARD] / GRAPH_KERNELS)
        timer.drain(time.monotonic_ns())
    timer.mark(Ph.SCHEDULE)
    timer.end(1)
    torch.cuda.synchronize()
    timer.drain(time.monotonic_ns())
    sink.cycles.clear()
    passed_over = counters.capturing

    def work(phase: int) -> None:
        if phase == Ph.VERIFY_FORWARD:
            graph.replay()
        else:
            device.work(phase)

    drive(timer, sink, range(2, CYCLES + 2), work)
    drain_all(timer, sink, CYCLES)
    timer.close()
    found = compared(sink, {phase: ms * 1e6 for phase, ms in WORK_MS}, CYCLES)
    found["passed"] = found["passed"] and passed_over == GRAPH_KERNELS and not counters.failure
    return {**found, "passed_over_in_capture": passed_over, "counters": counted(counters)}


def counted(counters: Any) -> dict[str, Any]:
    """What could not be timed, by name."""
    return {name: getattr(counters, name) for name in counters.__slots__}


def check_clock(device: Device) -> dict[str, Any]:
    """The device's start lies where the host saw that it must, within the error bar."""
    torch = device.torch
    timer, sink, _ = device.timer()
    drive(timer, sink, range(1, WARM_UP_CYCLES + 1), lambda _: device.sleep(0.05))
    drain_all(timer, sink, WARM_UP_CYCLES)
    sink.cycles.clear()
    bounds = {}
    for number in range(1, CYCLES + 1):
        torch.cuda.synchronize()
        earliest_ns = time.monotonic_ns()
        drive(timer, sink, [number], lambda _: device.sleep(0.5))
        torch.cuda.synchronize()
        bounds[number] = (earliest_ns, time.monotonic_ns())
    drain_all(timer, sink, CYCLES)
    timer.close()
    outside = [
        cycle.number for cycle in sink.cycles if not lies_within(cycle, *bounds[cycle.number])
    ]
    errors = [cycle.error_ns for cycle in sink.cycles]
    mapped = [cycle for cycle in sink.cycles if not cycle.flags & DeviceFlag.NO_CLOCK]
    return {
        "passed": not outside
        and len(mapped) == CYCLES
        and statistics.median(errors) <= CLOCK_ERROR_LIMIT_NS,
        "outside": outside,
        "mapped": len(mapped),
        "error_ns_median": statistics.median(errors) if errors else None,
        "error_ns_max": max(errors, default=None),
    }


def lies_within(cycle: Emitted, earliest_ns: int, latest_ns: int) -> bool:
    """Whether a cycle ran, give or take its error, between two stamps of the host."""
    end_ns = cycle.start_ns + cycle.distances[-1]
    starts = cycle.start_ns >= earliest_ns - cycle.error_ns
    return starts and end_ns <= latest_ns + cycle.error_ns


def check_no_sync(device: Device) -> dict[str, Any]:
    """A traced loop passes in torch's debug mode that raises at synchronising operations."""
    torch = device.torch
    timer, sink, _ = device.timer()
    torch.cuda.set_sync_debug_mode("error")
    try:
        drive(timer, sink, range(1, CYCLES + 1), device.work)
        drain_all(timer, sink, CYCLES)
        raised = ""
    except RuntimeError as error:
        raised = str(error)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    timer.close()
    return {"passed": not raised and len(sink.cycles) == CYCLES, "raised": raised}


def check_callbacks(device: Device) -> dict[str, Any]:
    """Torch's own callbacks for device, stream and event synchronisation stay silent.

    Torch cannot take these callbacks out again: this check comes last. That they work is
    shown by synchronising once on purpose.
    """
    torch = device.torch
    gpu_trace = import_module("torch.cuda._gpu_trace")
    seen: list[str] = []
    torch._C._activate_gpu_trace()
    gpu_trace.register_callback_for_device_synchronization(lambda: seen.append("device"))
    gpu_trace.register_callback_for_stream_synchronization(lambda _: seen.append("stream"))
    gpu_trace.register_callback_for_event_synchronization(lambda _: seen.append("event"))
    torch.cuda.synchronize()
    they_work = bool(seen)
    timer, sink, _ = device.timer()
    seen.clear()
    drive(timer, sink, range(1, CYCLES + 1), device.work)
    drain_all(timer, sink, CYCLES)
    during = list(seen)
    timer.close()
    return {
        "passed": they_work and not during and len(sink.cycles) == CYCLES,
        "callbacks_work": they_work,
        "synchronisations": during,
    }


def check_cost(device: Device) -> dict[str, Any]:
    """What a mark, a drain and a whole cycle cost the host."""
    timer, sink, _ = device.timer()
    times: dict[str, list[int]] = {"mark": [], "drain": [], "cycle": []}
    clock = time.perf_counter_ns
    for number in range(1, COST_CYCLES + 1):
        began = clock()
        timer.begin(number)
        for phase, _ in WORK_MS:
            before = clock()
            timer.mark(phase)
            times["mark"].append(clock() - before)
        timer.mark(Ph.SCHEDULE)
        timer.end(number)
        before = clock()
        timer.drain(time.monotonic_ns())
        times["drain"].append(clock() - before)
        times["cycle"].append(clock() - began)
    drain_all(timer, sink, COST_CYCLES)
    timer.close()
    figures = {f"{name}_us": percentiles_us(values) for name, values in times.items()}
    return {
        "passed": figures["mark_us"]["median"] <= MARK_LIMIT_US
        and figures["cycle_us"]["median"] <= CYCLE_LIMIT_US,
        "event_record_us": percentiles_us(list(_bare_records(device.torch))),
        **figures,
    }


def _bare_records(torch: Any) -> Iterator[int]:
    """Nanoseconds of plain `event.record()`, to tell the event's share from the probe's."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(64)]
    for event in events:
        event.record()
    torch.cuda.synchronize()
    for _ in range(20):
        for event in events:
            began = time.perf_counter_ns()
            event.record()
            yield time.perf_counter_ns() - began
        torch.cuda.synchronize()


def percentiles_us(values_ns: Sequence[int]) -> dict[str, float]:
    """Median and 99th percentile in microseconds."""
    ordered = sorted(values_ns)
    return {
        "median": statistics.median(ordered) / 1e3,
        "p99": ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)] / 1e3,
    }


def check_nvtx(_: Device) -> dict[str, Any]:
    """A tool receives the ranges through torch.cuda.nvtx, and by the package where it is."""
    if shutil.which("gcc") is None:
        return {"passed": True, "not_run": "there is no gcc to build the recording tool with"}
    ways = {"torch": True, "package": False}
    found = {name: nvtx_child(through_torch=through_torch) for name, through_torch in ways.items()}
    return {"passed": all(each["passed"] for each in found.values()), **found}


def nvtx_child(*, through_torch: bool) -> dict[str, Any]:
    """Ranges of a process of its own: NVTX looks for a tool once in a process."""
    scenario = "whole_cycles_by_torch" if through_torch else "whole_cycles"
    with tempfile.TemporaryDirectory() as folder:
        child = subprocess.Popen(
            [sys.executable, str(NVTX_CHILD), scenario],
            env={**os.environ, **recorder.environment(Path(folder)), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        printed, _ = child.communicate(timeout=120)
        way = json.loads(printed)["way"] if printed else "the process failed"
        if way.startswith("NVTX off") and not through_torch:
            return {"passed": True, "not_run": way}
        written = Path(folder) / f"{child.pid}.nvtx"
        calls = recorder.read(Path(folder), child.pid) if written.exists() else []
    return {"passed": nvtx_complete(calls, through_torch=through_torch), "way": way}


def nvtx_complete(calls: list[recorder.Call], *, through_torch: bool) -> bool:
    """Whether the two cycles of `tests/nvtx_recorder/drive.py` arrived nested and numbered."""
    domain = "" if through_torch else "spectrace"
    seen = [each for each in recorder.ranges(calls) if each.domain == domain]
    outer = [each for each in seen if len(each.path) == 1]
    parts = [each.path[-1] for each in seen if len(each.path) == 3]
    if through_torch:
        numbered = [each.path[0] for each in outer] == ["spectrace cycle 7", "spectrace cycle 8"]
    else:
        numbered = [each.payload for each in outer] == [7, 8]
    return numbered and len(parts) == 2 * 4


CHECKS: dict[str, Callable[[Device], dict[str, Any]]] = {
    "support": check_support,
    "kernel": check_kernel,
    "graph": check_graph,
    "clock": check_clock,
    "no_sync": check_no_sync,
    "cost": check_cost,
    "nvtx": check_nvtx,
    "callbacks": check_callbacks,  # last: it leaves callbacks behind
}


def why_not() -> str:
    """Why nothing can be checked here, "" if it can."""
    try:
        torch = import_module("torch")
    except ImportError:
        return "torch is not installed: there is no CUDA device to check"
    if not torch.version.cuda:
        return f"torch {torch.__version__} is no CUDA build: there is no CUDA device to check"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} says that there is no CUDA device"
    return ""


def run(name: str, device: Device) -> dict[str, Any]:
    """One check; what it raises is its result."""
    try:
        return CHECKS[name](device)
    except Exception as error:  # noqa: BLE001 - the other checks are to run
        return {"passed": False, "error": f"{type(error).__name__}: {error}"}


def main() -> int:
    """Runs all checks and prints what they found."""
    reason = why_not()
    if reason:
        print(json.dumps({"skipped": reason}))
        return 0
    torch = import_module("torch")
    device = Device(torch)
    found = {name: run(name, device) for name in CHECKS}
    passed = all(each["passed"] for each in found.values())
    print(
        json.dumps(
            {
                "passed": passed,
                "device": torch.cuda.get_device_name(),
                "torch": str(torch.__version__),
                "checks": found,
            }
        )
    )
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
