"""Draws what a session shows as a Rich table, for narrow and wide terminals alike."""

from __future__ import annotations

import msgspec
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from spectrace.analysis.summary import CycleTimes, Percentiles, PhaseSummary, Summary
from spectrace.attach.session import End, SessionFacts, Stall
from spectrace.cli import numbers
from spectrace.model import TimingMode

_LAG_MARK = "*"
_MODES = {
    TimingMode.DEVICE: "device timing",
    TimingMode.HOST: "host timing",
    TimingMode.SYNC: "sync timing, which slows the server",
    TimingMode.OFF: "phases not timed",
}


class Removal(msgspec.Struct, frozen=True, kw_only=True):
    """How taking the probe out of one rank went.

    Attributes:
        rank: Name of the rank.
        removed: The probe is out.
        foreign: Functions that other code had wrapped after us.
        reason: Why the probe is still in, or what else there is to say.
    """

    rank: str
    removed: bool
    foreign: tuple[str, ...]
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown, or written as one JSON object.

    Attributes:
        final: The session has ended, and `summary` is of all of it.
        unix_ns: When the report was made, UNIX time in ns.
        run_id: The run, see `model.Run`.
        server_pid: Process id of the server's root process.
        session: What is known about the server and its ranks.
        stall: For how long attaching held up each rank.
        summary: Of the last seconds, or of the whole session.
        end: Why the session ended, if not by this command: see `attach.session.End`.
        removals: How taking the probe out went, once the session has ended.
    """

    final: bool
    unix_ns: int
    run_id: str
    server_pid: int
    session: SessionFacts
    stall: tuple[Stall, ...]
    summary: Summary
    end: End | None = None
    removals: tuple[Removal, ...] = ()


def render(report: Report) -> RenderableType:
    """The whole picture: the server in a line, times of the phases, then the figures."""
    facts, summary = report.session, report.summary
    parts: list[RenderableType] = [Text(headline(report)), Text("")]
    if not summary.cycles:
        parts += [Text(_nothing_seen(report)), Text("")]
    times = summary.speculative or summary.decode
    if times is not None:
        parts += [_times_table(report, times), *_lag_note(times), Text("")]
    parts.append(_figures(report))
    parts += [Text(error) for error in facts.errors[-3:]]
    return Group(*parts)


def headline(report: Report) -> str:
    """The server in one line: engine, algorithm, scheduler, ranks, timing mode."""
    facts, summary = report.session, report.summary
    traced = ("tracing", "detached") if report.final else ("tracing",)
    tracing = sum(rank.state in traced for rank in facts.ranks)
    speculates = facts.algorithm.upper() != "NONE"
    algorithm = facts.algorithm if speculates else "no speculation"
    if facts.worker:
        algorithm += f" ({facts.worker})"
    scheduler = {None: "", True: "overlap scheduler", False: "plain scheduler"}[facts.overlap]
    parts = [
        facts.engine,
        algorithm,
        scheduler,
        f"ranks {tracing}/{len(facts.ranks)}",
        " and ".join(_MODES[mode] for mode in summary.modes),
    ]
    return " · ".join(part for part in parts if part)


def _nothing_seen(report: Report) -> str:
    ranks = report.session.ranks
    attached = sum(rank.alive and rank.state in ("armed", "tracing") for rank in ranks)
    if report.final:
        return "No cycle was seen: the server was idle."
    return f"Attached to {attached} of {len(ranks)} ranks. The server is idle."


def _times_table(report: Report, times: CycleTimes) -> Table:
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
    for phase in times.phases:
        table.add_row(*_time_cells(_label(phase), phase.time), numbers.share_cell(phase.share))
    if speculative and summary.decode is not None:
        table.add_row(*_time_cells("plain decode", summary.decode.time), "")
    return table


def _time_cells(label: str, time: Percentiles | None) -> tuple[str, str, str, str]:
    cells = (None, None, None) if time is None else (time.p50_ms, time.p95_ms, time.p99_ms)
    p50, p95, p99 = (numbers.milliseconds_cell(cell) for cell in cells)
    return label, p50, p95, p99


def _label(phase: PhaseSummary) -> str:
    parent, dot, part = phase.name.value.partition(".")
    label = f"  {part}" if dot else parent
    return f"{label} {_LAG_MARK}" if phase.max_lag else label


def _lag_note(times: CycleTimes) -> list[Text]:
    lag = max((phase.max_lag for phase in times.phases), default=0)
    if not lag:
        return []
    whose = "of the previous batch" if lag == 1 else f"of a batch up to {lag} cycles earlier"
    return [Text(f"{_LAG_MARK} {whose}")]


def _figures(report: Report) -> Table:
    table = Table(
        Column(no_wrap=True),
        Column(overflow="fold"),
        box=None,
        show_header=False,
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )
    for name, value in figures(report):
        table.add_row(name, Text(value))  # as it is: a name may look like markup
    return table


def figures(report: Report) -> list[tuple[str, str]]:
    """The figures beside the times of the phases, each with its name."""
    summary, facts = report.summary, report.session
    rows = [
        ("cycles/s", numbers.rate(summary.cycles_per_s)),
        ("tokens/s", numbers.rate(summary.tokens_per_s)),
        *_acceptance(summary),
        ("lost", _lost(facts)),
    ]
    if summary.batch_size_median is not None:
        rows.insert(-1, ("batch size", f"{numbers.plain(summary.batch_size_median)} (median)"))
    if summary.overshoot_rows:
        rows.insert(-1, ("overshoot", f"{numbers.count(summary.overshoot_rows)} rows left out"))
    if summary.cycles:
        rows.append(("tracing cost", tracing_cost(summary)))
    if facts.timing and summary.cycles and TimingMode.DEVICE not in summary.modes:
        rows.append(("device", facts.timing))
    if facts.skipped.cycles:
        rows.append(("sampled out", _skipped(facts)))
    if facts.unhooked:
        rows.append(("not seen", ", ".join(facts.unhooked)))
    return rows


def _acceptance(summary: Summary) -> list[tuple[str, str]]:
    if summary.speculative is None and not summary.verifies:
        return []
    ours = numbers.two_decimals(summary.accept_length)
    servers = numbers.two_decimals(summary.server_accept_length)
    steps, topk = _seen(summary.steps_seen), _seen(summary.topk_seen)
    tokens = _seen(summary.draft_tokens_seen)
    return [
        ("accept length", f"{ours}  (correct drafts + verifies) / verifies"),
        ("", f"{servers}  as SGLang counts: output tokens / verifies, with the prefill's token"),
        ("speculation", f"steps {steps}, top-k {topk}, draft tokens {tokens}"),
    ]


def _seen(values: tuple[int, ...]) -> str:
    return " and ".join(str(value) for value in values) or numbers.MISSING


def _lost(facts: SessionFacts) -> str:
    if not facts.lost_records and not facts.missing_cycles:
        return "0"
    return (
        f"{numbers.count(facts.lost_records)} records, "
        f"{numbers.count(facts.missing_cycles)} cycles not seen on every rank"
    )


def _skipped(facts: SessionFacts) -> str:
    skipped = facts.skipped
    return (
        f"{numbers.count(skipped.cycles)} cycles with {numbers.count(skipped.output_tokens)} "
        "tokens since the start, left out of all other figures"
    )


def tracing_cost(summary: Summary) -> str:
    """What the probe itself takes of a cycle on the first rank."""
    if summary.probe_median_us is None:
        return numbers.MISSING
    return (
        f"{numbers.microseconds(summary.probe_median_us)} a cycle, "
        f"{numbers.share(summary.probe_share)} of its time"
    )


def one_line(report: Report) -> str:
    """The report for a log: the few figures that matter most, in one line."""
    summary = report.summary
    if not summary.cycles:
        return _nothing_seen(report)
    parts = [
        f"{numbers.rate(summary.cycles_per_s)} cycles/s",
        f"{numbers.rate(summary.tokens_per_s)} tokens/s",
    ]
    times = summary.speculative or summary.decode
    if times is not None and times.time is not None:
        parts.append(f"cycle {numbers.milliseconds(times.time.p50_ms)}")
        parts += [
            f"{phase.name.value} {numbers.milliseconds(phase.time.p50_ms)}"
            for phase in times.phases
            if phase.name.parent is None
        ]
    if summary.accept_length is not None:
        parts.append(f"accept length {numbers.two_decimals(summary.accept_length)}")
    parts += [f"lost {_lost(report.session)}", f"tracing {tracing_cost(summary)}"]
    return ", ".join(parts)


def stall_lines(stalls: tuple[Stall, ...]) -> list[str]:
    """For each rank, how long attaching held up its main thread."""
    return [
        f"{stall.rank} was held up for {numbers.milliseconds(stall.total_ms)}: "
        f"stop {numbers.milliseconds(stall.stop_ms)}, "
        f"loading {numbers.milliseconds(stall.loading_ms)}, "
        f"installing {numbers.milliseconds(stall.installing_ms)}"
        + ("." if stall.installed else " so far; the worker is hooked at its next cycle.")
        for stall in stalls
    ]
