"""Distribution and Requests on the page: recordings whose truth is known, by mouse and keys."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from spectrace.model import RequestRow
from tests.helpers.founding_story import FIVE, TWO, WARM_UP, recording
from tests.helpers.live_view import EVERY_S, asked_s, live_view
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged, window
from tests.helpers.picked import forward
from tests.helpers.recorded import other_span, record

REQUESTS = 230
TRACES = 120  # more than one page of 100
NASTY = "<img src=x onerror=document.title='hurt'>&bar=draft,host,,"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The founding story: cycles of 29.9 ms at five steps and of 26.45 ms at two."""
    path = recording(tmp_path_factory.mktemp("story") / "run.spectrace")
    with paged("view", str(path), "--port", "0") as it:
        yield it


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """A request for each cycle, one with an id that is a piece of a page, and traces of others."""
    names = [f"r{number:04}" for number in range(REQUESTS - 1)] + [NASTY]
    path = record(
        tmp_path_factory.mktemp("many") / "run.spectrace",
        (
            forward(
                n,
                5_000_000,
                requests=(RequestRow(request_id=name, correct_drafts=2, output_tokens=3),),
            )
            for n, name in enumerate(names)
        ),
        spans=(other_span(trace, trace=trace) for trace in range(1, TRACES + 1)),
    )
    with paged("view", str(path), "--port", "0") as it:
        yield it


def opened(page: Page, it: Paged, view: str, more: str = "") -> None:
    """Opens a view by its address and waits until something stored is shown."""
    page.goto(f"{it.url}/#view={view}{more}")
    expect(page.get_by_role("status")).to_contain_text("As of", timeout=PAGE_TIMEOUT_MS)


def picks(page: Page) -> Locator:
    """The lists by which cycles are picked."""
    return page.get_by_role("group", name="Which cycles")


def row_of(page: Page, phase: str) -> Locator:
    """The row of a phase."""
    return page.get_by_role("region", name=phase, exact=True)


def lanes_of(page: Page, phase: str) -> list[list[str]]:
    """The lines of the percentiles of a phase: lane, p50, p95, p99, max."""
    rows = row_of(page, phase).get_by_role("table").locator("tbody tr")
    return [row.inner_text().split() for row in rows.all()]


def test_percentiles_are_what_arithmetic_says(page: Page, story: Paged) -> None:
    """At five steps: a third of the cycles a hundredth shorter, a third a hundredth longer."""
    open_page(page, story)
    page.get_by_role("link", name="Distribution").click()
    expect(page.get_by_text(f"{FIVE + TWO:,} cycles, {WARM_UP} of warm-up left out")).to_be_visible(
        timeout=PAGE_TIMEOUT_MS
    )
    picks(page).get_by_label("steps").select_option(label=f"5 steps ({FIVE:,})")
    expect(page.get_by_text(f"{FIVE:,} cycles, {WARM_UP} of warm-up left out")).to_be_visible()
    # 22.5 ms and 1.03 ms for each of six tokens, and a hundredth more; 0.6, 0.2 and 0.42 ms beside.
    verify = 22.5 + 1.03 * 6
    cycle = verify + 0.6 + 0.2 + 0.42
    slow = [f"{cycle * 1.01:.1f}"] * 3
    assert lanes_of(page, "cycle") == [["cycle", f"{cycle:.1f}", *slow]]
    most = [f"{verify * 1.01:.1f}"] * 3
    assert lanes_of(page, "verify.forward") == [
        [lane, f"{verify:.1f}", *most] for lane in ("device", "host")
    ]
    assert lanes_of(page, "gap") == [["device", "0.42", "0.42", "0.42", "0.42"]]
    expect(page).to_have_url(re.compile("#view=distribution&steps=5$"))


