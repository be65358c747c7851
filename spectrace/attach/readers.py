"""Who reads a ring: each reader has a seat in its header, and one of them controls the probe.

The probe knows nothing of seats: it looks at the one heartbeat that every reader refreshes.
Readers alone lock the file among themselves, for the microseconds in which seats change.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spectrace.attach import procfs
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.probe import layout
from spectrace.probe.layout import Command, Seat, Word

_LOCK_TIMEOUT_S = 1.0  # whoever holds the lock for so long stands still itself
_POLL_S = 0.001


@dataclass(frozen=True)
class Reader:
    """One who reads a ring at this moment.

    Attributes:
        key: What tells it apart; who came later has a greater one.
        pid: Its process id, 0 where it runs in another PID namespace.
    """

    key: int
    pid: int

    def __str__(self) -> str:
        """How people are told of it."""
        return f"process {self.pid}" if self.pid else "a spectrace in another container"


def present(ring: RingView) -> list[Reader]:
    """Those who read a ring now, the one that came first at the head.

    One that was killed is gone at once. One that lives but stands still is gone after
    `layout.ABANDONED_NS`; where process ids mean something else, a sign of life must not be older
    than `layout.QUIET_NS`.
    """
    now_ns, namespace = time.monotonic_ns(), procfs.pid_namespace()
    readers = []
    for seat in _seats():
        key = ring.word(seat + Seat.KEY)
        if not key:
            continue
        pid = ring.word(seat + Seat.PID)
        here = ring.word(seat + Seat.PID_NAMESPACE) == namespace
        limit_ns = layout.ABANDONED_NS if here else layout.QUIET_NS
        quiet_ns = now_ns - ring.word(seat + Seat.HEARTBEAT_NS)
        if quiet_ns <= limit_ns and (not here or procfs.is_alive(pid)):
            readers.append(Reader(key, pid if here else 0))
    return sorted(readers, key=lambda reader: reader.key)


def controller(ring: RingView) -> Reader | None:
    """The reader that controls a ring's probe, None where there is none now."""
    key = ring.word(Word.CONTROLLER)
    return next((reader for reader in present(ring) if reader.key == key), None)


def first_seat() -> dict[int, int]:
    """Header words of a new ring, in which its maker sits and controls."""
    now_ns = time.monotonic_ns()
    return {
        **{Word.SEATS + place: value for place, value in _seat_words(now_ns, now_ns).items()},
        Word.HEARTBEAT_NS: now_ns,
        Word.CONTROLLER: now_ns,
        Word.CONTROLLER_PID: os.getpid(),
    }


def sit_down(ring: RingView) -> int:
    """Takes a seat in a ring; control too where nobody has it.

    Returns:
        The key of the seat.

    Raises:
        SpectraceError: All seats are taken.
    """
    with alone(ring):
        nobody = controller(ring) is None
        key = max(time.monotonic_ns(), *(ring.word(seat + Seat.KEY) + 1 for seat in _seats()))
        if not _found_seat(ring, key):
            raise SpectraceError(
                f"{layout.SEATS} spectraces read {ring.path} already, and there is no seat for "
                "another one: end one of them."
            )
        if nobody:
            _give_control(ring, Reader(key, os.getpid()))
    return key


def ask_for_ids(ring: RingView) -> None:
    """Has the probe send the ids behind interned numbers again."""
    with alone(ring):
        ring.set_word(Word.JOINS, ring.word(Word.JOINS) + 1)


def take_control(ring: RingView, key: int) -> None:
    """Makes the reader of that key, which is ours, the one that controls."""
    with alone(ring):
        _give_control(ring, Reader(key, os.getpid()))


