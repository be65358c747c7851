"""The axis of time on the page: figures of a recording whose truth is known, by mouse and keys."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from playwright.sync_api import Locator, Page, expect

from spectrace.model import Cycle, Lane, RequestRow
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, address_of, open_page, paged, until
from tests.helpers.recorded import CYCLE_NS, cycle_of, record, run_of

pytestmark = pytest.mark.beside_others

CYCLES = 2_600  # more than the page has in memory at first
SLOW, SLOW_NS = 2_500, 35_000_000
POOR = 2_550
RANKS = 2
GUTTER = 132
HEAD = 86  # what stands above the ranks
HOVER_MS = 60  # until what is below a resting pointer is explained
MS = CYCLE_NS // 1_000_000  # of a cycle


def slow(cycle: Cycle) -> Cycle:
    """The same cycle with a last phase that makes it 35 ms long."""
    ranks = []
    for rank in cycle.ranks:
        end_ns = rank.start_ns + SLOW_NS
        host = [phase for phase in rank.phases if phase.lane is not Lane.DEVICE]
        device = [phase for phase in rank.phases if phase.lane is Lane.DEVICE]
        last = replace(host[-1], end_ns=end_ns)
        ranks.append(replace(rank, end_ns=end_ns, phases=(*host[:-1], last, *device)))
    return replace(cycle, ranks=tuple(ranks))


def cycles() -> Iterator[Cycle]:
    """Of 10 ms each, but for one of 35 ms, after which three are missing; one accepts nothing."""
    for number in range(CYCLES):
        cycle = cycle_of(number, RANKS)
        if number == SLOW:
            yield slow(cycle)
        elif number == POOR:
            poor = RequestRow(request_id="chatcmpl-poor", correct_drafts=0, output_tokens=1)
            yield replace(cycle, requests=(poor,), batch_size=1)
        elif not SLOW < number <= SLOW + 3:
            yield cycle


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of that recording."""
    path = record(tmp_path_factory.mktemp("timeline") / "run.spectrace", cycles(), run_of(RANKS))
    with paged("view", str(path), "--port", "0") as it:
        yield it


def open_at(page: Page, viewed: Paged, more: str) -> Locator:
    """Opens the page on 100 ms from the start of cycle 2,400; returns the waterfall."""
    open_page(page, viewed, f"/#run={run_of().run_id}&at=2400~0.000~100.000{more}")
    waterfall = page.locator(".timeline .scroller")
    expect(waterfall).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    oldest = page.locator(".timeline table tbody tr").last.locator("th")
    expect(oldest).to_have_text("2,399", timeout=PAGE_TIMEOUT_MS)
    return waterfall


def x_of(waterfall: Locator, milliseconds: float) -> float:
    """Where a time of the 100 ms in view stands in the window."""
    box = waterfall.bounding_box()
    assert box is not None
    width: float = waterfall.evaluate("element => element.clientWidth")
    return box["x"] + GUTTER + (width - GUTTER) * milliseconds / 100


def drag(page: Page, waterfall: Locator, start_ms: float, end_ms: float) -> None:
    """Drags over the lanes of the first rank from one time to another."""
    box = waterfall.bounding_box()
    assert box is not None
    y = box["y"] + HEAD + 20
    page.mouse.move(x_of(waterfall, start_ms), y)
    page.mouse.down()
    page.mouse.move(x_of(waterfall, (start_ms + end_ms) / 2), y)
    page.mouse.move(x_of(waterfall, end_ms), y)
    page.mouse.up()


def figures(drawer: Locator, heading: str) -> dict[str, list[str]]:
    """The rows of one of the measured tables: count, sum, p50, p95, p99 by phase."""
    section = drawer.locator(".section").filter(
        has=drawer.page.get_by_role("heading", name=heading)
    )
    return {
        row.locator("th").inner_text().strip(): row.locator("td").all_inner_texts()
        for row in section.locator("tbody tr").all()
    }


def view_of(page: Page) -> tuple[int, float, float]:
    """What the address says is in view: a cycle, ms from its start, and how many ms."""
    shown = address_of(page)
    match = re.search(r"at=(\d+)~(-?[\d.]+)~([\d.]+)", shown)
    assert match is not None, shown
    return int(match[1]), float(match[2]), float(match[3])


