"""The dialog in which a run is recorded where spectrace runs, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.simulated_gpu.demo import running
from examples.simulated_gpu.options import Options
from spectrace.store.extract import Extract
from tests.browser.test_save_dialog import NAME, PADDING
from tests.helpers.accessible import AXE, faults
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged

WINDOWS = [
    (width, scheme) for width in (360, 768, 1440) for scheme in ("light", "dark")
]  # each of which opens and closes the one recording of the run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where spectrace runs."""
    return tmp_path_factory.mktemp("record")


@pytest.fixture(scope="module")
def traced(folder: Path) -> Iterator[Paged]:
    """The page of a simulated server with cycles of 9 ms."""
    with (
        running(Options(shape="v2", scale=0.3)) as pid,
        paged("attach", str(pid), "--port", "0", folder=folder) as traced,
    ):
        yield traced


def open_dialog(page: Page, traced: Paged) -> None:
    """By the keyboard alone."""
    open_page(page, traced)
    page.get_by_role("button", name="Save", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name=NAME)).to_be_visible()


def test_a_run_is_recorded_by_keyboard(page: Page, traced: Paged, folder: Path) -> None:
    """The cost is said before, the page shows that it goes on, and the file has what came then."""
    open_dialog(page, traced)
    expect(page.get_by_text(re.compile(r"about [\d.]+ [kM]B a minute"))).to_be_visible()
    name = page.get_by_role("textbox", name="Name")
    expect(name).to_have_value(re.compile(r"^run-\d{8}-\d{6}$"))
    name.fill("mine")
    page.get_by_role("button", name="Record", exact=True).focus()
    page.keyboard.press("Enter")
    stop = page.get_by_role("button", name="Stop recording")
    expect(stop).to_be_focused(timeout=PAGE_TIMEOUT_MS)
    expect(page.get_by_text(re.compile(r"^Recording into mine\.spectrace"))).to_be_visible()
    page.keyboard.press("Escape")
    recording = page.get_by_role("button", name="Recording", exact=True)
    expect(recording).to_be_focused()
    page.reload()  # what is recorded is no matter of one page
    recording.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile(r": [1-9][\d,]* cycles, "))).to_be_visible(
        timeout=PAGE_TIMEOUT_MS
    )
    stop.focus()
    page.keyboard.press("Enter")
    said = page.get_by_text(re.compile(r"^mine\.spectrace is there"))
    expect(said).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    with closing(Extract(folder / "mine.spectrace")) as extract:
        numbers = [cycle.number for cycle in extract.cycles()]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    expect(said).to_contain_text(f"{len(numbers):,} cycle")


def test_what_is_refused_is_said(page: Page, traced: Paged, folder: Path) -> None:
    """A name that leads elsewhere, and one that is taken: a sentence, and no file is changed."""
    (folder / "taken.spectrace").write_text("mine")
    open_dialog(page, traced)
    for name, why in (("../out", "names no folder"), ("taken", "is there already")):
        page.get_by_role("textbox", name="Name").fill(name)
        page.get_by_role("button", name="Record", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text(why, timeout=PAGE_TIMEOUT_MS)
    assert (folder / "taken.spectrace").read_text() == "mine"
    assert not (folder.parent / "out.spectrace").exists()


@pytest.mark.parametrize(("width", "scheme"), WINDOWS)
def test_it_fits_its_window_and_can_be_used_by_all(
    browser: Browser, traced: Paged, width: int, scheme: Literal["light", "dark"]
) -> None:
    """While it records nothing sticks out, all can be reached, and axe-core finds no fault."""
    context = browser.new_context(viewport={"width": width, "height": 600}, color_scheme=scheme)
    page = context.new_page()
    open_dialog(page, traced)
    page.evaluate(AXE.read_text())
    page.get_by_role("textbox", name="Name").fill(f"fits-{width}-{scheme}")
    page.get_by_role("button", name="Record", exact=True).click()
    stop = page.get_by_role("button", name="Stop recording")
    expect(stop).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    dialog = page.get_by_role("dialog")
    box = dialog.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["y"] + box["height"] <= 600
    ends = "it => [...it.querySelectorAll('*')].map(one => one.getBoundingClientRect().right)"
    assert max(dialog.evaluate(ends)) <= box["x"] + box["width"] - PADDING
    stop.scroll_into_view_if_needed()
    expect(stop).to_be_in_viewport()
    assert faults(page) == []
    page.keyboard.press("Escape")
    recording = page.get_by_role("button", name="Recording", exact=True)
    expect(recording).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert [fault for fault in faults(page) if ".save" in fault] == []
    recording.click()
    stop.click()
    expect(stop).to_have_count(0, timeout=PAGE_TIMEOUT_MS)
    context.close()
