"""The Timing view: a report of `compare-timing --json`, opened from a file, and what is none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, paged
from tests.helpers.picked import forward
from tests.helpers.recorded import record
from tests.helpers.timing_results import result

pytestmark = pytest.mark.beside_others

MODES = ["off", "host", "device", "sync"]


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of any run."""
    path = record(
        tmp_path_factory.mktemp("any") / "run.spectrace", (forward(n, 5) for n in range(30))
    )
    with paged("view", str(path), "--port", "0") as it:
        yield it


def test_a_report_is_shown_with_the_words_of_the_command(
    page: Page, viewed: Paged, tmp_path: Path
) -> None:
    """Its sentences, a bar and a line for each mode, and what each phase hides."""
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.method))
    written = result()
    path = tmp_path / "timing.json"
    path.write_bytes(msgspec.json.encode(written))
    page.goto(f"{viewed.url}/#view=timing")
    expect(page.get_by_text("No report is open.")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    page.get_by_label("report").set_input_files(path)
    for sentence in written.comparison.sentences:
        expect(page.get_by_text(sentence, exact=True)).to_be_visible()
    cycles = page.get_by_role("region", name="Whole cycles").locator("tbody tr")
    assert [row.inner_text().split()[0] for row in cycles.all()] == MODES
    off = written.comparison.modes[0]
    expect(cycles.first).to_contain_text(f"{off.cycle_p50_ms.value:.2f} (")
    phases = page.get_by_role("region", name="Phases by mode")
    draft = phases.locator("tbody tr", has_text="draft").first
    hidden = next(
        one.difference_ms
        for one in written.comparison.differences
        if one.mode.value == "host" and one.phase.value == "draft"
    )
    assert hidden is not None
    assert hidden.value < -1
    expect(draft).to_contain_text(f"\u2212{-hidden.value:.2f} (")
    bars = page.get_by_role("img", name=re.compile("^Median cycles: off .* ms, host .* sync"))
    expect(bars).to_be_visible()
    assert set(asked) == {"GET"}  # the file goes nowhere


@pytest.mark.parametrize("content", [b"", b"{}", b"<html>", b'{"comparison": {"modes": []}}'])
def test_a_file_that_is_none_is_refused_in_words(
    page: Page, viewed: Paged, tmp_path: Path, content: bytes
) -> None:
    """Whatever it holds, the page says what to choose, and goes on."""
    path = tmp_path / "<i>other.json"
    path.write_bytes(content)
    page.goto(f"{viewed.url}/#view=timing")
    page.get_by_label("report").set_input_files(path)
    expect(page.get_by_role("alert")).to_have_text(
        "<i>other.json is no such report. Choose what spectrace compare-timing --json wrote.",
        timeout=PAGE_TIMEOUT_MS,
    )
    expect(page.get_by_text("No report is open.")).to_be_visible()