def test_a_drag_measures_what_lies_wholly_within_it(page: Page, viewed: Paged) -> None:
    """From 5.6 to 55.6 ms lie 4 whole cycles, 5 drafts of 1.25 ms and 4 verifies of 5.

    On the device there are 5 gaps of 1 ms, and 10 of a ns between phases.
    """
    waterfall = open_at(page, viewed, "")
    drag(page, waterfall, 5.6, 55.6)
    drawer = page.get_by_role("complementary", name="Measured")
    expect(drawer).to_contain_text(re.compile(r"(49\.9|50\.0|50\.1) ms measured"))
    assert figures(drawer, "Cycles") == {"whole cycles": ["4", "40.0", "10.0", "10.0", "10.0"]}
    host = figures(drawer, "Host")
    assert host["draft"] == ["5", "6.25", "1.25", "1.25", "1.25"]
    assert host["verify"] == ["4", "20.0", "5.00", "5.00", "5.00"]
    assert host["sample"] == ["4", "5.00", "1.25", "1.25", "1.25"]
    device = figures(drawer, "Device")
    assert device["forward"] == ["5", "15.0", "3.00", "3.00", "3.00"]
    assert device["gap"] == ["15", "5.00", "< 0.01", "1.00", "1.00"]
    assert "measured=2400~5." in address_of(page)
    page.keyboard.press("f")
    number, offset, length = view_of(page)
    assert (number * MS + offset, length) == pytest.approx((2400 * MS + 5.6 - 2, 54), abs=0.5)
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


def test_a_click_selects_and_arrows_step(page: Page, viewed: Paged) -> None:
    """A click on a bar opens its cycle, Right the next one, Escape closes it."""
    waterfall = open_at(page, viewed, "")
    box = waterfall.bounding_box()
    assert box is not None
    page.mouse.click(x_of(waterfall, 34), box["y"] + HEAD + 15)
    expect(page.get_by_role("complementary", name="Cycle 2,403")).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("complementary", name="Cycle 2,404")).to_be_visible()
    assert "cycle=2404" in address_of(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("complementary")).to_have_count(0)


def test_the_drawer_says_who_came_and_who_was_gone(page: Page, viewed: Paged) -> None:
    """One cycle has a request of its own: the two others were gone, and are back in the next."""
    open_page(page, viewed, f"/#run={run_of().run_id}&cycle={POOR - 1}")
    start = page.get_by_role("region", name="Around its start")
    expect(start).to_contain_text(f"against cycle {POOR - 2:,}", timeout=PAGE_TIMEOUT_MS)
    expect(start).to_contain_text("The same requests as before.")
    after = page.get_by_role("button", name="Cycle after")
    after.click()
    expect(start).to_contain_text(f"against cycle {POOR - 1:,}")
    expect(start.locator("p", has_text="came").get_by_role("link")).to_have_text(["chatcmpl-poor"])
    expect(start.locator("p", has_text="gone").get_by_role("link")).to_have_text(["r2", "r3"])
    after.click()
    expect(start.locator("p", has_text="came").get_by_role("link")).to_have_text(["r2", "r3"])
    start.get_by_role("link", name="chatcmpl-poor").click()
    expect(page.get_by_role("heading", name="chatcmpl-poor")).to_be_visible(timeout=PAGE_TIMEOUT_MS)


def test_a_bar_explains_itself_to_the_pointer_and_to_the_keyboard(
    page: Page, viewed: Paged
) -> None:
    """The card has phase, lane, time, clock error and the cycle that a result worked for."""
    waterfall = open_at(page, viewed, "")
    box = waterfall.bounding_box()
    assert box is not None
    page.mouse.move(x_of(waterfall, 39.4), box["y"] + HEAD + 15)
    card = page.get_by_role("tooltip")
    expect(card).to_contain_text("result")
    expect(card).to_contain_text("cycle 2,402")
    page.mouse.move(10, 10)
    expect(card).to_have_count(0)
    waterfall.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("]")
    page.keyboard.press("l")
    expect(card).to_contain_text("TP0, device")
    expect(card).to_contain_text("± 1 µs")


def test_zoom_keeps_what_is_under_the_pointer(page: Page, viewed: Paged) -> None:
    """W at 30 ms makes 100 ms into 66.7, and 30 ms stays where it is; A and D move by a fifth."""
    waterfall = open_at(page, viewed, "")
    box = waterfall.bounding_box()
    assert box is not None
    page.mouse.move(x_of(waterfall, 30), box["y"] + HEAD + 15)
    page.keyboard.press("w")
    number, offset, length = view_of(page)
    assert length == pytest.approx(100 / 1.5, abs=0.01)
    assert (number - 2400) * MS + offset == pytest.approx(30 - 30 / 1.5, abs=0.1)
    page.keyboard.press("d")
    moved = view_of(page)
    assert (moved[0] - number) * MS + moved[1] - offset == pytest.approx(length / 5, abs=0.01)
    page.keyboard.press("a")
    assert view_of(page)[1] == pytest.approx(offset, abs=0.01)
    page.keyboard.press("s")
    assert view_of(page)[2] == pytest.approx(100, abs=0.01)


