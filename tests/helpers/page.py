"""Runs spectrace with its page as a person would, and reads its API, for tests."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx
from playwright.sync_api import Browser, Page, expect

from tests.helpers.command import SPECTRACE, TIMEOUT_S

T = TypeVar("T")
PAGE_TIMEOUT_MS = 30_000
POLL_S = 0.1
SERVE = ("serve", "--port", "0", "--otlp-http-port", "0", "--otlp-grpc-port", "0")
_ADDRESS_MS = 400  # the address follows at most every 300


@dataclass(frozen=True)
class Paged:
    """A running command that serves a page.

    Attributes:
        process: The command.
        url: Its page.
    """

    process: subprocess.Popen[str]
    url: str

    def get(self, path: str) -> Any:
        """The JSON that the API answers."""
        answer = httpx.get(f"{self.url}{path}", timeout=TIMEOUT_S)
        answer.raise_for_status()
        return answer.json()

    def runs(self) -> list[dict[str, Any]]:
        """The runs that it knows."""
        runs: list[dict[str, Any]] = self.get("/api/state")["runs"]
        return runs

    def cycles(self, limit: int = 200) -> dict[int, dict[str, Any]]:
        """The newest cycles of its only run, by number."""
        (run,) = self.runs()
        found = self.get(f"/api/runs/{run['run']}/cycles?limit={limit}")["cycles"]
        return {cycle["n"]: cycle for cycle in found}


@contextmanager
def paged(*arguments: str, folder: Path | None = None) -> Iterator[Paged]:
    """Runs a command that says where its page is, in a folder if one is given; Ctrl-C ends it."""
    process = subprocess.Popen(
        [SPECTRACE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    try:
        yield Paged(process, _page_of(process))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise


def _page_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith("The page: "):
            return line.split()[-1]
    raise AssertionError("".join(said))


def until(what: Callable[[], T | None], timeout_s: float = TIMEOUT_S) -> T:
    """Asks again and again until there is an answer, and returns it."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(POLL_S)


@contextmanager
def window(
    browser: Browser, width: int = 1440, scheme: Literal["light", "dark"] = "light"
) -> Iterator[Page]:
    """A fresh window, 900 px high, that fails the test on any error of the page."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    context.close()
    assert not errors


def open_page(page: Page, traced: Paged, path: str = "/") -> None:
    """Opens the page and waits until it shows cycles."""
    page.goto(traced.url + path)
    expect(page.locator(".waterfall table tbody tr").first).to_be_attached(timeout=PAGE_TIMEOUT_MS)


def address_of(page: Page) -> str:
    """The fragment of the page's address, once it has followed what was done to the page.

    It is asked for by a timer of the page's own, which comes behind the one that it follows by.
    """
    address: str = page.evaluate(
        """ms => new Promise(
            done => setTimeout(() => done(decodeURIComponent(location.hash)), ms)
        )""",
        _ADDRESS_MS,
    )
    return address


def rounding(shown: str) -> float:
    """By how much a number may be off for being written with its number of decimals."""
    return 0.51 * 10.0 ** -len(shown.partition(".")[2])
