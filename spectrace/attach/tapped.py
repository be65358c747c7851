"""Lets others follow a traced session: what it finds goes to each tap as well."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Protocol

from spectrace.attach.handle import TakenOut
from spectrace.attach.session import End, SessionFacts, Stall, TraceSession
from spectrace.model import Cycle, Run

_TELL_S = 0.5


class Tap(Protocol):
    """Somebody who follows a session: the page, an exporter."""

    def tell(self, run: Run, facts: SessionFacts, stalls: Sequence[Stall]) -> None:
        """What is known about the server, at the start, twice a second, and at the end.

        Args:
            run: The server.
            facts: What is known about it beside its cycles.
            stalls: For how long attaching held up each rank.
        """

    def feed(self, cycles: Sequence[Cycle]) -> None:
        """New and amended cycles; returns at once."""

    def end(self, run: Run, end: End | None) -> None:
        """The session is over; None where it was ended from here."""


class TappedSession:
    """A session that can be used in the place of another one.

    Args:
        session: What is traced; entered and left with this one.
        taps: Who follows.
        clock_s: A clock that never goes back, in s.
    """

    def __init__(
        self,
        session: TraceSession,
        taps: Sequence[Tap],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._taps = taps
        self._clock_s = clock_s
        self._told_s = clock_s()
        self._ended = False

    def __enter__(self) -> TappedSession:  # noqa: PYI034 - Self came with Python 3.11
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

    def news(self) -> list[str]:
        """As the session's."""
        return self._session.news()

    def facts(self) -> SessionFacts:
        """As the session's."""
        return self._session.facts()

    def stall(self) -> list[Stall]:
        """As the session's."""
        return self._session.stall()

    def poll(self) -> list[Cycle]:
        """As the session's; the taps get the same cycles."""
        cycles = self._session.poll()
        self._feed(cycles)
        if self._clock_s() - self._told_s >= _TELL_S:
            self._tell()
        return cycles

    def _feed(self, cycles: Sequence[Cycle]) -> None:
        for tap in self._taps:
            tap.feed(cycles)

    def _tell(self) -> None:
        self._told_s = self._clock_s()
        run, facts, stalls = self._session.run, self._session.facts(), self._session.stall()
        for tap in self._taps:
            tap.tell(run, facts, stalls)

    def detach(self) -> list[TakenOut]:
        """As the session's; the taps get what was still in the rings, and how it ended."""
        if self._ended:
            return self._session.detach()
        self._ended = True
        why = self._session.end
        try:
            return self._session.detach()
        finally:
            self._feed(self._session.last_cycles)
            run, facts, stalls = self._session.run, self._session.facts(), self._session.stall()
            for tap in self._taps:  # one by one: those behind an exporter tell what it has lost
                tap.tell(run, facts, stalls)
                tap.end(run, why)
