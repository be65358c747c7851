"""The page while its own server is away, and when it is there again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.helpers.page import PAGE_TIMEOUT_MS, open_page, paged
from tests.helpers.ports import free_port
from tests.helpers.recorded import cycle_of, record, run_of

pytestmark = pytest.mark.beside_others


def test_a_server_that_goes_is_said_and_one_that_comes_back_is_found(
    page: Page, tmp_path: Path
) -> None:
    """What was seen stays readable meanwhile; the page finds the server again by itself."""
    path = record(tmp_path / "run.spectrace", map(cycle_of, range(100)), run_of())
    port = str(free_port())
    away = page.get_by_text(re.compile("spectrace stopped answering at"))
    with paged("view", str(path), "--port", port) as it:
        open_page(page, it)
        expect(away).to_have_count(0)
    expect(away).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    expect(page.get_by_text(re.compile("Not connected, trying")).first).to_be_visible()
    newest = page.locator(".waterfall table tbody tr th").first
    expect(newest).to_have_text("99")
    page.locator(".scroller").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("complementary", name="Cycle 99")).to_be_visible()
    with paged("view", str(path), "--port", port):
        expect(away).to_have_count(0, timeout=PAGE_TIMEOUT_MS)
        expect(newest).to_have_text("99")
