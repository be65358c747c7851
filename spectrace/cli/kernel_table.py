"""Adds the time of kernels up by phase and class, and lays it out for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from rich.table import Column, Table
from rich.text import Text

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.cli import numbers
from spectrace.importing.device import KernelTime

_NS_PER_MS = 1e6
_OUTSIDE = "outside of phases"


class ClassTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one class of kernels in one phase.

    Attributes:
        rank: Name of the rank.
        phase: Name of the phase, empty for what no phase launched.
        kernel_class: See `analysis.kernel_classes.KernelClass`.
        time_ms: The sum over its kernels; those that ran at once count each.
        kernels: How many.
    """

    rank: str
    phase: str
    kernel_class: str
    time_ms: float
    kernels: int


def class_times(
    kernels: Mapping[tuple[str, str, str], KernelTime], classes: KernelClasses
) -> tuple[ClassTime, ...]:
    """Sums by rank, phase and class, the most time of a phase first.

    Args:
        kernels: By rank, phase and name of the kernel.
        classes: The table.
    """
    sums: dict[tuple[str, str, str], KernelTime] = {}
    for (rank, phase, name), time in kernels.items():
        total = sums.setdefault((rank, phase, classes.of(name)), KernelTime())
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


def render(rank: str, times: Sequence[ClassTime]) -> Table:
    """A table of one rank: phase, class, time, share of the phase, kernels."""
    table = Table(
        Column("phase", no_wrap=True),
        Column("kernels", no_wrap=True),
        Column("ms", justify="right"),
        Column("of phase", justify="right"),
        Column("count", justify="right"),
        title=Text(f"What the device did on {rank}", style="bold"),
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    total_ms: dict[str, float] = {}
    for time in times:
        total_ms[time.phase] = total_ms.get(time.phase, 0.0) + time.time_ms
    shown = None
    for time in times:
        whole_ms = total_ms[time.phase]
        table.add_row(
            "" if time.phase == shown else time.phase or _OUTSIDE,
            time.kernel_class,
            numbers.milliseconds_cell(time.time_ms),
            numbers.share(time.time_ms / whole_ms if whole_ms else 0.0),
            numbers.count(time.kernels),
        )
        shown = time.phase
    return table
