"""The device lane on the page: simulated workers on a simulated GPU, truly attached to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page, expect

from spectrace.attach import ring_file
from spectrace.collect.reader import PHASES, CycleRecord, DeviceRecord, RingReader
from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import DEVICE_PHASES
from tests.helpers.command import run
from tests.helpers.fake_worker import FakeWorker
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged, rounding, until

NS_PER_MS = 1e6
MISSING = "\N{EN DASH}"
HOST_MS, DEVICE_MS = 0, 2  # which cell of a row of the drawer's table


@dataclass(frozen=True)
class Watched:
    """A worker, and spectrace with its page attached to it."""

    worker: FakeWorker
    traced: Paged


@pytest.fixture(scope="module", params=["v1", "v2"])
def watched(request: pytest.FixtureRequest) -> Iterator[Watched]:
    """A host that blocks in verify until the device has done it; one that runs a cycle ahead.

    One after the other: both would be ranks of one server, this process's children.
    """
    with (
        FakeWorker(request.param, "--extend", "0.7") as worker,
        paged("attach", str(worker.pid), "--port", "0") as traced,
    ):
        until(lambda: traced.runs() and len(traced.cycles()) > 50)
        yield Watched(worker, traced)


V1 = pytest.mark.parametrize("watched", ["v1"], indirect=True)
V2 = pytest.mark.parametrize("watched", ["v2"], indirect=True)


def change_mode(worker: FakeWorker, mode: str) -> None:
    """Has a traced worker timed in another way."""
    done = run("mode", mode, str(worker.pid))
    assert done.returncode == 0, done.stderr


def recorded(worker: FakeWorker) -> DeviceRecord:
    """What the ring says of the device in a cycle of which it also has the host's side."""
    view = RingView(ring_file.ring_path(worker.pid))
    reader = RingReader(view, join=True)
    hosts: set[int] = set()
    devices: list[DeviceRecord] = []

    def whole() -> DeviceRecord | None:
        for record in reader.poll():
            if isinstance(record, CycleRecord):
                hosts.add(record.number)
            elif isinstance(record, DeviceRecord) and record.placed and not record.lost:
                devices.append(record)
        known = [record for record in devices if record.number in hosts]
        return known[0] if len(known) > 20 else None

    try:
        return until(whole)
    finally:
        view.close()


def device_ms(record: DeviceRecord) -> dict[str, float]:
    """How long each phase took on the device by the marks of a record; a part counts twice."""
    times: dict[str, float] = {}
    for (phase, _, start), (_, _, end) in pairwise(record.marks):
        if phase in DEVICE_PHASES and end > start:
            for name in PHASES[phase].value.split("."):
                times[name] = times.get(name, 0.0) + (end - start) / NS_PER_MS
    return times


def cells(drawer: Locator, column: int) -> dict[str, str]:
    """One column of the drawer's table by phase."""
    found = {}
    for row in drawer.locator("table").first.locator("tbody tr").all():
        name = re.split(r"\s*(?:\d|◂|$)", row.locator("th").inner_text(), maxsplit=1)[0]
        found[name.replace(" ", "_")] = row.locator("td").nth(column).inner_text().replace(",", "")
    return found


def open_cycle(page: Page, traced: Paged, number: int) -> Locator:
    """Opens the page on a cycle; returns the drawer that shows it."""
    (shown,) = traced.runs()
    open_page(page, traced, f"/#run={shown['run']}&cycle={number}")
    drawer = page.get_by_role("complementary", name=f"Cycle {number:,}")
    expect(drawer).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    return drawer