def test_everything_that_is_here_fits(page: Page, viewed: Paged) -> None:
    """0 shows thousands of cycles at once, in columns that lead to their slowest cycle."""
    waterfall = open_at(page, viewed, "")

    def all_in_view() -> bool:
        page.keyboard.press("0")
        return view_of(page)[2] > CYCLES * MS

    until(all_in_view)  # the server says how far the past reaches
    box = waterfall.bounding_box()
    assert box is not None
    number, offset, length = view_of(page)
    at = ((SLOW - number) * MS - offset) / length * 100
    y = box["y"] + HEAD + 15
    tooltip = page.get_by_role("tooltip")

    def column_of_the_slow_one() -> float | None:
        for away in (0, -1, 1, -2, 2):  # a column has a px, and so has a pointer
            x = x_of(waterfall, at) + away
            page.mouse.move(x, y)
            page.wait_for_timeout(2 * HOVER_MS)
            said = " ".join(tooltip.all_inner_texts())
            if re.search(r"The slowest is 2,500\.|Cycle 2,500, 35", said):
                return x
        return None

    page.mouse.click(until(column_of_the_slow_one), y)
    expect(page.get_by_role("complementary", name="Cycle 2,500")).to_be_visible()


def test_a_search_goes_from_one_to_the_next(page: Page, viewed: Paged) -> None:
    """Slash, words, Enter: a slow cycle, one that accepted little, a request, a number."""
    open_at(page, viewed, "")
    for words, number in (
        ("slower than 20 ms", SLOW),
        ("accepted fewer than 1", POOR),
        ("tcmpl-po", POOR),
        ("2,410", 2410),
    ):
        page.keyboard.press("/")
        page.keyboard.type(words)
        expect(page.get_by_role("status")).to_have_text(re.compile(r"^1 of "))
        page.keyboard.press("Enter")
        expect(page.get_by_role("complementary", name=f"Cycle {number:,}")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("1 of 1")
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("batch 2")
    drawer = page.get_by_role("complementary")
    page.keyboard.press("Enter")
    expect(drawer).to_be_visible()
    first = drawer.get_attribute("aria-label") or ""
    page.keyboard.press("Enter")
    expect(drawer).not_to_have_attribute("aria-label", first)
    page.keyboard.press("Shift+Enter")
    expect(drawer).to_have_attribute("aria-label", first)


def test_a_number_that_is_only_stored_is_found(page: Page, viewed: Paged) -> None:
    """A cycle that the page does not have is asked for; one that nobody has is said to be none."""
    open_at(page, viewed, "")
    page.keyboard.press("/")
    page.keyboard.type("7")
    expect(page.get_by_role("status")).to_have_text("Not here: Enter asks the store")
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Cycle 7")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    page.keyboard.press("Escape")
    page.keyboard.type("99999")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Cycle 99,999 is not stored.")).to_be_visible(timeout=PAGE_TIMEOUT_MS)


def test_marks_stay_in_the_address_and_go_again(page: Page, viewed: Paged) -> None:
    """M sets A and B where the pointer is; a reload keeps them; M on A takes it away."""
    waterfall = open_at(page, viewed, "")
    box = waterfall.bounding_box()
    assert box is not None
    y = box["y"] + HEAD + 15
    for at in (20.5, 60.5):
        page.mouse.move(x_of(waterfall, at), y)
        page.keyboard.press("m")
    assert re.search(r"marks=A2402.*B2406", address_of(page))
    page.reload()
    expect(waterfall).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    oldest = page.locator(".timeline table tbody tr").last.locator("th")
    expect(oldest).to_have_text("2,399", timeout=PAGE_TIMEOUT_MS)
    page.mouse.move(x_of(waterfall, 20.5), y)
    page.keyboard.press("m")
    left = address_of(page)
    assert "A2402" not in left
    assert "B2406" in left


def test_an_address_brings_back_what_was_seen(page: Page, viewed: Paged) -> None:
    """Stretch, measured stretch, rank and search are what they were."""
    open_at(page, viewed, "&measured=2401~0.000~30.001&rank=TP1&find=batch+1")
    drawer = page.get_by_role("complementary", name="Measured")
    expect(drawer).to_contain_text("30.0 ms measured")
    expect(drawer).to_contain_text("TP1")
    expect(page.get_by_label("Search cycles")).to_have_value("batch 1")
    assert figures(drawer, "Host")["draft"][0] == "3"


def test_the_help_lists_the_keys(page: Page, viewed: Paged) -> None:
    """A question mark opens it, Escape closes it and nothing else."""
    open_at(page, viewed, "&cycle=2403")
    expect(page.get_by_role("complementary", name="Cycle 2,403")).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("measure a stretch")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("complementary", name="Cycle 2,403")).to_be_visible()


