"""The dialog that asks before kernels are looked at, and what becomes of a look, in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.helpers.accessible import AXE, faults
from tests.helpers.fake_worker import FakeWorker
from tests.helpers.gpu_site import GpuSite
from tests.helpers.page import (
    PAGE_TIMEOUT_MS,
    Paged,
    address_of,
    open_page,
    paged,
    rounding,
    until,
    window,
)
from tests.helpers.page_wishes import ask

pytestmark = pytest.mark.beside_others

SHAPE = ("--batch", "3", "--scale", "0.2", "--extend", "0.7")
CYCLES = 40
TAKEN = "39"  # what CUPTI answers where another tool has it


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> GpuSite:
    """What makes a server look like one on a GPU, with a CUPTI that makes records up."""
    return GpuSite(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def traced(site: GpuSite) -> Iterator[Paged]:
    """The page of a worker on the simulated GPU."""
    with (
        FakeWorker("v2", *SHAPE, packages=[site.path]) as worker,
        paged("attach", str(worker.pid), "--port", "0") as it,
    ):
        until(lambda: it.runs() and len(it.cycles()) > 50)
        yield it


@pytest.fixture
def closed(traced: Paged, site: GpuSite) -> Iterator[Paged]:
    """The same, where the package is not installed."""
    site.installed(None)
    yield traced
    site.installed("13.4.0")


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
    """What is seen from outside of the server, what to do, and no button that would fail."""
    dialog = asked(page, closed)
    expect(dialog).to_contain_text("lacks the package cupti-python")
    expect(dialog).to_contain_text("pip install")
    buttons = dialog.get_by_role("button")
    expect(buttons).to_have_text(["Close"])
    expect(buttons).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator(".top .badge")).to_be_focused()


def test_nothing_is_asked_before_somebody_agrees(page: Page, traced: Paged) -> None:
    """What happens and what stays is said, Cancel has the focus, and only a number can be sent."""
    sent: list[str] = []
    page.on("request", lambda one: sent.append(one.url) if one.method == "POST" else None)
    dialog = asked(page, traced)
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(dialog).to_contain_text("CUPTI's library and its worker thread")
    expect(dialog.get_by_role("button", name="Look at 20 cycles")).to_be_enabled()
    cycles = dialog.get_by_label("Cycles")
    for typed in ("0", "1001", ""):
        cycles.fill(typed)
        expect(dialog.get_by_role("button", name=re.compile("^Look at"))).to_be_disabled()
        expect(dialog).to_contain_text("From 1 to 1,000.")
    cycles.fill("1")
    expect(dialog.get_by_role("button", name="Look at 1 cycle")).to_be_enabled()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert sent == []


def test_a_look_that_the_server_refuses_is_told_with_what_to_do(
    page: Page, traced: Paged, site: GpuSite
) -> None:
    """Only in the server itself is it seen that another tool has CUPTI."""
    dialog = asked(page, traced)
    site.refuses(TAKEN)
    dialog.get_by_role("button", name="Look at 20 cycles").click()
    expect(dialog).to_be_hidden()
    notice = page.locator(".notice").filter(has_text="There was no look at kernels.")
    expect(notice).to_contain_text(
        re.compile("Another tool has CUPTI for itself.*End that tool"), timeout=PAGE_TIMEOUT_MS
    )
    site.refuses("")
    page.get_by_role("link", name="Kernels", exact=True).click()
    view = page.get_by_role("region", name="Kernels", exact=True)
    expect(view).to_contain_text("Look at kernels…")


def test_a_look_is_followed_until_its_answer_is_there(page: Page, traced: Paged) -> None:
    """Asked for, done, and a link from there to the first sentence: all is communication."""
    dialog = asked(page, traced)
    dialog.get_by_label("Cycles").fill(str(CYCLES))
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden(timeout=PAGE_TIMEOUT_MS)
    done = page.locator(".notice").filter(has_text="The look at kernels is done.")
    expect(done).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    done.get_by_role("link", name="See what phases are made of").click()
    expect(page.get_by_role("heading", level=2)).to_have_text(
        re.compile(r"100 % communication; communication is 100 % of all kernels' time\.$"),
        timeout=PAGE_TIMEOUT_MS,
    )
    (run,) = traced.runs()
    look = traced.get(f"/api/runs/{run['run']}/looks")["looks"][-1]
    seen = look["cycles_seen"]["TP0"]
    view = page.get_by_role("region", name="Kernels", exact=True)
    expect(view).to_contain_text(f"over {seen} cycles whose kernels were seen one by one")
    expect(view).to_contain_text(f"of {CYCLES} that were asked for")
    cost = page.get_by_role("region", name="What the window cost", exact=True)
    (told,) = look["costs"]
    stood_ms = told["loading_ms"] + told["switching_ms"] + told["flushing_ms"]
    expect(cost).to_contain_text("The window held TP0 up for")
    shown = cost.locator("tbody td").first.inner_text()
    assert float(shown) == pytest.approx(stood_ms, abs=rounding(shown))
    # And from there to a cycle that was looked at, with the kernels of its phases.
    page.get_by_role("link", name=re.compile("^Cycle ")).click()
    made = page.get_by_role("region", name="Made of")
    expect(made).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    expect(made).to_contain_text("communication 100 %")


def looked(traced: Paged, cycles: int) -> int:
    """Has so many cycles looked at; returns how many looks there are by then."""
    (before,) = traced.runs()
    answer = ask(traced, f"runs/{before['run']}/kernels", {"cycles": cycles})
    assert answer.status_code == 202, answer.text

    def more() -> int:
        (now,) = traced.runs()
        return int(now["looks"]) if now["looks"] > before["looks"] else 0

    return until(more)


def test_an_older_look_is_chosen_and_stays_in_the_address(page: Page, traced: Paged) -> None:
    """The newest is shown at first; the other one again after a reload."""
    looked(traced, 12)
    count = looked(traced, 16)
    (run,) = traced.runs()
    older, newer = traced.get(f"/api/runs/{run['run']}/looks")["looks"][-2:]
    page.goto(f"{traced.url}/#view=kernels")
    view = page.get_by_role("region", name="Kernels", exact=True)
    expect(view).to_contain_text("of 16 that were asked for", timeout=PAGE_TIMEOUT_MS)
    looks = page.get_by_role("combobox", name="look")
    expect(looks.get_by_role("option")).to_have_count(count)
    looks.select_option(str(int(older["start_ns"]) // 1_000_000))
    expect(view).to_contain_text("of 12 that were asked for")
    assert f"seen={int(older['start_ns']) // 1_000_000}" in address_of(page)
    page.reload()
    expect(view).to_contain_text("of 12 that were asked for", timeout=PAGE_TIMEOUT_MS)
    looks.select_option(str(int(newer["start_ns"]) // 1_000_000))
    expect(view).to_contain_text("of 16 that were asked for")
    assert "seen=" not in address_of(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_the_dialog_fits_its_window_and_has_no_serious_fault(
    browser: Browser, traced: Paged, width: int, scheme: Literal["light", "dark"]
) -> None:
    """From a phone to a wide screen."""
    with window(browser, width, scheme) as page:
        dialog = asked(page, traced)
        expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
        page.evaluate(AXE.read_text())
        assert faults(page) == []
        box = dialog.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
