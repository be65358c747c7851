"""`spectrace report`: does speculation pay, why not, and what to change."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import typer

from spectrace.analysis.run_report import RunReport
from spectrace.analysis.run_report import report as analysed
from spectrace.cli.asked import asked
from spectrace.cli.measuring import (
    LEAST_MS,
    LIVE,
    MOST_MS,
    BaselineMsOption,
    BaselineOption,
    LiveDurationOption,
    RunOption,
    TargetArgument,
    baseline_from,
    looks_at,
    measures_of,
    other_runs,
)
from spectrace.cli.output import OutputConsole
from spectrace.cli.page_options import ForceOption
from spectrace.cli.result_options import HtmlOption, MarkdownOption, ResultJsonOption
from spectrace.cli.run_page import page
from spectrace.cli.run_table import markdown, render
from spectrace.cli.run_words import of_other_runs, sentences
from spectrace.errors import SpectraceError
from spectrace.store.publish import published, refuse_unwritable


def report(  # noqa: PLR0913, PLR0917 - the options of the command
    target: TargetArgument,
    run: RunOption = "",
    duration: LiveDurationOption = LIVE,
    baseline: BaselineOption = None,
    baseline_ms: BaselineMsOption = None,
    json: ResultJsonOption = False,
    as_markdown: MarkdownOption = False,
    html: HtmlOption = None,
    force: ForceOption = False,
) -> None:
    """Say whether speculation pays, why not, and what to change."""
    if json and as_markdown:
        raise SpectraceError("One of --json and --markdown can be written at once.", exit_code=2)
    if html is not None:
        refuse_unwritable(html, force=force)
    found = report_on(
        target, run_id=run, duration_s=duration, baseline=baseline, baseline_ms=baseline_ms
    )
    raw = msgspec.json.encode(found)
    if json:
        sys.stdout.write(raw.decode() + "\n")
    elif as_markdown:
        sys.stdout.write(markdown(found))
    else:
        OutputConsole().print(render(found), highlight=False)
    if html is not None:
        with published(html, force=force) as temporary:
            temporary.write_text(page(found, raw), "utf-8")
        typer.echo(f"The page is in {html}.", err=True)


def report_on(
    target: str,
    *,
    run_id: str = "",
    duration_s: float,
    baseline: Path | None = None,
    baseline_ms: float | None = None,
) -> RunReport:
    """The report on a recording, a running server or what a page has stored, with its sentences.

    Raises:
        SpectraceError: There is no such recording, server or page, or nothing can be said of it.
    """
    if baseline is not None and baseline_ms is not None:
        raise SpectraceError("Give --baseline or --baseline-ms, one of them.", exit_code=2)
    if baseline_ms is not None and not LEAST_MS <= baseline_ms <= MOST_MS:  # nor what is no number
        raise SpectraceError(
            f"--baseline-ms says {baseline_ms:g}: a plain decode takes {LEAST_MS:g} to {MOST_MS:g} "
            "ms.",
            exit_code=2,
        )
    others: tuple[str, ...] = ()
    if target.startswith(("http://", "https://")):
        if baseline is not None:
            raise SpectraceError(
                "A page cannot read --baseline: say what plain decode takes with --baseline-ms.",
                exit_code=2,
            )
        found = asked(target, run_id=run_id, baseline_ms=baseline_ms)
    else:
        plain, plain_run = (None, None) if baseline is None else baseline_from(baseline)
        measures = measures_of(target, run_id=run_id, duration_s=duration_s)
        found = analysed(
            measures,
            baseline=plain,
            baseline_run=plain_run,
            plain_ms=baseline_ms,
            looks=looks_at(target, measures.run.run_id),
        )
        others = () if run_id else other_runs(target, found.run.run_id)
    said = (*sentences(found), *of_other_runs(others))
    return msgspec.structs.replace(found, sentences=said)
