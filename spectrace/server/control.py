"""What a person may ask of the server traced here: timing, a look at kernels, and to be left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from spectrace.attach import modes
from spectrace.attach.kernel_obstacles import ShutError
from spectrace.attach.kernel_prospect import refuse_what_is_seen_from_outside
from spectrace.attach.looking import KernelProspect, Looking
from spectrace.attach.modes import Switch, Wish
from spectrace.attach.session import TraceSession, controller_of
from spectrace.errors import SpectraceError

if TYPE_CHECKING:  # it takes long to import, and a session may have no page
    from spectrace.attach.kernel_look import KernelLooks


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

    @property
    def looking(self) -> Looking | None:
        """The look at its kernels that goes on, or the last one; None before there was any."""

    def kernel_prospect(self) -> KernelProspect:
        """What stands in the way of a look at its kernels, seen from outside."""

    def look_at_kernels(self, cycles: int) -> None:
        """Has a window opened on its kernels; does not wait for it.

        Args:
            cycles: Over how many cycles.

        Raises:
            SpectraceError: As `kernel_prospect`, or another look goes on.
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
        looks: The looks at its kernels.
        leave: Asks for its end.
        may_leave_others: The page may end reading along, where the probe stays for others.
    """

    def __init__(
        self,
        session: TraceSession,
        looks: KernelLooks,
        leave: Callable[[], None],
        *,
        may_leave_others: bool = False,
    ) -> None:
        self._session = session
        self._looks = looks
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

    @property
    def looking(self) -> Looking | None:
        """As `Control`."""
        return self._looks.looking

    def kernel_prospect(self) -> KernelProspect:
        """As `Control`."""
        try:
            self._refuse_kernels()
        except ShutError as error:
            return KernelProspect(open=False, why=error.why, mend=error.mend)
        return KernelProspect(open=True)

    def look_at_kernels(self, cycles: int) -> None:
        """As `Control`."""
        self._refuse_kernels()
        self._looks.ask(cycles)

    def _refuse_kernels(self) -> None:
        self._looks.refuse_without_control()
        refuse_what_is_seen_from_outside(self._session.run)

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