def test_the_past_that_comes_after_a_pause_is_in_the_strip_chart(page: Page, viewed: Paged) -> None:
    """A page that stands still before it has read the past reads on, and shows it."""
    page.route("**/cycles?*", lambda _: None)  # no answer
    with page.expect_request("**/cycles?*"):
        open_page(page, viewed)
    slider = page.get_by_role("slider", name=re.compile("strip chart"))
    expect(slider).to_have_attribute("aria-valuetext", re.compile("cycle time 10.0 ms"))
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Back to the newest").first).to_be_visible()
    slider.focus()
    page.keyboard.press("End")
    for _ in range(2):  # twenty seconds back
        page.keyboard.press("PageDown")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"cycle time \W ms"))
    page.unroute("**/cycles?*")  # lets go of what it held
    expect(slider).to_have_attribute("aria-valuetext", re.compile("cycle time 10.0 ms"))


def test_a_past_that_could_not_be_read_is_asked_for_again(page: Page, viewed: Paged) -> None:
    """The strip chart shows it once the server answers."""
    page.route("**/cycles?*", lambda route: route.fulfill(status=503))
    with page.expect_request("**/cycles?*"):
        open_page(page, viewed)
    with page.expect_request("**/cycles?*"):
        pass  # the next one
    page.unroute("**/cycles?*")
    slider = page.get_by_role("slider", name=re.compile("strip chart"))
    slider.focus()
    page.keyboard.press("End")
    for _ in range(2):  # twenty seconds back
        page.keyboard.press("PageDown")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("cycle time 10.0 ms"))


def test_the_strip_chart_leads_to_the_slowest_cycle_of_a_second(page: Page, viewed: Paged) -> None:
    """By keyboard and by click; the table behind it has the same figures."""
    open_page(page, viewed)
    plot = page.locator(".strip .plot .u-over").first

    def width() -> float:
        return float(plot.evaluate("element => element.clientWidth"))

    slider = page.get_by_role("slider", name=re.compile("strip chart"))

    def said_of_a_usual_second() -> str:
        said = slider.get_attribute("aria-valuetext") or ""
        return said if "cycle time 10.0 ms, accept length 3.50, " in said else ""

    def by_keyboard() -> str:
        slider.focus()
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")  # in the last second there is one that accepted nothing
        return said_of_a_usual_second()

    said = until(by_keyboard)  # the page reads the past page by page
    expect(page.locator(".strip .timeaxis .gutter")).to_have_text(said.split(",")[0])
    whole = width()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("complementary", name=re.compile("Cycle"))
    expect(drawer).to_contain_text(said.split(",")[0])
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)
    until(lambda: width() == whole)  # the drawer has taken room

    def by_mouse() -> tuple[float, float] | None:
        box = plot.bounding_box()
        assert box is not None
        x, y = box["x"] + box["width"] - 30, box["y"] + box["height"] / 2
        page.mouse.move(x - 1, y)
        page.mouse.move(x, y)
        return (x, y) if said_of_a_usual_second() else None

    page.mouse.click(*until(by_mouse))
    expect(drawer).to_be_visible()
    rows = page.locator(".strip table tbody tr")
    assert rows.count() >= 1
    assert rows.first.locator("td").first.inner_text() == "10.0"


def test_a_pause_moves_no_time_of_a_run_that_has_ended(page: Page, viewed: Paged) -> None:
    """The strip chart ends with the run, at 22:13:46, whatever the time is now."""
    open_page(page, viewed)
    end = page.locator(".timeaxis .now")
    expect(end).to_have_text("22:13:46")
    page.keyboard.press("Space")
    expect(page.get_by_text("Paused", exact=True).first).to_be_visible()
    expect(end).to_have_text("22:13:46")


def test_a_zoom_lasts_when_the_newest_are_followed_again(page: Page, viewed: Paged) -> None:
    """Back to the newest keeps the length that is in view; Fit gives it up."""
    open_at(page, viewed, "")
    page.keyboard.press("s")
    page.get_by_role("button", name=re.compile("^Back to")).first.click()
    newest = page.locator(".timeline table tbody tr").first.locator("th")
    expect(newest).to_have_text(f"{CYCLES - 1:,}")
    shown = page.locator(".timeline table tbody tr")
    expect(shown).to_have_count(15)  # 150 ms, of which a part is kept free
    page.get_by_role("button", name="Fit").click()
    expect(shown).to_have_count(4)
