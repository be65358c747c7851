"""The verdict on the page: the figures of a recording whose truth is known, by mouse and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from spectrace.kernels import Seen
from tests.helpers.founding_story import FIVE, PLAIN_MS, TWO, cycle_ms, recording
from tests.helpers.known_look import look
from tests.helpers.live_view import EVERY_S, asked_s, live_view
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged, window

TOKENS = {5: 2.1, 2: 2.0}  # of a cycle, by steps
BREAK_EVEN = cycle_ms(5) / PLAIN_MS


def speed_up() -> float:
    """The two settings by the time that each took."""
    times = {5: FIVE * cycle_ms(5), 2: TWO * cycle_ms(2)}
    gained = (times[steps] * TOKENS[steps] * PLAIN_MS / cycle_ms(steps) for steps in times)
    return sum(gained) / sum(times.values())


def rate(steps: int) -> float:
    """Tokens per second of a setting that was measured."""
    return 1000 * TOKENS[steps] / cycle_ms(steps)


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of a recording with plain decode in it."""
    path = recording(tmp_path_factory.mktemp("story") / "run.spectrace")
    with paged("view", str(path), "--port", "0") as it:
        yield it


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The same without plain decode."""
    path = recording(tmp_path_factory.mktemp("alone") / "run.spectrace", with_plain=False)
    with paged("view", str(path), "--port", "0") as it:
        yield it


@pytest.fixture(scope="module")
def inside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The first one with a look at its kernels."""
    path = tmp_path_factory.mktemp("inside") / "run.spectrace"
    recording(path, looks=[Seen(look(), [])])
    with paged("view", str(path), "--port", "0") as it:
        yield it


def open_verdict(page: Page, paged: Paged, more: str = "") -> None:
    """Opens it by its address."""
    page.goto(f"{paged.url}/#view=verdict{more}")
    expect(page.locator(".verdict h2")).to_be_visible(timeout=PAGE_TIMEOUT_MS)


def test_the_answer_is_what_arithmetic_says(page: Page, viewed: Paged) -> None:
    """Factor with interval, break-even, and throughput against plain decode."""
    open_page(page, viewed)
    page.get_by_role("link", name="Verdict").click()
    answer = page.get_by_role("heading", name=re.compile("^Speculation does not pay"))
    expect(answer).to_contain_text(f"{speed_up():.2f} (", timeout=PAGE_TIMEOUT_MS)
    band = page.get_by_role("region", name="Answer")
    expect(band).to_contain_text(f"break-even {BREAK_EVEN:.2f}")
    expect(band).to_contain_text(re.compile(rf"{rate(5):.1f} \(.*, plain decode 90"))
    picture = band.get_by_role("img", name=re.compile("accept length"))
    expect(picture).to_have_accessible_name(re.compile(rf"2\.10 .* break-even at {BREAK_EVEN:.2f}"))
    expect(page.get_by_text("Turn speculation off at batch size 1")).to_be_visible()
    expect(page.get_by_text("Only one batch size was seen.")).to_be_visible()


def test_acceptance_and_the_cost_of_verify(page: Page, viewed: Paged) -> None:
    """600 of 1,000, 400 of 600, 100 of 400, none of 100; 22.5 ms and 1.03 ms for each token."""
    open_verdict(page, viewed)
    rows = page.get_by_role("region", name="Acceptance by position").locator("tbody tr")
    shown = [row.inner_text().split() for row in rows.all()]
    assert [cells[:3] for cells in shown] == [
        ["1", "1,000", "600"],
        ["2", "600", "400"],
        ["3", "400", "100"],
        ["4", "100", "0"],
    ]
    # Wilson's interval for 100 of 400 at 95 %: 0.2101 to 0.2947, were all verifies independent.
    assert shown[2][3] == "25"
    low, high = map(float, re.findall(r"[\d.]+", shown[2][5]))
    assert low <= 21.0
    assert high >= 29.5
    expect(page.get_by_text(re.compile(r"verify takes 22\.50.* ms and 1\.03"))).to_be_visible()


def test_the_gaps_of_the_device_and_what_is_left_out(page: Page, viewed: Paged) -> None:
    """0.42 ms from the end of a cycle's last phase to the next cycle's first; ten of warm-up."""
    open_verdict(page, viewed)
    rows = page.get_by_role("region", name="Gaps on the device").locator("tbody tr")
    between = rows.filter(has_text="draft extend \u2192 draft of the next")
    expect(between.locator("td").nth(1)).to_contain_text(re.compile(r"^0\.42"))
    expect(page.get_by_text("Left out: 10 cycles of warm-up, 0 rows of overshoot")).to_be_visible()


