"""Brings what a traced session finds to the page, beside whoever else follows the session."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from spectrace.attach.inject import TakenOut
from spectrace.attach.session import End, SessionFacts, Stall, TraceSession
from spectrace.model import Cycle, Run
from spectrace.server.hub import Hub
from spectrace.server.state import Life, Lost, RunFacts, Source

_TELL_S = 0.5
_ENDS = {
    None: (Life.DETACHED, "Tracing was ended; the server goes on without it."),
    End.SERVER_DIED: (Life.SERVER_GONE, "The server has ended; what was measured is still here."),
    End.TAKEN_OUT: (Life.DETACHED, "The probe was taken out of the server by another command."),
    End.TAKEN_OVER: (Life.DETACHED, "Another process traces the server now."),
    End.PROBE_FAILED: (Life.DETACHED, "The probe met an error of its own and took itself out."),
}


class PagedSession:
    """A session that can be used in the place of another one and shows it on the page.

    Args:
        session: What is traced; entered and left with this one.
        hub: Where its cycles and facts go.
        clock_s: A clock that never goes back, in s.
    """

    def __init__(
        self, session: TraceSession, hub: Hub, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._session = session
        self._hub = hub
        self._clock_s = clock_s
        self._told_s = clock_s()
        self._ended = False

    def __enter__(self) -> PagedSession:  # noqa: PYI034 - Self came with Python 3.11
        """Enters the session.

        Raises:
            SpectraceError: As the session.
        """
        self._session.__enter__()
        self._tell()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the session, as `detach`."""
        self.detach()

    @property
    def run(self) -> Run:
        """As the session's."""
        return self._session.run

    @property
    def end(self) -> End | None:
        """As the session's."""
        return self._session.end

    @property
    def last_cycles(self) -> list[Cycle]:
        """As the session's."""
        return self._session.last_cycles

    def facts(self) -> SessionFacts:
        """As the session's."""
        return self._session.facts()

    def stall(self) -> list[Stall]:
        """As the session's."""
        return self._session.stall()

    def poll(self) -> list[Cycle]:
        """As the session's; the page gets the same cycles."""
        cycles = self._session.poll()
        self._hub.feed(cycles)
        if self._clock_s() - self._told_s >= _TELL_S:
            self._tell()
        return cycles

    def _tell(self) -> None:
        self._told_s = self._clock_s()
        run = self._session.run
        self._hub.put_run(run, Source.ATTACHED)
        self._hub.tell(run.run_id, facts_of(self._session.facts()))

    def detach(self) -> list[TakenOut]:
        """As the session's; the page gets what was still in the rings, and how it ended."""
        if self._ended:
            return self._session.detach()
        self._ended = True
        why = self._session.end
        try:
            return self._session.detach()
        finally:
            self._hub.feed(self._session.last_cycles)
            self._tell()
            self._hub.end(self._session.run.run_id, *_ENDS[why])


def facts_of(facts: SessionFacts) -> RunFacts:
    """The same facts for the page."""
    return RunFacts(
        worker=facts.worker,
        algorithm=facts.algorithm,
        overlap=facts.overlap,
        device=facts.device,
        reporting=frozenset(
            rank.name for rank in facts.ranks if rank.alive and rank.state == "tracing"
        ),
        lost=Lost(records=facts.lost_records, missing=facts.missing_cycles),
        message=_message(facts),
    )


def _message(facts: SessionFacts) -> str:
    sentences = list(facts.errors[-1:])
    if facts.unhooked:
        sentences.append(f"Not seen in this release: {', '.join(facts.unhooked)}.")
    return " ".join(sentences)
