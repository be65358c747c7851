"""Looks at the kernels of a traced server while its session goes on: moved on at each poll."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from typing import Protocol, TypeVar

from spectrace.attach.kernel_obstacles import Obstacle, ShutError, of_refusal, refusal
from spectrace.attach.kernel_windows import KernelWindows
from spectrace.attach.looking import Looking, LookStage
from spectrace.attach.modes import MEASURED_S
from spectrace.attach.session import End, SessionFacts, Stall, TraceSession, controller_of
from spectrace.errors import SpectraceError
from spectrace.kernels import Written
from spectrace.model import Cycle, Run
from spectrace.probe.layout_window import Place, Stage

_CYCLES_COME_WITHIN_S = 30.0
_CLOSING_S = 10.0  # the probe's own time to close a window and to ask for what is done
_AFTER_S = 1.0  # cycles behind the window, to be held against those before it
_MOST_BEFORE = 2000  # cycles that are kept while those of the window are waited for
_OVER = {LookStage.DONE, LookStage.REFUSED}
_ENDS = {
    None: Obstacle.LEFT,
    End.SERVER_DIED: Obstacle.ENDED,
    End.TAKEN_OUT: Obstacle.TAKEN_OUT,
    End.PROBE_FAILED: Obstacle.TAKEN_OUT,
}
_Result = TypeVar("_Result")
_Steps = Generator[None, None, _Result]
_LOG = logging.getLogger(__name__)


class Reader(Protocol):
    """Reads what windows left, beside the thread that follows the session."""

    def named(self, written: Sequence[Written]) -> Future[list[Written]]:
        """The same with the names of their kernels, out of the server's memory."""

    def kept(
        self, run: Run, cycles: Sequence[Cycle], written: Sequence[Written], asked: int
    ) -> Future[None]:
        """Has what they show been made, as by `importing.look.look_of`, and kept."""

    def end(self) -> None:
        """Nothing more is to be read."""


