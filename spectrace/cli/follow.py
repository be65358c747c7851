"""Follows a session until it ends: polls it, keeps the window, and shows reports."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from spectrace.analysis.summary import Summary
from spectrace.attach.handle import TakenOut
from spectrace.attach.session import End, SessionFacts, Stall
from spectrace.cli.report import Exported, Removal, Report, removal_of
from spectrace.cli.screens import Screen
from spectrace.cli.stopping import Stop
from spectrace.cli.window import CycleWindow
from spectrace.model import Cycle, Run

_NS_PER_S = 1e9
_POLL_S = 0.05
_INSTALL_PATIENCE_S = 1.0  # an idle server hooks the worker only at its next cycle
_DEAD = "dead"
_PAUSE_PER_DRAWING = 9  # drawing takes a tenth of our time at most: the server needs the CPU


class Session(Protocol):
    """What following needs of `attach.session.TraceSession`."""

    @property
    def last_cycles(self) -> list[Cycle]:
        """What detaching still found."""

    @property
    def run(self) -> Run:
        """The server."""

    @property
    def end(self) -> End | None:
        """Why there is nothing more to trace."""

    def poll(self) -> list[Cycle]:
        """New and amended Cycles."""

    def news(self) -> list[str]:
        """What has changed, in sentences."""

    def facts(self) -> SessionFacts:
        """What is known beside the Cycles."""

    def stall(self) -> list[Stall]:
        """For how long attaching held up each rank."""

    def detach(self) -> list[TakenOut]:
        """Takes the probe out."""


class Clock:
    """The time and the wait for it; tests bring their own."""

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC in ns."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


class Follower:
    """One session on one screen.

    Args:
        session: The session, already attached.
        screen: Where reports go.
        clock: The time.
        exported: What became of what an exporter was given, where there is one.
    """

    def __init__(
        self,
        session: Session,
        screen: Screen,
        clock: Clock | None = None,
        *,
        exported: Callable[[], Exported] | None = None,
    ) -> None:
        self._session = session
        self._screen = screen
        self._clock = clock or Clock()
        self._exported = exported
        self._start_ns = self._clock.now_ns()
        self._window = CycleWindow(self._start_ns)
        self._told_stall = False  # as far as it was known
        self._stall_told_of: set[str] = set()  # names of ranks whose whole stall was told
        self._next_show_ns = self._start_ns + int(screen.every_s * _NS_PER_S)

    def follow(self, stop: Stop, duration_s: float | None = None) -> Report:
        """Follows until `stop` is requested, `duration_s` is over, or the session ends.

        Then takes the probe out and shows the whole session.

        Returns:
            The last report.
        """
        try:
            while not stop.requested and self._session.end is None and self._left_s(duration_s):
                self._step()
                self._clock.sleep(min(_POLL_S, self._left_s(duration_s)))
        finally:
            self._screen.close()
        report = self._leave()
        self._say_stall(self._stalls_to_tell(), over=True)
        self._screen.ended(report)
        return report

    def _left_s(self, duration_s: float | None) -> float:
        if duration_s is None:
            return _POLL_S
        return max(0.0, duration_s - self._passed_s())

    def _passed_s(self) -> float:
        return (self._clock.now_ns() - self._start_ns) / _NS_PER_S

    def _step(self) -> None:
        self._window.add(self._session.poll(), self._clock.now_ns())
        for sentence in self._session.news():
            self._screen.note(sentence)
        self._tell_stall()
        now_ns = self._clock.now_ns()
        if self._told_stall and now_ns >= self._next_show_ns:
            self._screen.show(self._report(self._window.summary(now_ns)))
            self._plan_next_show(now_ns)

    def _tell_stall(self) -> None:
        """Tells it once as far as it is known, and the rest of each rank when it is known."""
        stalls = self._stalls_to_tell()
        installed = tuple(stall for stall in stalls if stall.installed)
        if self._told_stall:
            self._say_stall(installed)
        elif len(installed) == len(stalls) or self._passed_s() >= _INSTALL_PATIENCE_S:
            self._say_stall(stalls)
            self._told_stall = True

    def _stalls_to_tell(self) -> tuple[Stall, ...]:
        stalls = self._session.stall()
        return tuple(stall for stall in stalls if stall.rank not in self._stall_told_of)

    def _say_stall(self, stalls: tuple[Stall, ...], *, over: bool = False) -> None:
        if stalls:
            self._screen.attached(stalls, over=over)
        self._stall_told_of.update(stall.rank for stall in stalls if stall.installed)

    def _plan_next_show(self, began_ns: int) -> None:
        now_ns = self._clock.now_ns()
        every_ns = int(self._screen.every_s * _NS_PER_S)
        pause_ns = _PAUSE_PER_DRAWING * (now_ns - began_ns)
        self._next_show_ns = max(self._next_show_ns + every_ns, now_ns + pause_ns)

    def _leave(self) -> Report:
        end = self._session.end
        taken_out = self._session.detach()
        now_ns = self._clock.now_ns()
        self._window.add(self._session.last_cycles, now_ns)
        report = self._report(self._window.session(now_ns))
        removals = _removals(self._session.facts(), taken_out)
        return msgspec.structs.replace(report, final=True, end=end, removals=removals)

    def _report(self, summary: Summary) -> Report:
        run = self._session.run
        exported = self._exported() if self._exported else None
        return Report(
            final=False,
            unix_ns=run.unix_ns(self._clock.now_ns()),
            run_id=run.run_id,
            server_pid=run.server_pid,
            session=_with_the_dead(self._session.facts()),
            stall=tuple(self._session.stall()),
            summary=summary,
            export_lost=exported.lost_cycles if exported else None,
            exported=exported,
        )


def _with_the_dead(facts: SessionFacts) -> SessionFacts:
    """The same facts, in which no rank is in the state that its process died in."""
    ranks = tuple(
        rank if rank.alive else msgspec.structs.replace(rank, state=_DEAD) for rank in facts.ranks
    )
    return msgspec.structs.replace(facts, ranks=ranks)


def _removals(facts: SessionFacts, taken_out: Sequence[TakenOut]) -> tuple[Removal, ...]:
    return tuple(
        removal_of(rank.name, out) for rank, out in zip(facts.ranks, taken_out, strict=True)
    )