def test_of_what_verify_is_made_where_somebody_looked(page: Page, inside: Paged) -> None:
    """Its 28.7 ms by class with what is nothing at all, and how much of all is communication."""
    open_verdict(page, inside)
    table = page.get_by_role("region", name="What a phase is made of")
    assert table.locator("thead th").all_inner_texts() == [
        *("phase", "device", "nothing runs"),
        *("matrix products", "attention", "communication", "norms", "share of communication"),
    ]
    rows = [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]
    assert rows == [
        ["verify.forward", "28.7", "2.00", "17.2", "4.10", "3.40", "2.00", "13 %"],
        ["draft", "2.00", "0.40", "1.20", "0.40", "\u2013", "\u2013", "0 %"],
    ]
    expect(page.get_by_text("17.2 ms are matrix products")).to_be_visible()
    expect(page.get_by_text("Communication is 12 % of the time of all kernels")).to_be_visible()
    expect(page.get_by_text("Nobody looked of what verify is made")).to_have_count(0)


def test_where_nobody_looked_inside_verify_it_is_said_that_one_can(
    page: Page, viewed: Paged
) -> None:
    """28.7 ms against a plain decode of 11.1: nothing else could bring as much."""
    open_verdict(page, viewed)
    expect(page.get_by_text("Nobody looked of what verify is made")).to_be_visible()
    expect(page.get_by_text("What a phase is made of")).to_have_count(0)


def test_steps_are_tried_by_keys_and_stay_in_the_address(page: Page, viewed: Paged) -> None:
    """End and Left go to other settings; figures, flags and a reload follow."""
    open_verdict(page, viewed, "&setting=5-1-6")
    slider = page.get_by_role("slider", name="Draft steps")
    said = page.locator(".saying")
    expect(said).to_contain_text(f"5 steps: {rate(5):.1f}")
    slider.focus()
    page.keyboard.press("End")
    expect(said).to_contain_text(re.compile("^7 steps: .* extrapolated$"))
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    expect(said).to_contain_text(re.compile(rf"^2 steps: {rate(2):.1f} .* measured$"))
    flags = "--speculative-num-steps 2 --speculative-eagle-topk 1 --speculative-num-draft-tokens 3"
    expect(page.get_by_text(flags, exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile("setting=2-1-3$"))
    page.reload()
    expect(said).to_contain_text("2 steps", timeout=PAGE_TIMEOUT_MS)
    settings = page.get_by_role("region", name="Settings").locator("tbody tr.chosen")
    expect(settings).to_contain_text("2 steps")


def test_a_baseline_that_a_person_types(page: Page, alone: Paged) -> None:
    """Without one there is no factor and the page says why; with one there is, and an address."""
    open_verdict(page, alone)
    unknown = "Whether speculation pays cannot be said: plain decode was not measured."
    expect(page.get_by_role("heading", name=unknown)).to_be_visible()
    field = page.get_by_label("Plain decode, ms")
    field.fill("fast")
    field.press("Enter")
    expect(page.get_by_text("Write a time in ms, such as 11.1.")).to_be_visible()
    field.fill("11.1 ms")
    field.press("Enter")
    expect(page.get_by_role("heading", name=re.compile("does not pay"))).to_be_visible(
        timeout=PAGE_TIMEOUT_MS
    )
    expect(page.get_by_text("11.1 ms (as you said)")).to_be_visible()
    expect(page).to_have_url(re.compile("baseline_ms=11.1"))
    page.get_by_role("button", name="As measured").click()
    expect(page.get_by_role("heading", name=unknown)).to_be_visible(timeout=PAGE_TIMEOUT_MS)


def test_a_report_that_does_not_come_is_said_and_asked_for_again(page: Page, viewed: Paged) -> None:
    """The server's own sentence stands there, and a button brings the report."""
    reason = {"status": 404, "json": {"detail": "Nothing of this run is stored."}}
    page.route("**/report", lambda route: route.fulfill(**reason))
    page.goto(f"{viewed.url}/#view=verdict")
    expect(page.get_by_role("alert")).to_contain_text(
        "There is no report yet. Nothing of this run is stored.", timeout=PAGE_TIMEOUT_MS
    )
    page.unroute("**/report")
    page.get_by_role("button", name="Read again").click()
    expect(page.locator(".verdict h2")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_live_run_is_read_again_by_itself_but_not_often(page: Page) -> None:
    """The second report is asked for 10 s after the first or later, and none on another view."""
    with live_view(page, "Verdict", "/report") as asked:
        expect(page.locator(".verdict h2")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
        with page.expect_response("**/report", timeout=6 * PAGE_TIMEOUT_MS):
            pass
        first, second = asked
        assert asked_s(second) - asked_s(first) >= EVERY_S


@pytest.mark.parametrize("width", [360, 1024, 3840])
def test_nothing_scrolls_sideways(browser: Browser, viewed: Paged, width: int) -> None:
    """From a small phone to 4K, the page is as wide as its window, and no chart is wider."""
    with window(browser, width, "dark") as page:
        open_verdict(page, viewed)
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.querySelector('.verdict').scrollWidth") <= width
        for chart in page.locator(".chart svg").all():
            box = chart.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
