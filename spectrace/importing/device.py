"""Puts kernels into the phase that launched them: the device's lane, and time by class.

A kernel carries the correlation id of the call that launched it (all kernels of a graph that of
the graph's launch), and that call lies in a phase on the host.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrace.collect.reader import PHASES
from spectrace.importing.columns import Kernels, Launches, ProcessTrace, Role
from spectrace.importing.faults import Fault, Faults
from spectrace.importing.turns import HostPhase, Turn
from spectrace.model import CycleKind, PhaseName
from spectrace.probe.layout import DEVICE_PHASES

Column: TypeAlias = NDArray[np.int64]

_ON_DEVICE = frozenset(PHASES[phase] for phase in DEVICE_PHASES)
_NAMES = {
    Role.DRAFT: PhaseName.DRAFT,
    Role.DRAFT_EXTEND: PhaseName.DRAFT_EXTEND,
    Role.FORWARD: PhaseName.FORWARD,
}
_NEVER = np.iinfo(np.int64).max


class DevicePhase(NamedTuple):
    """A phase on the device: from the begin of its first kernel to the end of its last one.

    Attributes:
        name: Which.
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns.
        lag: As of a phase on the host.
        graph: Whether a graph was launched in it; None where that is not known.
    """

    name: PhaseName
    start_ns: int
    end_ns: int
    lag: int
    graph: bool | None


@dataclass
class KernelTime:
    """Time and number of kernels of one phase and class; a name is empty outside of phases."""

    time_ns: int = 0
    kernels: int = 0


class OnDevice(NamedTuple):
    """What a process did on the device.

    Attributes:
        lanes: For each turn its phases, in order.
        times: By name of phase and kernel. A phase is "" outside of phases, and in a turn that the
            trace cuts off.
    """

    lanes: list[list[DevicePhase]]
    times: dict[tuple[str, str], KernelTime]


def on_device(
    process: ProcessTrace, thread: Hashable, turns: Sequence[Turn], faults: Faults
) -> OnDevice:
    """The device's lane of each turn, and the kernels' time by phase.

    Where no kernel can be put into a turn, the profiler's own ranges on the device are taken.

    Args:
        process: What it did.
        thread: That of the scheduler.
        turns: Of that thread, in order.
        faults: Where it is counted what overlapped, and was cut.
    """
    segments = [(place, phase) for place, turn in enumerate(turns) for phase in turn.phases]
    if not segments:
        return OnDevice([[] for _ in turns], _times(process.kernels, None, []))
    launched = launch_segments(process, thread, [phase for _, phase in segments])
    of_kernel = kernel_segments(process.kernels, process.launches, launched)
    names = ["" if turns[place].incomplete else phase.name.value for place, phase in segments]
    extents = _extents(process.kernels, of_kernel, len(segments))
    graphs = _graphs(process.launches, launched, len(segments))
    lanes: list[list[DevicePhase]] = [[] for _ in turns]
    for (place, phase), extent, graph in zip(segments, extents, graphs, strict=True):
        if extent is not None and phase.name in _ON_DEVICE:
            lanes[place].append(DevicePhase(phase.name, *extent, phase.lag, graph))
    for place, turn in enumerate(turns):
        lanes[place] = lanes[place] or _by_ranges(turn, process.device_ranges)
    return OnDevice(_in_order(lanes, faults), _times(process.kernels, of_kernel, names))


def launch_segments(process: ProcessTrace, thread: Hashable, phases: Sequence[HostPhase]) -> Column:
    """For each launch the place of the phase in which it lies, -1 for none."""
    launches = process.launches
    start_ns = np.asarray(launches.start_ns, dtype=np.int64)
    begins = np.array([phase.start_ns for phase in phases], dtype=np.int64)
    ends = np.array([phase.end_ns for phase in phases], dtype=np.int64)
    place = np.searchsorted(begins, start_ns, side="right") - 1
    inside = (place >= 0) & (start_ns < ends[place])
    own = np.asarray(launches.thread, dtype=np.int64) == process.thread_number(thread)
    if own.any():
        inside &= own
    return np.where(inside, place, -1).astype(np.int64)


def kernel_segments(kernels: Kernels, launches: Launches, launched: Column) -> Column:
    """For each kernel the place of the phase in which it was launched, -1 for none."""
    correlation = np.asarray(kernels.correlation, dtype=np.int64)
    ids = np.asarray(launches.correlation, dtype=np.int64)
    if not ids.size or not correlation.size:
        return np.full(correlation.size, -1, dtype=np.int64)
    order = np.argsort(ids, kind="stable")
    found = np.minimum(np.searchsorted(ids[order], correlation), ids.size - 1)
    launch = order[found]
    return np.where(ids[launch] == correlation, launched[launch], -1).astype(np.int64)


def _extents(kernels: Kernels, of_kernel: Column, count: int) -> list[tuple[int, int] | None]:
    """Begin and end of each phase on the stream that does most; None without a kernel there."""
    start_ns = np.asarray(kernels.start_ns, dtype=np.int64)
    end_ns = np.asarray(kernels.end_ns, dtype=np.int64)
    stream = np.asarray(kernels.stream, dtype=np.int64)
    inside = of_kernel >= 0
    if not inside.any():
        return [None] * count
    inside &= stream == busiest(kernels, of_kernel)
    first = np.full(count, _NEVER, dtype=np.int64)
    last = np.zeros(count, dtype=np.int64)
    np.minimum.at(first, of_kernel[inside], start_ns[inside])
    np.maximum.at(last, of_kernel[inside], end_ns[inside])
    return [
        None if begin == _NEVER else (int(begin), int(end))
        for begin, end in zip(first, last, strict=True)
    ]


def busiest(kernels: Kernels, of_kernel: Column) -> int:
    """The stream that does most of what phases launched; -1 where they launched nothing."""
    inside = of_kernel >= 0
    if not inside.any():
        return -1
    spent = np.asarray(kernels.end_ns, dtype=np.int64) - np.asarray(kernels.start_ns, np.int64)
    stream = np.asarray(kernels.stream, dtype=np.int64)
    return int(np.bincount(stream[inside], weights=spent[inside]).argmax())


def _graphs(launches: Launches, launched: Column, count: int) -> list[bool | None]:
    """Whether each phase launched a graph; None where it launched nothing."""
    inside = launched >= 0
    graph = np.asarray(launches.graph, dtype=np.int64)
    calls = np.bincount(launched[inside], minlength=count)
    graphs = np.bincount(launched[inside], weights=graph[inside], minlength=count)
    return [bool(g) if n else None for n, g in zip(calls, graphs, strict=True)]


def _by_ranges(turn: Turn, device_ranges: dict[int, tuple[int, int]]) -> list[DevicePhase]:
    """Phases by the profiler's own ranges on the device, of those that do not lie in another."""
    found = []
    for piece in turn.ranges:
        name = PhaseName.VERIFY_FORWARD if piece.kind is CycleKind.SPECULATIVE else None
        name = name or _NAMES.get(piece.role)
        extent = next((device_ranges[link] for link in piece.links if link in device_ranges), None)
        if name is not None and extent is not None:
            found.append(DevicePhase(name, *extent, 0, None))
    return found


