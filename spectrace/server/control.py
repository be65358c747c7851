"""What a person may ask of the server traced here: another mode or sampling, and to be left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from spectrace.attach import modes
from spectrace.attach.modes import Switch, Wish
from spectrace.attach.session import TraceSession, controller_of
from spectrace.errors import SpectraceError


class Control(Protocol):
    """What the page can ask for; from any thread."""

    @property
    def run_id(self) -> str:
        """The run that it is about."""

    def time(self, wish: Wish) -> list[Switch]:
        """Has the server timed otherwise, from the same cycle on on all ranks of a group.

        Raises:
            SpectraceError: Somebody else controls it, or it is not traced any more.
        """

    def leave(self) -> None:
        """Has the session end, soon; what was collected stays on the page.

        Raises:
            SpectraceError: Somebody else controls the server, for whom the probe would stay.
        """


class SessionControl:
    """Controls the server of a session.

    Args:
        session: The session.
        leave: Asks for its end.
        may_leave_others: The page may end reading along, where the probe stays for others.
    """

    def __init__(
        self, session: TraceSession, leave: Callable[[], None], *, may_leave_others: bool = False
    ) -> None:
        self._session = session
        self._leave = leave
        self._may_leave_others = may_leave_others
        self._one_at_a_time = threading.Lock()

    @property
    def run_id(self) -> str:
        """As the session's."""
        return self._session.run.run_id

    def time(self, wish: Wish) -> list[Switch]:
        """As `Control`."""
        with self._one_at_a_time:
            self._refuse_without_control(
                "controls how this server is timed: end that one, or attach with --take-control."
            )
            return modes.switch(
                self._session.run,
                wish,
                take_control=True,
                controls=lambda: self._session.facts().controls,
            )

    def leave(self) -> None:
        """As `Control`."""
        if not self._may_leave_others:
            self._refuse_without_control(
                "controls this server, and the probe stays for it: end that one first. Ctrl-C in "
                "the terminal of this page ends reading along."
            )
        self._leave()

    def _refuse_without_control(self, why: str) -> None:
        facts = self._session.facts()
        if not facts.controls:
            raise SpectraceError(f"{controller_of(facts).capitalize()} {why}")
