"""Lays a report out for a terminal: as much of it as fits, and the figures always."""

from __future__ import annotations

import msgspec
from rich.console import Console, Group, RenderableType
from rich.segment import SegmentLines
from rich.table import Column, Table
from rich.text import Text

from spectrace.analysis.summary import CycleTimes, Percentiles, PhaseSummary
from spectrace.cli import numbers
from spectrace.cli.figures import figures, headline, nothing_seen
from spectrace.cli.report import Report

_LAG_MARK = "*"
_SIDE_BY_SIDE_FROM = 78  # columns, below which the figures would have less than 20 of them
_SHOWN_ERRORS = 3


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a report is laid out, and where.

    Attributes:
        side_by_side: The figures stand to the right of the times, else below them.
        parts: The parts of verify have rows of their own.
        blanks: Blank lines stand between headline, times and figures.
        definitions: Both accept lengths have rows with their definitions.
        device: The phases on the device have rows, where it is timed.
        phases: The phases have rows; else only whole cycles, below the figures.
    """

    side_by_side: bool = False
    parts: bool = True
    blanks: bool = True
    definitions: bool = True
    device: bool = True
    phases: bool = True


WHOLE = Layout()
_SHORTER = (
    "parts",
    "blanks",
    "definitions",
    "device",
    "phases",
)  # what is left out, one after the other


def wide(console: Console) -> Layout:
    """Everything, beside each other where the console is wide enough."""
    return Layout(side_by_side=console.width >= _SIDE_BY_SIDE_FROM)


def fit(report: Report, console: Console, height: int) -> RenderableType:
    """The report with as much as fits into `height` lines of the console, and never more.

    Beside each other or below is a matter of the console's width alone, so that the picture
    does not jump when a row comes or goes.
    """
    layout = wide(console)
    for left_out in (None, *_SHORTER):
        if left_out is not None:
            layout = msgspec.structs.replace(layout, **{left_out: False})
        lines = console.render_lines(render(report, layout), pad=False)
        if len(lines) <= height:
            break
    return SegmentLines(lines[:height], new_lines=True)


def render(report: Report, layout: Layout = WHOLE) -> RenderableType:
    """The server in a line, the times of the phases, the figures, and errors of the probe."""
    blank = [Text("")] if layout.blanks else []
    parts: list[RenderableType] = [Text(headline(report)), *blank]
    if not report.summary.cycles:
        parts += [Text(nothing_seen(report)), *blank]
    sides: list[RenderableType] = [_figures(report, layout)]
    times = report.summary.speculative or report.summary.decode
    if times is not None:
        shown = _phases(times, layout)
        table = Group(_times_table(report, times, layout), *_lag_note(shown))
        sides.insert(0 if layout.phases else 1, table)
    if layout.side_by_side:
        parts.append(_beside(sides))
    else:
        parts += [*sides[:1], *(part for side in sides[1:] for part in (*blank, side))]
    parts += [Text(error) for error in report.session.errors[-_SHOWN_ERRORS:]]
    return Group(*parts)


def _beside(sides: list[RenderableType]) -> Table:
    *first, last = sides
    columns = [Column(no_wrap=True) for _ in first]
    grid = Table(
        *columns, Column(), box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False
    )
    grid.add_row(*first, last)
    return grid


def _phases(times: CycleTimes, layout: Layout) -> list[PhaseSummary]:
    if not layout.phases:
        return []
    return [phase for phase in times.phases if layout.parts or phase.name.parent is None]


def _device(times: CycleTimes, layout: Layout) -> list[PhaseSummary]:
    if not (layout.phases and layout.device):
        return []
    return [phase for phase in times.device if phase.name.parent is None]


def _times_table(report: Report, times: CycleTimes, layout: Layout) -> Table:
    summary = report.summary
    stretch = "" if report.final else f"last {summary.window_s:.0f} s"
    heads = ("p50\nms", "p95\nms", "p99\nms", "share\n%")
    table = Table(
        Column(f"host clock\n{stretch}", overflow="fold"),
        *(Column(head, justify="right", no_wrap=True) for head in heads),
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    speculative = summary.speculative is not None
    table.add_row(*_time_cells("cycle" if speculative else "plain decode", times.time), "")
    for phase in _phases(times, layout):
        table.add_row(*_phase_cells(phase))
    on_device = _device(times, layout)
    if on_device:
        table.add_row("device")
    for phase in on_device:
        table.add_row(*_phase_cells(phase))
    if speculative and summary.decode is not None:
        table.add_row(*_time_cells("plain decode", summary.decode.time), "")
    return table


def _time_cells(label: str, time: Percentiles | None) -> tuple[str, str, str, str]:
    cells = (None, None, None) if time is None else (time.p50_ms, time.p95_ms, time.p99_ms)
    p50, p95, p99 = (numbers.milliseconds_cell(cell) for cell in cells)
    return label, p50, p95, p99


def _phase_cells(phase: PhaseSummary) -> tuple[str, ...]:
    return (*_time_cells(_label(phase), phase.time), numbers.share_cell(phase.share))


def _label(phase: PhaseSummary) -> str:
    parent, dot, part = phase.name.value.partition(".")
    label = f"  {part}" if dot else parent
    return f"{label} {_LAG_MARK}" if phase.max_lag else label


def _lag_note(phases: list[PhaseSummary]) -> list[Text]:
    lag = max((phase.max_lag for phase in phases), default=0)
    if not lag:
        return []
    whose = "of the previous batch" if lag == 1 else f"of a batch up to {lag} cycles earlier"
    return [Text(f"{_LAG_MARK} {whose}")]


def _figures(report: Report, layout: Layout) -> Table:
    table = Table(
        Column(no_wrap=True),
        Column(overflow="fold"),
        box=None,
        show_header=False,
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )
    for name, value in figures(report, defined=layout.definitions):
        table.add_row(name, Text(value))  # as it is: a name may look like markup
    return table
