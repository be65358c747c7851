"""Decode loops that trace themselves (`spectrace.loop`): found by their rings, never injected.

Such a process made its ring itself: `sleepers` says how a reader joins and leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass

from spectrace.attach import ring_file
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.probe.layout import Origin, State, Word


@dataclass(frozen=True)
class Loop:
    """What the ring of a loop says about it.

    Attributes:
        name: The author's name for it.
        rank: Name of the process where several step together, else empty.
    """

    name: str
    rank: str


def loop_in(pid: int) -> Loop | None:
    """The loop that traces itself in a process; None where there is none, or not for us."""
    try:
        ring = RingView(ring_file.ring_path(pid))
    except (OSError, SpectraceError):
        return None
    try:
        if ring.word(Word.ORIGIN) != Origin.LOOP or ring.word(Word.STATE) == State.FAILED:
            return None
        info = ring.info()
        return Loop(str(info.get("engine", "")), str(info.get("rank", "")))
    finally:
        ring.close()
