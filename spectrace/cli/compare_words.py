"""Says in words what two runs differ in, and lays it out for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.run_comparison import (
    Difference,
    Note,
    PhaseDifference,
    RunComparison,
    Side,
)
from spectrace.analysis.run_settings import SettingDifference
from spectrace.analysis.timing_report import Verdict
from spectrace.cli import numbers
from spectrace.cli.figures import listed
from spectrace.cli.run_sections import Section
from spectrace.cli.run_table import grid, plain, table
from spectrace.cli.timing_table import with_reach
from spectrace.cli.timing_words import label, percent

_TELLING = 0.1  # of the cycle's difference: smaller parts are not named in the paragraph
_GAPS = "no phase"
_NOTES = {
    Note.OTHER_KINDS: "One run speculates and the other decodes plainly: cycles of the same batch "
    "size are compared, and tokens, not cycles, say which is faster.",
    Note.OTHER_MODES: "The runs were timed in different ways, which changes what each phase shows.",
    Note.SYNC: "A run was timed with a synchronize at every boundary, which slows the server.",
    Note.OTHER_BATCHES: "Most cycles of a run have batch sizes that the other one hardly has, and "
    "are left out.",
    Note.OTHER_CONTEXTS: "The requests of one run are much longer, which costs time by itself.",
    Note.NOTHING_LIKE: "Nothing can be compared: no batch size has 20 decode cycles of the same "
    "kind in both runs. Record both under the same load.",
    Note.FEW_BLOCKS: "A run is too short for intervals: record for longer.",
}


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes.

    Attributes:
        names: The files, the first run first.
        run_ids: The runs.
        engines: Such as `sglang 0.5.23`.
        settings: What differs in how the servers were started.
        comparison: What was found.
        sentences: The same in words.
    """

    names: tuple[str, str]
    run_ids: tuple[str, str]
    engines: tuple[str, str]
    settings: tuple[SettingDifference, ...]
    comparison: RunComparison
    sentences: tuple[str, ...] = ()


def sentences(found: Compared) -> tuple[str, ...]:
    """What was found as sentences, which make one paragraph."""
    return tuple(_said(found.comparison, found.names))


def _said(found: RunComparison, names: tuple[str, str]) -> Iterator[str]:
    if found.cycle_ms is not None:
        yield from _throughput(found, names)
        yield _cycle(found.cycle_ms)
        yield from _phases(found)
        yield from _acceptance(found.accept_length)
    yield from (_NOTES[note] for note in found.notes)


def _throughput(found: RunComparison, names: tuple[str, str]) -> Iterator[str]:
    ratio, rates = found.throughput_ratio, found.tokens_per_s
    if ratio is None or rates is None:
        yield "How many tokens came is not known in both runs."
        return
    if ratio.low is None or ratio.high is None or rates.verdict is Verdict.OPEN:
        yield f"Which run makes more tokens cannot be said: {_reach(ratio)}."
        return
    if rates.verdict is Verdict.SAME:
        yield f"Both make as many tokens while they decode{_of_one_group(found)}, within 1 %."
        return
    word = "more" if ratio.value > 1 else "fewer"
    low, high = sorted((abs(ratio.low - 1), abs(ratio.high - 1)))
    yield (
        f"{names[1]} makes {percent(abs(ratio.value - 1))} {word} tokens per second of decoding"
        f"{_of_one_group(found)} than {names[0]} ({percent(low)} to {percent(high)})."
    )


def _of_one_group(found: RunComparison) -> str:
    """What a throughput is of, where there are several groups."""
    one, other = (side.groups for side in found.sides)
    if max(one, other) == 1:
        return ""
    many = f"of which each has {one}" if one == other else f"of which they have {one} and {other}"
    return f" per group, {many},"


def _reach(ratio: Estimate) -> str:
    if ratio.low is None or ratio.high is None:
        return "there are too few blocks"
    return f"the second's throughput is {ratio.low:.3f} to {ratio.high:.3f} times the first's"


def _cycle(cycle: Difference) -> str:
    if cycle.verdict is Verdict.SAME:
        return "Their cycles are as long, within 1 %."
    if cycle.verdict is Verdict.OPEN:
        return "Whether their cycles differ in length cannot be said."
    word = "longer" if cycle.excess.value > 0 else "shorter"
    times = f"{numbers.milliseconds(cycle.one.value)} to {numbers.milliseconds(cycle.other.value)}"
    return f"Its cycles are {_ms(cycle.excess)} {word}, from {times}."


def _ms(estimate: Estimate) -> str:
    """The amount of a time with its interval."""
    text = numbers.milliseconds(abs(estimate.value))
    if estimate.low is None or estimate.high is None:
        return text
    low, high = sorted((estimate.low, estimate.high), key=abs)
    edges = (
        numbers.milliseconds_cell(edge if estimate.value > 0 else -edge) for edge in (low, high)
    )
    return f"{text} ({' to '.join(edges)})"


def _phases(found: RunComparison) -> Iterator[str]:
    lane, phases = ("on the device", found.device) if found.device else ("", found.host)
    cycle = found.cycle_ms
    if cycle is None or cycle.verdict is not Verdict.DIFFERS or not phases:
        return
    clear = [
        one
        for one in phases
        if one.time_ms.verdict is Verdict.DIFFERS and abs(one.share or 0.0) >= _TELLING
    ]
    if not clear:
        yield "No phase makes the difference clearly."
        return
    parts = listed([_part(one) for one in clear])
    where = f" {lane}" if lane else " by the host's clock"
    yield f"Of that difference{where}: {parts}."