def sign_of_life(ring: RingView, key: int) -> None:
    """Tells the probe that somebody reads, and the other readers who does.

    A reader that stood still for so long that its seat was given away takes another one.
    """
    now_ns = time.monotonic_ns()
    ring.set_word(Word.HEARTBEAT_NS, now_ns)
    seat = _seat_of(ring, key)
    if seat is not None:
        ring.set_word(seat + Seat.HEARTBEAT_NS, now_ns)
    else:
        with alone(ring):
            _found_seat(ring, key)


def inherit_control(ring: RingView, key: int) -> None:
    """Takes control if the one that had it has gone, and nobody has read for longer than we."""
    if ring.word(Word.CONTROLLER) == key:
        return
    readers = present(ring)
    gone = ring.word(Word.CONTROLLER) not in {reader.key for reader in readers}
    if gone and readers and readers[0].key == key:
        take_control(ring, key)


def get_up(ring: RingView, key: int) -> list[Reader]:
    """Gives a seat back; control goes to who has read for longest.

    Where nobody is left the probe is told to leave.

    Returns:
        Those who read on.
    """
    with alone(ring):
        seat = _seat_of(ring, key)
        if seat is not None:
            ring.set_word(seat + Seat.KEY, 0)
        rest = present(ring)
        if not rest:
            command_detach(ring)
        if ring.word(Word.CONTROLLER) == key:
            _give_control(ring, rest[0] if rest else Reader(0, 0))
    return rest


def command_detach(ring: RingView) -> None:
    """Tells the probe to leave, whoever reads."""
    if ring.word(Word.COMMAND) != Command.DETACH:
        ring.set_word(Word.COMMAND_NS, time.monotonic_ns())
        ring.set_word(Word.COMMAND, Command.DETACH)


def _seats() -> range:
    return range(Word.SEATS, Word.SEATS + layout.SEATS * Seat.WORDS, Seat.WORDS)


def _seat_of(ring: RingView, key: int) -> int | None:
    return next((seat for seat in _seats() if ring.word(seat + Seat.KEY) == key), None)


def _seat_words(key: int, now_ns: int) -> dict[int, int]:
    """The words of a seat that we take; its key stands last, when the rest is there."""
    return {
        Seat.PID: os.getpid(),
        Seat.PID_NAMESPACE: procfs.pid_namespace(),
        Seat.HEARTBEAT_NS: now_ns,
        Seat.KEY: key,
    }


def _found_seat(ring: RingView, key: int) -> bool:
    """Takes a seat of which nobody makes use, if there is one."""
    taken = {reader.key for reader in present(ring)}
    free = next((seat for seat in _seats() if ring.word(seat + Seat.KEY) not in taken), None)
    if free is None:
        return False
    now_ns = time.monotonic_ns()
    ring.set_word(free + Seat.KEY, 0)
    for place, value in _seat_words(key, now_ns).items():
        ring.set_word(free + place, value)
    ring.set_word(Word.HEARTBEAT_NS, now_ns)
    return True


def _give_control(ring: RingView, reader: Reader) -> None:
    ring.set_word(Word.CONTROLLER_PID, reader.pid)
    ring.set_word(Word.CONTROLLER, reader.key)


@contextmanager
def alone(ring: RingView) -> Iterator[None]:
    """Keeps other readers from changing the seats meanwhile; the probe never looks at the lock.

    A lock of the open file, of another kind than the one by which a process that made its ring
    itself shows that it lives.

    One that stands still with the lock is not waited for: whose seat it then takes sits down
    again.
    """
    locked = _lock(ring.descriptor)
    try:
        yield
    finally:
        if locked:
            fcntl.fcntl(ring.descriptor, fcntl.F_OFD_SETLK, _order(fcntl.F_UNLCK))


def _lock(descriptor: int) -> bool:
    deadline = time.monotonic() + _LOCK_TIMEOUT_S
    while not _locked_now(descriptor):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _locked_now(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _order(fcntl.F_WRLCK))
    except BlockingIOError:
        return False
    return True


def _order(kind: int) -> bytes:
    """A `struct flock` for the whole file (fcntl(2))."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, 0, 0, 0)
