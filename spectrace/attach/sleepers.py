"""Probes that sleep in a process until a reader joins: a loop's tracer, or the plugin's.

Such a process made its ring itself. A reader joins it by header words alone, and the probe
goes back to sleep when the reader leaves: the file stays as long as the process.
"""

from __future__ import annotations

import os
import time

from spectrace.attach import procfs, readers, ring_file
from spectrace.collect.ring_view import RingView
from spectrace.probe import layout
from spectrace.probe.layout import Origin, State, Word

_POLL_S = 0.001
_SLEEP_TIMEOUT_S = 1.0  # one that waits for work falls asleep at its next cycle
_AWAKE = {State.ARMED, State.TRACING}
_NAMES = {Origin.LOOP: "loop", Origin.PLUGIN: "plugin"}


def name_of(ring: RingView) -> str:
    """What sleeps there, `loop` or `plugin`; empty where spectrace put the probe in."""
    return _NAMES.get(ring.word(Word.ORIGIN), "")


def is_asleep(ring: RingView) -> bool:
    """Whether the ring is one of a plugin that waits for a reader."""
    return name_of(ring) == "plugin" and ring.word(Word.STATE) not in _AWAKE


def is_awake(ring: RingView) -> bool:
    """Whether somebody reads there, or has just joined."""
    return ring.word(Word.STATE) in _AWAKE


def wake(pid: int, ring: RingView, units: int) -> None:
    """Says that the process is about to be traced; it will be once JOINS has grown.

    Args:
        pid: The process.
        ring: Its ring.
        units: How much the ring of a plugin that sleeps must hold at least.

    Raises:
        SpectraceError: Shared memory is too small for the ring.
    """
    ring.set_word(Word.TARGET_PID, pid)  # it may know itself by another number
    ring.set_word(Word.PID_NAMESPACE, procfs.pid_namespace())
    if is_awake(ring):
        return
    if ring.word(Word.ORIGIN) == Origin.PLUGIN:
        _take_memory(ring, units)
        for place in (Word.LOAD_NS, Word.ARM_NS, Word.INSTALL_NS):  # of the last time
            ring.set_word(place, 0)
    ring.set_word(Word.STATE, State.ARMED)


def _take_memory(ring: RingView, units: int) -> None:
    """Takes all memory of a ring whose process took none: here it holds nobody up."""
    units = max(units, ring.units)
    descriptor = os.open(ring.path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        size = ring.word(Word.UNITS_OFFSET) + units * layout.UNIT_BYTES
        ring_file.reserve(descriptor, size)
    finally:
        os.close(descriptor)
    ring.set_word(Word.UNITS, units)


def put_to_sleep(pid: int, ring: RingView, timeout_s: float) -> str:
    """Leaves the ring: the probe sleeps from its next cycle on.

    Returns:
        What came of it, one sentence.
    """
    ticks = ring.word(Word.TARGET_START_TICKS)
    readers.command_detach(ring)
    deadline = time.monotonic() + min(timeout_s, _SLEEP_TIMEOUT_S)
    while is_awake(ring):
        if not procfs.is_alive(pid, ticks):
            return "The process has ended."
        if time.monotonic() > deadline:
            break
        time.sleep(_POLL_S)
    what = name_of(ring)
    if is_awake(ring):
        return f"It ends with the {what}'s next cycle."
    return "The loop is no longer traced." if what == "loop" else "The plugin is asleep."
