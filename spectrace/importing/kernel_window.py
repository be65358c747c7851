"""What a kernel window shows of each phase: time on the device, gaps, launches, replays of graphs.

The host's phases come from the Cycles that the ring gave, the kernels from CUPTI; the call that
launched a kernel puts it into a phase, as in a trace that is imported.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spectrace.importing.columns import ProcessTrace
from spectrace.importing.cupti import Decoded, between, process_of
from spectrace.importing.device import (
    Column,
    KernelTime,
    busiest,
    kernel_segments,
    launch_segments,
    on_device,
)
from spectrace.importing.faults import Faults
from spectrace.importing.seen import seen_kernels
from spectrace.importing.turns import HostPhase, Turn
from spectrace.kernels import PhaseWork, SeenKernels
from spectrace.model import Cycle, Lane

_NS_PER_MS = 1e6


class SeenWindow(NamedTuple):
    """The window of one rank.

    Attributes:
        phases: What phases were seen to do, the most time first.
        kernels: Time by phase ("" outside of phases) and name of the kernel.
        cycles: How many cycles were seen, graphs kernel by kernel.
        seen: The kernels that phases of these cycles launched.
    """

    phases: tuple[PhaseWork, ...]
    kernels: dict[tuple[str, str], KernelTime]
    cycles: int
    seen: SeenKernels


class Ranked(NamedTuple):
    """Whose window it is.

    Attributes:
        rank: Name of the rank.
        pid: Its process.
        threads: Numbers that CUPTI may know the scheduler's thread by.
        names: Of kernels by their addresses; one that is missing is named by its address.
    """

    rank: str
    pid: int
    threads: tuple[int, ...]
    names: Mapping[int, str]

    def name_at(self, address: int) -> str:
        """The name of a kernel."""
        return self.names.get(address) or f"kernel at {address:#x}"


class Bounds(NamedTuple):
    """When a window was open, in ns of CUPTI's clock (CLOCK_REALTIME).

    Attributes:
        begin_ns: It began.
        split_ns: From here on graphs were seen kernel by kernel, before as a whole.
        end_ns: It ended.
        shift_ns: What is added to that clock's times to make UNIX times of the run.
    """

    begin_ns: int
    split_ns: int
    end_ns: int
    shift_ns: int


def turns_of_cycles(cycles: Iterable[Cycle], rank: str) -> list[Turn]:
    """A rank's share of Cycles as turns, in order.

    Args:
        cycles: Of one run; only the newest version of each.
        rank: Name of the rank.
    """
    turns = [
        Turn(
            start_ns=share.start_ns,
            end_ns=share.end_ns,
            ended_idle=share.ended_idle,
            number=cycle.number,
            kind=cycle.kind,
            batch_size=cycle.batch_size,
            phases=[
                HostPhase(one.name, one.start_ns, one.end_ns, max(0, cycle.number - one.of_cycle))
                for one in share.phases
                if one.lane is Lane.HOST
            ],
        )
        for cycle in cycles
        for share in cycle.ranks
        if share.rank == rank
    ]
    return sorted(turns, key=lambda turn: turn.start_ns)


def window_of(
    found: Decoded,
    turns: Sequence[Turn],
    bounds: Bounds,
    ranked: Ranked,
    class_of: Callable[[str], str],
) -> SeenWindow:
    """What one rank's window shows.

    Args:
        found: Its records.
        turns: Of the same time, as `turns_of_cycles` makes them.
        bounds: When it was open.
        ranked: Whose it is.
        class_of: Gives the class of a kernel's name.
    """

    def part(begin_ns: int, end_ns: int) -> ProcessTrace:
        return process_of(
            between(found, begin_ns, end_ns),
            ranked.rank,
            ranked.pid,
            shift_ns=bounds.shift_ns,
            name_at=ranked.name_at,
        )

    thread = _thread_of(found, ranked.threads)
    whole = part(bounds.begin_ns, bounds.split_ns)
    single = part(bounds.split_ns, bounds.end_ns)
    split_ns = bounds.split_ns + bounds.shift_ns
    end_ns = bounds.end_ns + bounds.shift_ns
    inside = [turn for turn in turns if split_ns <= turn.start_ns and turn.end_ns <= end_ns]
    replays = _replays(whole, thread, [turn for turn in turns if turn.start_ns < split_ns])
    segments = _segments(single, thread, inside)
    phases = _works(single, segments, inside, replays)
    device = on_device(single, thread, inside, Faults())
    numbers = [turn.number or 0 for turn in inside]
    seen = seen_kernels(single, inside, numbers, segments.of_kernel, class_of)
    return SeenWindow(tuple(phases), device.times, len(inside), seen)


def _thread_of(found: Decoded, threads: Sequence[int]) -> Hashable:
    """The number by which CUPTI knows the scheduler's thread."""
    present = set(np.unique(found.calls.thread).tolist())
    return next((one for one in threads if one in present), -1)


class _Segments(NamedTuple):
    """Which phase launched what: places in `phases`, -1 for none."""

    phases: list[HostPhase]
    of_launch: Column
    of_kernel: Column


