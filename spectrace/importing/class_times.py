"""Adds the time of kernels up by phase and class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from spectrace.importing.device import KernelTime
from spectrace.kernels import ClassTime, KernelClass

_NS_PER_MS = 1e6


def class_times(
    kernels: Mapping[tuple[str, str, str], KernelTime], class_of: Callable[[str], str]
) -> tuple[ClassTime, ...]:
    """Sums by rank, phase and class, the most time of a phase first.

    Args:
        kernels: By rank, phase and name of the kernel.
        class_of: Gives the class of a name.
    """
    sums: dict[tuple[str, str, str], KernelTime] = {}
    for (rank, phase, name), time in kernels.items():
        total = sums.setdefault((rank, phase, class_of(name)), KernelTime())
        total.time_ns += time.time_ns
        total.kernels += time.kernels
    of_phase: dict[tuple[str, str], int] = {}
    for (rank, phase, _), time in sums.items():
        of_phase[rank, phase] = of_phase.get((rank, phase), 0) + time.time_ns
    order = sorted(
        sums.items(),
        key=lambda row: (row[0][0], -of_phase[row[0][:2]], row[0][1], -row[1].time_ns),
    )
    return tuple(
        ClassTime(
            rank=rank,
            phase=phase,
            kernel_class=kind,
            time_ms=time.time_ns / _NS_PER_MS,
            kernels=time.kernels,
        )
        for (rank, phase, kind), time in order
    )


def communication(rank: str, times: Sequence[ClassTime]) -> float:
    """The share of communication in the time of what phases of a rank launched."""
    own = [time for time in times if time.rank == rank and time.phase]
    total_ms = sum(time.time_ms for time in own)
    told = sum(time.time_ms for time in own if time.kernel_class == KernelClass.COMMUNICATION.value)
    return told / total_ms if total_ms else 0.0
