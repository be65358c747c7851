"""The page when its server has died.

The file stands first, so that its server does not run beside the one that the others share.
"""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from examples.sglang_cpu.load import generate
from examples.sglang_cpu.server import CpuServer, ServerOptions
from tests.helpers.page import PAGE_TIMEOUT_MS, open_page, paged, until


def test_a_dead_server_leaves_the_page_with_what_was_collected(page: Page) -> None:
    """The page says that the server ended and still shows its cycles."""
    with (
        CpuServer(ServerOptions()) as server,
        paged("attach", str(server.pid), "--port", "0") as it,
    ):
        generate(server.url, requests=4, concurrency=4, max_new_tokens=16, tag="last")
        until(lambda: it.runs() and len(it.cycles()) > 5)
        open_page(page, it)
        server.stop()
        expect(page.get_by_text(re.compile("server.* ended")).first).to_be_visible(
            timeout=PAGE_TIMEOUT_MS
        )
        assert len(it.cycles()) > 5
        expect(page.locator(".waterfall table tbody tr").first).to_be_attached()
