"""docs/sweep.md and docs/compare.md describe the JSON and the options as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path

import msgspec
import pytest
from typer.main import get_command

from spectrace.analysis import run_comparison, sweep_report
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.run_settings import SettingDifference
from spectrace.analysis.throughput import Unit
from spectrace.analysis.timing_report import Verdict
from spectrace.cli.compare_words import Compared
from spectrace.cli.main import app

DOCS = Path(__file__).parents[2] / "docs"
COMPARISON = (
    Compared,
    SettingDifference,
    run_comparison.RunComparison,
    run_comparison.Side,
    run_comparison.Alike,
    run_comparison.Difference,
    run_comparison.PhaseDifference,
)
SWEEP = (sweep_report.SweepReport, sweep_report.SettingFigures, Estimate)


@pytest.mark.parametrize(
    ("name", "structs", "values"),
    [
        ("compare", COMPARISON, (*run_comparison.Note, *Verdict)),
        ("sweep", SWEEP, tuple(Unit)),
    ],
)
def test_every_field_is_described_and_no_other(
    name: str, structs: Iterable[type[msgspec.Struct]], values: Iterable[Enum]
) -> None:
    """Each name of a field and each value of a word stands in the section, in backticks."""
    section = (DOCS / f"{name}.md").read_text("utf-8").partition("## The JSON\n")[2]
    parts = {part for name in re.findall(r"`([\w.\[\]]+)`", section) for part in name.split(".")}
    described = {part.removesuffix("[]") for part in parts} - {""}
    fields = {field.name for struct in structs for field in msgspec.structs.fields(struct)}
    assert described == fields | {value.value for value in values}


def test_every_option_of_a_sweep_is_described() -> None:
    """But for those that other commands have too, and `--help`."""
    text = (DOCS / "sweep.md").read_text("utf-8")
    command = get_command(app)
    options = {
        option
        for parameter in command.commands["sweep"].params  # type: ignore[attr-defined]  # a group
        for option in parameter.opts
        if option.startswith("--")
    }
    shared = {"--timing", "--method", "--max-size", "--output", "--help"}
    assert {option for option in options - shared if option not in text} == set()
