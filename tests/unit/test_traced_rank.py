"""One rank as a session reads it: when it takes control that another one had."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrace.attach import readers
from spectrace.attach.handle import Attached
from spectrace.attach.traced_rank import TracedRank
from spectrace.attach.ways import Way
from spectrace.collect.ring_view import RingView
from spectrace.model import Rank
from spectrace.probe.layout import ABANDONED_NS, QUIET_NS, Seat, Word
from tests.helpers.probe_ring import make_ring


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[RingView]:
    """A ring that nobody reads."""
    make_ring(tmp_path / "test.ring").close()
    view = RingView(tmp_path / "test.ring")
    yield view
    view.close()


def test_who_stood_still_too_does_not_take_control_from_who_did(ring: RingView) -> None:
    """After a frozen container thaws the others have a moment for a sign of life, no more."""
    first = readers.sit_down(ring)
    rank = Rank(name="TP0", pid=os.getpid())
    second = TracedRank(
        Attached(rank, ring.path, Way.JOINED, 0, joined=True, key=readers.sit_down(ring))
    )
    second.sign_of_life()
    second._alive_ns -= ABANDONED_NS  # as if it had been frozen since
    ring.set_word(Word.SEATS + Seat.HEARTBEAT_NS, time.monotonic_ns() - ABANDONED_NS - 1)
    second.sign_of_life()
    second.inherit_control()
    assert ring.word(Word.CONTROLLER) == first
    assert second._back_ns is not None
    second._back_ns -= QUIET_NS + 1  # as if a moment had passed
    second.sign_of_life()
    second.inherit_control()
    assert second.controls
    second.view.close()
