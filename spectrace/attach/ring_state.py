"""What a ring says of its probe: its state, how it came in, how many cycles it keeps."""

from __future__ import annotations

from spectrace.attach import sleepers
from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import State, Word, every_at

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


def sample_every(ring: RingView) -> int:
    """Of how many cycles one is recorded in full by now; 1 where all are."""
    return max(1, every_at(ring.word(Word.SAMPLING), ring.word(Word.NEWEST_CYCLE)))
