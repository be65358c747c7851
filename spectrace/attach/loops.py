"""Decode loops that trace themselves (`spectrace.loop`): found by their rings, never injected.

Such a process made its ring itself. A reader joins it by header words alone, and the loop's
probe goes back to sleep when the reader leaves: the file stays as long as the process.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from spectrace.attach import procfs, readers, ring_file
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.probe.layout import State, Word

_POLL_S = 0.001
_SLEEP_TIMEOUT_S = 1.0  # a loop that waits for work falls asleep at its next cycle


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
        if not is_of_a_loop(ring) or ring.word(Word.STATE) == State.FAILED:
            return None
        info = ring.info()
        return Loop(str(info.get("engine", "")), str(info.get("rank", "")))
    finally:
        ring.close()


def is_of_a_loop(ring: RingView) -> bool:
    """Whether the process itself made the ring: then there is no code in it."""
    return ring.word(Word.CODE_BYTES) == 0


def wake(pid: int, ring: RingView) -> None:
    """Says that the loop is about to be traced; it will be once JOINS has grown."""
    # The loop may know itself by another number.
    ring.set_word(Word.TARGET_PID, pid)
    ring.set_word(Word.PID_NAMESPACE, procfs.pid_namespace())
    if ring.word(Word.STATE) != State.TRACING:
        ring.set_word(Word.STATE, State.ARMED)


def put_to_sleep(pid: int, ring: RingView, timeout_s: float) -> str:
    """Leaves the ring: the loop's probe sleeps from its next cycle on.

    Returns:
        What came of it, one sentence.
    """
    ticks = ring.word(Word.TARGET_START_TICKS)
    readers.command_detach(ring)
    deadline = time.monotonic() + min(timeout_s, _SLEEP_TIMEOUT_S)
    while ring.word(Word.STATE) in {State.ARMED, State.TRACING}:
        if not procfs.is_alive(pid, ticks):
            return "The process has ended."
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    asleep = ring.word(Word.STATE) not in {State.ARMED, State.TRACING}
    return "The loop is no longer traced." if asleep else "It ends with the loop's next cycle."
