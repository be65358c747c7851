"""What a ring says of its probe: in which state it is, how it came in, and who reads."""

from __future__ import annotations

from spectrace.attach import procfs, sleepers
from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import QUIET_NS, State, Word

ASLEEP = "asleep"
_STATES = {
    State.EMPTY: "not started",
    State.LOADED: "loaded",
    State.ARMED: "armed",
    State.TRACING: "traced",
    State.DETACHED: "left",
    State.FAILED: "failed",
}
_OF_A_SLEEPER = {State.LOADED, State.DETACHED}  # of one that nobody traces


def state_of(ring: RingView) -> str:
    """What the probe is doing, in a word or two; the process's own sleeps while nobody reads."""
    state = ring.word(Word.STATE)
    if sleepers.name_of(ring) and state in _OF_A_SLEEPER:
        return ASLEEP
    return _STATES.get(state, "unknown: of another release")


def way_of(ring: RingView) -> str:
    """How the probe came in: `injected`, or `loop` or `plugin`, which bring their own."""
    return sleepers.name_of(ring) or "injected"


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
    there = procfs.is_alive(controller) or not procfs.shares_processes(pid)
    return controller if there else None
