"""More cycles than the page can hold: summed up from afar, read where somebody looks closer."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from spectrace.model import Cycle
from tests.browser.test_timeline import GUTTER, SLOW_NS, slow
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, address_of, open_page, paged, window
from tests.helpers.recorded import CYCLE_NS, cycle_of, record, run_of

CYCLES = 9_000  # of which the page has about 2,200 at first
SLOW = 1_000
ELSEWHERE = 4_321
WHOLE_MS = CYCLES * CYCLE_NS / 1e6


def cycles() -> Iterator[Cycle]:
    """Of 10 ms each, but for one of 35 ms near the beginning."""
    for number in range(CYCLES):
        cycle = cycle_of(number, 1)
        yield slow(cycle) if number == SLOW else cycle


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of that recording."""
    path = record(tmp_path_factory.mktemp("far") / "run.spectrace", cycles(), run_of(1))
    with paged("view", str(path), "--port", "0") as it:
        yield it


def open_all(page: Page, viewed: Paged) -> Locator:
    """Opens the page and shows all that is stored; returns the table of it."""
    open_page(page, viewed)
    page.locator(".timeline .scroller").focus()
    # First how far it reaches, then what is in view.
    with page.expect_response(re.compile("/overview.*from_ns"), timeout=PAGE_TIMEOUT_MS):
        page.keyboard.press("0")
    table = page.get_by_role("table", name="Stored cycles in view, summed up")
    expect(table.locator("tbody tr").first).to_be_attached(timeout=PAGE_TIMEOUT_MS)
    first = table.locator("tbody tr").first.locator("th")
    expect(first).to_have_text(re.compile(r"^22:13:(19|20)\."), timeout=PAGE_TIMEOUT_MS)
    return table


def x_of(page: Page, number: int) -> float:
    """Where the middle of a cycle stands while all are in view, with 1 % beside them."""
    scroller = page.locator(".timeline .scroller")
    box = scroller.bounding_box()
    assert box is not None
    plot = scroller.evaluate("element => element.clientWidth") - GUTTER
    share = (number + 0.5) / CYCLES
    return float(box["x"] + GUTTER + plot * (0.01 + share) / 1.02)


def test_all_that_is_stored_is_one_picture(page: Page, viewed: Paged) -> None:
    """Every cycle is counted once, the slow one is named, and the address leads back there."""
    table = open_all(page, viewed)
    rows: list[list[str]] = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    assert len(rows) <= 20
    assert sum(int(row[1].replace(",", "")) for row in rows) == CYCLES
    assert [row[3:] for row in rows if row[3] != "10.0 ms"] == [["35.0 ms", f"{SLOW:,}"]]
    shown = re.search(r"at=\d+~-?[\d.]+~([\d.]+)", address_of(page))
    assert shown is not None
    assert float(shown[1]) == pytest.approx(WHOLE_MS * 1.02, rel=0.01)
    page.reload()
    expect(table.locator("tbody tr").first.locator("th")).to_have_text(
        re.compile(r"^22:13:(19|20)\."), timeout=PAGE_TIMEOUT_MS
    )


def test_a_column_explains_itself_and_leads_to_its_slowest_cycle(page: Page, viewed: Paged) -> None:
    """A pointer at the slow cycle says how long it took, a press opens it, f shows its phases."""
    open_all(page, viewed)
    box = page.locator(".timeline .scroller").bounding_box()
    assert box is not None
    page.mouse.move(x_of(page, SLOW), box["y"] + 20)
    card = page.locator(".card")
    expect(card).to_contain_text(f"to 35.0 ms. The slowest is {SLOW:,}.", timeout=PAGE_TIMEOUT_MS)
    page.mouse.click(x_of(page, SLOW), box["y"] + 20)
    drawer = page.get_by_role("complementary", name=f"Cycle {SLOW:,}")
    expect(drawer).to_contain_text(f"{SLOW_NS / 1e6:.1f} ms", timeout=PAGE_TIMEOUT_MS)
    page.locator(".timeline .scroller").focus()
    page.keyboard.press("f")
    numbers = page.get_by_role("table", name="Cycles in view, newest first").locator("tbody th")
    expect(numbers.filter(has_text=f"{SLOW:,}")).to_have_count(1, timeout=PAGE_TIMEOUT_MS)


def test_who_looks_closer_gets_the_cycles_there(page: Page, viewed: Paged) -> None:
    """A zoom with the wheel into a place of which nothing was read: its cycles come."""
    open_all(page, viewed)
    scroller = page.locator(".timeline .scroller")
    box = scroller.bounding_box()
    assert box is not None
    page.mouse.move(x_of(page, ELSEWHERE), box["y"] + 20)
    page.keyboard.down("Control")
    for _ in range(24):
        page.mouse.wheel(0, -200)  # 68 ms of 90 s are left, less than a px had before
    page.keyboard.up("Control")
    numbers = page.get_by_role("table", name="Cycles in view, newest first").locator("tbody th")
    near = re.compile("^4,3[123][0-9]$")
    expect(numbers.filter(has_text=near).nth(4)).to_be_attached(timeout=PAGE_TIMEOUT_MS)
    shown = [int(text.replace(",", "")) for text in numbers.all_inner_texts()]
    assert all(abs(number - ELSEWHERE) < 20 for number in shown)
    expect(page.get_by_role("table", name="Stored cycles in view, summed up")).to_have_count(0)


def test_a_server_that_refuses_breaks_nothing(page: Page, viewed: Paged) -> None:
    """The cycles that are here stay, and keys go on to move them."""
    page.route(
        "**/overview?**", lambda route: route.fulfill(status=503, json={"detail": "Ask again."})
    )
    open_page(page, viewed)
    page.locator(".timeline .scroller").focus()
    with page.expect_response(re.compile("/overview")):
        page.keyboard.press("0")
    page.keyboard.press("a")
    expect(page.locator(".timeline table tbody tr").first).to_be_attached()
    expect(page.get_by_role("table", name="Stored cycles in view, summed up")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 1440])
def test_it_is_drawn_in_every_width(browser: Browser, viewed: Paged, width: int) -> None:
    """From left to right of the row of times stands the band of the cycles, by day and by night."""
    with window(browser, width, "dark" if width > 720 else "light") as page:
        open_all(page, viewed)
        filled: float = page.locator(".timeline canvas").evaluate(
            """(canvas, gutter) => {
                const ctx = canvas.getContext("2d");
                const row = ctx.getImageData(gutter, 0, canvas.width - gutter, 40);
                const columns = Array.from({ length: row.width }, (_, x) =>
                    new Set(Array.from({ length: 40 }, (_, y) =>
                        row.data.slice(4 * (y * row.width + x), 4 * (y * row.width + x) + 3).join()
                    )).size > 1);
                return columns.filter(Boolean).length / columns.length;
            }""",
            GUTTER if width > 720 else 0,
        )
        assert filled > 0.95
