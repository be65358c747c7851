"""Takes the README's pictures: the page on a real server under load, in light and in dark."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Literal

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import Browser, sync_playwright

from examples.sglang_cpu.load import LoadLoop
from examples.sglang_cpu.server import CpuServer, ServerOptions
from tests.browser.conftest import ARGUMENTS, chromium
from tests.helpers.page import paged

DOCS = Path(__file__).parent
SECONDS_OF_DATA = 45.0  # so that the curves show something
WIDTH, HEIGHT = 1440, 900


def take(browser: Browser, url: str, scheme: Literal["light", "dark"]) -> None:
    """Takes one picture into `docs/`."""
    context = browser.new_context(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme=scheme, device_scale_factor=1
    )
    page = context.new_page()
    page.goto(url)
    page.locator(".waterfall table tbody tr").first.wait_for(state="attached")
    time.sleep(2.0)
    page.keyboard.press("Space")
    page.screenshot(path=DOCS / f"live-{scheme}.png")
    context.close()


def main() -> None:
    """Takes both."""
    with (
        CpuServer(ServerOptions()) as server,
        LoadLoop(server.url, concurrency=4),
        paged("attach", str(server.pid), "--port", "0") as it,
        sync_playwright() as playwright,
    ):
        time.sleep(SECONDS_OF_DATA)
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        take(browser, it.url, "light")
        take(browser, it.url, "dark")
        browser.close()


if __name__ == "__main__":
    main()
