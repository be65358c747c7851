"""Requests, Distribution and Verdict of a real server, held against what it said of its answers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.sglang_cpu.load import Answer, generate
from tests.conftest import Served
from tests.helpers.accessible import AXE, faults
from tests.helpers.page import PAGE_TIMEOUT_MS, Paged, paged, until, window

REQUESTS = 12
TOKENS = 40
MOST = 1000  # cycles that are asked for at once

pytestmark = pytest.mark.parametrize("served", ["overlap"], indirect=True)


@dataclass(frozen=True)
class Answered:
    """A traced server, and what it answered meanwhile.

    Attributes:
        paged: Spectrace attached to it, with its page.
        run: Its run.
        answers: All that it answered since.
    """

    paged: Paged
    run: str
    answers: list[Answer]

    def view(self, name: str) -> str:
        """The address of a view."""
        return f"{self.paged.url}/#run={self.run}&view={name}"

    def verifies(self) -> dict[str, tuple[int, int]]:
        """Verifies and correct drafts of each request, as they are stored."""
        found = self.paged.get(f"/api/runs/{self.run}/requests")["requests"]
        return {one["id"]: (one["verifies"], one["correct"]) for one in found}

    def positions(self) -> list[list[int]]:
        """Drafted and accepted at each position, but for the ten cycles of warm-up.

        The last verify of a request tells as much as the request wanted of it: its tokens are one
        of the prefill and, of each verify, one more than it accepted, less what the limit cut off.
        """
        warm_up = sorted(self.paged.cycles(MOST))[:10]
        depth = max(len(answer.correct_drafts_histogram) for answer in self.answers) - 1
        drafted, accepted = [0] * depth, [0] * depth
        for answer in self.answers:
            verifies = self.verifies_of(answer)
            made = 1 + answer.verify_count + answer.correct_drafts
            cut = made - answer.completion_tokens
            for number, correct in verifies:
                is_cut = cut if number == verifies[-1][0] else 0
                wanted = min(correct, correct + 1 - is_cut)
                told = wanted if is_cut else min(correct + 1, depth)
                if number not in warm_up:
                    for place in range(told):
                        drafted[place] += 1
                        accepted[place] += place < wanted
        return [list(pair) for pair in zip(drafted, accepted, strict=True)]

    def verifies_of(self, answer: Answer) -> list[tuple[int, int]]:
        """Number and correct drafts of each cycle that verified for a request, in their order.

        They make the histogram that the server itself kept.
        """
        found = [
            (number, row["correct"])
            for number, cycle in sorted(self.paged.cycles(MOST).items())
            for row in cycle["requests"] or []
            if (row["id"], row["overshoot"]) == (answer.request_id, False)
            if cycle["kind"] == "speculative"
        ]
        counts = Counter(correct for _, correct in found)
        histogram = answer.correct_drafts_histogram
        assert [counts[correct] for correct in range(len(histogram))] == list(histogram)
        return found


@pytest.fixture(scope="module")
def answered(served: Served) -> Iterator[Answered]:
    """The page of a server that has answered, once all counts have come."""
    url = served.server.url
    with paged("attach", str(served.server.pid), "--port", "0") as it:
        answers = generate(
            url, requests=REQUESTS, concurrency=2, max_new_tokens=TOKENS, tag="looked"
        )
        (run,) = until(it.runs)
        found = Answered(it, run["run"], answers)
        counts = {one.request_id: (one.verify_count, one.correct_drafts) for one in answers}
        until(lambda: found.verifies() == counts)
        yield found


def test_every_request_has_the_servers_own_accept_length(page: Page, answered: Answered) -> None:
    """(correct drafts + verifies) / verifies of each, by its counts, in the list and alone."""
    page.goto(answered.view("requests"))
    listed = page.get_by_role("region", name="Requests in stored cycles").locator("tbody tr")
    expect(listed).to_have_count(REQUESTS, timeout=PAGE_TIMEOUT_MS)
    for answer in answered.answers:
        row = listed.filter(has=page.get_by_title(answer.request_id, exact=True))
        length = f"{1 + answer.correct_drafts / answer.verify_count:.2f}"
        expect(row.locator("td").last).to_have_text(length)
    last = answered.answers[-1]
    page.get_by_title(last.request_id, exact=True).click()
    one = page.get_by_role("complementary", name="Request", exact=True)
    length = f"{1 + last.correct_drafts / last.verify_count:.2f}"
    counted = rf"verifies\s*{last.verify_count}\s*accept length\s*{length}"
    expect(one).to_contain_text(re.compile(counted))


@pytest.mark.parametrize("view", ["distribution", "verdict"])
def test_every_position_accepts_what_the_server_counted(
    page: Page, answered: Answered, view: str
) -> None:
    """Drafted and accepted, by the histograms of its answers."""
    page.goto(answered.view(view))
    rows = page.get_by_role("region", name="Acceptance by position").locator("tbody tr")
    expect(rows.first).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    shown = [row.inner_text().replace(",", "").split()[1:3] for row in rows.all()]
    assert [[int(cell) for cell in row] for row in shown] == answered.positions()


@pytest.mark.parametrize("view", ["requests", "distribution", "verdict", "timing", "runs"])
@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (768, "dark"), (1440, "light")])
def test_it_can_be_read_by_all(
    browser: Browser,
    answered: Answered,
    view: str,
    width: int,
    scheme: Literal["light", "dark"],
) -> None:
    """Nothing scrolls sideways, and axe-core finds no serious fault."""
    with window(browser, width, scheme) as page:
        page.goto(answered.view(view))
        tab = page.get_by_role("navigation", name="Views").get_by_role("link", name=view)
        expect(tab).to_have_attribute("aria-current", "page", timeout=PAGE_TIMEOUT_MS)
        expect(page.locator(".skeleton")).to_have_count(0, timeout=PAGE_TIMEOUT_MS)
        expect(page.locator("main")).not_to_have_text("")
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.evaluate(AXE.read_text())
        assert faults(page) == []
