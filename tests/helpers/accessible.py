"""What axe-core finds on what a page shows now, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

AXE = Path(__file__).parents[2] / "ui/node_modules/axe-core/axe.min.js"
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
SERIOUS = {"serious", "critical"}
# What slides in has arrived.
SETTLED = """() => new Promise(done => setTimeout(done, 100)).then(() => Promise.allSettled(
    document.getAnimations()
        .filter(one => one.effect.getComputedTiming().endTime !== Infinity)
        .map(one => one.finished)
))"""


def faults(page: Page) -> list[str]:
    """What axe-core finds that keeps somebody from using what is on the page now."""
    page.evaluate(SETTLED)
    found: dict[str, Any] = page.evaluate("rules => axe.run(document, rules)", RULES)
    assert len(found["passes"]) > 10, "axe-core looked at nothing"
    return [
        f"{violation['id']}: {node['target']}: {node['failureSummary']}"
        for violation in found["violations"]
        if violation["impact"] in SERIOUS
        for node in violation["nodes"]
    ]
