"""Kernels on the page, of an imported trace whose kernels are known: picture, drawer, own view."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.helpers.accessible import AXE, faults
from tests.helpers.command import run
from tests.helpers.kineto_trace import EXTEND, TURN_US, TraceOf, newest
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, open_page, paged, rounding, until, window

pytestmark = pytest.mark.beside_others

TURNS = 8
CYCLE = 4  # one in the middle, which the trace has whole
GUTTER = 132
HEAD = 86  # what stands above the ranks
VIEW_MS = 20
SIDE_STREAM = 21
FORWARD_FILL = "#4670bc"  # of verify.forward, light
BACKGROUND = "#ffffff"
TIMES = "\N{MULTIPLICATION SIGN}"

GEMM = "void cutlass::device_kernel<cutlass::gemm::GemmUniversal<int>>(Params)"
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ATTENTION = "void flash::FlashAttnFwdSm90<cutlass::bfloat16_t, 128>(Params)"
NORM = "void flashinfer::norm::RMSNormKernel<8, __nv_bfloat16>(float*)"
COPY = "Memcpy DtoD (Device -> Device)"

# In µs from the turn's begin. Verify: 6 products and 2 reductions of 800, one each ms; at once with
# one of them a copy on another stream. Draft extend: a hundred norms of 1 µs, one each 10.
FORWARD_AT = [4_000.0 + 1_000.0 * place for place in range(8)]
FORWARD_US = 800.0
DRAFT = ((GEMM, 600.0, 1_000.0), (ATTENTION, 2_000.0, 500.0))
NORMS = 100
NORMS_AT = EXTEND[0] + 200.0

# ms a cycle, by arithmetic on the above
MATMUL_MS, REDUCE_MS, COPY_MS = 4.8, 1.6, 0.4
FORWARD_MS = MATMUL_MS + REDUCE_MS + COPY_MS
ALL_MS = FORWARD_MS + 1.5 + 0.1


def with_kernels(path: Path) -> Path:
    """A trace of some turns that launch these kernels."""
    trace = TraceOf()
    for turn in range(TURNS):
        begin_us = 1_000.0 + turn * TURN_US
        newest(trace, begin_us, 4)
        for name, at_us, length_us in DRAFT:
            trace.launched(begin_us + 500.0, (name, begin_us + at_us, length_us))
        trace.launched(
            begin_us + 3_600.0,
            *(
                (REDUCE if place % 4 == 3 else GEMM, begin_us + at_us, FORWARD_US)
                for place, at_us in enumerate(FORWARD_AT)
            ),
            call="cudaGraphLaunch",
        )
        trace.launched(
            begin_us + 3_700.0,
            (COPY, begin_us + FORWARD_AT[2] + 200.0, 400.0),
            call="cudaMemcpyAsync",
            stream=SIDE_STREAM,
            category="gpu_memcpy",
        )
        for place in range(NORMS):
            at_us = begin_us + NORMS_AT + 10.0 * place
            trace.launched(begin_us + EXTEND[0] + 10.0 + place, (NORM, at_us, 1.0))
    return trace.write(path)


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paged]:
    """The page of that trace, imported as a person would."""
    folder = tmp_path_factory.mktemp("kernels")
    trace = with_kernels(folder / "1790857026-TP-0.trace.json")
    recording = folder / "run.spectrace"
    done = run("import", str(trace), "-o", str(recording))
    assert done.returncode == 0, done.stderr
    with paged("view", str(recording), "--port", "0") as it:
        yield it


def run_id(viewed: Paged) -> str:
    """Of its only run."""
    (shown,) = viewed.runs()
    return str(shown["run"])


def open_at(page: Page, viewed: Paged, length_ms: float, more: str = "") -> Locator:
    """Opens the page on a stretch from the start of the cycle; returns the picture."""
    stretch = f"{CYCLE}~0.000~{length_ms:.3f}"
    open_page(page, viewed, f"/#run={run_id(viewed)}&at={stretch}{more}")
    return page.locator(".timeline .scroller")


def plot_x(scroller: Locator, milliseconds: float, length_ms: float = VIEW_MS) -> float:
    """Where a time, counted from the left edge of so many ms in view, stands on the canvas."""
    width: float = scroller.evaluate("element => element.clientWidth")
    return GUTTER + (width - GUTTER) * milliseconds / length_ms


def colours(scroller: Locator, x: float) -> list[str]:
    """The colours of the canvas below each other, from its top."""
    found: list[str] = scroller.locator("canvas").evaluate(
        """(canvas, x) => {
            const scale = canvas.width / canvas.clientWidth
            const height = canvas.height
            const left = Math.round(x * scale)
            const { data } = canvas.getContext("2d").getImageData(left, 0, 1, height)
            const hex = value => value.toString(16).padStart(2, "0")
            return Array.from({ length: height }, (_, y) =>
                "#" + [0, 1, 2].map(part => hex(data[4 * y + part])).join(""))
        }""",
        x,
    )
    return found


def kernel_rows(scroller: Locator, length_ms: float) -> list[int]:
    """The heights at which there is a kernel near its end and nothing in the gap behind it."""
    first_ms = FORWARD_AT[0] / 1e3
    inside = colours(scroller, plot_x(scroller, first_ms + 0.7, length_ms))
    behind = colours(scroller, plot_x(scroller, first_ms + 0.9, length_ms))
    both = zip(inside, behind, strict=True)
    return [y for y, pair in enumerate(both) if y > HEAD and pair == (FORWARD_FILL, BACKGROUND)]


def drawn_rows(scroller: Locator, length_ms: float = VIEW_MS) -> list[int]:
    """The same, once kernels are drawn."""
    return until(lambda: kernel_rows(scroller, length_ms) or None)


def point(page: Page, scroller: Locator, x: float, y: float) -> None:
    """Rests the pointer at a place of the canvas."""
    box = scroller.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + x, box["y"] + y)


def cells(table: Locator, name: str) -> list[str]:
    """The cells of the row of a table that begins so."""
    row = table.locator("tbody tr").filter(has=table.page.get_by_role("rowheader", name=name))
    return row.first.locator("td").all_inner_texts()


def test_each_kernel_is_a_bar_where_the_trace_has_it(page: Page, viewed: Paged) -> None:
    """Below the device lane, in the colour of its phase; between them nothing is drawn."""
    scroller = open_at(page, viewed, VIEW_MS)
    rows = drawn_rows(scroller)
    assert len(rows) >= 14
    y = rows[len(rows) // 2]
    for at_us in FORWARD_AT:
        start_ms, end_ms = at_us / 1e3, (at_us + FORWARD_US) / 1e3
        for milliseconds, colour in (
            (start_ms - 0.1, BACKGROUND),
            (start_ms + 0.05, FORWARD_FILL),
            (end_ms - 0.07, FORWARD_FILL),
            (end_ms + 0.05, BACKGROUND),
        ):
            x = plot_x(scroller, milliseconds)
            shown = colours(scroller, x)
            # Letters may stand at a height, never at all of them.
            seen = {shown[each] for each in rows}
            assert shown[y] == colour or (colour == FORWARD_FILL and colour in seen)


def test_a_kernel_explains_itself_to_the_pointer(page: Page, viewed: Paged) -> None:
    """The card has its whole name, class, time, phase, stream, and that a graph put it there."""
    scroller = open_at(page, viewed, VIEW_MS)
    rows = drawn_rows(scroller)
    card = page.get_by_role("tooltip")
    point(page, scroller, plot_x(scroller, FORWARD_AT[3] / 1e3 + 0.4), rows[4])
    expect(card).to_contain_text(REDUCE)
    for words in (
        "0.80 ms",
        "communication",
        "verify.forward",
        "7.00 ms",
        "a graph",
        "TP0, device",
    ):
        expect(card).to_contain_text(words)
    # What runs at once with the busiest stream lies over its lower edge.
    point(page, scroller, plot_x(scroller, FORWARD_AT[2] / 1e3 + 0.4), rows[-1] - 1)
    expect(card).to_contain_text(COPY)
    side = card.get_by_role("row", name="stream").inner_text()
    expect(card).to_contain_text("its own launch")
    point(page, scroller, plot_x(scroller, DRAFT[1][1] / 1e3 + 0.2), rows[4])
    expect(card).to_contain_text(ATTENTION)
    expect(card).to_contain_text("attention")
    expect(card).to_contain_text("0.50 ms")
    expect(card.get_by_role("row", name="stream")).not_to_have_text(side)


def test_kernels_that_share_a_px_are_counted_and_come_apart_in_a_zoom(
    page: Page, viewed: Paged
) -> None:
    """A hundred norms, one each 10 µs: several to a px of 60 ms, one alone in 0.1 ms."""
    middle_ms = (NORMS_AT + 500.0) / 1e3
    scroller = open_at(page, viewed, 60)
    rows = drawn_rows(scroller, 60)
    card = page.get_by_role("tooltip")
    point(page, scroller, plot_x(scroller, middle_ms, 60), rows[-1] - 2)
    expect(card).to_contain_text(re.compile(r"[2-6] kernels"))
    expect(card).to_contain_text("zoom in to see each")
    expect(card).to_contain_text("norm")
    begin_ms = middle_ms - 0.05
    page.evaluate(
        "hash => { location.hash = hash }",
        f"#run={run_id(viewed)}&at={CYCLE}~{begin_ms:.3f}~0.100",
    )
    # 1 µs of 100 over the width of the plot is a bar of its own, half-way between two gaps.
    x = plot_x(scroller, middle_ms + 0.0005 - begin_ms, 0.1)
    point(page, scroller, x, rows[-1] - 3)
    expect(card).to_contain_text("RMSNormKernel")
    expect(card).to_contain_text("1 µs")


def test_keys_go_through_the_kernels_of_a_phase(page: Page, viewed: Paged) -> None:
    """From the phase that the keyboard is on, one after the other, and the ear hears the same."""
    scroller = open_at(page, viewed, VIEW_MS, f"&cycle={CYCLE}")
    expect(page.get_by_role("region", name="Made of")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    scroller.focus()
    card = page.get_by_role("tooltip")
    page.keyboard.press("]")
    expect(card).to_contain_text("TP0, host")
    page.keyboard.press(".")
    expect(card).to_contain_text("TP0, device")
    page.keyboard.press(",")  # before the first one is none
    expect(card).to_contain_text(GEMM)
    expect(card.get_by_role("row", name="begins at")).to_contain_text("0.60 ms")
    page.keyboard.press(".")
    expect(card).to_contain_text(ATTENTION)
    spoken = page.locator(".waterfall p.unseen")
    expect(spoken).to_contain_text("Kernel FlashAttnFwdSm90, attention, 0.50 ms, of draft")
    page.keyboard.press("]")
    expect(card).not_to_contain_text("FlashAttn")


def test_rows_have_the_same_kernels(page: Page, viewed: Paged) -> None:
    """With a row a cycle they lie below the device lane of each row."""
    open_page(page, viewed, f"/#run={run_id(viewed)}&layout=rows&cycle={CYCLE}")
    expect(page.get_by_role("region", name="Made of")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    page.locator(".scroller").focus()
    card = page.get_by_role("tooltip")
    page.keyboard.press(".")
    expect(card).to_contain_text(GEMM)
    expect(card.get_by_role("row", name="begins at")).to_contain_text("0.60 ms")
    for _ in DRAFT:
        page.keyboard.press(".")
    expect(card.get_by_role("row", name="begins at")).to_contain_text("4.00 ms")
    expect(card).to_contain_text("a graph")


def test_the_drawer_says_of_what_each_phase_is_made(page: Page, viewed: Paged) -> None:
    """Kernels, gaps on the busiest stream, shares by class, the biggest ones with their time."""
    open_page(page, viewed, f"/#run={run_id(viewed)}&cycle={CYCLE}")
    made = page.get_by_role("region", name="Made of")
    expect(made).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    forward = made.locator(".made").filter(has_text="verify.forward")
    expect(forward).to_contain_text("7.80")  # from the first to the end of the last
    expect(forward).to_contain_text("9 kernels, 8 of graphs; gaps 1.40")
    expect(forward).to_contain_text("matmul 71 %, communication 24 %, copy 6 %")
    biggest = forward.locator("tbody tr")
    assert [row.locator("td").all_inner_texts() for row in biggest.all()] == [
        [f"6 {TIMES}", "4.80"],
        [f"2 {TIMES}", "1.60"],
        ["", "0.40"],
    ]
    draft = made.locator(".made").filter(has_text=re.compile("^draft(?! extend)"))
    expect(draft).to_contain_text("2 kernels; gaps 0.40")
    extend = made.locator(".made").filter(has_text="draft extend")
    expect(extend).to_contain_text(f"{NORMS} kernels")
    expect(extend).to_contain_text("norm 100 %")


def test_a_look_begins_with_its_answer(page: Page, viewed: Paged) -> None:
    """One sentence; then each phase per cycle, the time by class, and the first of its cycles."""
    open_page(page, viewed)
    page.get_by_role("link", name="Kernels", exact=True).click()
    matmul, told = MATMUL_MS / FORWARD_MS, REDUCE_MS / ALL_MS
    expect(page.get_by_role("heading", level=2)).to_have_text(
        f"Verify forward is {matmul:.0%} matrix products; "
        f"communication is {told:.0%} of all kernels' time.".replace("%", " %")
    )
    phases = page.get_by_role("region", name="Phases on the device, per cycle")
    device, busy, gaps, kernels, launches, replays, *_ = cells(phases, "verify.forward")
    assert [device, busy, gaps] == ["7.80", "6.40", "1.40"]
    assert [kernels, launches, replays] == ["9", "2", "1"]
    times = page.get_by_role("region", name="Time of kernels by phase and class")
    kind, all_ms, of_phase, count = cells(times, "verify.forward")
    seen = int(count.replace(",", "")) // 6
    assert TURNS - 2 <= seen <= TURNS
    assert (kind, of_phase) == ("matmul", "71 %")
    assert float(all_ms) == pytest.approx(seen * MATMUL_MS, abs=rounding(all_ms))
    bars = page.get_by_role("img", name=re.compile("verify.forward: matmul 71 %, communication"))
    expect(bars).to_be_visible()
    # A trace has neither cost nor losses of a window.
    expect(page.get_by_role("region", name="What the window cost")).to_have_count(0)
    page.get_by_role("link", name=re.compile("^Cycle [12]$")).click()
    expect(page.get_by_role("region", name="Made of")).to_be_visible(timeout=PAGE_TIMEOUT_MS)


def test_kernels_are_asked_for_once_and_not_from_afar(page: Page, viewed: Paged) -> None:
    """Each cycle in view once; of cycles that are too narrow none."""
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url) if "/kernels" in sent.url else None)
    open_page(page, viewed, f"/#run={run_id(viewed)}&at=2~0.000~4000.000")
    scroller = page.locator(".timeline .scroller")
    expect(scroller).to_be_visible()
    with page.expect_response(re.compile(rf"/cycles/{CYCLE}/kernels")):
        page.evaluate(
            "hash => { location.hash = hash }",
            f"#run={run_id(viewed)}&at={CYCLE}~0.000~{VIEW_MS}.000",
        )
    drawn_rows(scroller)
    point(page, scroller, plot_x(scroller, 10), 30)
    for _ in range(3):
        page.keyboard.press("w")
        page.keyboard.press("s")
    drawn_rows(scroller)
    assert len(asked) == len(set(asked))
    assert all(re.search(r"/cycles/[345]/kernels", url) for url in asked), asked


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1024, 1440])
def test_kernels_have_no_serious_fault_for_anybody(
    browser: Browser, viewed: Paged, width: int, scheme: Literal["light", "dark"]
) -> None:
    """The drawer and the view of a look, and neither makes the page wider than its window."""
    with window(browser, width, scheme) as page:
        open_page(page, viewed, f"/#run={run_id(viewed)}&cycle={CYCLE}")
        expect(page.get_by_role("region", name="Made of")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
        page.evaluate(AXE.read_text())
        found = {"drawer": faults(page)}
        page.evaluate("hash => { location.hash = hash }", f"#run={run_id(viewed)}&view=kernels")
        expect(page.get_by_role("heading", level=2)).to_be_visible(timeout=PAGE_TIMEOUT_MS)
        found["look"] = faults(page)
        assert not any(found.values()), found
        wider = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wider) <= 0
