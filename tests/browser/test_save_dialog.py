"""The dialog in which what is collected is saved as a file, in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from spectrace.store.extract import Extract
from tests.helpers.accessible import AXE, faults
from tests.helpers.founding_story import recording
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged
from tests.helpers.recorded import run_of

PADDING = 16  # of the dialog, in px
NAME = "Save what is collected"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording."""
    return recording(tmp_path_factory.mktemp("save") / "run.spectrace")


@pytest.fixture(scope="module")
def viewed(file: Path) -> Iterator[Paged]:
    """Its page."""
    with paged("view", str(file), "--port", "0") as it:
        yield it


def numbers_of(path: Path) -> list[int]:
    """The cycles of a recording."""
    with closing(Extract(path)) as extract:
        return [cycle.number for cycle in extract.cycles()]


def open_dialog(page: Page) -> None:
    """By the keyboard alone."""
    page.get_by_role("button", name="Save", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name=NAME)).to_be_visible()


def saved(page: Page, folder: Path) -> Path:
    """The file behind the link, when it is made."""
    link = page.get_by_role("dialog").get_by_role("link")
    expect(link).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    with page.expect_download() as download:
        link.focus()
        page.keyboard.press("Enter")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_nothing_is_made_before_somebody_asks(page: Page, viewed: Paged) -> None:
    """Close has the focus, the cost is said, and Escape closes; keys do nothing to the picture."""
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.method))
    open_page(page, viewed)
    open_dialog(page)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    expect(dialog.get_by_text("The server is not asked")).to_be_visible()
    expect(dialog.get_by_role("radio", name="The whole run")).to_be_checked()
    before = page.evaluate("location.hash")
    page.keyboard.press("w")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_focused()
    assert page.evaluate("location.hash") == before
    assert set(asked) == {"GET"}


def test_the_run_is_saved_by_keyboard(
    page: Page, viewed: Paged, file: Path, tmp_path: Path
) -> None:
    """The recording that comes has every cycle of the one that is shown."""
    open_page(page, viewed)
    open_dialog(page)
    page.get_by_role("button", name="Make the file").focus()
    page.keyboard.press("Enter")
    path = saved(page, tmp_path)
    assert path.suffix == ".spectrace"
    assert numbers_of(path) == numbers_of(file)


def test_what_is_measured_is_saved_for_chrome(
    page: Page, viewed: Paged, file: Path, tmp_path: Path
) -> None:
    """The stretch is chosen as soon as something is measured, and slices of it alone come."""
    with closing(Extract(file)) as extract:
        cycles = list(extract.cycles())
    chosen = cycles[-30]
    length_ms = (chosen.end_ns - chosen.start_ns) / 1e6
    address = f"/#run={run_of().run_id}&measured={chosen.number}~1.000~{length_ms - 2:.3f}"
    open_page(page, viewed, address)
    expect(page.get_by_role("complementary")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    open_dialog(page)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("radio", name="What is measured")).to_be_checked()
    dialog.get_by_role("combobox", name="Format").select_option("chrome")
    dialog.get_by_role("button", name="Make the file").click()
    path = saved(page, tmp_path)
    assert path.name.endswith(".chrome.json")
    events = json.loads(path.read_text())["traceEvents"]
    found = {
        event["args"]["number"]
        for event in events
        if event["ph"] == "B" and "number" in event.get("args", {})
    }
    assert found == {chosen.number}


def test_what_is_refused_is_said(page: Page, viewed: Paged) -> None:
    """The sentence of the server stands in the dialog, and another try is open."""

    def refuse(route: Route) -> None:
        if route.request.method == "POST":
            route.fulfill(status=403, json={"detail": "Only the account that runs spectrace may."})
        else:
            route.continue_()

    page.route("**/exports", refuse)
    open_page(page, viewed)
    open_dialog(page)
    page.get_by_role("button", name="Make the file").click()
    expect(page.get_by_role("alert")).to_have_text("Only the account that runs spectrace may.")
    expect(page.get_by_role("button", name="Make the file")).to_be_enabled()


def test_what_is_made_can_be_cancelled(page: Page, viewed: Paged) -> None:
    """One button makes and cancels, so that the keyboard keeps its place; nothing comes of it."""
    open_page(page, viewed)
    open_dialog(page)
    page.get_by_role("combobox", name="Format").select_option("jaeger")
    page.get_by_role("button", name="Make the file").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_text(re.compile("^Making the file"))).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Make the file")).to_be_focused()
    page.wait_for_timeout(1000)
    expect(page.get_by_role("dialog").get_by_role("link")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_it_fits_its_window_and_can_be_used_by_all(
    browser: Browser, viewed: Paged, width: int, scheme: Literal["light", "dark"]
) -> None:
    """Nothing sticks out of dialog or page at any width, and axe-core finds no serious fault."""
    context = browser.new_context(viewport={"width": width, "height": 600}, color_scheme=scheme)
    page = context.new_page()
    open_page(page, viewed)
    page.evaluate(AXE.read_text())
    open_dialog(page)
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Make the file").click()
    expect(dialog.get_by_role("link")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    box = dialog.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["y"] + box["height"] <= 600
    ends = "it => [...it.querySelectorAll('*')].map(one => one.getBoundingClientRect().right)"
    assert max(dialog.evaluate(ends)) <= box["x"] + box["width"] - PADDING
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert faults(page) == []
    context.close()
