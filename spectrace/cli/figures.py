"""Says in words and numbers what a report holds; how it is laid out is the table's business."""

from __future__ import annotations

from collections.abc import Sequence

from spectrace.analysis.summary import Summary
from spectrace.attach.pulse import Activity
from spectrace.attach.session import RankState, SessionFacts, Stall, controller_of, standing_still
from spectrace.cli import numbers
from spectrace.cli.report import Exported, Removal, Report
from spectrace.model import TimingMode

_MODES = {
    TimingMode.DEVICE: "device timing",
    TimingMode.HOST: "host timing",
    TimingMode.SYNC: "sync timing, which slows the server",
    TimingMode.OFF: "phases not timed",
}
_SCHEDULERS = {None: "", True: "overlap scheduler", False: "plain scheduler"}


def headline(report: Report) -> str:
    """The server in one line: engine, algorithm, scheduler, ranks, timing mode."""
    facts, summary = report.session, report.summary
    traced = ("tracing", "detached") if report.final else ("tracing",)
    tracing = sum(rank.alive and rank.state in traced for rank in facts.ranks)
    speculates = facts.algorithm.upper() != "NONE"
    algorithm = facts.algorithm if speculates else "no speculation"
    if facts.worker:
        algorithm += f" ({facts.worker})"
    parts = [
        facts.engine,
        algorithm,
        _SCHEDULERS[facts.overlap],
        f"ranks {tracing}/{len(facts.ranks)}",
        " and ".join(_MODES[mode] for mode in summary.modes),
        "" if facts.controls else f"reading; {controller_of(facts)} controls",
    ]
    return " · ".join(part for part in parts if part)


def nothing_seen(report: Report) -> str:
    """What to say instead of times: that the server is idle, or that it stands still."""
    if report.final:
        return "No cycle was seen."
    ranks = report.session.ranks
    attached = [rank for rank in ranks if rank.alive and rank.state in ("armed", "tracing")]
    said = (
        f"Attached to {len(attached)} of {len(ranks)} ranks. "
        f"No cycle has come in the last {report.summary.window_s:.0f} s"
    )
    if attached and all(rank.activity is Activity.IDLE for rank in attached):
        return f"{said}: the server is idle."
    return " ".join([f"{said}.", *standing_still(report.session)])


def death_line(report: Report) -> str:
    """That the server has ended, or which of its ranks did first."""
    return f"{who_ended(report.session.ranks)} What was measured until then:"


def who_ended(ranks: Sequence[RankState]) -> str:
    """That a server has ended, or which of its ranks did first, in a sentence."""
    dead = [f"{rank.name} (process {rank.pid})" for rank in ranks if not rank.alive]
    if len(dead) in (0, len(ranks)):
        return "The server has ended."
    have = "has" if len(dead) == 1 else "have"
    return f"{listed(dead)} of the server {have} ended."


def of_the_living(removals: Sequence[Removal], ranks: Sequence[RankState]) -> tuple[Removal, ...]:
    """How leaving went in the ranks whose process runs: of the others there is nothing to say."""
    living = {rank.name for rank in ranks if rank.alive}
    return tuple(removal for removal in removals if removal.rank in living)


def figures(report: Report, *, defined: bool = True) -> list[tuple[str, str]]:
    """The figures beside the times of the phases, each with its name.

    Args:
        report: What to show.
        defined: Both accept lengths have a row of their own, with their definitions.
    """
    summary, facts = report.summary, report.session
    rows = [
        ("cycles/s", numbers.rate(summary.cycles_per_s) + _in_full(facts)),
        ("tokens/s", numbers.rate(summary.tokens_per_s) + _in_full(facts)),
        *_acceptance(summary, defined=defined),
    ]
    if summary.batch_size_median is not None:
        rows.append(("batch size", f"{numbers.plain(summary.batch_size_median)} (median)"))
    if summary.overshoot_rows:
        rows.append(("overshoot", f"{numbers.count(summary.overshoot_rows)} rows left out"))
    rows.append(("lost", _lost(report)))
    if report.exported is not None:
        rows.append(("sent on", _sent(report.exported)))
    if summary.cycles:
        rows.append(("tracing cost", tracing_cost(summary) + _in_full(facts)))
    if facts.timing and summary.cycles and TimingMode.DEVICE not in summary.modes:
        rows.append(("device", facts.timing))
    if facts.skipped.cycles:
        rows.append(("sampled out", _skipped(facts)))
    if facts.untried:
        rows.append(("untried", facts.untried))
    if facts.unhooked:
        rows.append(("not seen", ", ".join(facts.unhooked)))
    return rows


