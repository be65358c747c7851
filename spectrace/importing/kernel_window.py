"""What a kernel window shows of each phase: time on the device, gaps, launches, replays of graphs.

The host's phases come from the Cycles that the ring gave, the kernels from CUPTI; the call that
launched a kernel puts it into a phase, as in a trace that is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from spectrace.importing.columns import ProcessTrace
from spectrace.importing.cupti import Decoded, between, process_of
from spectrace.importing.device import KernelTime, on_device
from spectrace.importing.faults import Faults
from spectrace.importing.phase_work import phase_works, replay_times, segments_of
from spectrace.importing.seen import seen_kernels
from spectrace.importing.turns import HostPhase, Turn
from spectrace.kernels import PhaseWork, SeenKernels
from spectrace.model import Cycle, Lane


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
        behind: Number of the cycle at whose begin it ended; 0 where none did.
    """

    begin_ns: int
    split_ns: int
    end_ns: int
    shift_ns: int
    behind: int = 0


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
    # A cycle ends when the next one begins, which is once the window that closes there is closed.
    inside = [
        turn
        for turn in turns
        if split_ns <= turn.start_ns
        and (turn.end_ns <= end_ns or (turn.number or 0) < bounds.behind)
    ]
    before = segments_of(whole, thread, [turn for turn in turns if turn.start_ns < split_ns])
    segments = segments_of(single, thread, inside)
    phases = phase_works(single, segments, inside, replay_times(whole, before))
    device = on_device(single, thread, inside, Faults())
    numbers = [turn.number or 0 for turn in inside]
    seen = seen_kernels(single, inside, numbers, segments.of_kernel, class_of)
    return SeenWindow(tuple(phases), device.times, len(inside), seen)


def _thread_of(found: Decoded, threads: Sequence[int]) -> Hashable:
    """The number by which CUPTI knows the scheduler's thread."""
    present = set(np.unique(found.calls.thread).tolist())
    return next((one for one in threads if one in present), -1)
