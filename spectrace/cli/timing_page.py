"""Draws a comparison of timing modes as one HTML file that needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.timing_report import (
    Comparison,
    Cost,
    PhaseDifference,
    PhaseFigures,
    Verdict,
)
from spectrace.cli import numbers
from spectrace.cli.timing_table import against, basis, lanes, mode_rows, with_reach
from spectrace.cli.timing_words import host_lane, label
from spectrace.model import PhaseName, TimingMode

_STYLE = Path(__file__).with_suffix(".css")
_THIN = 0.004  # of the axis: a border would hide the colour
_NAMED_FROM = 0.09  # of the axis: narrower phases have no room for their name
_ROOM = 0.86  # of the axis for the longest bar; the rest is for its figure
_TICKS = 6
_LAST_TICK = 0.96  # of the axis; behind it stands the unit
_MODES = {
    TimingMode.OFF: "no timing",
    TimingMode.HOST: "host clock",
    TimingMode.DEVICE: "device timing",
    TimingMode.SYNC: "sync timing",
}
_DEFINITIONS = {
    "off": "One stamp per cycle and no phases: the server as it is.",
    "host": "The host's clock at every boundary. A phase that only launches looks cheap, and the "
    "one that first waits is charged for what was queued before it.",
    "device": "Events on the device, read without waiting: when it did each phase.",
    "sync": "A synchronize at every boundary: each phase waits for what it launched, and what "
    "overlapped no longer does.",
    "difference": "The time of a phase in a mode less that of the reference, by the medians of "
    "blocks within the same rounds. A whisker that holds 0 cannot be told from chance.",
    "throughput off / on": "From the mean time of a cycle with and without timing. 1.03: the "
    "server is 3 % slower.",
    "accept length": "Correct drafts and verifies over verifies: tokens of a request in a cycle.",
    "break-even length": "The accept length that makes as many tokens as plain decode: the mean "
    "time of a speculative cycle over that of a plain decode.",
}


def page(found: Comparison, server: str, raw: bytes) -> str:
    """The page.

    Args:
        found: The comparison, with its sentences.
        server: What was compared, in a line.
        raw: The whole result as JSON, which the page carries for programs.
    """
    return "".join(
        (
            '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            "<title>Timing comparison · spectrace</title>",
            f"<style>{_STYLE.read_text('utf-8')}</style></head><body><main>",
            "<header><h1>spectrace · timing comparison</h1>",
            f'<span class="quiet">{escape(server)}</span></header>',
            *_words(found),
            *_cards(found),
            *_cycles(found),
            *_differences(found),
            *_costs(found),
            *_table(found),
            *_basis(found),
            "</main>",
            f'<script type="application/json" id="result">{harmless(raw)}</script>',
            "</body></html>\n",
        )
    )


def harmless(raw: bytes) -> str:
    """JSON that cannot end the element it stands in."""
    return raw.decode().replace("<", "\\u003c")


def _words(found: Comparison) -> Iterator[str]:
    first, *others = found.sentences
    yield f'<p class="lead">{escape(first)}</p>'
    if others:
        yield f'<p class="rest">{escape(" ".join(others))}</p>'


def _cards(found: Comparison) -> Iterator[str]:
    """A card for each mode: the cycle, and what timing costs."""
    costs = {cost.mode: cost for cost in found.costs}
    yield '<div class="cards">'
    for figures in found.modes:
        mode = figures.mode
        badge = ' <span class="badge">slows the server</span>' if _slows(costs.get(mode)) else ""
        yield (
            f'<div class="card {mode.value}"><span class="mode">{_MODES[mode]}</span>'
            f"<b>{figures.cycle_p50_ms.value:.2f} ms</b>"
            f'<span class="quiet">median cycle {_reach(figures.cycle_p50_ms)}, '
            f"{figures.cycles:,} cycles</span>"
            f'<span class="quiet">{_cost_in_words(costs.get(mode))}</span>{badge}</div>'
        )
    yield "</div>"


def _slows(cost: Cost | None) -> bool:
    ratio = cost.throughput_ratio if cost is not None and cost.verdict is Verdict.DIFFERS else None
    return ratio is not None and ratio.value > 1


def _cost_in_words(cost: Cost | None) -> str:
    if cost is None:
        return "what the others are held against"
    return f"throughput off / on {with_reach(cost.throughput_ratio, 3)}"


def _reach(estimate: Estimate) -> str:
    _, _, reach = with_reach(estimate, 2).partition(" ")
    return reach


def _cycles(found: Comparison) -> Iterator[str]:
    """Every lane as a bar of phases on one axis."""
    rows = lanes(found)
    if not rows:
        return
    longest = max(sum(phase.time_ms.value for phase in phases) for _, phases in rows)
    longest = max(longest, *(figures.cycle_p50_ms.value for figures in found.modes))
    full = longest / _ROOM
    yield "<section><figure><h2>Where a cycle goes, by each clock</h2>"
    yield (
        "<figcaption>Median of each phase. Filled is the device, outlined the host.</figcaption>"
    )
    for name, phases in rows:
        yield _stack(name, phases, full)
    yield f'<div class="row"><span></span>{_axis(0.0, full, "ms")}</div>'
    yield _legend({phase.name for _, phases in rows for phase in phases})
    yield "</figure></section>"


def _stack(name: str, phases: Sequence[PhaseFigures], full: float) -> str:
    total = sum(phase.time_ms.value for phase in phases)
    lane = name.partition(",")[0]
    parts = "".join(_segment(phase, total, full) for phase in phases if phase.time_ms.value > 0)
    words = ", ".join(f"{label(p.name)} {with_reach(p.time_ms, 2)} ms" for p in phases)
    return (
        f'<div class="row"><span class="name"><b>{name}</b></span>'
        f'<div class="plot" role="img" aria-label="{escape(name)}: {escape(words)}">'
        f'<div class="stack {lane}" style="width:{total / full:.3%}">{parts}</div>'
        f'<span class="value" style="left:{total / full:.3%}"><b>{total:.2f}</b> ms</span>'
        "</div></div>"
    )


def _segment(phase: PhaseFigures, total: float, full: float) -> str:
    share = phase.time_ms.value / full
    thin = " thin" if share < _THIN else ""
    warm = " warm" if phase.name in {PhaseName.DRAFT, PhaseName.DRAFT_EXTEND} else ""
    text = f"{label(phase.name)} {phase.time_ms.value:.2f}" if share >= _NAMED_FROM else ""
    title = f"{label(phase.name)}: {with_reach(phase.time_ms, 2)} ms"
    return (
        f'<i class="{thin}{warm}" title="{escape(title)}" '
        f'style="--c:var(--{phase.name.value});flex:{phase.time_ms.value / total:.5f}">'
        f"<span>{text}</span></i>"
    )


def _legend(names: set[PhaseName]) -> str:
    entries = "".join(
        f'<span><i style="--c:var(--{name.value})"></i>{label(name)}</span>'
        for name in PhaseName
        if name in names
    )
    return f'<div class="legend">{entries}</div>'


def _differences(found: Comparison) -> Iterator[str]:
    """Every difference as a bar from 0, with its interval."""
    if not found.differences:
        return
    limits = [_limit(one.difference_ms) for one in found.differences]
    reach = 1.1 * max(*limits, 2 * (found.margin_ms or 0.0))
    yield "<section><figure><h2>What each clock hides, and what it charges for it</h2>"
    yield (
        f"<figcaption>Each phase less what {_truth(found)} shows, with intervals that hold all "
        f"together. Grey: less than {numbers.milliseconds(found.margin_ms)}, no difference that "
        "matters.</figcaption>"
    )
    for name in dict.fromkeys(one.phase for one in found.differences):
        yield '<div class="pair">'
        for one in found.differences:
            if one.phase is name:
                yield _difference(one, reach, found.margin_ms or 0.0)
        yield "</div>"
    axis = _axis(-reach, reach, "ms")
    yield f'<div class="row figured"><span></span>{axis}</div></figure></section>'


def _truth(found: Comparison) -> str:
    name = against(found)
    return f"the {name}" if name == "device" else f"{name} timing"


def _limit(estimate: Estimate | None) -> float:
    if estimate is None:
        return 0.0
    known = [estimate.value, estimate.low or 0.0, estimate.high or 0.0]
    return max(map(abs, known))


def _difference(one: PhaseDifference, reach: float, margin: float) -> str:
    def at(value: float) -> float:
        return 0.5 + value / reach / 2

    found = one.difference_ms
    low, high = sorted((at(0), at(0 if found is None else found.value)))
    figure = numbers.MISSING if found is None else f"{with_reach(found, 2)} ms"
    verdict = {Verdict.DIFFERS: "", Verdict.SAME: " · none", Verdict.OPEN: " · not known"}
    return (
        f'<div class="row figured"><span class="name"><b>{label(one.phase)}</b>, '
        f"{host_lane(one.mode)}</span>"
        '<div class="plot low">'
        f'<span class="band" style="left:{at(-margin):.3%};width:{margin / reach:.3%}"></span>'
        f'<span class="bar {one.mode.value}" style="--c:var(--{one.phase.value});'
        f'left:{low:.3%};width:{high - low:.3%}"></span><span class="zero" style="left:50%"></span>'
        f"{_whisker(found, at)}"
        f'</div><span class="figure">{figure}{verdict[one.verdict]}</span></div>'
    )


def _whisker(estimate: Estimate | None, at: Callable[[float], float]) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    low, high = at(estimate.low), at(estimate.high)
    return f'<span class="whisker" style="left:{low:.3%};width:{high - low:.3%}"></span>'


def _costs(found: Comparison) -> Iterator[str]:
    """What each mode costs, as a point with its interval beside 1."""
    if not found.costs:
        return
    ratios = [cost.throughput_ratio for cost in found.costs]
    reach = 1.25 * max(*(_limit(_less_one(ratio)) for ratio in ratios), 2 * found.margin)
    yield "<section><figure><h2>What timing itself costs</h2>"
    yield (
        "<figcaption>Throughput without timing over throughput with it. Grey: within "
        f"{numbers.share(found.margin)}, no cost that matters.</figcaption>"
    )
    for cost in found.costs:
        yield _cost(cost, reach, found.margin)
    axis = _axis(1 - reach, 1 + reach, "")
    yield f'<div class="row figured"><span></span>{axis}</div></figure></section>'


def _less_one(ratio: Estimate | None) -> Estimate | None:
    if ratio is None:
        return None
    low, high = (None if limit is None else limit - 1 for limit in (ratio.low, ratio.high))
    return Estimate(value=ratio.value - 1, low=low, high=high)


def _cost(cost: Cost, reach: float, margin: float) -> str:
    def at(value: float) -> float:
        return 0.5 + value / reach / 2

    found = _less_one(cost.throughput_ratio)
    low, high = sorted((at(0), at(0 if found is None else found.value)))
    return (
        f'<div class="row figured"><span class="name"><b>{cost.mode.value}</b></span>'
        '<div class="plot low">'
        f'<span class="band" style="left:{at(-margin):.3%};width:{margin / reach:.3%}"></span>'
        f'<span class="bar" style="--c:var(--accent);left:{low:.3%};width:{high - low:.3%}"></span>'
        f'<span class="zero" style="left:50%"></span>{_whisker(found, at)}'
        f'</div><span class="figure">{with_reach(cost.throughput_ratio, 3)}</span></div>'
    )


def _axis(start: float, end: float, unit: str) -> str:
    step = round_step((end - start) / _TICKS)
    decimals = max(0, -math.floor(math.log10(step)))
    first = math.ceil(start / step)
    last = math.floor(end / step)
    marks = []
    for place in range(first, last + 1):
        at = (place * step - start) / (end - start)
        if 0 <= at < _LAST_TICK:
            text = f"{abs(place * step):.{decimals}f}"
            sign = "\u2212" if place < 0 else ""
            marks.append(f'<span style="left:{at:.3%}">{sign}{text}</span>')
    return f'<div class="axis">{"".join(marks)}<span style="left:98%">{unit}</span></div>'


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is not less."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least)


def _table(found: Comparison) -> Iterator[str]:
    if not found.modes:
        return
    yield '<section><h2>Side by side</h2><div class="scrolls"><table><thead><tr><th></th>'
    yield "".join(f'<th scope="col">{figures.mode.value}</th>' for figures in found.modes)
    yield "</tr></thead><tbody>"
    for name, cell in mode_rows(found):
        cells = "".join(f"<td>{_cell(cell(figures))}</td>" for figures in found.modes)
        yield f'<tr><th scope="row">{name}</th>{cells}</tr>'
    yield from _phase_rows(found)
    yield "</tbody></table></div></section>"


def _phase_rows(found: Comparison) -> Iterator[str]:
    """The phases on every lane: of mode `device` the device's, and the host's behind it."""
    names = [
        name
        for name in PhaseName
        if any(phase.name is name for figures in found.modes for phase in figures.host)
    ]
    for name in names:
        cells = []
        for figures in found.modes:
            shown = figures.device or figures.host
            by_host = figures.mode is TimingMode.DEVICE and not figures.device
            lane = ", host lane" if by_host else ""
            phase = next((one for one in shown if one.name is name), None)
            cells.append(
                numbers.MISSING
                if phase is None
                else f"{_cell(with_reach(phase.time_ms, 2))} "
                f"<small>{numbers.share(phase.share.value)}{lane}</small>"
            )
        row = "".join(f"<td>{cell}</td>" for cell in cells)
        yield f'<tr><th scope="row">{label(name)}, ms</th>{row}</tr>'


def _cell(text: str) -> str:
    value, _, reach = text.partition(" ")
    return f"{escape(value)} <small>{escape(reach)}</small>" if reach else escape(value)


def _basis(found: Comparison) -> Iterator[str]:
    yield '<section class="basis"><h2>What this rests on</h2>'
    yield "".join(f"<p>{escape(line)}</p>" for line in basis(found)) if found.modes else ""
    yield "</section><section><h2>Words</h2><dl>"
    yield "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(what)}</dd>" for name, what in _DEFINITIONS.items()
    )
    yield "</dl></section>"
