"""The Runs view: two runs of one store whose difference is known, and an address for the pair."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import msgspec
import pytest
from playwright.sync_api import Page, expect

from spectrace.model import Cycle, PhaseName
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, paged
from tests.helpers.picked import cycle, rank
from tests.helpers.recorded import record, run_of

pytestmark = pytest.mark.beside_others

CYCLES = 600
MS = 1_000_000
VERIFY_MS = {"before": 25, "after": 20}
DRAFT_MS = 5
COMMAND = ("python", "-m", "sglang.launch_server", "--model-path", "/models/tiny")
BEFORE = msgspec.structs.replace(run_of(1), command=(*COMMAND, "--tp-size", "1"))
AFTER = msgspec.structs.replace(
    BEFORE, run_id="f" * 32, server_pid=77, command=(*COMMAND, "--tp-size", "2")
)


def cycles(run_id: str, verify_ms: int) -> Iterator[Cycle]:
    """A draft of 5 ms and a verify, a tenth of a ms more or less; two tokens each."""
    jitter = random.Random(verify_ms)  # noqa: S311 - no secret
    for number in range(CYCLES):
        verify_ns = verify_ms * MS + jitter.randrange(-100_000, 100_001)
        parts = [(PhaseName.DRAFT, DRAFT_MS * MS), (PhaseName.VERIFY_FORWARD, verify_ns)]
        yield cycle(number, rank(number, parts), correct=[1], run_id=run_id)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of a recording that holds both runs."""
    path = record(
        tmp_path_factory.mktemp("both") / "both.spectrace",
        (
            one
            for run, name in ((BEFORE, "before"), (AFTER, "after"))
            for one in cycles(run.run_id, VERIFY_MS[name])
        ),
        [BEFORE, AFTER],
    )
    with paged("view", str(path), "--port", "0") as it:
        yield it


def ready(page: Page) -> None:
    """Waits until both runs are read."""
    expect(page.get_by_role("status")).to_contain_text("As of", timeout=2 * PAGE_TIMEOUT_MS)


def test_the_second_run_is_faster_by_what_verify_saves(page: Page, both: Paged) -> None:
    """Two tokens in 25 ms for two in 30 are a fifth more; all 5 ms are verify's."""
    page.goto(f"{both.url}/#view=runs")
    ready(page)
    said = page.get_by_role("heading", level=2)
    expect(said).to_have_text(re.compile("^The second run makes (19|20).[0-9] % more tokens"))
    expect(page.get_by_text(re.compile("^Its cycles are (4.9|5.0).* from 30.0 ms"))).to_be_visible()
    expect(page.get_by_text("The accept length is the same, 2.00.")).to_be_visible()
    rows = page.get_by_role("region", name="Phases of both runs by host clock").locator("tbody tr")
    assert [row.inner_text().split()[0] for row in rows.all()] == ["verify", "draft"]
    expect(rows.first).to_contain_text("100 %")
    expect(rows.last).to_contain_text("none")
    differ = page.get_by_role("region", name="Settings that differ").locator("tbody tr")
    assert [row.inner_text().split() for row in differ.all()] == [["--tp-size", "1", "2"]]
    bars = page.get_by_role("img", name=re.compile("^Both runs by host clock: first 30.0 ms"))
    expect(bars).to_be_visible()


def test_runs_are_swapped_and_the_pair_stays_in_the_address(page: Page, both: Paged) -> None:
    """What was a fifth more is a sixth fewer, also after a reload."""
    page.goto(f"{both.url}/#view=runs")
    ready(page)
    page.get_by_role("button", name="Swap").click()
    said = page.get_by_role("heading", level=2)
    fewer = re.compile("^The second run makes (16|17).[0-9] % fewer tokens")
    expect(said).to_have_text(fewer, timeout=2 * PAGE_TIMEOUT_MS)
    expect(page).to_have_url(re.compile(f"one={AFTER.run_id}&other={BEFORE.run_id}"))
    page.reload()
    expect(said).to_have_text(fewer, timeout=2 * PAGE_TIMEOUT_MS)


def test_a_run_that_is_not_here_is_said(page: Page, both: Paged) -> None:
    """An address of yesterday names a run that nobody has any more."""
    page.goto(f"{both.url}/#view=runs&one={'e' * 32}&other={AFTER.run_id}")
    expect(page.get_by_role("alert")).to_contain_text(
        "There is no such run", timeout=PAGE_TIMEOUT_MS
    )
    page.get_by_label("first").select_option(value=BEFORE.run_id)
    expect(page.get_by_role("heading", level=2)).to_contain_text(
        "more tokens", timeout=2 * PAGE_TIMEOUT_MS
    )
