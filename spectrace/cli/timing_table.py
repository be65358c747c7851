"""Lays a comparison of timing modes out for a terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.samples import Like, Refusal
from spectrace.analysis.timing_report import (
    Comparison,
    ModeFigures,
    PhaseFigures,
    Verdict,
)
from spectrace.cli import numbers
from spectrace.cli.timing_words import host_lane, label, sentences
from spectrace.model import Lane, PhaseName

_MINUS = "\u2212"  # a real minus sign
_SHOWN_STRATA = 3
_REASONS = {
    Refusal.WARM_UP: "warming up",
    Refusal.OTHER_MODE: "timed otherwise than asked",
    Refusal.OTHER_KIND: "no decode",
    Refusal.INCOMPLETE: "incomplete",
    Refusal.THEN_IDLE: "the server idled behind them",
    Refusal.TOO_FEW: "too few in their block, or blocks in their mode",
    Refusal.UNLIKE: "none like them in another mode",
}


def render(found: Comparison) -> RenderableType:
    """Modes side by side, phases, differences, costs, and what it means in words."""
    parts: list[RenderableType] = [Text(" ".join(found.sentences or sentences(found)))]
    if found.modes:
        parts += [Text(""), _modes(found)]
        if any(figures.host for figures in found.modes):
            parts += [Text(""), _phases(found)]
        if found.differences:
            parts += [Text(""), _differences(found)]
        parts += [Text(""), *map(Text, basis(found))]
    return Group(*parts)


def _table(*heads: str, title: str) -> Table:
    first, *others = heads
    return Table(
        Column(first, no_wrap=True),
        *(Column(head, justify="right", overflow="fold") for head in others),
        title=Text(title, style="bold"),
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )


def _modes(found: Comparison) -> Table:
    names = [figures.mode.value for figures in found.modes]
    table = _table("", *names, title="Whole cycles")
    for name, cell in mode_rows(found):
        table.add_row(name, *(cell(figures) for figures in found.modes))
    return table


def mode_rows(found: Comparison) -> Iterator[tuple[str, Callable[[ModeFigures], str]]]:
    """The figures of whole cycles: of each its name, and what writes it for a mode."""
    costs = {cost.mode: cost for cost in found.costs}

    def slower(figures: ModeFigures) -> str:
        cost = costs.get(figures.mode)
        if cost is None or cost.throughput_ratio is None:
            return numbers.MISSING
        return factor(cost.throughput_ratio) + (" ?" if cost.verdict is Verdict.OPEN else "")

    yield "tokens/s", lambda figures: rate(figures.tokens_per_s)
    yield "cycles/s", lambda figures: rate(figures.cycles_per_s)
    yield "cycle p50, ms", lambda figures: milliseconds(figures.cycle_p50_ms)
    yield "cycle p95, ms", lambda figures: milliseconds(figures.cycle_p95_ms)
    yield "cycle p99, ms", lambda figures: milliseconds(figures.cycle_p99_ms)
    if costs:
        yield "throughput off / on", slower
    yield "accept length", lambda figures: numbers.two_decimals(figures.accept_length)
    if any(figures.break_even_accept_length is not None for figures in found.modes):
        yield (
            "break-even length",
            lambda figures: numbers.two_decimals(figures.break_even_accept_length),
        )
    yield "cycles that count", lambda figures: numbers.count(figures.cycles)


def lanes(found: Comparison) -> list[tuple[str, tuple[PhaseFigures, ...]]]:
    """Every lane that has phases, with its heading: `host`, `device`, `sync`.

    Where mode `device` has no times of the device its host lane says so.
    """
    columns = []
    for figures in found.modes:
        if figures.device:
            columns.append(("device", figures.device))
        elif figures.host:
            columns.append((host_lane(figures.mode), figures.host))
    return columns


def _phases(found: Comparison) -> Table:
    columns = lanes(found)
    names = [name for name in PhaseName if any(_of(name, phases) for _, phases in columns)]
    heads = [head for column, _ in columns for head in (f"{column}, ms", "%")]
    table = _table("", *heads, title="Phases: median, and share of the time")
    for name in names:
        cells: list[str] = []
        for _, phases in columns:
            phase = _of(name, phases)
            cells += (
                [milliseconds(phase.time_ms), numbers.share_cell(phase.share.value)]
                if phase
                else [numbers.MISSING, ""]
            )
        table.add_row(label(name), *cells)
    return table


def _of(name: PhaseName, phases: Iterable[PhaseFigures]) -> PhaseFigures | None:
    return next((phase for phase in phases if phase.name is name), None)


def against(found: Comparison) -> str:
    """What the phases are held against: the lane that is taken for the truth."""
    reference = found.reference
    return "device" if reference and reference.lane is Lane.DEVICE else "sync"


def _differences(found: Comparison) -> Table:
    modes = list(dict.fromkeys(one.mode for one in found.differences))
    table = _table(
        "",
        *(f"{host_lane(mode)} \u2212 {against(found)}, ms" for mode in modes),
        title="Differences",
    )
    verdicts = {
        Verdict.DIFFERS: "",
        Verdict.SAME: " none",
        Verdict.OPEN: " ?",
    }
    for name in dict.fromkeys(one.phase for one in found.differences):
        cells = []
        for mode in modes:
            one = next((d for d in found.differences if (d.mode, d.phase) == (mode, name)), None)
            cells.append(
                numbers.MISSING
                if one is None
                else milliseconds(one.difference_ms) + verdicts[one.verdict]
            )
        table.add_row(label(name), *cells)
    return table


def basis(found: Comparison) -> Iterator[str]:
    """What it rests on: blocks, what was compared with what, what was left out, the intervals."""
    yield (
        f"{numbers.count(sum(figures.cycles for figures in found.modes))} cycles in "
        f"{found.blocks} blocks; whole rounds: {found.rounds}."
    )
    shown = [
        f"{like(stratum.like)} ({numbers.share(stratum.share)})"
        for stratum in found.strata[:_SHOWN_STRATA]
    ]
    more = len(found.strata) - len(shown)
    rest = f" and {more} more" if more > 0 else ""
    yield f"Like with like: {'; '.join(shown)}{rest}."
    if found.left_out:
        reasons = [
            f"{numbers.count(count)} {_REASONS[Refusal(reason)]}"
            for reason, count in found.left_out.items()
        ]
        yield f"Left out: {', '.join(reasons)}."
    yield (
        f"Intervals hold in {found.confidence:.0%}".replace("%", " %")
        + f" of cases; those of the {found.claims} differences and costs hold all together. "
        f"\u201cnone\u201d: less than {numbers.milliseconds(found.margin_ms)}, "
        f"{numbers.share(found.margin)} of a cycle. "
        "\u201c?\u201d: the data do not allow a statement."
    )


def like(what: Like) -> str:
    """What cycles have in common, in words."""
    words = [f"{what.kind.value}, batch {what.batch_size}"]
    if what.steps:
        words.append(f"{what.steps} steps, {what.draft_tokens} tokens")
    if what.group:
        words.append(what.group)
    return ", ".join(words)


def milliseconds(estimate: Estimate | None) -> str:
    """A time for a column in ms, with how far its interval reaches."""
    return with_reach(estimate, 2)


def rate(estimate: Estimate | None) -> str:
    """A number per second, likewise."""
    return with_reach(estimate, 1)


def factor(estimate: Estimate | None) -> str:
    """A ratio, likewise."""
    return with_reach(estimate, 3)


def with_reach(estimate: Estimate | None, decimals: int) -> str:
    """A value and how far its interval reaches on its wider side, which is rounded up.

    `±?` where the data give no interval, a dash where they give no value.
    """
    if estimate is None:
        return numbers.MISSING
    value = f"{abs(estimate.value):,.{decimals}f}"
    if estimate.value < 0 and float(value.replace(",", "")):
        value = f"{_MINUS}{value}"
    if estimate.low is None or estimate.high is None:
        return f"{value} ±?"
    step = 10.0**-decimals
    reach = max(estimate.high - estimate.value, estimate.value - estimate.low)
    return f"{value} ±{math.ceil(reach / step) * step:,.{decimals}f}"
