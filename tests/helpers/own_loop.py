"""A loop of this very process that is traced by it, for the tests of `spectrace.loop`."""

from __future__ import annotations

import os
import time

from spectrace.attach.discover import find_by_pid
from spectrace.attach.handle import Options
from spectrace.attach.session import TraceSession
from spectrace.collect.ring_view import RingView
from spectrace.loop import Tracer
from spectrace.model import Cycle

SHORT_S = 0.05  # the loop runs in this thread: it cannot answer while we wait for it


def attached(options: Options | None = None) -> TraceSession:
    """A session with this process."""
    return TraceSession(find_by_pid(os.getpid()), options=options, timeout_s=SHORT_S)


def header(tracer: Tracer) -> RingView:
    """The ring from outside."""
    assert tracer.path is not None
    return RingView(tracer.path)


def word(tracer: Tracer, place: int) -> int:
    """A header word."""
    view = header(tracer)
    value = view.word(place)
    view.close()
    return value


def set_word(tracer: Tracer, place: int, value: int) -> None:
    """Writes a header word, as a reader does."""
    view = header(tracer)
    view.set_word(place, value)
    view.close()


def all_of(session: TraceSession) -> list[Cycle]:
    """Every cycle there is, by number; ends the session."""
    cycles = {cycle.number: cycle for cycle in session.poll()}
    session.detach()
    cycles.update((cycle.number, cycle) for cycle in session.last_cycles)
    return [cycles[number] for number in sorted(cycles)]


def phases(cycle: Cycle) -> list[str]:
    """The phases of a cycle, those of no length left out."""
    return [phase.name.value for phase in cycle.ranks[0].phases]


def turn(tracer: Tracer, *names: str) -> None:
    """A speculative cycle of one request with these phases."""
    with tracer.cycle("speculative", ["a"], steps=3, topk=1, draft_tokens=4) as cycle:
        for name in names:
            with tracer.phase(name):
                time.sleep(1e-5)
        cycle.accepted({"a": 2})
