"""Makes the report of a kernel window: of what phases are made, and what looking cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

import msgspec

from spectrace.analysis.kernel_classes import KernelClass, KernelClasses
from spectrace.attach.kernel_windows import Written, names_at
from spectrace.cli.kernel_table import ClassTime, class_times
from spectrace.importing.cupti import addresses, decoded, pieces_in
from spectrace.importing.kernel_window import (
    Bounds,
    PhaseWork,
    Ranked,
    SeenWindow,
    turns_of_cycles,
    window_of,
)
from spectrace.model import Cycle, Run
from spectrace.probe.layout_window import Place

_NS_PER_MS = 1e6
_STEPPED_NS = 1_000_000


class WindowCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a window cost one rank.

    Attributes:
        rank: Its name.
        loading_ms: For so long its scheduler stood still while CUPTI was loaded.
        switching_ms: And while it was switched on, over and off.
        flushing_ms: And while it was asked for what is done.
        taking_ms: Taking its buffers, on whatever thread CUPTI hands them over.
        before_ms: A cycle before the window, the median; None where there was none.
        graphs_ms: One in the part in which graphs are seen whole.
        kernels_ms: One in the part in which they are seen kernel by kernel.
        after_ms: One after the window.
    """

    rank: str
    loading_ms: float
    switching_ms: float
    flushing_ms: float
    taking_ms: float
    before_ms: float | None
    graphs_ms: float | None
    kernels_ms: float | None
    after_ms: float | None


class WindowLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What of the records of one rank is not in the figures.

    Attributes:
        rank: Its name.
        records: That CUPTI handed over.
        no_room: Of these found no room in the window's file.
        torn: Buffers that could not be taken, or are not as they were written.
        unfinished: Records of work that had not ended.
        unknown: Records of kinds that nobody asked for.
        unnamed: Kernels whose names could not be read.
        cut_short: The window was closed before its last cycle.
        clock_stepped: The machine's clock was set meanwhile: phases may be wrong.
    """

    rank: str
    records: int
    no_room: int = 0
    torn: int = 0
    unfinished: int = 0
    unknown: int = 0
    unnamed: int = 0
    cut_short: bool = False
    clock_stepped: bool = False


class KernelReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes.

    Attributes:
        run_id: The run, see `model.Run`.
        server_pid: Process id of the server's root process.
        engine: Such as `sglang 0.5.23`.
        cycles: How many were asked for.
        cycles_seen: By rank in how many graphs were seen kernel by kernel.
        phases: What the device did for each phase of each rank.
        kernels: Time of kernels by rank, phase and class, over the cycles seen.
        communication: By rank the share of communication in the time of all kernels of phases.
        costs: What looking cost each rank.
        losses: What is not in the figures.
    """

    run_id: str
    server_pid: int
    engine: str
    cycles: int
    cycles_seen: dict[str, int]
    phases: tuple[PhaseWork, ...]
    kernels: tuple[ClassTime, ...]
    communication: dict[str, float]
    costs: tuple[WindowCost, ...]
    losses: tuple[WindowLoss, ...]


def report_of(
    run: Run,
    cycles: Sequence[Cycle],
    written: Sequence[Written],
    classes: KernelClasses,
    asked: int,
) -> KernelReport:
    """Puts the windows of all ranks together.

    Args:
        run: The server.
        cycles: All that came, the newest version of each.
        written: What the windows left.
        classes: The table of classes.
        asked: How many cycles were asked for.
    """
    seen: dict[str, SeenWindow] = {}
    losses: list[WindowLoss] = []
    for one in written:
        seen[one.rank.name], loss = _seen(run, cycles, one)
        losses.append(loss)
    kernels = {
        (rank, *key): time for rank, window in seen.items() for key, time in window.kernels.items()
    }
    times = class_times(kernels, classes)
    return KernelReport(
        run_id=run.run_id,
        server_pid=run.server_pid,
        engine=run.engine,
        cycles=asked,
        cycles_seen={rank: window.cycles for rank, window in seen.items()},
        phases=tuple(phase for window in seen.values() for phase in window.phases),
        kernels=times,
        communication={rank: _communication(rank, times) for rank in seen},
        costs=tuple(_cost(cycles, one) for one in written),
        losses=tuple(losses),
    )


