"""The probe in a loop's own process: sleeps until somebody attaches, and never does any harm."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from time import monotonic_ns as now
from typing import Any

from spectrace.loop._checks import Row
from spectrace.loop._timing import Timing
from spectrace.probe import own_ring
from spectrace.probe.faults import pass_on
from spectrace.probe.layout import (
    Kind,
    Origin,
    RecordType,
    State,
    Word,
)
from spectrace.probe.recorder import Recorder
from spectrace.probe.ring import RingWriter

# Asked for at every cycle: looked up once.
_JOINS, _SPECULATIVE = Word.JOINS, Kind.SPECULATIVE

_CYCLES_AT_ONCE = "cycles that a second thread ran at the same time"
_COUNTS_AT_ONCE = "counts that a second thread handed in while a cycle ran"


class LoopProbe:
    """Ring and recorder of one loop.

    Nothing here raises: what goes wrong ends the probe, and `problem` says it. Asleep it
    writes nothing and looks at one word a cycle; it wakes when a reader joins. Each time it has
    a new recorder, so that nothing of one session comes into the next. What a second thread
    does while a cycle runs is passed over, and the reader is told.

    Args:
        facts: What the ring says about the loop.
        units: How much the ring holds, in units of `layout.UNIT_BYTES`.

    Attributes:
        problem: Why nothing is traced, one sentence; empty while all is well.
        path: The ring file, None where there is none.
        awake: Somebody reads.
        recorder: Of the cycles, None while nobody reads.
        phases: Marks of the phases that are open in the running cycle, the inmost one last.
        thread: That of the running cycle.
    """

    def __init__(self, facts: dict[str, Any], units: int) -> None:
        self.problem = ""
        self.path: Path | None = None
        self.awake = False
        self._facts = facts
        self._notes: list[str] = []
        self.phases: list[int] = []
        self.thread = 0
        self._joins = 0
        self._ring: Any = None
        self._words: Any = None
        self.recorder: Any = None
        self._timing: Any = None
        self._finalizer: Any = None
        try:
            self._open(units)
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.problem = _why(error)
            self._let_go(State.FAILED)

    def _open(self, units: int) -> None:
        path = own_ring.own_path()
        ring = RingWriter(own_ring.create(path, Origin.LOOP, units))
        self.path, self._ring, self._words = path, ring, ring.words
        self._finalizer = weakref.finalize(self, _end, path, os.getpid(), ring)
        _PROBES.add(self)
        self._tell()

    def begin(self, number: int, kind: int, batch_size: int, size: tuple[int, int, int]) -> None:
        """Begins cycle `number`.

        Args:
            number: From 1.
            kind: `layout.Kind`.
            batch_size: Requests in the batch.
            size: Draft steps, branches, and tokens to verify.
        """
        words = self._words
        try:
            if words is None or not (self.awake or words[_JOINS] != self._joins):
                return
            began_ns, thread = now(), get_ident()
            if self.awake and thread != self.thread and self.recorder.open:
                self.note(_CYCLES_AT_ONCE)
            elif self._look(began_ns):
                self.thread = thread
                if self.phases:  # left open by the cycle before
                    self.phases.clear()
                recorder = self.recorder
                recorder.begin(began_ns, kind, batch_size, number)
                if kind == _SPECULATIVE:
                    recorder.speculate(*size)
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def end(self, number: int, *, raised: bool) -> None:
        """Ends cycle `number`; `raised`: by an exception of the loop's own."""
        try:
            recorder = self.recorder
            if recorder.open and recorder.number == number:
                if raised:
                    recorder.raised()
                recorder.end(now())
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def results(self, number: int, rows: list[Row]) -> None:
        """Writes what cycle `number` brought each request."""
        try:
            recorder = self.recorder
            if recorder.open and get_ident() != self.thread:
                self.note(_COUNTS_AT_ONCE)
                return
            began_ns = now()
            recorder.results(number, rows)
            recorder.own_ns += now() - began_ns
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def idle(self) -> None:
        """Looks whether a reader came or went; within a cycle that can wait."""
        try:
            within = self.awake and self.recorder.open
            if self._words is not None and not within and self._look(now()):
                self.recorder.flush_skipped()
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def note(self, what: str) -> None:
        """Tells readers what was passed over."""
        if what not in self._notes:
            self._notes.append(what)
            self._tell()

    def fail(self, error: BaseException) -> None:
        """Writes down an error of the probe's own and ends it; the file stays, to be read.

        What a signal handler of the program raised meanwhile is raised again.
        """
        pass_on(error)
        if self.problem:
            return
        self.problem = _why(error)
        with suppress(Exception):
            if self._ring is not None:
                self._ring.text(RecordType.ERROR, 0, self.problem)
                self._facts["error"] = self.problem
                self._tell()
        self._leave(State.FAILED)

    def close(self) -> None:
        """Ends the probe and removes its file."""
        with suppress(Exception):
            if self.awake:
                self._finish(now())
        self._let_go(State.DETACHED)

    def forget(self) -> None:
        """Lets go of everything in a forked child: the ring is the parent's, with one writer."""
        if self._finalizer is not None:
            self._finalizer.detach()
        self.path = None
        self.problem = "A forked child of a traced process is not traced."
        self._leave(None)

    def _look(self, time_ns: int) -> bool:
        """Falls asleep or wakes up as the header words say; gives whether somebody reads."""
        if not self.awake:
            return self._words[_JOINS] != self._joins and self._wake(time_ns)
        if not self._ring.is_wanted(time_ns):
            self._sleep(time_ns)
        elif self.recorder.pending:
            self._timing.drain(time_ns)
        return self.awake

    def _wake(self, time_ns: int) -> bool:
        words = self._words
        self._joins = words[_JOINS]
        self.awake = self._ring.is_wanted(time_ns)
        if self.awake:
            self.recorder = Recorder(self._ring, fail=_failing(self))
            self._timing = Timing(self.recorder, self._ring, self._facts["device"])
            self._facts.update(self._timing.start())
            self._tell()
            words[Word.INSTALL_NS] = max(1, now() - time_ns)
        words[Word.STATE] = State.TRACING if self.awake else State.DETACHED
        return self.awake

    def _sleep(self, time_ns: int) -> None:
        self.awake = False
        self._finish(time_ns)
        timing, self._timing, self.recorder = self._timing, None, None
        timing.stop()
        self._words[Word.STATE] = State.DETACHED

    def _finish(self, time_ns: int) -> None:
        """Writes all that there is: also a cycle that was begun and never ended."""
        recorder = self.recorder
        if recorder.open:
            recorder.end(time_ns)
        recorder.flush_skipped()
        self._timing.drain(time_ns)

    def _tell(self) -> None:
        self._ring.info({**self._facts, "missing": self._notes})

    def _let_go(self, state: int) -> None:
        """Leaves, and removes the file: at our end another tracer may have one of that name."""
        self._leave(state)
        if self._finalizer is not None:
            self._finalizer()
        self.path = None

    def _leave(self, state: int | None) -> None:
        """Lets go of the ring; without a state nothing is written, as in a forked child."""
        ring, self._ring, self._words, self.recorder = self._ring, None, None, None
        timing, self._timing = self._timing, None
        self.awake = False
        if ring is None:
            return
        if state is not None:  # not in a forked child: the events there are the parent's
            with suppress(Exception):
                timing.stop()
        _say_last(ring, state)


