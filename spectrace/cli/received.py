"""Says what was sent here and is not stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from spectrace.cli import numbers
from spectrace.cli.stopping import Stop, wait
from spectrace.server.hub import Hub
from spectrace.server.state import LostCycles, LostSpans
from spectrace.store.source import Stats


def cycle_losses(stats: Stats | LostCycles) -> Iterator[str]:
    """A sentence on cycles that were to be stored and are not, where there are any."""
    if stats.lost:
        yield f"{numbers.count(stats.lost)} cycles could not be stored. {stats.problem}".strip()


def span_losses(lost: LostSpans) -> Iterator[str]:
    """A sentence on each kind of spans that were received and are not stored."""
    yield from _by_kind(lost).values()


def losses(hub: Hub) -> Iterator[str]:
    """A sentence on each kind of what came to a hub and is not stored; never waits."""
    yield from cycle_losses(hub.lost_cycles)
    yield from span_losses(hub.lost_spans)


def _by_kind(lost: LostSpans) -> dict[str, str]:
    """A sentence for each field that counts something."""
    sentences = {
        "stored": f"spans of others could not be stored. {lost.problem}".strip(),
        "refused": f"spans were refused. {lost.reasons}",
        "unjoined": "cycles are not stored: their root or all of their ranks never came.",
        "evicted": "cycles were put together no further: too many spans waited for others.",
        "partial": "times a cycle was stored of which spans were late or never came.",
    }
    counts = {kind: getattr(lost, kind) for kind in sentences}
    return {
        kind: f"{numbers.count(count)} {sentences[kind]}" for kind, count in counts.items() if count
    }


def wait_and_tell(hub: Hub, stop: Stop, note: Callable[[str], None]) -> None:
    """Waits until somebody asks to stop, and tells of each kind of loss when it first occurs."""
    told: set[str] = set()

    def look() -> None:
        cycles = (("cycles", sentence) for sentence in cycle_losses(hub.lost_cycles))
        for kind, sentence in (*cycles, *_by_kind(hub.lost_spans).items()):
            if kind not in told:
                told.add(kind)
                note(sentence)

    wait(stop, look)