def with_names(one: Written) -> Written:
    """The same with the names of its kernels, read out of the rank as far as we may."""
    works = decoded(pieces_in(one.content, one.words[Place.HEAD]).whole).works
    return one._replace(names=names_at(one.rank.pid, addresses(works)))


def _seen(run: Run, cycles: Sequence[Cycle], one: Written) -> tuple[SeenWindow, WindowLoss]:
    words, rank = one.words, one.rank
    pieces = pieces_in(one.content, words[Place.HEAD])
    found = decoded(pieces.whole)
    threads = (words[Place.THREAD], words[Place.SYSTEM_THREAD])
    ranked = Ranked(rank.name, rank.pid, threads, one.names)
    window = window_of(found, turns_of_cycles(cycles, rank.name), bounds_of(run, words), ranked)
    began = words[Place.BEGAN_REAL_NS] - words[Place.BEGAN_NS]
    ended = words[Place.ENDED_REAL_NS] - words[Place.ENDED_NS]
    loss = WindowLoss(
        rank=rank.name,
        records=words[Place.RECORDS],
        no_room=words[Place.LOST],
        torn=pieces.torn + words[Place.BROKEN],
        unfinished=found.unfinished,
        unknown=found.unknown,
        unnamed=len(set(addresses(found.works)) - one.names.keys()),
        cut_short=bool(words[Place.CUT_SHORT]),
        clock_stepped=abs(ended - began) > _STEPPED_NS,
    )
    return window, loss


def bounds_of(run: Run, words: Mapping[int, int]) -> Bounds:
    """When the window was open, by CUPTI's clock, and how that becomes the run's.

    Args:
        run: The server.
        words: Of the window's file.
    """
    begin_ns = words[Place.BEGAN_REAL_NS]
    real_ns = begin_ns - words[Place.BEGAN_NS]  # of CLOCK_REALTIME before CLOCK_MONOTONIC
    end_ns = words[Place.ENDED_REAL_NS]
    split_ns = words[Place.SPLIT_NS] + real_ns if words[Place.SPLIT_NS] else end_ns
    return Bounds(begin_ns, split_ns, end_ns, run.unix_ns(words[Place.BEGAN_NS]) - begin_ns)


def _communication(rank: str, times: Sequence[ClassTime]) -> float:
    """The share of communication in the time of what phases launched."""
    own = [time for time in times if time.rank == rank and time.phase]
    total_ms = sum(time.time_ms for time in own)
    told = sum(time.time_ms for time in own if time.kernel_class == KernelClass.COMMUNICATION.value)
    return told / total_ms if total_ms else 0.0


def _cost(cycles: Sequence[Cycle], one: Written) -> WindowCost:
    words = one.words
    began, split, ended = (
        words[place] for place in (Place.BEGAN_CYCLE, Place.SPLIT_CYCLE, Place.ENDED_CYCLE)
    )
    lengths = {
        cycle.number: share.duration_ns / _NS_PER_MS
        for cycle in cycles
        for share in cycle.ranks
        if share.rank == one.rank.name and not share.ended_idle
    }

    def middle(first: int, last: int) -> float | None:
        some = [length for number, length in lengths.items() if first <= number < last]
        return median(some) if some else None

    return WindowCost(
        rank=one.rank.name,
        loading_ms=words[Place.LOADING_NS] / _NS_PER_MS,
        switching_ms=words[Place.SWITCHING_NS] / _NS_PER_MS,
        flushing_ms=words[Place.FLUSHING_NS] / _NS_PER_MS,
        taking_ms=words[Place.TAKING_NS] / _NS_PER_MS,
        before_ms=middle(0, began),
        graphs_ms=middle(began, split),
        kernels_ms=middle(split, ended),
        after_ms=middle(ended, max(lengths, default=0) + 1),
    )
