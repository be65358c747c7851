"""What the device did for each phase, per cycle: its time, gaps, kernels, launches and replays.

The same for a window on a running server and for a trace that another tool wrote.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.importing.columns import GRAPH, ProcessTrace
from spectrace.importing.device import Column, busiest, kernel_segments, launch_segments
from spectrace.importing.turns import HostPhase, Turn
from spectrace.kernels import PhaseWork

_NS_PER_MS = 1e6
_MEANS = ("device_ms", "busy_ms", "gap_ms", "kernels", "launches", "replays")


class Segments(NamedTuple):
    """Which phase of some turns launched what: places in `phases`, -1 for none."""

    phases: list[HostPhase]
    of_launch: Column
    of_kernel: Column


class ReplayTime(NamedTuple):
    """How long one replay of a graph took on average in ms, and how many were seen whole."""

    mean_ms: float
    seen: int


def segments_of(process: ProcessTrace, thread: Hashable, turns: Sequence[Turn]) -> Segments:
    """Puts launches and kernels into the phases of turns.

    Args:
        process: What it did.
        thread: That of the scheduler.
        turns: In order.
    """
    phases = [phase for turn in turns for phase in turn.phases]
    if not phases:
        none = np.full(len(process.launches.start_ns), -1, dtype=np.int64)
        return Segments([], none, np.full(len(process.kernels.start_ns), -1, dtype=np.int64))
    of_launch = launch_segments(process, thread, phases)
    of_kernel = kernel_segments(process.kernels, process.launches, of_launch)
    return Segments(phases, of_launch, of_kernel)


def replay_times(process: ProcessTrace, segments: Segments) -> dict[str, ReplayTime]:
    """What graphs that were seen whole took, by phase."""
    names = process.kernels.names
    if GRAPH not in names:
        return {}
    whole = np.asarray(process.kernels.name, dtype=np.int64) == names.index(GRAPH)
    whole &= segments.of_kernel >= 0
    kernels = process.kernels
    took_ns = np.asarray(kernels.end_ns, np.int64) - np.asarray(kernels.start_ns, np.int64)
    lengths: dict[str, list[int]] = {}
    for segment, length in zip(segments.of_kernel[whole], took_ns[whole].tolist(), strict=True):
        lengths.setdefault(segments.phases[segment].name.value, []).append(length)
    return {
        name: ReplayTime(sum(some) / len(some) / _NS_PER_MS, len(some))
        for name, some in lengths.items()
    }


def phase_works(
    process: ProcessTrace,
    segments: Segments,
    turns: Sequence[Turn],
    replays: Mapping[str, ReplayTime],
) -> list[PhaseWork]:
    """What each phase was seen to do, the most time first.

    Args:
        process: What it did.
        segments: As `segments_of` gives them.
        turns: Of which they are.
        replays: As `replay_times` gives them, of these turns or of others.
    """
    count = len(segments.phases)
    if not count:
        return []
    extent_ns, busy_ns = _spans(process, segments.of_kernel, count)
    launched = (segments.of_launch >= 0) & _launching(process)
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
        replay = replays.get(name)
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
                replay_ms=None if replay is None else replay.mean_ms,
                replays_seen=0 if replay is None else replay.seen,
            )
        )
    return sorted(works, key=lambda work: -work.device_ms)


def together(works: Sequence[PhaseWork]) -> list[PhaseWork]:
    """Works of one rank, of cycles apart, as one for each phase; the most time first."""
    of_phase: dict[str, list[PhaseWork]] = {}
    for work in works:
        of_phase.setdefault(work.phase, []).append(work)
    return sorted(map(_joined, of_phase.values()), key=lambda work: -work.device_ms)


def _joined(works: Sequence[PhaseWork]) -> PhaseWork:
    if len(works) == 1:
        return works[0]
    cycles = sum(work.cycles for work in works)
    replays = sum(work.replays_seen for work in works)
    replayed_ms = sum((work.replay_ms or 0.0) * work.replays_seen for work in works)
    means = {
        name: sum(getattr(work, name) * work.cycles for work in works) / cycles for name in _MEANS
    }
    return msgspec.structs.replace(
        works[0],
        cycles=cycles,
        replay_ms=replayed_ms / replays if replays else None,
        replays_seen=replays,
        **means,
    )


def _launching(process: ProcessTrace) -> NDArray[np.bool_]:
    """Which calls put work on the device: of several of one correlation id the first.

    A trace has every call of the runtime, most of which ask for something, and the driver's calls
    within them.
    """
    ids = np.asarray(process.launches.correlation, dtype=np.int64)
    order = np.lexsort((np.asarray(process.launches.start_ns, dtype=np.int64), ids))
    _, first = np.unique(ids[order], return_index=True)
    earliest = np.zeros(ids.size, dtype=np.bool_)
    earliest[order[first]] = True
    return earliest & np.isin(ids, np.asarray(process.kernels.correlation, dtype=np.int64))


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
