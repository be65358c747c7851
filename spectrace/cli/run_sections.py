"""The tables of a run's report, from which terminal, Markdown and page are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spectrace.analysis.acceptance import Acceptance, Slice
from spectrace.analysis.bubbles import Bubbles, Cause
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.made_of import MadeOf
from spectrace.analysis.rank_skew import Skew
from spectrace.analysis.run_report import RunReport
from spectrace.analysis.verify_cost import Shape
from spectrace.analysis.what_if import Doubt
from spectrace.cli import bubble_words, made_of_words, numbers, skew_words
from spectrace.cli.bubble_words import GAP_CAUSES
from spectrace.cli.run_words import (
    DEFINITIONS,
    DOUBTS,
    MARKS,
    best_words,
    known_from,
    main_stratum,
    percent,
    phases_of,
    setting,
    value,
)
from spectrace.cli.timing_words import label
from spectrace.model import Lane, Run

_SHOWN_BATCHES = 12
_SHOWN_SHARE = 0.005  # of the time: shorter gaps are in the JSON alone


class Section(NamedTuple):
    """A table with its heading.

    Attributes:
        title: The heading.
        note: A sentence below it, or nothing.
        heads: Heads of the columns; the first is of names.
        rows: As many cells each.
    """

    title: str
    note: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sections(found: RunReport) -> list[Section]:
    """All tables that have rows, in the order in which they are read."""
    every = (
        _verdict(found),
        _phases(found),
        *_made_of(found.made_of),
        _bubbles(found.bubbles),
        _ranks(found.skew),
        *map(_positions, found.acceptance),
        _lengths(found.acceptance),
        *_slices(found.acceptance),
        _bad_requests(found.acceptance),
        _verify(found),
        _parts(found),
        _caps(found),
        _what_if(found),
        _best(found),
    )
    return [section for section in every if section.rows]


def _server(run: Run) -> str:
    """What ran and where, as far as that is known: a trace may not name its machine."""
    where = f" on {run.host}" if run.host else ""
    return f"{run.engine or 'not known'}{where}, process {run.server_pid}"


def facts(found: RunReport) -> list[tuple[str, str]]:
    """What was recorded: server, settings, versions, and how much."""
    run = found.run
    kinds = ", ".join(f"{kind} {numbers.count(n)}" for kind, n in found.cycles_by_kind.items())
    left = found.left_out
    return [
        ("server", _server(run)),
        ("command", " ".join(run.command) or "not known"),
        ("ranks", ", ".join(rank.name for rank in run.ranks)),
        ("run", run.run_id),
        ("cycles", f"{numbers.count(found.cycles)} in {found.duration_s:,.1f} s ({kinds})"),
        (
            "times from",
            (
                f"{numbers.count(found.sampled_cycles)} cycles in {numbers.count(found.windows)} "
                f"windows; timing {', '.join(mode.value for mode in found.modes)}"
            ),
        ),
        (
            "left out",
            (
                f"{left.warm_up_cycles} cycles of warm-up, {left.overshoot_rows} rows of "
                f"overshoot, {left.health_check_rows} of health checks"
            ),
        ),
    ]


def definitions() -> list[tuple[str, str]]:
    """The words, and what they mean."""
    return list(DEFINITIONS.items())


def _throughput(found: RunReport) -> str:
    """The head of a column of throughput."""
    return "tokens/s per group" if found.groups > 1 else "tokens/s"


def _verdict(found: RunReport) -> Section:
    rows = tuple(
        (
            f"{one.batch}, {setting(one.setting)}",
            value(one.tokens_per_cycle),
            _middle(one.break_even),
            _middle(one.cycle_ms),
            _middle(one.plain_ms),
            numbers.rate(one.tokens_per_s.value),
            value(one.speed_up),
            one.answer.value,
        )
        for one in found.verdict.by_batch[:_SHOWN_BATCHES]
    )
    return Section(
        "By batch size",
        "What took most of the time first.",
        (
            "batch",
            "tokens per cycle",
            "to break even",
            "cycle, ms",
            "plain, ms",
            _throughput(found),
            "speed-up",
            "answer",
        ),
        rows,
    )


def _phases(found: RunReport) -> Section:
    main = main_stratum(found)
    rows = tuple(
        (
            f"{label(phase.name)}, {lane.value}",
            numbers.share(phase.share.value),
            value(phase.time.p50_ms),
            numbers.milliseconds_cell(phase.time.p95_ms.value),
            numbers.milliseconds_cell(phase.time.p99_ms.value),
        )
        for lane in (Lane.DEVICE, Lane.HOST)
        for phase in ([] if main is None else phases_of(main, lane))
    )
    which = "" if main is None else f"Batch size {main.batch}, {setting(main.setting)}."
    heads = ("phase", "of the cycle", "p50, ms", "p95, ms", "p99, ms")
    return Section("Where a cycle goes", which, heads, rows)


def _made_of(found: MadeOf | None) -> Iterator[Section]:
    """Of what phases are made, by class, and how ranks differ in that; nothing without a look."""
    if found is None:
        return
    yield Section(
        f"What a phase is made of, {found.rank}, per cycle",
        " ".join(made_of_words.notes(found)),
        (
            "phase",
            "device, ms",
            "nothing runs, ms",
            "kernels",
            "launches",
            "replays",
            "a replay, ms",
            "communication",
        ),
        tuple(
            (
                made_of_words.label_of(phase),
                numbers.milliseconds_cell(phase.device_ms),
                numbers.milliseconds_cell(phase.gap_ms),
                numbers.plain(phase.kernels),
                numbers.plain(phase.launches),
                numbers.plain(phase.replays),
                numbers.milliseconds_cell(phase.replay_ms),
                numbers.share(phase.communication),
            )
            for phase in found.phases
        ),
    )
    yield _classes(found)
    if len(found.ranks) > 1:
        yield _rank_works(found)


def _classes(found: MadeOf) -> Section:
    total_ms: dict[str, float] = {}
    for phase in found.phases:
        for part in phase.parts:
            total_ms[part.kernel_class] = total_ms.get(part.kernel_class, 0.0) + part.time_ms
    classes = sorted(total_ms, key=lambda one: -total_ms[one])
    rows = []
    for phase in found.phases:
        times = {part.kernel_class: part.time_ms for part in phase.parts}
        cells = (numbers.milliseconds_cell(times.get(one)) for one in classes)
        rows.append((made_of_words.label_of(phase), *cells))
    return Section(
        f"Kernels by class, {found.rank}, ms per cycle",
        "",
        ("phase", *classes),
        tuple(rows),
    )


def _rank_works(found: MadeOf) -> Section:
    rows = tuple(
        (
            one.rank,
            numbers.milliseconds_cell(one.own_ms),
            numbers.milliseconds_cell(one.communication_ms),
            numbers.share(one.communication),
            numbers.count(one.cycles),
        )
        for one in found.ranks
    )
    heads = ("rank", "own kernels, ms", "communication, ms", "its share", "cycles")
    note = "Per cycle. Who comes first to a collective waits in it: that is communication, too."
    return Section("Kernels of the ranks", note, heads, rows)


def _bubbles(found: Bubbles) -> Section:
    rows = tuple(
        (
            f"{label(gap.before)} \u2192 {label(gap.after)}{' of the next' * gap.between_cycles}",
            f"{gap.per_cycle:.2f}",
            value(gap.length_ms),
            percent(gap.share),
            *(numbers.share(gap.causes[cause]) for cause in Cause),
        )
        for gap in found.gaps
        if gap.share.value >= _SHOWN_SHARE
    )
    heads = ("gap", "a cycle", "p50, ms", "of the time", *(GAP_CAUSES[cause] for cause in Cause))
    return Section("Gaps on the device", " ".join(bubble_words.sentences(found)), heads, rows)


def _ranks(found: Skew) -> Section:
    shown = skew_words.shown(found)
    rows = tuple(
        (
            rank.rank,
            value(rank.late_ms),
            value(rank.lost_ms),
            value(rank.waited_ms),
            value(rank.took_ms),
        )
        for rank in (shown.ranks if shown else ())
    )
    where = f", {label(shown.phase)} on the {shown.lane.value}" if shown else ""
    heads = ("rank", "late by, ms", "falls behind, ms", "waits, ms", "takes, ms")
    return Section(f"Ranks{where}", " ".join(skew_words.sentences(found)), heads, rows)


def _positions(found: Acceptance) -> Section:
    return Section(
        f"Acceptance by position, {setting(found.setting)}",
        f"{numbers.count(found.verifies)} verifies, of which {numbers.count(found.cut)} were cut.",
        ("position", "reached", "accepted", "conditional acceptance"),
        tuple(
            (
                str(one.place),
                numbers.count(one.reached),
                numbers.count(one.accepted),
                percent(one.conditional),
            )
            for one in found.positions
        ),
    )


def _lengths(found: Sequence[Acceptance]) -> Section:
    return Section(
        "Acceptance, by each definition",
        "",
        (
            "setting",
            "accept length",
            "tokens per verify",
            "SGLang's",
            "drafts accepted",
        ),
        tuple(
            (
                setting(one.setting),
                value(one.accept_length),
                value(one.delivered_length),
                numbers.two_decimals(one.sglang_accept_length),
                numbers.share(one.draft_acceptance_rate),
            )
            for one in found
        ),
    )


def _slices(found: Sequence[Acceptance]) -> Iterator[Section]:
    for one in found[:1]:
        for title, slices in (("batch size", one.by_batch), ("context length", one.by_context)):
            if len(slices) > 1:
                yield Section(
                    f"Acceptance by {title}, {setting(one.setting)}",
                    "",
                    (title, "verifies", "accept length"),
                    tuple(map(_slice, slices)),
                )


def _slice(one: Slice) -> tuple[str, ...]:
    span = str(one.low) if one.low == one.high else f"{one.low:,} to {one.high:,}"
    return span, numbers.count(one.verifies), value(one.accept_length)


def _bad_requests(found: Sequence[Acceptance]) -> Section:
    rows = tuple(
        (
            one.request_id,
            numbers.count(one.verifies),
            numbers.two_decimals(one.accept_length),
            percent(one.rate),
            numbers.share(one.others),
        )
        for accepted in found[:1]
        for one in accepted.bad_requests
    )
    heads = ("request", "verifies", "accept length", "drafts accepted", "of the others")
    return Section("Requests that accept badly", "Beyond chance, of those sampled.", heads, rows)


def _verify(found: RunReport) -> Section:
    rows = []
    for one in found.verify:
        points = ", ".join(
            f"{point.tokens}: {numbers.milliseconds_cell(point.verify_ms.value)}"
            for point in one.points
        )
        shape = "not identifiable" if one.shape is Shape.UNKNOWN else one.shape.value
        rows.append(
            (
                str(one.batch),
                points,
                shape,
                value(one.fixed_ms),
                value(one.per_token_ms),
                value(one.jump_ms),
            )
        )
    return Section(
        "What verify costs",
        "Fixed part and part per token of each request; the jump is what a verify of one token "
        "would take beyond plain decode.",
        ("batch", "tokens: ms", "shape", "fixed, ms", "per token, ms", "jump, ms"),
        tuple(rows),
    )


def _parts(found: RunReport) -> Section:
    waste = {(one.setting, one.batch): one for one in found.verdict.by_batch}
    rows = []
    for one in found.strata[:_SHOWN_BATCHES]:
        if one.parts is None:
            continue
        steps = one.setting.steps
        verdict = waste.get((one.setting, one.batch))
        rows.append(
            (
                f"{one.batch}, {setting(one.setting)}",
                numbers.milliseconds_cell(one.parts.draft_ms.value),
                numbers.milliseconds_cell(one.parts.draft_ms.value / steps if steps else None),
                numbers.milliseconds_cell(one.parts.verify_ms.value),
                numbers.milliseconds_cell(one.parts.extend_ms.value),
                numbers.milliseconds_cell(one.parts.overhead_ms.value),
                numbers.share(verdict.wasted_verify if verdict else None),
                numbers.share(verdict.padding_waste if verdict else None),
            )
        )
    heads = ("batch", "draft, ms", "per step", "verify, ms", "extend, ms", "rest, ms")
    return Section(
        "Parts of a cycle",
        "Means, which add up to the cycle; wasted is the share of verified tokens that nobody got, "
        "padding that of the graph that ran for nobody.",
        (*heads, "wasted", "padding"),
        tuple(rows),
    )


def _caps(found: RunReport) -> Section:
    rows = tuple((one.change.value, percent(one.gain)) for one in found.verdict.caps)
    return Section(
        "The most that each can bring", "If it cost nothing.", ("change", "throughput"), rows
    )


def _what_if(found: RunReport) -> Section:
    shown = {one.batch for one in found.verdict.by_batch[:3]}
    rows = tuple(
        (
            f"{point.batch}, {setting(point.setting)}",
            _middle(point.accept_length),
            _middle(point.cycle_ms),
            value(point.tokens_per_s, 1),
            _middle(point.speed_up),
            known_from(point),
        )
        for point in found.what_if.points
        if point.batch in shown
    )
    heads = ("batch", "accept length", "cycle, ms", _throughput(found), "speed-up", "known from")
    doubts = {doubt for p in found.what_if.points if p.batch in shown for doubt in p.doubts}
    note = "; ".join(f"{MARKS[doubt]}: {DOUBTS[doubt]}" for doubt in Doubt if doubt in doubts)
    return Section("What other settings would give", f"{note}." if note else "", heads, rows)


def _best(found: RunReport) -> Section:
    rows = tuple(
        (
            str(one.batch),
            best_words(one),
            numbers.rate(one.tokens_per_s.value),
            percent(one.gain),
            ", ".join(map(str, one.tier)),
            numbers.MISSING if one.tier_steps is None else str(one.tier_steps),
        )
        for one in found.what_if.best[:_SHOWN_BATCHES]
    )
    heads = (
        "batch",
        "best",
        _throughput(found),
        "gain",
        "adaptive steps",
        "best of these",
    )
    flags = {" ".join(one.flags): one for one in found.what_if.best if one.flags}
    note = " ".join(f"{setting(one.setting)}: {options}." for options, one in flags.items())
    return Section("Best settings", note, heads, rows)


def _middle(estimate: Estimate | None) -> str:
    """A value whose interval stands in the JSON."""
    return numbers.MISSING if estimate is None else numbers.two_decimals(estimate.value)
