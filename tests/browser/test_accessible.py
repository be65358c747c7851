"""What axe-core finds on every view of the page, light and dark, from a phone to a wide screen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.helpers.accessible import AXE, faults
from tests.helpers.founding_story import recording
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged, window
from tests.helpers.recorded import run_of

pytestmark = pytest.mark.beside_others


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of a recording."""
    path = recording(tmp_path_factory.mktemp("accessible") / "run.spectrace")
    with paged("view", str(path), "--port", "0") as it:
        yield it


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_no_view_has_a_serious_fault(
    browser: Browser, viewed: Paged, width: int, scheme: Literal["light", "dark"]
) -> None:
    """Every tab, the list of keys; on the live one a cycle, a measured stretch, and rows."""
    with window(browser, width, scheme) as page:
        open_page(page, viewed)
        page.evaluate(AXE.read_text())
        found: dict[str, list[str]] = {}
        tabs = page.get_by_role("navigation", name="Views").get_by_role("link")
        for name in tabs.all_inner_texts():
            tab = tabs.get_by_text(name, exact=True)
            tab.click()
            expect(tab).to_have_attribute("aria-current", "page")
            expect(page.locator(".skeleton")).to_have_count(0, timeout=PAGE_TIMEOUT_MS)
            found[name] = faults(page)
        page.keyboard.press("?")  # on the last tab: it is for all of them
        expect(page.get_by_role("dialog")).to_be_visible()
        found["keys"] = faults(page)
        page.keyboard.press("Escape")
        tabs.first.click()
        newest = page.locator(".waterfall table tbody tr th").first.inner_text().replace(",", "")
        for view, address in {
            "cycle": f"cycle={newest}",
            "measured": f"measured={int(newest) - 3}~0.000~40.000",
            "rows": f"layout=rows&cycle={newest}",
        }.items():
            page.evaluate("hash => { location.hash = hash }", f"#run={run_of().run_id}&{address}")
            expect(page.get_by_role("complementary")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
            found[view] = faults(page)
    assert not {view: all_ for view, all_ in found.items() if all_}


def test_the_look_finds_a_fault_that_is_there(page: Page, viewed: Paged) -> None:
    """A picture without words, put into the page, is found: the look is not blind."""
    open_page(page, viewed)
    page.evaluate(AXE.read_text())
    page.evaluate("document.querySelector('main').append(document.createElement('img'))")
    assert any("image-alt" in fault for fault in faults(page))
