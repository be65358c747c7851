"""Watches how often a view of stored cycles asks the server while cycles come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, Request

from tests.helpers.fake_worker import FakeWorker
from tests.helpers.page import open_page, paged, until

EVERY_S = 10  # between two answers about a run that is traced


@contextmanager
def live_view(page: Page, tab: str, path: str) -> Iterator[list[Request]]:
    """Opens a view of a server that is traced, where nothing was asked for before.

    Args:
        page: The window.
        tab: The view's name.
        path: A part of the address of what it asks for.

    Yields:
        What it asked for; more come.
    """
    with (
        FakeWorker("v1") as worker,
        paged("attach", str(worker.pid), "--port", "0") as traced,
    ):
        until(lambda: traced.runs() and len(traced.cycles()) > 50)
        asked: list[Request] = []
        page.on("request", lambda sent: asked.append(sent) if path in sent.url else None)
        open_page(page, traced)
        assert not asked
        page.get_by_role("link", name=tab).click()
        yield asked


def asked_s(request: Request) -> float:
    """When the browser sent it, in s of UNIX time; known once it was answered.

    When the test hears of it, it may have waited with others.
    """
    return float(request.timing["startTime"]) / 1e3
