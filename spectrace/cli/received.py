"""Says what was sent here and is not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spectrace.cli import numbers
from spectrace.cli.stopping import Stop, wait
from spectrace.server.hub import Hub
from spectrace.server.state import LostSpans
from spectrace.store.source import Stats


def cycle_losses(stats: Stats) -> Iterator[str]:
    """A sentence on cycles that were to be stored and are not, where there are any."""
    if stats.lost:
        yield f"{numbers.count(stats.lost)} cycles could not be stored. {stats.problem}".strip()


def span_losses(lost: LostSpans) -> Iterator[str]:
    """A sentence on each kind of spans that were received and are not stored."""
    if lost.stored:
        count = numbers.count(lost.stored)
        yield f"{count} spans of others could not be stored. {lost.problem}".strip()
    if lost.refused:
        yield f"{numbers.count(lost.refused)} spans were refused. {lost.reasons}"


def wait_and_tell(hub: Hub, stop: Stop, note: Callable[[str], None]) -> None:
    """Waits until somebody asks to stop, and tells of each kind of loss when it first occurs."""
    told = LostSpans()

    def look() -> None:
        nonlocal told
        lost = hub.lost_spans
        if bool(lost.stored) > bool(told.stored) or bool(lost.refused) > bool(told.refused):
            for sentence in span_losses(lost):
                note(sentence)
            told = lost

    wait(stop, look)