def test_a_bar_leads_to_its_cycles_and_back_by_keys_alone(page: Page, story: Paged) -> None:
    """The last bar of verify has every third window; Enter lists it, a link shows a cycle."""
    opened(page, story, "distribution", "&steps=5")
    bars = row_of(page, "verify.forward").get_by_role("slider")
    bars.focus()
    page.keyboard.press("End")
    slow = [n for n in range(WARM_UP, WARM_UP + FIVE) if n // 25 % 3 == 2]
    expect(bars).to_have_attribute(
        "aria-valuetext", re.compile(rf"^device, .*: {len(slow)} cycles")
    )
    page.keyboard.press("Enter")
    listed = page.get_by_role("region", name="Cycles of the bar")
    expect(listed.get_by_role("heading")).to_be_focused()
    expect(listed).to_contain_text(f"{len(slow)} cycles, the newest 50 shown")
    shown = listed.locator("tbody tr")
    expect(shown).to_have_count(50)
    newest = slow[-1]
    assert shown.first.inner_text().split()[0] == f"{newest:,}"
    more = listed.get_by_role("button", name="Show more")
    more.focus()
    page.keyboard.press("Enter")
    expect(shown).to_have_count(100)
    listed.get_by_role("link").first.focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("complementary", name=f"Cycle {newest:,}")
    expect(drawer).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    page.go_back()
    expect(listed.get_by_role("heading")).to_contain_text("verify.forward on the device")
    expect(listed.locator("tbody tr").first).to_contain_text(f"{newest:,}")
    page.keyboard.press("Escape")
    expect(listed).to_have_count(0)
    expect(bars).to_be_focused()


def test_a_click_on_a_bar_does_the_same_and_survives_a_reload(page: Page, story: Paged) -> None:
    """All cycles of two steps lie far left of those of five."""
    opened(page, story, "distribution")
    bars = row_of(page, "cycle").get_by_role("slider")
    box = bars.bounding_box()
    assert box is not None
    bars.click(position={"x": 1, "y": box["height"] - 3})
    listed = page.get_by_role("region", name="Cycles of the bar")
    expect(listed).to_contain_text("the whole cycle, 26.1")
    first = listed.locator("tbody tr").first.inner_text()
    page.reload()
    expect(listed.locator("tbody tr").first).to_have_text(re.compile(first.split()[0]))
    expect(page).to_have_url(re.compile("bar=cycle"))


def test_slow_cycles_and_acceptance_stand_beside(page: Page, story: Paged) -> None:
    """Verify made the slowest ones slow; 600 of 1,000, 400 of 600, 100 of 400, none of 100."""
    opened(page, story, "distribution", "&steps=5")
    slowest = page.get_by_role("region", name="Slowest cycles").locator("tbody tr")
    expect(slowest).to_have_count(10)
    expect(slowest.first).to_contain_text("verify.forward 29.0 ms; usually 28.7 ms")
    positions = page.get_by_role("region", name="Acceptance by position").locator("tbody tr")
    assert [row.inner_text().split()[1:3] for row in positions.all()] == [
        ["1,000", "600"],
        ["600", "400"],
        ["400", "100"],
        ["100", "0"],
    ]
    lengths = page.get_by_role("region", name="Accept length", exact=True)
    expect(lengths).to_contain_text("mean 2.10")
    counts = [row.inner_text().split()[:2] for row in lengths.locator("tbody tr").all()]
    assert counts[:4] == [["1", "400"], ["2", "200"], ["3", "300"], ["4", "100"]]


def test_a_line_of_steps_and_batch_size_picks_its_cycles(page: Page, story: Paged) -> None:
    """Two steps take 26.45 ms, five 29.9; a press on a line shows these alone."""
    opened(page, story, "distribution")
    lines = page.get_by_role("region", name="By steps and batch size").locator("tbody tr")
    assert [line.inner_text().split()[:4] for line in lines.all()] == [
        ["2", "1", f"{TWO}", "26.4"],
        ["5", "1", f"{FIVE:,}", "29.9"],
    ]
    page.get_by_role("button", name="Pick batch size 1 at 2 steps").click()
    expect(page.get_by_text(f"{TWO} cycles, ")).to_be_visible()
    expect(page).to_have_url(re.compile("size=1&steps=2$"))


def test_what_is_not_stored_is_said(page: Page, story: Paged) -> None:
    """A size that nobody had, and a kind that is none: a sentence each, and the way back."""
    opened(page, story, "distribution", "&size=7")
    expect(page.get_by_text("No stored cycle is like that.")).to_be_visible()
    picks(page).get_by_label("batch").select_option(label="any size")
    expect(row_of(page, "cycle")).to_be_visible()
    page.goto(f"{story.url}/#view=distribution&kind=%3Cb%3E&bar=draft,gpu,1,2")
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("kind is '<b>' and should be one of speculative, decode")
    expect(page).not_to_have_url(re.compile("bar="))


def test_a_request_has_its_cycles_and_they_lead_there_and_back(page: Page, story: Paged) -> None:
    """From a request to a cycle, in its drawer to the request, and its accept length over time."""
    opened(page, story, "requests")
    listed = page.get_by_role("region", name="Requests in stored cycles")
    expect(listed.locator("tbody tr")).to_have_count(16)
    page.get_by_role("searchbox").fill("EST-9")
    expect(listed.locator("tbody tr")).to_have_count(1)
    listed.get_by_role("link", name="request-9").click()
    one = page.get_by_role("complementary", name="Request", exact=True)
    expect(one.get_by_role("heading", name="request-9")).to_be_focused()
    told = story.get(f"/api/runs/{story.runs()[0]['run']}/request?id=request-9")["request"]
    assert told["verifies"] == 100
    length = f"{1 + told['correct'] / 100:.2f}"
    expect(one).to_contain_text(re.compile(rf"accept length\s*{length}"))
    expect(one.get_by_role("img", name=re.compile("^Accept length over the life"))).to_be_visible()
    expect(one).to_contain_text("each step 5 verifies")
    rows = one.get_by_role("region", name="Cycles of the request").locator("tbody tr")
    expect(rows).to_have_count(100)
    rows.first.get_by_role("link").click()
    drawer = page.get_by_role("complementary", name="Cycle 999")
    expect(drawer).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    drawer.get_by_role("link", name="request-9").click()
    expect(one.get_by_role("heading", name="request-9")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    page.keyboard.press("Escape")
    expect(one).to_have_count(0)
    expect(page).not_to_have_url(re.compile("request="))


def test_all_requests_are_there_page_by_page(page: Page, many: Paged) -> None:
    """A hundred at a time, of cycles and of others; an id of a page's making stays text."""
    opened(page, many, "requests")
    listed = page.get_by_role("region", name="Requests in stored cycles")
    for count in (100, 200, REQUESTS):
        expect(listed.locator("tbody tr")).to_have_count(count)
        if count < REQUESTS:
            listed.get_by_role("button", name="Show more").click()
    expect(listed.get_by_role("button", name="Show more")).to_have_count(0)
    others = page.get_by_role("region", name="Requests that others traced")
    expect(others.locator("tbody tr")).to_have_count(100)
    others.get_by_role("button", name="Show more").click()
    expect(others.locator("tbody tr")).to_have_count(TRACES)
    listed.get_by_role("link").first.click()
    expect(page.get_by_role("heading", name=NASTY)).to_be_visible()
    expect(page).to_have_url(re.compile(re.escape(quote("&bar=", safe=""))))
    assert page.title() != "hurt"
    assert page.locator("main img").count() == 0


@pytest.mark.parametrize("width", [360, 1024, 3840])
@pytest.mark.parametrize("view", ["distribution", "requests&request=request-9"])
def test_nothing_scrolls_sideways(browser: Browser, story: Paged, view: str, width: int) -> None:
    """From a small phone to 4K, in the dark too, the page is as wide as its window."""
    with window(browser, width, "dark" if width > 360 else "light") as page:
        opened(page, story, view, "&bar=verify.forward,device,28900000,")
        expect(page.locator("main table").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == width
        section = page.locator(".distribution, .served")
        assert section.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_the_bar_of_a_phone_has_room_for_its_buttons(browser: Browser, story: Paged) -> None:
    """Paused in the past of a run that has ended, when the words are longest."""
    with window(browser, 360, "light") as page:
        open_page(page, story, "/#at=20~0.000~40.000")
        bar = page.get_by_role("region", name="State")
        expect(bar.get_by_role("button", name="Back to the newest")).to_be_visible()
        edges = bar.locator("button, .caption").evaluate_all(
            """all => all.map(one => {
                const { left, right } = one.getBoundingClientRect()
                return [left, right]
            })"""
        )
        assert len(edges) == 3
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(edges))
        assert edges[-1][1] <= 360


def test_a_live_run_is_read_again_by_itself_but_not_often(page: Page) -> None:
    """The next answer is asked for 10 s after the first or later, and tells of more cycles."""
    with live_view(page, "Distribution", "/distribution") as asked:
        ground = page.get_by_text(re.compile("^[0-9,]+ cycles?, "))
        expect(ground).to_be_visible(timeout=PAGE_TIMEOUT_MS)
        before = ground.inner_text()
        expect(ground).not_to_have_text(before, timeout=6 * PAGE_TIMEOUT_MS)
        assert asked_s(asked[1]) - asked_s(asked[0]) >= EVERY_S
