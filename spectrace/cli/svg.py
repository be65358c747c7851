"""Draws small charts as SVG: points with whiskers, lines and bands over two axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from spectrace.analysis.intervals import Estimate
from spectrace.cli.timing_page import round_step

_WIDTH, _HEIGHT = 640, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 28, 40
_TICKS = 5
_HEADROOM = 1.08


class Dot(NamedTuple):
    """A point of a chart.

    Attributes:
        x: Where it stands.
        y: Its value, with the limits of its whisker.
        filled: It was measured; else it is a ring.
        words: What it says when it is pointed at.
    """

    x: float
    y: Estimate
    filled: bool
    words: str


class Line(NamedTuple):
    """A level or a line between points.

    Attributes:
        points: From left to right.
        name: Written at its right end.
        dashed: As of what is not measured, or a goal.
    """

    points: tuple[tuple[float, float], ...]
    name: str = ""
    dashed: bool = False


class Chart(NamedTuple):
    """What is drawn.

    Attributes:
        title: For who cannot see it.
        x_name: Of the axis below.
        y_name: Of the axis at the left, with its unit.
        dots: The points.
        lines: Below them.
        from_zero: The axis at the left begins at 0.
        whole: Only whole numbers stand below.
    """

    title: str
    x_name: str
    y_name: str
    dots: Sequence[Dot]
    lines: Sequence[Line] = ()
    from_zero: bool = True
    whole: bool = True


class _Axes(NamedTuple):
    """From values to places."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return _LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        inside = min(max(value, self.y_low), self.y_high)
        part = (inside - self.y_low) / (self.y_high - self.y_low)
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM)


def draw(chart: Chart) -> str:
    """The chart as an SVG element; nothing where it has no points."""
    if not chart.dots:
        return ""
    axes = _axes(chart)
    return "".join(
        (
            f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(chart.title)}">',
            *_frame(chart, axes),
            *(_line(line, axes) for line in chart.lines),
            *(_dot(dot, axes) for dot in chart.dots),
            "</svg>",
        )
    )


def _axes(chart: Chart) -> _Axes:
    xs = [dot.x for dot in chart.dots] + [x for line in chart.lines for x, _ in line.points]
    ys = [y for dot in chart.dots for y in (dot.y.value, dot.y.low, dot.y.high) if y is not None]
    ys += [y for line in chart.lines for _, y in line.points]
    low, high = min(ys), max(ys)
    if chart.from_zero:
        low = min(0.0, low)
    room = (high - low or abs(high) or 1.0) * (_HEADROOM - 1)
    margin = 0.5 if chart.whole else 0.0
    left, right = min(xs) - margin, max(xs) + margin
    return _Axes(
        left,
        right if right > left else left + 1,
        low - (0 if chart.from_zero else room),
        high + room,
    )


def _frame(chart: Chart, axes: _Axes) -> Iterator[str]:
    base = _HEIGHT - _BOTTOM
    yield f'<path class="axis-line" d="M{_LEFT} {base}H{_WIDTH - _RIGHT}"/>'
    for value, text in _ticks(axes.y_low, axes.y_high):
        y = axes.y(value)
        yield f'<path class="grid" d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}"/>'
        yield f'<text class="tick" x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
    marks = (
        [(x, f"{x:g}") for x in sorted({dot.x for dot in chart.dots})]
        if chart.whole
        else _ticks(axes.x_low, axes.x_high)
    )
    for value, text in _thinned(marks):
        x = axes.x(value)
        yield f'<text class="tick" x="{x:.1f}" y="{base + 16}" text-anchor="middle">{text}</text>'
    yield (
        f'<text class="tick" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end">'
        f"{escape(chart.x_name)}</text>"
        f'<text class="tick" x="4" y="12">{escape(chart.y_name)}</text>'
    )


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    step = round_step((high - low) / _TICKS)
    decimals = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(low / step), math.floor(high / step)
    return [
        (place * step, f"{place * step:,.{decimals}f}".replace("-", "\u2212"))
        for place in range(first, last + 1)
    ]


def _thinned(marks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """As many as have room."""
    every = max(1, math.ceil(len(marks) / 12))
    return marks[::every]


def _line(line: Line, axes: _Axes) -> str:
    path = "L".join(f"{axes.x(x):.1f} {axes.y(y):.1f}" for x, y in line.points)
    x, y = line.points[-1]
    dashed = ' stroke-dasharray="4 3"' if line.dashed else ""
    return (
        f'<path class="line" d="M{path}"{dashed}/>'
        f'<text class="name" x="{axes.x(x) - 4:.1f}" y="{axes.y(y) - 5:.1f}" text-anchor="end">'
        f"{escape(line.name)}</text>"
    )


def _dot(dot: Dot, axes: _Axes) -> str:
    x, y = axes.x(dot.x), axes.y(dot.y.value)
    whisker = ""
    if dot.y.low is not None and dot.y.high is not None and dot.y.low < dot.y.high:
        low, high = axes.y(dot.y.low), axes.y(dot.y.high)
        whisker = (
            f'<path class="whisker-line" d="M{x:.1f} {low:.1f}V{high:.1f}'
            f'M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"/>'
        )
    kind = "dot" if dot.filled else "ring"
    return (
        f"<g><title>{escape(dot.words)}</title>{whisker}"
        f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"/></g>'
    )