_PROBES: weakref.WeakSet[LoopProbe] = weakref.WeakSet()


def _forget_all() -> None:
    for probe in list(_PROBES):
        probe.forget()


os.register_at_fork(after_in_child=_forget_all)


def facts_of(name: str, rank: str, device: str, algorithm: str) -> dict[str, Any]:
    """What the ring says about a loop."""
    torch = getattr(sys.modules.get("torch"), "__version__", "")
    return {
        "engine": name,
        "rank": rank,
        "device": device,
        "algorithm": algorithm,
        "python": sys.version.split()[0],
        "torch": str(torch),
    }


def _failing(probe: LoopProbe) -> Callable[[BaseException], None]:
    """Its `fail`, which does not keep it: a tracer that is dropped goes at once."""
    reference = weakref.ref(probe)

    def fail(error: BaseException) -> None:
        living = reference()
        if living is not None:
            living.fail(error)

    return fail


def _say_last(ring: RingWriter, state: int | None) -> None:
    """Writes a last state, None for none, and unmaps the ring; one that is closed stays it."""
    with suppress(Exception):
        if state is not None:
            ring.words[Word.STATE] = state
    with suppress(Exception):
        ring.close()


def _end(path: Path, pid: int, ring: RingWriter) -> None:
    """Ends the ring of a probe that has gone; a forked child leaves it to its parent."""
    if os.getpid() == pid:
        _say_last(ring, State.DETACHED)
        own_ring.remove(path, pid)


def _why(error: BaseException) -> str:
    if isinstance(error, FileExistsError):
        return "This process is traced already: it has a Tracer, or an injected probe."
    if isinstance(error, OSError):
        return f"No ring can be made in {own_ring.SHARED_MEMORY}: {error.strerror or error}."
    return f"{type(error).__name__}: {error}"