class KernelLooks:
    """The looks at the kernels of one server, one at a time; a tap (`attach.tapped.Tap`).

    Nothing here waits: the cycles that a poll of the session gives move a look on. It ends with
    the session at the latest, and the files of its windows with it. `ask` and `looking` are for
    any thread, all else for the one that polls.

    Args:
        session: The session.
        reader: Reads what windows left, and keeps what they show.
        clock_s: A clock that never goes back, in s.
    """

    def __init__(
        self,
        session: TraceSession,
        reader: Reader,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._session = session
        self._reader = reader
        self._clock_s = clock_s
        self._lock = threading.Lock()  # held for the time of an assignment
        self._looking: Looking | None = None
        self._wish: int | None = None
        self._ended = False
        self._steps: _Steps[None] | None = None
        self._kept: Future[None] | None = None  # once that has begun
        self._came: dict[tuple[str, int], Cycle] = {}

    @property
    def looking(self) -> Looking | None:
        """The look that goes on, or the last one; None before there was any."""
        return self._looking

    def ask(self, cycles: int) -> None:
        """Asks for a look; it begins with the next poll.

        Args:
            cycles: Over how many cycles.

        Raises:
            ShutError: Somebody else controls the server, another look goes on, or the session is
                over.
        """
        self.refuse_without_control()
        with self._lock:
            if self._ended:
                raise ShutError("This server is not traced any more.", "Attach again, and ask.")
            if self._looking is not None and self._looking.stage not in _OVER:
                raise ShutError(
                    "Somebody looks at the kernels of this server already, and it is one at a "
                    "time.",
                    "Ask again when that is over.",
                )
            self._wish = cycles
            self._looking = Looking(stage=LookStage.ASKED, cycles=cycles)

    def refuse_without_control(self) -> None:
        """Refuses where somebody else decides.

        Raises:
            ShutError: A spectrace that controls the server is another one.
        """
        if not self._session.controls:
            raise refusal(Obstacle.CONTROL, said=controller_of(self._session.facts()))

    def tell(self, run: Run, facts: SessionFacts, stalls: Sequence[Stall]) -> None:
        """Nothing: a look asks the session itself."""

    def feed(self, cycles: Sequence[Cycle]) -> None:
        """Moves the look on; whatever goes wrong with it, the session goes on."""
        with self._lock:
            wish, self._wish = self._wish, None
        if wish is not None:
            self._came.clear()
            self._steps = self._look(wish)
        if self._steps is not None:
            self._remember(cycles)
            self._move(self._steps)

    def _remember(self, cycles: Sequence[Cycle]) -> None:
        """Keeps the newest version of each."""
        for cycle in cycles:
            self._came[cycle.group, cycle.number] = cycle
        if self._looking is not None and self._looking.stage is LookStage.ASKED:
            for key in list(self._came)[:-_MOST_BEFORE]:
                del self._came[key]

    def _move(self, steps: _Steps[None]) -> None:
        try:
            next(steps)
        except StopIteration:
            self._enter(LookStage.DONE)
        except ShutError as error:
            self._refuse(error)
        except SpectraceError as error:  # as where shared memory has no room
            self._refuse(ShutError(str(error)))
        except Exception as error:  # noqa: BLE001 - whatever it is, the server is traced on
            _LOG.exception("The look at kernels was given up; tracing goes on.")
            self._refuse(refusal(Obstacle.BROKEN, said=f"{type(error).__name__}: {error}"))

    def _enter(self, stage: LookStage, why: str = "", mend: str = "") -> None:
        if stage in _OVER:
            self._steps = self._kept = None
            self._came.clear()
        with self._lock:
            cycles = 0 if self._looking is None else self._looking.cycles
            self._looking = Looking(stage=stage, cycles=cycles, why=why, mend=mend)

    def _refuse(self, error: ShutError) -> None:
        self._enter(LookStage.REFUSED, error.why, error.mend)

    def end(self, run: Run, end: End | None) -> None:
        """Ends the look that goes on; there is none any more."""
        del run
        with self._lock:
            self._ended = True
            goes_on = self._looking is not None and self._looking.stage not in _OVER
        kept = self._kept
        if self._steps is not None:
            self._steps.close()  # which removes the files
        if kept is not None and not kept.cancelled():
            kept.add_done_callback(self._finish)
        elif goes_on:
            self._refuse(refusal(_ENDS[end]))
        self._reader.end()

    def _finish(self, kept: Future[None]) -> None:
        """Says what came of a look that was read already when the session ended."""
        self._move(_done(kept))

    def _look(self, asked: int) -> _Steps[None]:
        """The steps of one look, each of which takes a moment at most.

        Raises:
            SpectraceError: There is no window, and why.
        """
        run = self._session.run
        written = []
        with KernelWindows(run, asked) as windows:
            for _ in windows.make():
                yield
                self.refuse_without_control()  # who took it may have made the next file
            yield from self._measure()
            windows.ask()
            yield from self._reach(windows, Stage.GRAPHS, _CYCLES_COME_WITHIN_S)
            self._enter(LookStage.OPEN)
            yield from self._reach(windows, Stage.DONE, windows.longest_s + _CLOSING_S)
            self._enter(LookStage.READING)
            after_s = self._clock_s() + _AFTER_S
            for rank in windows.ranks:
                written.append(windows.written(rank))
                yield
        if not any(one.words[Place.RECORDS] for one in written):
            raise refusal(Obstacle.NO_RECORDS)
        named = yield from _done(self._reader.named(written))
        while self._clock_s() < after_s:
            yield
        cycles = list(self._came.values())
        self._kept = self._reader.kept(run, cycles, named, asked)
        yield from _done(self._kept)

    def _measure(self) -> _Steps[None]:
        """Lets the time pass in which the server's speed is measured."""
        until_s = self._clock_s() + MEASURED_S
        while self._clock_s() < until_s:
            yield
            self.refuse_without_control()

    def _reach(self, windows: KernelWindows, stage: int, within_s: float) -> _Steps[None]:
        """Lets polls pass until the windows of all ranks have come so far.

        Raises:
            ShutError: One is refused, or does not come so far in time; somebody else decides.
        """
        until_s = self._clock_s() + within_s
        while True:
            self.refuse_without_control()  # first: who takes control ends our window
            refused = windows.refused()
            if refused is not None:
                cause = of_refusal(refused.words[Place.REFUSAL])
                raise refusal(cause, refused.rank.name, refused.text)
            if windows.stage() >= stage:
                return
            if self._clock_s() >= until_s:
                raise refusal(Obstacle.NO_CYCLES)
            yield


def _done(future: Future[_Result]) -> _Steps[_Result]:
    """Lets polls pass until something is done; what has not begun is not done for nobody."""
    try:
        while not future.done():
            yield
        return future.result()
    finally:
        future.cancel()