def _part(one: PhaseDifference) -> str:
    name = label(one.phase) if one.phase else _GAPS
    sign = "+" if one.time_ms.excess.value > 0 else ""
    return f"{name} {sign}{numbers.milliseconds(one.time_ms.excess.value)}"


def _acceptance(length: Difference | None) -> Iterator[str]:
    if length is None:
        return
    one, other = (numbers.two_decimals(each.value) for each in (length.one, length.other))
    if length.verdict is Verdict.DIFFERS:
        yield f"The accept length goes from {one} to {other}."
    elif length.verdict is Verdict.SAME:
        yield f"The accept length is the same, {other}."
    else:
        yield f"Whether the accept length differs ({one}, {other}) cannot be said."


def render(found: Compared) -> RenderableType:
    """Both runs side by side, what it means in words, and what it rests on."""
    parts: list[RenderableType] = [Text(" ".join(found.sentences))]
    for section in _sections(found):
        parts += [Text(""), table(section)]
    return Group(*parts, Text(""), *map(Text, basis(found.comparison)))


def markdown(found: Compared) -> str:
    """The same to be pasted into an issue."""
    one, other = map(plain, found.names)
    parts = [f"## {one} against {other}", plain(" ".join(found.sentences))]
    for section in _sections(found):
        parts += [f"### {plain(section.title)}", grid(section)]
    return "\n\n".join([*parts, "\n".join(map(plain, basis(found.comparison)))]) + "\n"


_Rows = list[tuple[str, ...]]


def _sections(found: Compared) -> Iterator[Section]:
    """Every table that has rows."""
    one, other = found.names
    comparison = found.comparison
    if comparison.cycle_ms is not None:
        whole = tuple(_whole(comparison))
        yield Section("Whole cycles", "", ("", one, other, "difference"), whole)
    for where, phases in (("on the device", comparison.device), ("on the host", comparison.host)):
        if phases:
            heads = ("mean ms of a cycle", one, other, "difference", "of the cycle's")
            yield Section(f"Phases {where}", "", heads, tuple(map(_phase_row, phases)))
    rows: _Rows = [(each.what, each.one, each.other) for each in found.settings]
    rows += _sides(comparison.sides)
    if rows:
        yield Section("What differs in the runs", "", ("", one, other), tuple(rows))


def _whole(found: RunComparison) -> Iterator[tuple[str, ...]]:
    for name, difference, decimals in (
        (_rate_name(found), found.tokens_per_s, 1),
        ("cycle, ms", found.cycle_ms, 2),
        ("ms per token of a request", found.ms_per_token, 2),
        ("accept length", found.accept_length, 2),
    ):
        if difference is not None:
            yield name, *_cells(difference, decimals)


def _rate_name(found: RunComparison) -> str:
    several = max(side.groups for side in found.sides) > 1
    return f"tokens/s of decoding{' per group' if several else ''}"


def _cells(difference: Difference, decimals: int) -> tuple[str, str, str]:
    mark = {Verdict.DIFFERS: "", Verdict.SAME: " none", Verdict.OPEN: " ?"}[difference.verdict]
    one, other, excess = (
        with_reach(each, decimals) for each in (difference.one, difference.other, difference.excess)
    )
    return one, other, excess + mark


def _phase_row(one: PhaseDifference) -> tuple[str, ...]:
    name = label(one.phase) if one.phase else _GAPS
    return name, *_cells(one.time_ms, 2), numbers.share(one.share)


def _sides(sides: tuple[Side, Side]) -> _Rows:
    """What the cycles themselves say of how the runs differ."""
    facts = [
        ("groups", [str(side.groups) for side in sides]),
        ("draft steps", [_list(side.steps) for side in sides]),
        ("tokens to verify", [_list(side.draft_tokens) for side in sides]),
        ("timed in mode", [_list([mode.value for mode in side.modes]) for side in sides]),
        ("mean batch", [f"{side.batch:.1f}" for side in sides]),
        ("mean context", [_whole_number(side.context) for side in sides]),
    ]
    return [(name, *values) for name, values in facts if values[0] != values[1]]


def _whole_number(value: float | None) -> str:
    return numbers.count(None if value is None else round(value))


def _list(values: Sequence[int | str]) -> str:
    return ", ".join(map(str, values)) or numbers.MISSING


def basis(found: RunComparison) -> Iterator[str]:
    """What it rests on."""
    one, other = (f"{numbers.count(s.cycles)} of {numbers.count(s.of)}" for s in found.sides)
    yield f"Decode cycles that were compared: {one} and {other} of the sample."
    if found.alike:
        batches = listed(
            [f"batch {each.batch} ({numbers.share(each.share)})" for each in found.alike[:4]]
        )
        more = len(found.alike) - 4
        yield f"Like with like: {batches}{f' and {more} more' if more > 0 else ''}."
    yield (
        f"Intervals hold in {found.confidence * 100:.0f} % of cases; those of the {found.claims} "
        f"differences hold all together. \u201cnone\u201d: below {numbers.share(found.margin)}, "
        "for phases of a cycle. \u201c?\u201d: the data do not allow a statement."
    )
