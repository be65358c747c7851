"""The page of a timing comparison, in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from spectrace.cli.compare_timing import page_of
from tests.helpers.page import window
from tests.helpers.timing_results import result

pytestmark = pytest.mark.beside_others


@pytest.fixture
def file(tmp_path: Path) -> str:
    """The address of a report that was written."""
    path = tmp_path / "timing.html"
    path.write_text(page_of(result()), "utf-8")
    return path.as_uri()


def test_the_page_shows_every_lane_and_every_difference(page: Page, file: str) -> None:
    """A bar for host, device and sync, each as long as its phases; two differences per phase."""
    page.goto(file)
    expect(page.locator(".lead")).to_contain_text("(draft → verify)")
    expect(page.locator(".stack")).to_have_count(3)
    expect(page.locator(".pair .bar")).to_have_count(4)
    host, device, sync = (
        page.locator(f".stack.{lane}").evaluate("bar => bar.getBoundingClientRect().width")
        for lane in ("host", "device", "sync")
    )
    # Of phases alone: 0.87 + 28.71 against 2.18 + 27.40 and 2.18 + 28.45.
    assert device == pytest.approx(host, rel=0.02)
    assert sync / host == pytest.approx(30.63 / 29.58, rel=0.02)


def test_the_page_says_when_and_of_what_order_it_was_made(page: Page, tmp_path: Path) -> None:
    """The same seed gives the same order of blocks again."""
    path = tmp_path / "timing.html"
    path.write_text(page_of(result(seed=7)), "utf-8")
    page.goto(path.as_uri())
    expect(page.locator("header")).to_contain_text("2026-11-30 12:00 UTC · 40 s · seed 7")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_the_page_fits_its_window(
    browser: Browser, file: str, scheme: Literal["light", "dark"], width: int
) -> None:
    """Nothing sticks out, and its text stands out against the ground, by night too."""
    with window(browser, width, scheme) as page:
        page.goto(file)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ground, ink = (
            page.evaluate(f"getComputedStyle(document.body).{name}")
            for name in ("backgroundColor", "color")
        )
        assert (sum(channels(ground)) > sum(channels(ink))) is (scheme == "light")


def channels(colour: str) -> list[int]:
    """The numbers in `rgb(1, 2, 3)`."""
    return [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
