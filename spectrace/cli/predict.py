"""`spectrace predict`: keeps what is expected of a setting, and holds it against a later run."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from spectrace.analysis.acceptance import Setting
from spectrace.analysis.estimates import exact
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.prediction import FORMAT, Prediction, Quantity, flaw
from spectrace.analysis.prediction import check as held_against
from spectrace.analysis.prediction import predict as predicted
from spectrace.analysis.run_report import RunReport
from spectrace.cli.figures import listed
from spectrace.cli.measuring import (
    LIVE,
    BaselineMsOption,
    BaselineOption,
    LiveDurationOption,
    RunOption,
    TargetArgument,
)
from spectrace.cli.page_options import ForceOption
from spectrace.cli.prediction_words import became, expected
from spectrace.cli.result_options import ResultJsonOption, count_option
from spectrace.cli.run_report import report_on
from spectrace.errors import SpectraceError
from spectrace.store.publish import published, refuse_unwritable


def assumption_option(text: str) -> tuple[Quantity, Estimate]:
    """An assumption on the command line, such as verify_ms=14.3 or accept_length=1.82.

    Raises:
        BadParameter: It is none.
    """
    name, _, number = text.partition("=")
    try:
        return Quantity(name.strip()), exact(_positive(number))
    except ValueError:
        names = ", ".join(quantity.value for quantity in Quantity)
        raise typer.BadParameter(
            f"{text!r} is no assumption: write NAME=VALUE, with one of {names}."
        ) from None


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def predict(  # noqa: PLR0913, PLR0917 - the options of the command
    target: TargetArgument,
    steps: Annotated[
        int | None,
        count_option("K", "Draft steps to predict."),
    ] = None,
    batch: Annotated[
        int | None,
        count_option("B", "Batch size; the one that took most of the time if not given."),
    ] = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Assume this in place of what the run says: accept_length, verify_ms, draft_ms, "
            "rest_ms, plain_ms. May be given several times.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Keep the prediction here.", show_default=False
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Hold this kept prediction against FILE|PID instead.",
            show_default=False,
        ),
    ] = None,
    run: RunOption = "",
    duration: LiveDurationOption = LIVE,
    baseline: BaselineOption = None,
    baseline_ms: BaselineMsOption = None,
    json: ResultJsonOption = False,
    force: ForceOption = False,
) -> None:
    """Predict another number of draft steps and keep it; --check says which assumption held."""
    if (steps is None) == (check is None):
        raise SpectraceError(
            "Say what to predict with --steps, or what to hold against the run with --check.",
            exit_code=2,
        )
    given = {"--output": output, "--batch": batch, "--assume": assume}
    meant = [name for name, value in given.items() if value]
    if check is not None and meant:
        raise SpectraceError(
            f"{listed(meant)} {'is' if len(meant) == 1 else 'are'} for a new prediction, and "
            "--check makes none: leave one of them out.",
            exit_code=2,
        )
    said = dict(assumption_option(text) for text in assume or ())
    kept = None if check is None else read(check)
    if output is not None:
        refuse_unwritable(output, force=force)
    found = report_on(
        target, run_id=run, duration_s=duration, baseline=baseline, baseline_ms=baseline_ms
    )
    if kept is not None:
        result = held_against(kept, found)
        result = msgspec.structs.replace(result, sentences=became(result))
        _write(msgspec.json.encode(result), result.sentences, json=json)
        return
    assert steps is not None  # noqa: S101 - one of them is given, see above
    if batch is None:
        batch = found.verdict.by_batch[0].batch if found.verdict.by_batch else 1
    setting = Setting(steps=steps, topk=1, draft_tokens=steps + 1)
    made = predicted(found, setting, batch, assumed=said, made_unix_ns=time.time_ns())
    if made is None:
        raise SpectraceError(_why_not(found, steps, batch))
    raw = msgspec.json.format(msgspec.json.encode(made), indent=2)
    _write(raw, tuple(expected(made)), json=json)
    if output is not None:
        with published(output, force=force) as fresh:
            fresh.write_bytes(raw + b"\n")
        typer.echo(f"The prediction is in {output}.", err=True)


def _why_not(found: RunReport, steps: int, batch: int) -> str:
    """Why nothing can be expected of a number of steps."""
    here = [one.setting for one in found.verdict.by_batch if one.batch == batch]
    if here and all(one.topk > 1 for one in here):
        why = (
            "drafts form trees there, and which drafts another tree would have kept was never seen:"
            f" try it with `spectrace sweep --steps {steps}`, or assume"
        )
    elif here and not any(one.steps for one in here):
        why = (
            "drafts are looked up there and not made in steps: try settings with `spectrace sweep "
            "--setting`, or assume"
        )
    else:
        why = "it needs cycles that speculated at that batch size, or"
    return (
        f"This run says nothing about {steps} steps at batch size {batch}: {why} all of "
        "accept_length, verify_ms, draft_ms and rest_ms with --assume."
    )


def _write(raw: bytes, sentences: tuple[str, ...], *, json: bool) -> None:
    lines = [raw.decode()] if json else sentences
    sys.stdout.write("\n".join(lines) + "\n")


def read(path: Path) -> Prediction:
    """A prediction that was kept.

    Raises:
        SpectraceError: There is none, or it is damaged or of another version.
    """
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Prediction)
    except OSError as error:
        raise SpectraceError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.DecodeError as error:
        raise SpectraceError(
            f"{path} is no prediction of spectrace ({error}): make one with "
            "`spectrace predict RUN --steps K -o FILE`."
        ) from error
    if found.format != FORMAT:
        raise SpectraceError(
            f"{path} has version {found.format} of the format and this spectrace reads {FORMAT}: "
            "use the spectrace that wrote it."
        )
    wrong = flaw(found)
    if wrong:
        raise SpectraceError(
            f"{path} is damaged ({wrong}): make it anew with `spectrace predict RUN --steps K "
            "-o FILE --force`."
        )
    return found
