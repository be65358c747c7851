"""What speculation has to reach, beside what it does: lines in the strip chart and a mark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.helpers.founding_story import PLAIN_MS, cycle_ms, recording
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged, window

BREAK_EVEN = cycle_ms(2) / PLAIN_MS  # the newest cycles have two steps
PLAIN_PER_S = 1000 / PLAIN_MS
PADDING = 4  # px above and below the curves
GREEN = {"light": (0x0A, 0x6E, 0x63), "dark": (0x4C, 0xC9, 0xB5)}

# Of each row of pixels of a canvas, how many are of a colour.
COUNT_ROWS = """(canvas, [red, green, blue]) => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const is = at => data[at] === red && data[at + 1] === green && data[at + 2] === blue;
    return Array.from({ length: height }, (_, y) =>
        Array.from({ length: width }, (_, x) => 4 * (y * width + x)).filter(is).length);
}"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """Cycles of 26.45 ms at the end, without a plain decode."""
    path = recording(tmp_path_factory.mktemp("alone") / "run.spectrace", with_plain=False)
    with paged("view", str(path), "--port", "0") as it:
        yield it


def track(page: Page, name: str) -> Locator:
    """A track of the strip chart."""
    return page.locator(".track", has=page.get_by_text(name, exact=True))


def line_in(track: Locator, scheme: Literal["light", "dark"]) -> float | None:
    """The value at which a track has its dashed line; None without one."""
    canvas = track.locator("canvas")
    counts: list[int] = canvas.evaluate(COUNT_ROWS, list(GREEN[scheme]))
    width: int = canvas.evaluate("canvas => canvas.width")
    row = max(range(len(counts)), key=counts.__getitem__)
    if counts[row] < width * 0.4:  # dashes of 6 in 10
        return None
    high, low = (float(text) for text in track.locator(".ylimits span").all_inner_texts())
    return high - (row + 0.5 - PADDING) / (len(counts) - 2 * PADDING) * (high - low)


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_what_a_person_says_of_plain_decode_is_a_line_to_hold_curves_against(
    browser: Browser, alone: Paged, width: int, scheme: Literal["light", "dark"]
) -> None:
    """26.45 / 11.1 tokens and 1000 / 11.1 tokens a second, in pixels, words and for a reader."""
    with window(browser, width, scheme) as page:
        open_page(page, alone, f"/#baseline_ms={PLAIN_MS}")
        caption = page.locator(".strip caption")
        said = f"break-even {BREAK_EVEN:.2f} tokens, plain decode {PLAIN_PER_S:.0f} tok/s"
        expect(caption).to_contain_text(said, timeout=PAGE_TIMEOUT_MS)
        figures = page.get_by_role("region", name="Figures")
        expect(figures).to_contain_text(f"break-even {BREAK_EVEN:.2f}")
        expect(
            figures.get_by_role("img", name=re.compile("accept length"))
        ).to_have_accessible_name(re.compile(f"break-even at {BREAK_EVEN:.2f}$"))
        even, plain = (
            line_in(track(page, name), scheme) for name in ("accept length", "throughput")
        )
        assert even == pytest.approx(BREAK_EVEN, abs=0.05)  # a px and a half
        assert plain == pytest.approx(PLAIN_PER_S, abs=2)
        track(page, "accept length").get_by_text("accept length", exact=True).focus()
        expect(
            page.get_by_text("At batch size 1, 2 steps: a plain decode takes 11.1 ms")
        ).to_be_visible()


def test_without_plain_decode_there_is_no_line(page: Page, alone: Paged) -> None:
    """Nothing is drawn that nobody knows."""
    open_page(page, alone)
    expect(page.locator(".strip tbody tr").first).to_be_attached(timeout=PAGE_TIMEOUT_MS)
    expect(page.locator(".strip caption")).not_to_contain_text("break-even")
    expect(page.get_by_role("region", name="Figures")).not_to_contain_text("break-even")
    assert line_in(track(page, "accept length"), "light") is None
    assert line_in(track(page, "throughput"), "light") is None


def test_the_report_gives_the_lines_once_it_was_read(page: Page, alone: Paged) -> None:
    """Whoever comes back from the verdict sees the break-even that it names."""
    page.goto(f"{alone.url}/#view=verdict&baseline_ms={PLAIN_MS}")
    expect(page.locator(".verdict h2")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    page.get_by_role("link", name="Live").click()
    term = track(page, "throughput").get_by_text("throughput", exact=True)
    term.focus()
    expect(page.get_by_text("11.1 ms (by the verdict on this run)")).to_be_visible()
