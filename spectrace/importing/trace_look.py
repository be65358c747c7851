"""Makes a look of what traces show of kernels: of what phases are made, and each kernel's cycle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from spectrace.importing.class_times import class_times, communication
from spectrace.importing.imported import Imported, Traced
from spectrace.importing.phase_work import phase_works, replay_times, segments_of, together
from spectrace.importing.seen import seen_kernels
from spectrace.kernels import KernelLook, LookSource, PhaseWork, Seen, SeenKernels
from spectrace.model import Cycle


def look_of_trace(imported: Imported, class_of: Callable[[str], str]) -> Seen | None:
    """What the traces of a run show of kernels.

    All kernels that phases launched are kept. A cycle that the trace cuts off is left out of the
    figures, as of any other.

    Args:
        imported: The run as it was read.
        class_of: Gives the class of a kernel's name.

    Returns:
        The look; None where the device did nothing that is in the traces.
    """
    shown = [one for one in imported.traced if one.turns and len(one.process.kernels.start_ns)]
    if not shown:
        return None
    times = class_times(imported.kernels, class_of)
    ranks = list(dict.fromkeys(one.process.rank for one in shown))
    cycles: Counter[str] = Counter()
    for one in shown:
        cycles[one.process.rank] += sum(not turn.incomplete for turn in one.turns)
    look = KernelLook(
        source=LookSource.TRACE,
        start_ns=min(one.turns[0].start_ns for one in shown),
        end_ns=max(one.turns[-1].end_ns for one in shown),
        cycles=0,
        cycles_seen=dict(cycles),
        phases=tuple(work for rank in ranks for work in _works(rank, shown)),
        kernels=times,
        communication={rank: communication(rank, times) for rank in ranks},
    )
    found = [_kernels(one, imported.cycles, class_of) for one in shown]
    return Seen(look, [kernels for kernels in found if len(kernels.start_ns)])


def _works(rank: str, shown: Sequence[Traced]) -> Sequence[PhaseWork]:
    works: list[PhaseWork] = []
    for one in shown:
        if one.process.rank == rank:
            turns = [turn for turn in one.turns if not turn.incomplete]
            segments = segments_of(one.process, one.thread, turns)
            works += phase_works(one.process, segments, turns, replay_times(one.process, segments))
    return together(works)


def _kernels(
    traced: Traced, cycles: Sequence[Cycle], class_of: Callable[[str], str]
) -> SeenKernels:
    rank = traced.process.rank
    numbers = {
        share.start_ns: cycle.number
        for cycle in cycles
        for share in cycle.ranks
        if share.rank == rank
    }
    segments = segments_of(traced.process, traced.thread, traced.turns)
    of_turns = [numbers[turn.start_ns] for turn in traced.turns]
    return seen_kernels(traced.process, traced.turns, of_turns, segments.of_kernel, class_of)
