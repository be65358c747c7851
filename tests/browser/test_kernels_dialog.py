"""The dialog that asks before kernels are looked at, and what becomes of a look, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.helpers.accessible import AXE, faults
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged, window
from tests.helpers.simulated_server import ROOT, SimulatedServer

pytestmark = pytest.mark.beside_others

SITE = ROOT / "tests/helpers/cupti_site"  # a CUPTI that makes records up
OPEN = {"open": True}


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of a server that has no GPU, and not the package either."""
    with (
        SimulatedServer(tmp_path_factory.mktemp("closed"), "TP0") as server,
        paged("attach", str(server.pid), "--port", "0") as traced,
    ):
        yield traced


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of a server of two ranks whose CUPTI makes records up."""
    with (
        SimulatedServer(
            tmp_path_factory.mktemp("scripted"), "TP0", "TP1", packages=[SITE]
        ) as server,
        paged("attach", str(server.pid), "--port", "0") as traced,
    ):
        yield traced


def seen_as_open(page: Page) -> None:
    """Has the page think that the way is open, as it would be on a machine with a GPU."""
    page.route("**/kernels/prospect", lambda route: route.fulfill(json=OPEN))


def asked(page: Page, traced: Paged) -> Locator:
    """The dialog, opened by the keyboard from the badge of the timing mode."""
    open_page(page, traced)
    page.locator(".top .badge").focus()
    page.keyboard.press("Enter")
    button = page.get_by_role("button", name="Look at kernels…")
    expect(button).to_be_visible()
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Look at kernels")
    expect(dialog).to_be_visible()
    return dialog


def test_where_there_can_be_no_look_it_says_why_and_offers_none(page: Page, closed: Paged) -> None:
    """The server's own facts, what to do instead, and no button that would fail."""
    dialog = asked(page, closed)
    expect(dialog).to_contain_text("This server has no GPU, so there are no kernels to look at.")
    expect(dialog).to_contain_text("Ask a server on a GPU")
    buttons = dialog.get_by_role("button")
    expect(buttons).to_have_text(["Close"])
    expect(buttons).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator(".top .badge")).to_be_focused()


def test_nothing_is_asked_before_somebody_agrees(page: Page, closed: Paged) -> None:
    """What happens and what stays is said, Cancel has the focus, and only a number can be sent."""
    seen_as_open(page)
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.method == "POST" else None)
    dialog = asked(page, closed)
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(dialog).to_contain_text("CUPTI's library and its worker thread")
    expect(dialog.get_by_role("button", name="Look at 20 cycles")).to_be_enabled()
    cycles = dialog.get_by_label("Cycles")
    for typed in ("0", "65536", ""):
        cycles.fill(typed)
        expect(dialog.get_by_role("button", name=re.compile("^Look at"))).to_be_disabled()
        expect(dialog).to_contain_text("From 1 to 65,535.")
    cycles.fill("1")
    expect(dialog.get_by_role("button", name="Look at 1 cycle")).to_be_enabled()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert sent == []


def test_a_look_that_the_server_refuses_is_told_with_what_to_do(page: Page, closed: Paged) -> None:
    """Only in the server itself is it seen that a package is missing."""
    seen_as_open(page)
    dialog = asked(page, closed)
    dialog.get_by_role("button", name="Look at 20 cycles").click()
    expect(dialog).to_be_hidden()
    notice = page.locator(".notice")
    expect(notice.filter(has_text="There was no look at kernels.")).to_contain_text(
        re.compile(r"lacks the package cupti-python.*pip install"), timeout=PAGE_TIMEOUT_MS
    )
    page.get_by_role("link", name="Kernels", exact=True).click()
    view = page.get_by_role("region", name="Kernels", exact=True)
    expect(view).to_contain_text("No kernels of this run were looked at.")
    expect(view).to_contain_text("lacks the package cupti-python")


def test_a_look_is_followed_until_its_answer_is_there(page: Page, scripted: Paged) -> None:
    """Asked for, done, and a link from there to the first sentence: all is communication."""
    seen_as_open(page)
    dialog = asked(page, scripted)
    dialog.get_by_label("Cycles").fill("40")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden(timeout=PAGE_TIMEOUT_MS)
    done = page.locator(".notice").filter(has_text="The look at kernels is done.")
    expect(done).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    done.get_by_role("link", name="See what phases are made of").click()
    expect(page.get_by_role("heading", level=2)).to_have_text(
        re.compile(r"100 % communication; communication is 100 % of all kernels' time\.$"),
        timeout=PAGE_TIMEOUT_MS,
    )
    cost = page.get_by_role("region", name="What the window cost each rank")
    ranks = cost.locator("tbody th").all_inner_texts()
    assert ranks == ["TP0", "TP1"]
    expect(page.get_by_role("region", name="What the window cost", exact=True)).to_contain_text(
        re.compile(r"The window held TP0 up for .* ms")
    )
    page.get_by_label("rank").select_option("TP1")
    expect(page.get_by_role("region", name="Kernels", exact=True)).to_contain_text(
        re.compile(r"Per cycle on TP1, over (29|30) cycles")
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_the_dialog_fits_its_window_and_has_no_serious_fault(
    browser: Browser, closed: Paged, width: int, scheme: Literal["light", "dark"]
) -> None:
    """Open or closed, from a phone to a wide screen."""
    with window(browser, width, scheme) as page:
        for way in (False, True):
            if way:
                seen_as_open(page)
            dialog = asked(page, closed)
            first = "Cancel" if way else "Close"
            expect(dialog.get_by_role("button", name=first)).to_be_focused()
            page.evaluate(AXE.read_text())
            assert faults(page) == []
            box = dialog.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            page.reload()
