"""Lays the time of kernels by phase and class out for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Column, Table
from rich.text import Text

from spectrace.cli import numbers
from spectrace.kernels import ClassTime

_OUTSIDE = "outside of phases"


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
