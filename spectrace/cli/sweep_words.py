"""Says in words what a sweep found, and lays it out for a terminal."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.sweep_report import SettingFigures, SweepReport
from spectrace.analysis.throughput import FEWEST_STARTS, Unit
from spectrace.cli import numbers
from spectrace.cli.figures import listed
from spectrace.cli.sweep_settings import PLAIN
from spectrace.cli.timing_table import with_reach
from spectrace.cli.timing_words import percent
from spectrace.hidden import HIDDEN

_BUSY = 0.9  # below, the load leaves the server without work


def sentences(found: SweepReport) -> tuple[str, ...]:
    """What a sweep found as sentences, which make one paragraph."""
    return tuple(_sentences(found))


def _sentences(found: SweepReport) -> Iterator[str]:
    measured = [one for one in found.settings if one.tokens_per_s is not None]
    if not measured:
        yield "Nothing can be said: no setting was measured."
        return
    yield from _verdict(found, measured)
    yield from _of_plain(measured)
    idle = [one for one in measured if one.busy_share is not None and one.busy_share < _BUSY]
    if idle:
        shares = listed([f"{numbers.share(one.busy_share)} with {one.name}" for one in idle])
        yield (
            f"The server had work only in a part of the time ({shares}): there the load sets the "
            "throughput, and a heavier one may order the settings otherwise."
        )
    if len(measured) > 1 and any(one.unit is Unit.TIME for one in measured):
        yield (
            "The intervals hold what varies within a start of the server, not from start to "
            f"start: --rounds {FEWEST_STARTS} measures that too."
        )
    for one in found.settings:
        if one.failure:
            yield _failure(one)
    if found.left:
        yield f"{found.left} of the turns are still to be measured: the same command goes on."


def _verdict(found: SweepReport, measured: list[SettingFigures]) -> Iterator[str]:
    first = measured[0]
    if len(measured) == 1:
        rate = _rate(first.tokens_per_s)
        yield f"{_name(first)} makes {rate}; there is nothing to compare it with."
        return
    if found.best is not None:
        second = measured[1]
        yield (
            f"{_name(first)} is the fastest, with {_rate(first.tokens_per_s)}; its interval lies "
            f"above all others, the next being {second.name} with {_rate(second.tokens_per_s)}."
        )
        return
    low = first.tokens_per_s.low if first.tokens_per_s else None
    rivals = [
        one.name
        for one in measured[1:]
        if one.tokens_per_s is None
        or one.tokens_per_s.high is None
        or low is None
        or one.tokens_per_s.high >= low
    ]
    yield (
        f"There is no clear winner: {first.name} has the highest value, "
        f"{_rate(first.tokens_per_s)}, but its interval does not clear that of "
        f"{listed(rivals)}. More requests or rounds narrow the intervals."
    )


def _of_plain(measured: list[SettingFigures]) -> Iterator[str]:
    """Whether speculation pays."""
    against = [one for one in measured if one.against_plain is not None]
    if not against:
        return
    gains = [one for one in against if _low(one.against_plain) > 1]
    losses = [one for one in against if _high(one.against_plain) < 1]
    if len(losses) == len(against):
        best = max(against, key=lambda one: one.against_plain.value if one.against_plain else 0)
        yield (
            f"Speculation does not pay under this load: at best, with {best.name}, it makes "
            f"{_change(best.against_plain)} than plain decode."
        )
    elif gains:
        best = gains[0]
        change = _change(best.against_plain)
        yield f"Speculation pays: {best.name} makes {change} than plain decode."
    else:
        yield "Whether speculation pays cannot be said: no interval clears that of plain decode."


def _name(one: SettingFigures) -> str:
    return "Plain decode" if one.name == PLAIN else one.name


def _low(estimate: Estimate | None) -> float:
    return 0.0 if estimate is None or estimate.low is None else estimate.low


def _high(estimate: Estimate | None) -> float:
    return float("inf") if estimate is None or estimate.high is None else estimate.high


def _change(estimate: Estimate | None) -> str:
    if estimate is None:
        return numbers.MISSING
    word = "more" if estimate.value > 1 else "fewer"
    near, far = sorted((abs(_low(estimate) - 1), abs(_high(estimate) - 1)))
    reach = f"{percent(near)} to {percent(far)}" if far < math.inf else f"at least {percent(near)}"
    return f"{percent(abs(estimate.value - 1))} {word} tokens ({reach})"


def _rate(estimate: Estimate | None) -> str:
    return numbers.MISSING if estimate is None else f"{with_reach(estimate, 1)} tok/s"


def render(found: SweepReport) -> RenderableType:
    """The settings as a table, what it means in words, and the command to restart with."""
    parts: list[RenderableType] = [Text(" ".join(found.sentences))]
    if found.settings:
        parts = [_table(found), Text(""), *parts]
    for one in found.settings:
        if one.last_lines:
            parts += [Text(""), Text(f"{one.name} said last:")]
            parts += [Text(f"  {line}", style="dim") for line in one.last_lines]
    if found.restart:
        hidden = any(HIDDEN in word for word in found.restart)
        with_what = f"Restart with{f' ({HIDDEN}: as you gave it)' if hidden else ''}:"
        parts += [Text(""), Text(with_what), Text(f"  {shlex.join(found.restart)}")]
    return Group(*parts)


def _table(found: SweepReport) -> Table:
    heads = ("tok/s", "of plain", "accept length", "cycle p50, ms", "tokens/cycle", "busy, %")
    table = Table(
        Column("", no_wrap=True),
        *(Column(head, justify="right", overflow="fold") for head in heads),
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for one in found.settings:
        table.add_row(one.name, *_cells(one))
    return table


def _cells(one: SettingFigures) -> tuple[str, ...]:
    if one.tokens_per_s is None:
        return ("failed", *[numbers.MISSING] * 5)
    return (
        with_reach(one.tokens_per_s, 1),
        numbers.MISSING if one.against_plain is None else with_reach(one.against_plain, 2),
        numbers.two_decimals(one.accept_length.value if one.accept_length else None),
        numbers.milliseconds_cell(one.cycle_p50_ms.value if one.cycle_p50_ms else None),
        numbers.two_decimals(one.tokens_per_cycle),
        numbers.share_cell(one.busy_share),
    )


def _failure(one: SettingFigures) -> str:
    if one.tokens_per_s is None:
        return f"{_name(one)} was not measured: {_inner(one.failure)}"
    return f"A start of {one.name} failed: {_inner(one.failure)}"


def _inner(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
