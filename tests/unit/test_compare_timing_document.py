"""docs/compare-timing.md describes the JSON as it is."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from spectrace.analysis import timing_report
from spectrace.analysis.samples import WARM_UP_CYCLES, Refusal
from spectrace.cli.compare_timing import TimingResult

TEXT = (Path(__file__).parents[2] / "docs" / "compare-timing.md").read_text("utf-8")
JSON = TEXT.partition("## The JSON\n")[2]
STRUCTS = (
    TimingResult,
    timing_report.Comparison,
    timing_report.ModeFigures,
    timing_report.PhaseFigures,
    timing_report.PhaseDifference,
    timing_report.Cost,
    timing_report.Moved,
    timing_report.Stratum,
    timing_report.Reference,
)


def test_every_field_is_described_and_no_other() -> None:
    """Each name of a field, a verdict and a reason stands in the section, in backticks."""
    described = {part for name in re.findall(r"`([\w.\[\]]+)`", JSON) for part in name.split(".")}
    described = {part.removesuffix("[]") for part in described} - {""}
    fields = {field.name for struct in STRUCTS for field in msgspec.structs.fields(struct)}
    values = {one.value for one in (*Refusal, *timing_report.Verdict)}
    assert described == fields | values


def test_the_warm_up_is_as_long_as_it_says() -> None:
    """The number of cycles stands in the text."""
    assert f"The first {WARM_UP_CYCLES} cycles of a\nblock" in TEXT