def _in_order(lanes: list[list[DevicePhase]], faults: Faults) -> list[list[DevicePhase]]:
    """The phases of a lane one after the other, also those of different turns."""
    last_ns = 0
    mended: list[list[DevicePhase]] = []
    for lane in lanes:
        kept: list[DevicePhase] = []
        for phase in sorted(lane, key=lambda phase: phase.start_ns):
            start_ns = max(phase.start_ns, last_ns)
            if start_ns > phase.start_ns:
                faults.add(Fault.OVERLAPPING)
            if phase.end_ns > start_ns:
                kept.append(phase._replace(start_ns=start_ns))
                last_ns = phase.end_ns
        mended.append(kept)
    return mended


def _times(
    kernels: Kernels, of_kernel: Column | None, names: Sequence[str]
) -> dict[tuple[str, str], KernelTime]:
    """Time and number of kernels by phase and name of the kernel."""
    times: dict[tuple[str, str], KernelTime] = {}
    if not len(kernels.name):
        return times
    phases = list(dict.fromkeys(["", *names]))
    code = {name: place for place, name in enumerate(phases)}
    of_segment = np.array([*(code[name] for name in names), 0], dtype=np.int64)  # -1: the last
    kernel = np.asarray(kernels.name, dtype=np.int64)
    segment = np.full(kernel.size, -1) if of_kernel is None else of_kernel
    texts = kernels.names
    key = of_segment[segment] * len(texts) + kernel
    spent = np.asarray(kernels.end_ns, dtype=np.int64) - np.asarray(kernels.start_ns, np.int64)
    unique, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    total = np.zeros(unique.size, dtype=np.int64)
    np.add.at(total, inverse, spent)
    for each, time_ns, count in zip(unique, total, counts, strict=True):
        phase, name = divmod(int(each), len(texts))
        times[phases[phase], texts[name]] = KernelTime(int(time_ns), int(count))
    return times