def _segments(process: ProcessTrace, thread: Hashable, turns: Sequence[Turn]) -> _Segments:
    phases = [phase for turn in turns for phase in turn.phases]
    if not phases:
        none = np.full(len(process.launches.start_ns), -1, dtype=np.int64)
        return _Segments([], none, np.full(len(process.kernels.start_ns), -1, dtype=np.int64))
    of_launch = launch_segments(process, thread, phases)
    of_kernel = kernel_segments(process.kernels, process.launches, of_launch)
    return _Segments(phases, of_launch, of_kernel)


def _replays(
    process: ProcessTrace, thread: Hashable, turns: Sequence[Turn]
) -> dict[str, tuple[float, int]]:
    """How long one replay of a graph took on average in ms, and how many were seen, by phase."""
    segments = _segments(process, thread, turns)
    lengths: dict[str, list[int]] = {}
    graphs = _graph_correlations(process)
    columns = (
        segments.of_kernel,
        process.kernels.correlation,
        process.kernels.start_ns,
        process.kernels.end_ns,
    )
    for segment, correlation, start_ns, end_ns in zip(*columns, strict=True):
        if segment >= 0 and correlation in graphs:
            name = segments.phases[segment].name.value
            lengths.setdefault(name, []).append(end_ns - start_ns)
    return {name: (sum(some) / len(some) / _NS_PER_MS, len(some)) for name, some in lengths.items()}


def _graph_correlations(process: ProcessTrace) -> set[int]:
    launches = process.launches
    pairs = zip(launches.correlation, launches.graph, strict=True)
    return {correlation for correlation, graph in pairs if graph}


def _works(
    process: ProcessTrace,
    segments: _Segments,
    turns: Sequence[Turn],
    replays: dict[str, tuple[float, int]],
) -> list[PhaseWork]:
    count = len(segments.phases)
    if not count:
        return []
    extent_ns, busy_ns = _spans(process, segments.of_kernel, count)
    launched = segments.of_launch >= 0
    graph = np.asarray(process.launches.graph, dtype=np.int64)
    sums = {
        "extent": extent_ns,
        "busy": busy_ns,
        "kernels": np.bincount(segments.of_kernel[segments.of_kernel >= 0], minlength=count),
        "launches": np.bincount(segments.of_launch[launched], minlength=count),
        "replays": np.bincount(
            segments.of_launch[launched], weights=graph[launched], minlength=count
        ),
    }
    turn_of = np.repeat(np.arange(len(turns)), [len(turn.phases) for turn in turns])
    names = np.array([phase.name.value for phase in segments.phases])
    works = []
    for name in dict.fromkeys(names.tolist()):
        own = names == name
        cycles = np.unique(turn_of[own]).size
        each = {what: float(sums[what][own].sum()) / cycles for what in sums}
        if not each["kernels"] and not each["launches"]:
            continue
        replay_ms, seen = replays.get(name, (None, 0))
        works.append(
            PhaseWork(
                rank=process.rank,
                phase=name,
                cycles=cycles,
                device_ms=each["extent"] / _NS_PER_MS,
                busy_ms=each["busy"] / _NS_PER_MS,
                gap_ms=(each["extent"] - each["busy"]) / _NS_PER_MS,
                kernels=each["kernels"],
                launches=each["launches"],
                replays=each["replays"],
                replay_ms=replay_ms,
                replays_seen=seen,
            )
        )
    return sorted(works, key=lambda work: -work.device_ms)


def _spans(process: ProcessTrace, of_kernel: Column, count: int) -> tuple[Column, Column]:
    """For each phase in ns from first begin to last end on the busiest stream, and busy therein."""
    kernels = process.kernels
    extent_ns = np.zeros(count, dtype=np.int64)
    busy_ns = np.zeros(count, dtype=np.int64)
    stream = np.asarray(kernels.stream, dtype=np.int64)
    own = (of_kernel >= 0) & (stream == busiest(kernels, of_kernel))
    start_ns = np.asarray(kernels.start_ns, dtype=np.int64)[own]
    end_ns = np.asarray(kernels.end_ns, dtype=np.int64)[own]
    segment = of_kernel[own]
    order = np.lexsort((start_ns, segment))
    start_ns, end_ns, segment = start_ns[order], end_ns[order], segment[order]
    for begin, end in _runs(segment):
        reached_ns = np.maximum.accumulate(end_ns[begin:end])
        first_ns = start_ns[begin]
        before_ns = np.concatenate(([first_ns], reached_ns[:-1]))
        gaps_ns = np.maximum(start_ns[begin:end] - before_ns, 0).sum()
        extent_ns[segment[begin]] = reached_ns[-1] - first_ns
        busy_ns[segment[begin]] = reached_ns[-1] - first_ns - gaps_ns
    return extent_ns, busy_ns


def _runs(values: Column) -> list[tuple[int, int]]:
    """Where stretches of the same value begin and end."""
    if not values.size:
        return []
    edges = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), int(values.size)]
    return list(itertools.pairwise(edges))
