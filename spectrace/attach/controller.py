"""Who reads a ring and decides about its probe."""

from __future__ import annotations

from spectrace.attach import procfs
from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import QUIET_NS, Word


def controller_of(ring: RingView, pid: int, now_ns: int) -> int | None:
    """The process that controls the probe in another one.

    A spectrace in a container writes the number that it has there, which here may be that of
    any process: where the two differ, its sign of life alone counts.

    Args:
        ring: The ring of the traced process.
        pid: The traced process.
        now_ns: CLOCK_MONOTONIC.

    Returns:
        Its process id where it runs; None where nobody gave a sign of life for 3 s, or its
        process has ended.

    Raises:
        SpectraceError: There is no such traced process, or we may not look into it.
    """
    controller = ring.word(Word.CONTROLLER_PID)
    if not controller or now_ns - ring.word(Word.HEARTBEAT_NS) >= QUIET_NS:
        return None
    there = not procfs.shares_processes(pid) or procfs.is_alive(controller)
    return controller if there else None
