"""The probe in a loop's own process: sleeps until somebody attaches, and never does any harm."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns as now
from typing import Any

from spectrace.loop._timing import Timing
from spectrace.probe import own_ring
from spectrace.probe.layout import (
    ABANDONED_NS,
    Command,
    Kind,
    Origin,
    Ph,
    RecordType,
    State,
    Word,
)
from spectrace.probe.recorder import Recorder
from spectrace.probe.ring import RingWriter

KINDS = {
    "speculative": Kind.SPECULATIVE,
    "decode": Kind.DECODE,
    "extend": Kind.EXTEND,
    "mixed": Kind.MIXED,
    "idle": Kind.IDLE,
    "other": Kind.OTHER,
}
_MAX_NOTES = 8

Row = tuple[str, int | None, int, bool]  # request id, correct drafts, output tokens, ended


class LoopProbe:
    """Ring and recorder of one loop.

    Nothing here raises: what goes wrong ends the probe, and `problem` says it. Asleep it
    writes nothing and looks at one word a cycle; it wakes when a reader joins.

    Args:
        facts: What the ring says about the loop.
        units: How much the ring holds, in units of `layout.UNIT_BYTES`.

    Attributes:
        problem: Why nothing is traced, one sentence; empty while all is well.
        path: The ring file, None where there is none.
        awake: Somebody reads.
        phase: The mark of the phase that runs.
    """

    def __init__(self, facts: dict[str, Any], units: int) -> None:
        self.problem = ""
        self.path: Path | None = None
        self.awake = False
        self.phase = Ph.SCHEDULE
        self._facts = facts
        self._notes: list[str] = []
        self._joins = 0
        self._ring: Any = None
        self._words: Any = None
        self._recorder: Any = None
        self._timing: Any = None
        self._finalizer: Any = None
        try:
            self._open(units)
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.problem = _why(error)

    def _open(self, units: int) -> None:
        path = own_ring.own_path()
        ring = RingWriter(own_ring.create(path, Origin.LOOP, units))
        self.path, self._ring, self._words = path, ring, ring.words
        self._finalizer = weakref.finalize(self, own_ring.remove, path, os.getpid())
        _PROBES.add(self)
        self._recorder = Recorder(ring, fail=self.fail)
        self._timing = Timing(self._recorder, ring, self._facts["device"])
        self._tell()

    def begin(
        self, number: int, kind: str, requests: Sequence[str], size: tuple[int, int, int]
    ) -> None:
        """Begins cycle `number`; `size` is draft steps, branches, and tokens to verify."""
        began_ns = now()
        try:
            if self._recorder is not None and self._look(began_ns):
                self.phase = Ph.SCHEDULE
                self._record(began_ns, number, kind, requests, size)
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def _record(
        self,
        began_ns: int,
        number: int,
        kind: str,
        requests: Sequence[str],
        size: tuple[int, int, int],
    ) -> None:
        if kind not in KINDS:
            self.note(f"the kind {kind!r}, which spectrace does not know")
        code = KINDS.get(kind, Kind.OTHER)
        recorder = self._recorder
        recorder.begin(began_ns, code, len(requests), number)
        if code == Kind.SPECULATIVE:
            recorder.speculate(*size)

    def end(self, number: int, *, raised: bool) -> None:
        """Ends cycle `number`; `raised`: by an exception of the loop's own."""
        try:
            recorder = self._recorder
            if recorder is not None and recorder.open and recorder.number == number:
                if raised:
                    recorder.raised()
                recorder.end(now())
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def mark(self, mark: int) -> None:
        """Ends the phase that runs and begins another one."""
        try:
            self.phase = mark
            recorder = self._recorder
            if recorder is not None and recorder.timing:
                recorder.mark(mark)
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def results(self, number: int, rows: list[Row]) -> None:
        """Writes what cycle `number` brought each request."""
        try:
            if self.awake:
                began_ns = now()
                self._recorder.results(number, rows)
                self._recorder.charge_since(began_ns)
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def idle(self) -> None:
        """Looks whether a reader came or went."""
        try:
            if self._recorder is not None and self._look(now()):
                self._recorder.flush_skipped()
        except Exception as error:  # noqa: BLE001 - nothing may reach the loop
            self.fail(error)

    def note(self, what: str) -> None:
        """Tells readers of something that the author got wrong; eight things at most."""
        with suppress(Exception):
            what = what[:120]
            if what not in self._notes and len(self._notes) < _MAX_NOTES:
                self._notes.append(what)
                if self._ring is not None:
                    self._tell()

    def fail(self, error: BaseException) -> None:
        """Writes down an error of the probe's own and ends it."""
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
        if self._recorder is not None and self._recorder.open:
            self.end(self._recorder.number, raised=False)
        if self.awake:
            with suppress(Exception):
                self._recorder.flush_skipped()
        self._leave(State.DETACHED)
        self._drop_finalizer()
        if self.path is not None:
            own_ring.remove(self.path, os.getpid())

    def forget(self) -> None:
        """Lets go of everything in a forked child: the ring is the parent's, with one writer."""
        self._drop_finalizer()
        self.path = None
        self.problem = "A forked child of a traced process is not traced."
        self._leave(None)

    def _drop_finalizer(self) -> None:
        """The file is gone or not ours: at our end another tracer may have one of that name."""
        if self._finalizer is not None:
            self._finalizer.detach()

    def _look(self, time_ns: int) -> bool:
        """Falls asleep or wakes up as the header words say; gives whether somebody reads."""
        if not self.awake:
            return self._words[Word.JOINS] != self._joins and self._wake(time_ns)
        if not self._is_wanted(time_ns):
            self._sleep(time_ns)
        elif self._recorder.pending:
            self._timing.drain(time_ns)
        return self.awake

    def _is_wanted(self, time_ns: int) -> bool:
        words = self._words
        quiet_ns = time_ns - words[Word.HEARTBEAT_NS]
        return bool(words[Word.COMMAND] != Command.DETACH and quiet_ns <= ABANDONED_NS)

    def _wake(self, time_ns: int) -> bool:
        words = self._words
        self._joins = words[Word.JOINS]
        self.awake = self._is_wanted(time_ns)
        if self.awake:
            self._recorder.restart()
            self._facts.update(self._timing.start())
            self._tell()
            words[Word.INSTALL_NS] = max(1, now() - time_ns)
        words[Word.STATE] = State.TRACING if self.awake else State.DETACHED
        return self.awake

    def _sleep(self, time_ns: int) -> None:
        self.awake = False
        self._recorder.flush_skipped()
        self._timing.drain(time_ns)
        self._timing.stop()
        self._words[Word.STATE] = State.DETACHED

    def _tell(self) -> None:
        self._ring.info({**self._facts, "missing": self._notes})

    def _leave(self, state: int | None) -> None:
        ring, self._ring, self._words, self._recorder = self._ring, None, None, None
        timing, self._timing = self._timing, None
        self.awake = False
        if ring is None:
            return
        if state is not None:  # not in a forked child: the events there are the parent's
            with suppress(Exception):
                timing.stop()
            with suppress(Exception):
                ring.words[Word.STATE] = state
        with suppress(Exception):
            ring.close()


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


def _why(error: BaseException) -> str:
    if isinstance(error, FileExistsError):
        return "This process is traced already: it has a Tracer, or an injected probe."
    if isinstance(error, OSError):
        return f"No ring can be made in {own_ring.SHARED_MEMORY}: {error.strerror or error}."
    return f"{type(error).__name__}: {error}"
