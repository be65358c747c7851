"""The list of servers and the dialog that asks before one is attached to, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_save_dialog import PADDING
from tests.helpers.accessible import AXE, faults
from tests.helpers.page import SERVE, Paged, paged, window
from tests.helpers.simulated_server import SimulatedServer

pytestmark = pytest.mark.beside_others

MOST_TABS = 200  # others may run servers here too, each of which has a button


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SimulatedServer]:
    """Two ranks that decode."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as it:
        yield it


@pytest.fixture(scope="module")
def serving() -> Iterator[Paged]:
    """The page of a command that traces nothing by itself."""
    with paged(*SERVE) as it:
        yield it


def tab_to(page: Page, name: str) -> None:
    """Goes to a button of that name by the Tab key."""
    button = page.get_by_role("button", name=name, exact=True)
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        if button.evaluate_all("all => all.includes(document.activeElement)"):
            return
    raise AssertionError(f"no Tab leads to {name}")


def offer_of(server: SimulatedServer) -> str:
    """Name of the button that asks about a server."""
    return f"Attach to server {server.pid}"


def open_offers(page: Page, serving: Paged, server: SimulatedServer) -> None:
    """Opens the page, on which nothing is traced, and waits until it offers the server."""
    page.goto(serving.url)
    expect(page.get_by_role("button", name=offer_of(server))).to_be_visible()


def test_a_server_is_attached_to_and_left_by_keyboard(page: Page, server: SimulatedServer) -> None:
    """Nothing happens before somebody says yes; then its cycles come in the same page."""
    with paged(*SERVE) as serving:
        page.goto(serving.url)
        expect(page.get_by_role("heading", name="Nothing is traced.")).to_be_visible()
        expect(page.get_by_role("button", name=offer_of(server))).to_be_visible()
        tab_to(page, offer_of(server))
        page.keyboard.press("Enter")
        dialog = page.get_by_role("dialog", name=f"Attach to server {server.pid}")
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        expect(dialog).to_contain_text("ranks TP0 and TP1")
        expect(dialog).to_contain_text("a few ms")
        expect(dialog).to_contain_text("every function put back")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(page.get_by_role("button", name=offer_of(server))).to_be_focused()
        assert server.untouched()

        page.keyboard.press("Enter")
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Tab")
        expect(dialog.get_by_role("button", name="Attach", exact=True)).to_be_focused()
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        expect(page.locator(".waterfall table tbody tr").first).to_be_attached()
        assert not server.untouched()
        opener = page.get_by_role("button", name="Attach", exact=True)
        expect(opener).to_be_focused()

        page.keyboard.press("Enter")
        listed = page.get_by_role("dialog", name="Servers of this machine")
        expect(listed.get_by_role("button", name="Close")).to_be_focused()
        leaving = f"End tracing of server {server.pid}"
        expect(listed.get_by_role("button", name=leaving)).to_be_visible()
        tab_to(page, leaving)
        page.keyboard.press("Enter")
        question = page.get_by_role("dialog", name=leaving)
        expect(question.get_by_role("button", name="Cancel")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(question.get_by_text("Tracing has ended.")).to_be_visible()
        page.keyboard.press("Escape")
        expect(opener).to_be_focused()
        expect(page.get_by_text("Detached.")).to_be_visible()
        assert server.untouched()


def test_what_cannot_be_attached_to_is_said(page: Page, serving: Paged, tmp_path: Path) -> None:
    """A server that ended while the dialog asked: a sentence in it, and another look helps."""
    with SimulatedServer(tmp_path, "TP0") as server:
        open_offers(page, serving, server)
        page.get_by_role("button", name=offer_of(server)).click()
        dialog = page.get_by_role("dialog", name=f"Attach to server {server.pid}")
        expect(dialog).to_be_visible()
    dialog.get_by_role("button", name="Attach", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text(f"no process {server.pid}")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    page.get_by_role("button", name="Look again").click()
    expect(page.get_by_role("button", name=offer_of(server))).to_have_count(0)


def test_a_page_that_is_shared_offers_no_server(page: Page) -> None:
    """Who has shown the token sees how to attach in a terminal, and no button."""
    word = "0123456789abcdef"
    with paged(*SERVE, "--token", word) as shared:
        page.goto(f"{shared.url}/?token={word}")
        expect(page.get_by_role("heading", name="Waiting for cycles.")).to_be_visible()
        expect(page.get_by_role("button", name="Attach", exact=True)).to_have_count(0)
        expect(page.get_by_role("button", name="Look again")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1440])
def test_it_fits_its_window_and_can_be_used_by_all(
    browser: Browser,
    serving: Paged,
    server: SimulatedServer,
    width: int,
    scheme: Literal["light", "dark"],
) -> None:
    """The empty page, the question and the list: nothing sticks out, axe-core finds no fault."""
    with window(browser, width, scheme) as page:
        open_offers(page, serving, server)
        page.evaluate(AXE.read_text())
        assert faults(page) == []
        page.get_by_role("button", name=offer_of(server)).click()
        question = page.get_by_role("dialog", name=f"Attach to server {server.pid}")
        expect(question).to_be_visible()
        assert_fits(page, width)
        assert faults(page) == []
        page.keyboard.press("Escape")
        expect(question).to_be_hidden()
        page.locator(".top").get_by_role("button", name="Attach", exact=True).click()
        expect(page.get_by_role("dialog", name="Servers of this machine")).to_be_visible()
        assert_fits(page, width)
        assert faults(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert server.untouched()


def assert_fits(page: Page, width: int) -> None:
    """The dialog is in its window, and all of it in the dialog."""
    dialog = page.get_by_role("dialog")
    box = dialog.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    ends = "it => [...it.querySelectorAll('*')].map(one => one.getBoundingClientRect().right)"
    assert max(dialog.evaluate(ends)) <= box["x"] + box["width"] - PADDING
