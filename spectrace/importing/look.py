"""Makes a look of what kernel windows left: of what phases are made, and what looking cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import median

from spectrace.importing.class_times import class_times, communication
from spectrace.importing.cupti import addresses, decoded, pieces_in
from spectrace.importing.demangled import demangled
from spectrace.importing.kernel_window import (
    Bounds,
    Ranked,
    SeenWindow,
    turns_of_cycles,
    window_of,
)
from spectrace.kernels import (
    KernelLook,
    LookSource,
    Seen,
    WindowCost,
    WindowLoss,
    Written,
)
from spectrace.model import Cycle, Run
from spectrace.probe.layout_window import Place

_NS_PER_MS = 1e6
_STEPPED_NS = 1_000_000


def look_of(
    run: Run,
    cycles: Sequence[Cycle],
    written: Sequence[Written],
    class_of: Callable[[str], str],
    asked: int,
) -> Seen:
    """Puts the windows of all ranks together.

    Args:
        run: The server.
        cycles: All that came, the newest version of each.
        written: What the windows left.
        class_of: Gives the class of a kernel's name.
        asked: How many cycles were asked for.
    """
    seen: dict[str, SeenWindow] = {}
    losses: list[WindowLoss] = []
    for one in written:
        seen[one.rank.name], loss = _seen(run, cycles, one, class_of)
        losses.append(loss)
    kernels = {
        (rank, *key): time for rank, window in seen.items() for key, time in window.kernels.items()
    }
    times = class_times(kernels, class_of)
    bounds = [bounds_of(run, one.words) for one in written]
    look = KernelLook(
        source=LookSource.WINDOW,
        start_ns=min(one.split_ns + one.shift_ns for one in bounds),
        end_ns=max(one.end_ns + one.shift_ns for one in bounds),
        cycles=asked,
        cycles_seen={rank: window.cycles for rank, window in seen.items()},
        phases=tuple(phase for window in seen.values() for phase in window.phases),
        kernels=times,
        communication={rank: communication(rank, times) for rank in seen},
        costs=tuple(_cost(cycles, one) for one in written),
        losses=tuple(losses),
    )
    return Seen(look, [window.seen for window in seen.values()])


def with_names(
    one: Written, names_at: Callable[[int, Iterable[int]], Mapping[int, str]]
) -> Written:
    """The same with the names of its kernels, read out of the rank as far as we may.

    Args:
        one: What a window left.
        names_at: Reads the texts at addresses of a process, as far as it may.
    """
    works = decoded(pieces_in(one.content, one.words[Place.HEAD]).whole).works
    names = names_at(one.rank.pid, addresses(works))
    return one._replace(names={address: demangled(name) for address, name in names.items()})


def _seen(
    run: Run, cycles: Sequence[Cycle], one: Written, class_of: Callable[[str], str]
) -> tuple[SeenWindow, WindowLoss]:
    words, rank = one.words, one.rank
    pieces = pieces_in(one.content, words[Place.HEAD])
    found = decoded(pieces.whole)
    threads = (words[Place.THREAD], words[Place.SYSTEM_THREAD])
    ranked = Ranked(rank.name, rank.pid, threads, one.names)
    turns = turns_of_cycles(cycles, rank.name)
    window = window_of(found, turns, bounds_of(run, words), ranked, class_of)
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
    shift_ns = run.unix_ns(words[Place.BEGAN_NS]) - begin_ns
    return Bounds(begin_ns, split_ns, end_ns, shift_ns, words[Place.ENDED_CYCLE])


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
