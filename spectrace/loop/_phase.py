"""A phase of the running cycle: how it begins, and what goes on when it ends."""

from __future__ import annotations

from threading import get_ident
from types import TracebackType

from spectrace.loop._probe import LoopProbe
from spectrace.probe.layout import LAG_SHIFT, MAX_LAG, Ph

_AT_ONCE = "phases that a second thread ran within a cycle"
_SCHEDULE = Ph.SCHEDULE


class Phase:
    """A phase of the running cycle, made by `Tracer.phase`.

    There is one object for each phase, entered any number of times, also within itself. It
    turns to the recorder by itself, since a further call would double what it takes.
    """

    __slots__ = ("_late", "_mark", "_probe")

    def __init__(self, probe: LoopProbe, mark: int) -> None:
        self._probe = probe
        self._mark = mark
        self._late: tuple[Phase, ...] = ()

    def late(self, lag: int) -> Phase:
        """The same phase, of the batch of `lag` cycles before."""
        if not self._late:
            marks = (self._mark | lag << LAG_SHIFT for lag in range(MAX_LAG + 1))
            self._late = tuple(Phase(self._probe, mark) for mark in marks)
        return self._late[min(max(lag, 0), MAX_LAG)]

    def __enter__(self) -> None:
        """Begins the phase; the one that ran ends."""
        probe = self._probe
        if not probe.awake:
            return
        try:
            recorder, mark = probe.recorder, self._mark
            if not recorder.timing:
                return
            if get_ident() == probe.thread:
                probe.phases.append(mark)
                recorder.mark(mark)
            else:
                probe.note(_AT_ONCE)
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            probe.fail(error)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Goes back to the phase that it lies in.

        One that does not run, as that of a generator that was given up, ends without a trace.
        """
        probe = self._probe
        if not probe.awake:
            return
        try:
            recorder, phases = probe.recorder, probe.phases
            if not phases or not recorder.timing:
                return
            if phases[-1] == self._mark:
                del phases[-1]
                recorder.mark(phases[-1] if phases else _SCHEDULE)
            elif self._mark in phases:
                phases.remove(self._mark)
        except Exception as ours:  # noqa: BLE001 - nothing may reach the loop
            probe.fail(ours)
