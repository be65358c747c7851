"""Readers of one ring: who is there, who controls, and who tells the probe to leave."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrace.attach import procfs, readers
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.probe import layout
from spectrace.probe.layout import Command, Seat, Word
from tests.helpers.probe_ring import make_ring

US = os.getpid()


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[RingView]:
    """A ring that nobody reads."""
    make_ring(tmp_path / "test.ring").close()
    view = RingView(tmp_path / "test.ring")
    yield view
    view.close()


def keys(ring: RingView) -> list[int]:
    """Who reads."""
    return [reader.key for reader in readers.present(ring)]


def seat_of(ring: RingView, key: int) -> int:
    """The first word of a reader's seat."""
    seats = range(Word.SEATS, Word.SEATS + layout.SEATS * Seat.WORDS, Seat.WORDS)
    return next(seat for seat in seats if ring.word(seat + Seat.KEY) == key)


def quiet(ring: RingView, key: int) -> None:
    """A reader that gave its last sign of life 31 s ago, where 30 s are the limit."""
    seat = seat_of(ring, key)
    ring.set_word(seat + Seat.HEARTBEAT_NS, time.monotonic_ns() - 31_000_000_000)


def dead_process() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_the_first_controls_and_the_others_read(ring: RingView) -> None:
    """Each has a key of its own, greater than those before."""
    first, second, third = (readers.sit_down(ring) for _ in range(3))
    assert first < second < third
    assert keys(ring) == [first, second, third]
    assert readers.controller(ring) == readers.Reader(first, US)
    assert ring.word(Word.CONTROLLER_PID) == US


def test_a_sign_of_life_is_for_the_probe_and_for_the_other_readers(ring: RingView) -> None:
    """Both heartbeats are the time at which it was given."""
    key = readers.sit_down(ring)
    before_ns = time.monotonic_ns()
    readers.sign_of_life(ring, key)
    for place in (Word.HEARTBEAT_NS, seat_of(ring, key) + Seat.HEARTBEAT_NS):
        assert before_ns <= ring.word(place) <= time.monotonic_ns()


def test_control_passes_to_who_read_for_longest(ring: RingView) -> None:
    """At once when the one that had it leaves; the probe is told to leave by the last one."""
    first, second, third = (readers.sit_down(ring) for _ in range(3))
    assert [reader.key for reader in readers.get_up(ring, first)] == [second, third]
    assert ring.word(Word.CONTROLLER) == second
    assert [reader.key for reader in readers.get_up(ring, third)] == [second]
    assert ring.word(Word.CONTROLLER) == second
    assert ring.word(Word.COMMAND) == Command.NONE
    before_ns = time.monotonic_ns()
    assert readers.get_up(ring, second) == []
    assert ring.word(Word.COMMAND) == Command.DETACH
    assert before_ns <= ring.word(Word.COMMAND_NS) <= time.monotonic_ns()
    assert ring.word(Word.CONTROLLER) == 0


def test_control_of_one_that_was_killed_is_inherited(ring: RingView) -> None:
    """By the reader that came first after it, at its next look; not by one that came later."""
    first, second, third = (readers.sit_down(ring) for _ in range(3))
    readers.inherit_control(ring, second)
    assert ring.word(Word.CONTROLLER) == first
    ring.set_word(seat_of(ring, first) + Seat.PID, dead_process())
    assert keys(ring) == [second, third]
    readers.inherit_control(ring, third)
    assert ring.word(Word.CONTROLLER) == first
    readers.inherit_control(ring, second)
    assert ring.word(Word.CONTROLLER) == second


def test_one_that_was_killed_does_not_keep_the_probe_in(ring: RingView) -> None:
    """Who leaves beside its seat is the last one."""
    first, second = readers.sit_down(ring), readers.sit_down(ring)
    ring.set_word(seat_of(ring, second) + Seat.PID, dead_process())
    assert readers.get_up(ring, first) == []
    assert ring.word(Word.COMMAND) == Command.DETACH


def test_in_another_pid_namespace_the_heartbeat_alone_counts(ring: RingView) -> None:
    """The number of a process there says nothing here: neither that it has ended, nor a name."""
    key = readers.sit_down(ring)
    seat = seat_of(ring, key)
    ring.set_word(seat + Seat.PID, dead_process())
    ring.set_word(seat + Seat.PID_NAMESPACE, procfs.pid_namespace() + 1)
    (reader,) = readers.present(ring)
    assert str(reader) == "a spectrace in another container"
    quiet(ring, key)
    assert readers.present(ring) == []


def test_one_that_stands_still_is_gone_and_comes_back(ring: RingView) -> None:
    """It loses control to the next one, and with its next sign of life it reads on."""
    first, second = readers.sit_down(ring), readers.sit_down(ring)
    quiet(ring, first)
    readers.inherit_control(ring, second)
    assert ring.word(Word.CONTROLLER) == second
    third = readers.sit_down(ring)  # on the seat of the first one
    assert keys(ring) == [second, third]
    readers.sign_of_life(ring, first)
    assert keys(ring) == [first, second, third]
    assert ring.word(Word.CONTROLLER) == second


def test_control_can_be_taken(ring: RingView) -> None:
    """The one that had it reads on."""
    first, second = readers.sit_down(ring), readers.sit_down(ring)
    readers.take_control(ring, second)
    readers.inherit_control(ring, first)
    assert readers.controller(ring) == readers.Reader(second, US)
    assert keys(ring) == [first, second]


def test_there_are_sixteen_seats(ring: RingView) -> None:
    """The seventeenth reader is refused, until one leaves."""
    taken = [readers.sit_down(ring) for _ in range(16)]
    with pytest.raises(SpectraceError, match="16 spectraces read"):
        readers.sit_down(ring)
    readers.get_up(ring, taken[7])
    readers.sit_down(ring)
    assert len(readers.present(ring)) == 16


def test_a_lock_whose_holder_stands_still_holds_up_nobody(ring: RingView) -> None:
    """After a second others go on without it."""
    other = os.open(ring.path, os.O_RDWR)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        key = readers.sit_down(ring)
    finally:
        os.close(other)
    assert keys(ring) == [key]


def test_the_maker_of_a_ring_sits_in_it_from_the_start(ring: RingView) -> None:
    """The words for a new ring are those of a reader that controls."""
    for place, value in readers.first_seat().items():
        ring.set_word(place, value)
    (reader,) = readers.present(ring)
    assert readers.controller(ring) == reader
    assert reader.pid == US
