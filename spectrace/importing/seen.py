"""Picks the kernels that phases launched, and says of each its cycle, phase and class."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from spectrace.collect.assembler import group_of
from spectrace.importing.columns import ProcessTrace
from spectrace.importing.device import Column
from spectrace.importing.turns import Turn
from spectrace.kernels import SeenKernels
from spectrace.model import PhaseName

PHASES = tuple(phase.value for phase in PhaseName)
_PLACES = {phase: place for place, phase in enumerate(PhaseName)}


def seen_kernels(
    process: ProcessTrace,
    turns: Sequence[Turn],
    numbers: Sequence[int],
    of_kernel: Column,
    class_of: Callable[[str], str],
) -> SeenKernels:
    """The kernels of one rank that phases of its turns launched, in the order of their begins.

    Of a long trace there are millions: a column is as wide as what it holds.

    Args:
        process: What the rank did.
        turns: Its turns.
        numbers: For each turn the number of its cycle.
        of_kernel: For each kernel the place of its phase among those of all turns, -1 for none.
        class_of: Gives the class of a kernel's name.
    """
    kernels, launches = process.kernels, process.launches
    number = np.repeat(np.array(numbers, np.int64), [len(turn.phases) for turn in turns])
    phase = np.array([_PLACES[one.name] for turn in turns for one in turn.phases], np.int8)
    start_ns = np.asarray(kernels.start_ns, np.int64)
    inside = np.flatnonzero(of_kernel >= 0)
    inside = inside[np.argsort(start_ns[inside], kind="stable")]
    graphs = np.asarray(launches.correlation, np.int64)[np.asarray(launches.graph, bool)]
    names = kernels.names
    return SeenKernels(
        rank=process.rank,
        group=group_of(process.rank),
        number=number[of_kernel[inside]],
        phase=phase[of_kernel[inside]],
        start_ns=start_ns[inside],
        end_ns=np.asarray(kernels.end_ns, np.int64)[inside],
        stream=np.asarray(kernels.stream, np.int64)[inside],
        name=np.asarray(kernels.name, np.int64)[inside].astype(np.int32),
        graph=np.isin(np.asarray(kernels.correlation, np.int64)[inside], graphs).astype(np.int8),
        phases=PHASES,
        names=names,
        classes=[class_of(name) for name in names],
    )
