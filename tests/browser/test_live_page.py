"""The page in a real Chromium, fed by a real server: live, paused, true, and after the end."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from examples.sglang_cpu.load import LoadLoop
from spectrace.attach import ring_file
from spectrace.collect.reader import PHASES, CycleRecord, RingReader
from spectrace.collect.ring_view import RingView
from tests.conftest import Served
from tests.helpers.page import (
    PAGE_TIMEOUT_MS,
    Paged,
    address_of,
    open_page,
    paged,
    rounding,
    until,
)

NS_PER_MS = 1e6


# The overlap scheduler is the production default.
pytestmark = pytest.mark.parametrize("served", ["overlap"], indirect=True)


@pytest.fixture(scope="module")
def traced(served: Served) -> Iterator[Paged]:
    """Spectrace attached to it, with its page, while four requests are always under way."""
    with (
        LoadLoop(served.server.url, concurrency=4),
        paged("attach", str(served.server.pid), "--port", "0") as it,
    ):
        until(lambda: it.runs() and len(it.cycles()) > 50)
        yield it


def newest_cycle(page: Page) -> int:
    """The number of the cycle at the top of the table behind the canvas."""
    text = page.locator(".waterfall table tbody tr th").first.text_content() or ""
    return int(text.replace(",", ""))


def test_new_cycles_arrive_while_nobody_touches_the_page(page: Page, traced: Paged) -> None:
    """The newest cycle's number rises by itself."""
    open_page(page, traced)
    first = newest_cycle(page)
    until(lambda: newest_cycle(page) > first)


def test_pause_holds_the_picture_and_counts_what_comes(page: Page, traced: Paged) -> None:
    """Space freezes the picture, says how many are new, and Space brings it back to live."""
    open_page(page, traced)
    page.keyboard.press("Space")
    expect(page.get_by_text("Paused").first).to_be_visible()
    address_of(page)  # a while later the table is of what is held, too
    held = newest_cycle(page)
    expect(page.get_by_text(re.compile(r"^[\d,]+ new$")).first).to_be_visible(
        timeout=PAGE_TIMEOUT_MS
    )
    assert newest_cycle(page) == held
    page.keyboard.press("Space")
    until(lambda: newest_cycle(page) > held)


def test_a_drag_while_live_holds_what_was_pressed_on(page: Page, traced: Paged) -> None:
    """The picture stands still, as long as what was dragged over; Escape and Space give it up."""
    open_page(page, traced)
    canvas = page.locator(".timeline canvas")
    box = canvas.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.3, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, y)
    page.mouse.move(box["x"] + box["width"] * 0.8, y)
    page.mouse.up()
    measured = page.get_by_role("complementary", name="Measured")
    expect(measured).to_be_visible()
    expect(page.get_by_text("Paused").first).to_be_visible()
    address = address_of(page)
    spans = [float(part.split("~")[2]) for part in re.findall(r"(?:at|measured)=([^&]+)", address)]
    # Of the plot, which the gutter leaves of the canvas.
    dragged, in_view = min(spans), max(spans)
    assert dragged / in_view == pytest.approx(0.5 * box["width"] / (box["width"] - 132), abs=0.01)
    held = newest_cycle(page)
    expect(page.get_by_text(re.compile(r"^[\d,]+ new$")).first).to_be_visible(
        timeout=PAGE_TIMEOUT_MS
    )
    assert newest_cycle(page) == held
    page.keyboard.press("Escape")
    expect(measured).to_have_count(0)
    page.keyboard.press("Space")
    until(lambda: newest_cycle(page) > held)


def test_a_cycles_phases_are_what_the_ring_said(page: Page, traced: Paged, served: Served) -> None:
    """The table of a selected cycle has each phase's time as the probe recorded it."""
    (pid,) = served.server.scheduler_pids()
    view = RingView(ring_file.ring_path(pid))
    reader = RingReader(view, join=True)
    found: list[CycleRecord] = []

    def recorded() -> CycleRecord | None:
        found.extend(r for r in reader.poll() if isinstance(r, CycleRecord) and r.steps)
        return found[0] if len(found) > 20 else None

    record = until(recorded)
    view.close()
    (run,) = traced.runs()
    open_page(page, traced, f"/#run={run['run']}&cycle={record.number}")
    drawer = page.get_by_role("complementary", name=f"Cycle {record.number:,}")
    expect(drawer).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    shown = {}
    for row in drawer.locator("table").first.locator("tbody tr").all():
        label = row.locator("th").inner_text()
        # "schedule 2x" occurs twice, "wait ◂ of cycle 9" belongs to another cycle.
        name = re.split(r"\s*(?:\d|◂|$)", label, maxsplit=1)[0].replace(" ", "_")
        shown[name] = row.locator("td").first.inner_text().replace(",", "")
    expected: dict[str, float] = {}
    ends = [*(offset for _, _, offset in record.marks[1:]), record.length_ns]
    for (phase, _, start), end in zip(record.marks, ends, strict=True):
        # A part counts for itself and for the phase that it is a part of.
        for name in PHASES[phase].value.split("."):
            expected[name] = expected.get(name, 0.0) + (end - start) / NS_PER_MS
    for name, milliseconds in expected.items():
        assert float(shown[name]) == pytest.approx(milliseconds, abs=rounding(shown[name])), name
    length_ms = record.length_ns / NS_PER_MS
    assert float(shown["cycle"]) == pytest.approx(length_ms, abs=rounding(shown["cycle"]))


def test_results_of_the_previous_batch_are_marked(page: Page, traced: Paged) -> None:
    """With the overlap scheduler `wait` and `result` name the cycle that they belong to."""
    cycles = traced.cycles()
    number = next(
        n
        for n, cycle in sorted(cycles.items())[20:]
        for p in cycle["ranks"][0]["phases"]
        if p[0] == "result" and p[4] == n - 1
    )
    (run,) = traced.runs()
    open_page(page, traced, f"/#run={run['run']}&cycle={number}")
    drawer = page.get_by_role("complementary", name=f"Cycle {number:,}")
    expect(drawer.get_by_text(f"of cycle {number - 1:,}").first).to_be_visible(
        timeout=PAGE_TIMEOUT_MS
    )