def _acceptance(summary: Summary, *, defined: bool) -> list[tuple[str, str]]:
    if summary.speculative is None and not summary.verifies:
        return []
    ours = numbers.two_decimals(summary.accept_length)
    servers = numbers.two_decimals(summary.server_accept_length)
    steps, topk = _seen(summary.steps_seen), _seen(summary.topk_seen)
    speculation = f"steps {steps}, top-k {topk}, draft tokens {_seen(summary.draft_tokens_seen)}"
    if not defined:
        return [
            ("accept length", f"{ours}, as in SGLang {servers}"),
            ("speculation", speculation),
        ]
    return [
        ("accept length", f"{ours} (correct drafts + verifies) / verifies"),
        ("as in SGLang", f"{servers} output tokens / verifies"),
        ("speculation", speculation),
    ]


def _seen(values: tuple[int, ...]) -> str:
    return " and ".join(str(value) for value in values) or numbers.MISSING


def _lost(report: Report) -> str:
    facts = report.session
    losses = (
        (facts.lost_records, "records"),
        (facts.missing_cycles, "cycles not seen on every rank"),
        (report.export_lost or 0, "cycles not exported"),
    )
    return ", ".join(f"{numbers.count(lost)} {what}" for lost, what in losses if lost) or "0"


def _sent(exported: Exported) -> str:
    parts = [f"{numbers.count(exported.sent_spans)} spans"]
    if exported.lost_spans:
        error = f": {exported.last_error}" if exported.last_error else ""
        parts.append(f"{numbers.count(exported.lost_spans)} lost{error}")
    elif exported.last_error:
        parts.append(exported.last_error)
    if exported.unsampled_cycles:
        parts.append(f"{numbers.count(exported.unsampled_cycles)} cycles left out by sampling")
    return ", ".join(parts)


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


def _in_full(facts: SessionFacts) -> str:
    """Behind a figure of the cycles that are recorded in full, where sampling left out others."""
    return " of the cycles in full" if facts.skipped.cycles else ""


def one_line(report: Report) -> str:
    """The report for a log: the few figures that matter most, in one line."""
    summary = report.summary
    if not summary.cycles:
        return nothing_seen(report)
    parts = [
        f"{numbers.rate(summary.cycles_per_s)} cycles/s{_in_full(report.session)}",
        f"{numbers.rate(summary.tokens_per_s)} tokens/s{_in_full(report.session)}",
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
    parts += [f"lost {_lost(report)}", f"tracing {tracing_cost(summary)}"]
    return ", ".join(parts)


_WAYS = {
    "plugin": " by the plugin",
    "remote-exec": " by sys.remote_exec",
    "ptrace": " by ptrace",
    "gdb": " by gdb",
}


def stall_lines(stalls: tuple[Stall, ...], *, over: bool = False) -> list[str]:
    """For each rank, how long attaching held up its main thread, and which ways were closed.

    Args:
        stalls: Of the ranks.
        over: The session has ended, so that nothing is to come any more.
    """
    rest = (
        "; its worker was never hooked."
        if over
        else " so far; the worker is hooked at its next cycle."
    )
    reasons = [f"{stall.rank}: {reason}" for stall in stalls for reason in stall.closed]
    return reasons + [
        f"{stall.rank} was held up for {numbers.milliseconds(stall.total_ms)}"
        f"{_WAYS.get(stall.way, '')}: "
        f"stop {numbers.milliseconds(stall.stop_ms)}, "
        f"loading {numbers.milliseconds(stall.loading_ms)}, "
        f"installing {numbers.milliseconds(stall.installing_ms)}"
        + ("." if stall.installed else rest)
        for stall in stalls
    ]


def removal_lines(removals: tuple[Removal, ...]) -> list[str]:
    """What was taken out, and what could not be, in sentences."""
    lines = []
    out = [removal.rank for removal in removals if removal.removed]
    if out:
        lines.append(f"The probe is out of {listed(out)}: the server goes on without it.")
    for removal in removals:
        if removal.foreign:
            lines.append(
                f"{removal.rank}: other code wrapped {listed(list(removal.foreign))} after us. "
                "Our wrapper stays below it and only passes calls through."
            )
        if not removal.removed and not removal.left_to:
            lines.append(f"{removal.rank} keeps the probe: {removal.reason.rstrip('.')}.")
    left = [removal.rank for removal in removals if removal.left_to]
    if left:
        reasons = dict.fromkeys(removal.reason for removal in removals if removal.left_to)
        lines.append(f"The probe stays in {listed(left)}. {' '.join(reasons)}")
    return lines


def listed(names: Sequence[str]) -> str:
    """`A`, `A and B`, or `A, B and C`."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