def test_a_cycles_device_lane_is_what_the_ring_said(page: Page, watched: Watched) -> None:
    """The table of a selected cycle has each phase's time on the device as the probe read it."""
    record = recorded(watched.worker)
    drawer = open_cycle(page, watched.traced, record.number)
    shown = cells(drawer, DEVICE_MS)
    expected = device_ms(record)
    assert {"draft", "verify", "forward", "draft_extend"} <= set(expected)
    for name, milliseconds in expected.items():
        if shown[name] == "< 0.01":
            assert milliseconds < 0.01, name
        else:
            assert float(shown[name]) == pytest.approx(milliseconds, abs=rounding(shown[name]))
    # What the device does not run is not shown as zero.
    assert {shown["resolve"], shown["wait"], shown["result"], shown["schedule"]} == {MISSING}
    told = re.search(r"shifted by ([\d.]+) (µs|ms)", drawer.inner_text())
    assert told is not None
    unit_ns = {"µs": 1e3, "ms": 1e6}[told[2]]
    assert float(told[1]) == pytest.approx(record.error_ns / unit_ns, abs=rounding(told[1]))


@V1
def test_the_host_lane_stays_what_it_was(page: Page, watched: Watched) -> None:
    """Blocked in verify, the host takes longer for it than the device; not so for the draft."""
    drawer = open_cycle(page, watched.traced, recorded(watched.worker).number)
    host, device = cells(drawer, HOST_MS), cells(drawer, DEVICE_MS)
    assert float(host["verify"]) > float(device["verify"])
    assert float(host["draft"]) < float(device["draft"])


@V2
def test_the_axis_reaches_what_the_device_does_after_the_host(page: Page, watched: Watched) -> None:
    """The device's last phase begins behind the host's end of the cycle, and is in the picture."""
    open_page(page, watched.traced, "/#layout=rows")
    page.locator(".scroller").focus()
    page.keyboard.press("ArrowDown")
    card = page.get_by_role("tooltip")
    expect(card).to_contain_text("TP0, host")
    for _ in range(5):  # the newest cycles may still wait for their device times
        page.keyboard.press("ArrowDown")
    page.keyboard.press("l")
    expect(card).to_contain_text("TP0, device")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    expect(card).to_contain_text("draft extend")
    begins = card.get_by_role("row", name=re.compile("begins at")).inner_text()
    assert float(re.findall(r"[\d.]+(?= ms)", begins)[0]) > 40
    assert "±" in begins
    # Had it been outside, the picture would have moved, and could be fitted again.
    expect(page.get_by_role("button", name="Fit")).to_be_disabled()


@V2
def test_both_lanes_have_their_times_and_shares_in_the_figures(
    page: Page, watched: Watched
) -> None:
    """The device takes 2.18 ms for a draft and 27.4 for a verify, the host launches them only."""
    open_page(page, watched.traced)
    page.get_by_role("button", name="Table").click()
    table = page.get_by_role("table").filter(has_text="p50, ms")

    def row(name: str) -> list[float]:
        texts = table.get_by_role("row", name=re.compile(rf"^{name} \d")).locator("td")
        return [float(text.rstrip(" %")) for text in texts.all_inner_texts()]

    (cycle_ms,) = re.findall(r"A cycle of ([\d.]+) ms", page.locator(".sentence").inner_text())
    draft_ms, _, draft_share, draft_host_ms, *_ = row("draft")
    verify_ms, _, verify_share, verify_host_ms, *_ = row("verify")
    assert 2.1 < draft_ms < 2.18 * 1.3
    assert 27.3 < verify_ms < 27.4 * 1.3
    assert draft_host_ms < draft_ms
    assert verify_host_ms < verify_ms / 5
    assert draft_share == pytest.approx(draft_ms / float(cycle_ms) * 100, rel=0.1)
    assert verify_share == pytest.approx(verify_ms / float(cycle_ms) * 100, rel=0.1)


@V1
def test_a_mode_that_slows_the_server_is_badged_at_once(page: Page, watched: Watched) -> None:
    """`spectrace mode sync` marks the header and the cycles; they have no device lane then."""
    open_page(page, watched.traced)
    badge = page.locator(".top .badge")
    expect(badge).to_have_text(re.compile("device"))
    try:
        change_mode(watched.worker, "sync")
        expect(badge).to_have_text(re.compile("▲ .*sync"), timeout=PAGE_TIMEOUT_MS)
        expect(badge).to_have_class(re.compile("warn"))
        page.keyboard.press("Space")
        newest = page.locator(".waterfall table tbody tr").first
        expect(newest).to_contain_text("not timed on the device")
    finally:
        change_mode(watched.worker, "device")
