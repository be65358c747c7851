"""The dialog that asks before it changes how a server is timed, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from examples.simulated_gpu.demo import running
from examples.simulated_gpu.options import Options
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged, until


@pytest.fixture(scope="module")
def traced() -> Iterator[Paged]:
    """The page of a simulated server with cycles of 9 ms, timed on the device."""
    with (
        running(Options(shape="v2", scale=0.3)) as pid,
        paged("attach", str(pid), "--port", "0") as traced,
    ):
        yield traced


@pytest.fixture
def dialog(page: Page, traced: Paged) -> Page:
    """The page with the dialog open, by the keyboard alone."""
    open_page(page, traced)
    page.locator(".top .badge").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="How this server is timed")).to_be_visible()
    return page


def test_nothing_is_asked_before_somebody_chooses(dialog: Page) -> None:
    """Cancel has the focus, the mode of now is chosen, and Escape leaves all as it is."""
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    expect(dialog.get_by_role("radio", name="device")).to_be_checked()
    expect(dialog.get_by_role("button", name="Time by device")).to_be_disabled()
    expect(dialog.get_by_text("The server is slower until you choose another")).to_be_visible()
    dialog.keyboard.press("w")  # that is no zoom here
    dialog.keyboard.press("Escape")
    expect(dialog.get_by_role("dialog")).to_be_hidden()
    expect(dialog.locator(".top .badge")).to_contain_text("device")


def test_another_mode_is_asked_for_and_shown(dialog: Page) -> None:
    """The answer names the cycle, and the badge follows when that has come."""
    dialog.get_by_role("radio", name="host").check()
    dialog.get_by_role("button", name="Time by host").click()
    expect(dialog.get_by_text(re.compile(r"^host from cycle [\d,]+ on\.$"))).to_be_visible(
        timeout=PAGE_TIMEOUT_MS
    )
    dialog.get_by_role("radio", name="sync").check()
    expect(dialog.get_by_text(re.compile("from cycle"))).to_have_count(0)
    dialog.keyboard.press("Escape")
    expect(dialog.locator(".top .badge")).to_have_text(re.compile("host"), timeout=PAGE_TIMEOUT_MS)


def test_another_sampling_is_asked_for_by_the_keyboard_alone(dialog: Page, traced: Paged) -> None:
    """Tab leads to the field, Enter asks; from the cycle that is named on there is every fifth."""
    field = dialog.get_by_role("spinbutton", name="Record in full 1 cycle in")
    expect(field).to_have_value("1")
    expect(dialog.get_by_role("button", name="Record every cycle in full")).to_be_disabled()
    first = asked_by_keys(dialog, "5", "1 cycle in 5")
    until(lambda: max(traced.cycles(1)) >= first + 50)
    # Just before it every cycle is there, behind it one in five.
    wanted = {*range(first - 20, first), *(n for n in range(first, first + 50) if n % 5 == 0)}
    until(lambda: wanted == {n for n in traced.cycles(2000) if first - 20 <= n < first + 50})
    part = re.compile(r"of (1 cycle in 5|\d+ % of the cycles)")
    expect(dialog.locator(".band")).to_contain_text(part, timeout=PAGE_TIMEOUT_MS)
    expect(field).to_have_value("5")
    expect(dialog.get_by_role("button", name="Record 1 cycle in 5 in full")).to_be_disabled()
    again = asked_by_keys(dialog, "1", "every cycle")
    until(lambda: set(range(again, again + 20)) <= traced.cycles(2000).keys())
    assert {n % 5 for n in traced.cycles(2000) if first <= n < again} == {0}
    dialog.keyboard.press("Escape")
    expect(dialog.get_by_role("dialog")).to_be_hidden()


def asked_by_keys(dialog: Page, every: str, in_words: str) -> int:
    """Types another sampling and asks for it; gives the first cycle for which it holds."""
    field = dialog.get_by_role("spinbutton", name="Record in full 1 cycle in")
    for _ in range(20):
        if field.evaluate("it => it === document.activeElement"):
            break
        dialog.keyboard.press("Tab")
    expect(field).to_be_focused()
    dialog.keyboard.press("Control+a")
    dialog.keyboard.type(every)
    expect(dialog.get_by_role("button", name=f"Record {in_words} in full")).to_be_enabled()
    dialog.keyboard.press("Enter")
    answer = dialog.get_by_text(re.compile(rf"^{in_words} in full from cycle [\d,]+ on\.$"))
    expect(answer).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    expect(dialog.get_by_role("dialog")).to_be_visible()  # Enter has not closed it
    (first,) = re.findall(r"[\d,]+(?= on)", answer.inner_text())
    return int(first.replace(",", ""))


@pytest.mark.parametrize("typed", ["0", "10001", ""])
def test_what_cannot_be_a_sampling_cannot_be_asked_for(dialog: Page, typed: str) -> None:
    """It is said what can, and neither button nor Enter does anything."""
    field = dialog.get_by_role("spinbutton", name="Record in full 1 cycle in")
    field.fill(typed)
    expect(dialog.get_by_text("From 1 to 10,000.")).to_be_visible()
    expect(dialog.get_by_role("button", name=re.compile("Record .* in full"))).to_be_disabled()
    field.press("Enter")
    expect(dialog.get_by_text(re.compile("from cycle"))).to_have_count(0)
    expect(dialog.get_by_role("dialog")).to_be_visible()


@pytest.mark.parametrize("width", [360, 1440])
def test_it_fits_its_window(dialog: Page, width: int) -> None:
    """Nothing of it sticks out, and all of it can be reached."""
    dialog.set_viewport_size({"width": width, "height": 500})
    box = dialog.get_by_role("dialog").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["y"] + box["height"] <= 500
    assert dialog.get_by_role("dialog").evaluate("it => it.scrollWidth <= it.clientWidth")
    dialog.get_by_role("button", name="End tracing").scroll_into_view_if_needed()
    expect(dialog.get_by_role("button", name="End tracing")).to_be_in_viewport()


def test_tracing_ends_from_here(dialog: Page) -> None:
    """The last test: dialog and page say so, stay, and offer nothing more to ask."""
    dialog.get_by_role("button", name="End tracing").click()
    expect(dialog.get_by_text("Tracing has ended.")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    expect(dialog.get_by_role("button", name="End tracing")).to_be_disabled()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog.get_by_text("The server goes on.")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    expect(dialog.locator(".top .badge.steers")).to_have_count(0)
    expect(dialog.locator(".waterfall table tbody tr").first).to_be_attached()
