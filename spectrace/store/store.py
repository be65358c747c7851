"""The live store: its one owner adds cycles and spans of others, any thread reads them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from spectrace.errors import SpectraceError
from spectrace.kernels import Seen
from spectrace.model import Cycle, OtherSpan, Run
from spectrace.store.lock import FILE, OwnerLock
from spectrace.store.look_writing import LookRows
from spectrace.store.publish import reason_of
from spectrace.store.reads import ShelfReads
from spectrace.store.recent import RecentCycles
from spectrace.store.recording import PATTERN
from spectrace.store.retention import Retention
from spectrace.store.shelf import Slice
from spectrace.store.source import Stats
from spectrace.store.writer import SliceWriter

_FLUSH_S = 0.5
_FLUSH_CYCLES = 500
_PENDING_CYCLES = 20_000
_PENDING_SPANS = 50_000
_Item = TypeVar("_Item", Cycle, OtherSpan)
_Result = TypeVar("_Result")


class CycleStore(ShelfReads):
    """Cycles on disk, bounded in time and size, and the newest of them in memory.

    All work on the database is done by one thread of the store, half a second's cycles at a
    time; what was added is seen by the next read all the same. Methods may be called from any
    thread and, but for `add` without waiting and `newest`, wait for that thread.

    Args:
        directory: Made if need be, mode 0700; otherwise empty or left by another store,
            whose cycles are then here.
        retain_s: Age in s up to which cycles are kept, counted from the newest cycle, and spans
            of others, counted from the newest of both.
        max_bytes: Size of all files; the oldest go first, those with spans of others alone
            before those with cycles.
        slice_s: Time in s that one file covers; a tenth of `retain_s` if not given.
        clock_ns: UNIX time in ns.

    Raises:
        SpectraceError: The directory has another owner, holds something else, or is damaged.
        ValueError: A time or the size is not positive.
    """

    def __init__(
        self,
        directory: Path,
        *,
        retain_s: float,
        max_bytes: int,
        slice_s: float | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        retention = Retention.of(retain_s, max_bytes, slice_s)
        self._retain_s = retain_s
        self._directory = directory
        self._owner = OwnerLock(_prepared(directory.absolute()))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spectrace-store")
        self._lock = threading.Condition()
        self._pending: list[Cycle] = []
        self._pending_spans: list[OtherSpan] = []
        self._lost = self._lost_spans = 0
        self._problem = self._spans_problem = ""
        self._asked = False
        self._closed = False
        self._written_s = time.monotonic()
        try:
            self._writer = self._do(lambda: SliceWriter(directory.absolute(), retention, clock_ns))
        except BaseException:
            self._thread.shutdown()
            self._owner.release()
            raise
        self._shelf = self._writer.shelf
        self._recent = RecentCycles(
            older=(key for part in self._shelf.slices for key in part.spans)
        )

    def add(self, cycles: Iterable[Cycle], *, wait: bool = True) -> None:
        """Takes in cycles; one with the number of an earlier one takes its place.

        Args:
            cycles: In the order in which they came; one without ranks is left out.
            wait: Wait for room while more than 20,000 cycles are not written yet. Without
                it those for which there is no room are counted as lost.

        Raises:
            SpectraceError: The store is closed.
        """
        if self._closed:
            raise SpectraceError("The store is closed.")
        added = [cycle for cycle in cycles if cycle.ranks]
        with self._lock:
            self._recent.add(added)
            self._pending += added
            if wait:
                self._ask_to_write_if_due()
                self._lock.wait_for(lambda: len(self._pending) <= _PENDING_CYCLES)
            elif len(self._pending) > _PENDING_CYCLES:
                self._lost += len(self._pending) - _PENDING_CYCLES
                del self._pending[_PENDING_CYCLES:]
            self._ask_to_write_if_due()

    def add_spans(self, spans: Iterable[OtherSpan]) -> None:
        """Takes in spans of others; one that was added before counts once where it is read.

        It never waits; those for which there is no room are counted as lost.

        Raises:
            SpectraceError: The store is closed.
        """
        if self._closed:
            raise SpectraceError("The store is closed.")
        with self._lock:
            self._pending_spans += spans
            self._lost_spans += max(0, len(self._pending_spans) - _PENDING_SPANS)
            del self._pending_spans[_PENDING_SPANS:]
            self._ask_to_write_if_due()

    def add_look(self, run_id: str, seen: Seen) -> None:
        """Takes in a look at the kernels of a run; its cycles are to be here before.

        It returns once all is written, which of millions of kernels takes seconds. Meanwhile what
        else is added or asked for waits for a part of them at most.

        Args:
            run_id: The run.
            seen: The look, with the kernels that it saw.

        Raises:
            SpectraceError: It could not be written, as on a full disk, and is not here then; or
                the store is closed.
        """
        rows = LookRows(seen.kernels)
        writing = self._ask(
            lambda: self._look_step(lambda: self._writer.begin_look(run_id, seen.look))
        )

        def written(part: Callable[[], None]) -> None:
            step = partial(self._writer.write_look, writing, part)
            self._do(lambda: self._look_step(step, writing.held))

        for names in rows.names():
            written(partial(writing.write_names, names))
        for part in rows.parts():
            written(partial(writing.write_kernels, part, rows.texts))
        written(partial(writing.write_look, seen.look))
        self._do(lambda: self._writer.end_look(writing))

    def _look_step(self, step: Callable[[], _Result], held: Slice | None = None) -> _Result:
        try:
            return step()
        except Exception as error:
            self._writer.recover(held)
            raise SpectraceError(self._why_not("Kernels", error)) from error

    @property
    def lost_cycles(self) -> int:
        """Cycles that were added and could not be stored; never waits."""
        return self._lost + self._writer.refused

    @property
    def problem(self) -> str:
        """Why the last cycles could not be written, or nothing; never waits."""
        return self._problem

    @property
    def lost_spans(self) -> int:
        """Spans of others that were added and could not be stored; never waits."""
        return self._lost_spans + self._writer.refused_spans

    @property
    def spans_problem(self) -> str:
        """Why the last spans of others could not be written, or nothing; never waits."""
        return self._spans_problem

    @property
    def is_behind(self) -> bool:
        """Whether half of the cycles or spans that can wait to be written do."""
        cycles, spans = len(self._pending), len(self._pending_spans)
        return cycles > _PENDING_CYCLES // 2 or spans > _PENDING_SPANS // 2

    def _ask_to_write_if_due(self) -> None:
        waiting = max(len(self._pending), len(self._pending_spans))
        due = waiting >= _FLUSH_CYCLES or time.monotonic() - self._written_s >= _FLUSH_S
        if due and waiting and not self._asked:
            self._asked = True
            self._thread.submit(self._write)

    def _write(self) -> None:
        with self._lock:
            cycles, self._pending = self._pending, []
            spans, self._pending_spans = self._pending_spans, []
            self._asked = False
            self._written_s = time.monotonic()
            self._lock.notify_all()
        no_cycles = self._failure("Cycles", self._writer.write, cycles)
        no_spans = self._failure("Spans of others", self._writer.write_spans, spans)
        with self._lock:
            self._lost += len(cycles) if no_cycles else 0
            self._lost_spans += len(spans) if no_spans else 0
            if cycles or no_cycles:
                self._problem = no_cycles
            if spans:
                self._spans_problem = no_spans

    def _failure(
        self, what: str, write: Callable[[Sequence[_Item]], None], items: Sequence[_Item]
    ) -> str:
        """Writes; returns why it could not be done, or nothing."""
        try:
            write(items)
        except Exception as error:  # noqa: BLE001 - whatever it was, the next ones are tried
            self._writer.recover()
            return self._why_not(what, error)
        return ""

    def _why_not(self, what: str, error: Exception) -> str:
        return (
            f"{what} could not be stored ({reason_of(error)}): make room where "
            f"{self._directory} lies, or start again on another disk (--store, or -o)."
        )

    def put_run(self, run: Run) -> None:
        """Takes in what is known about a run, in place of what was known before."""
        self._do(lambda: self._writer.put_run(run))

    def flush(self) -> None:
        """Writes what was added.

        Raises:
            SpectraceError: It could not be written, as on a full disk.
        """
        self._do(self._write)
        if problem := self._problem or self._spans_problem:
            raise SpectraceError(problem)

    def _do(self, work: Callable[[], _Result]) -> _Result:
        try:
            waiting = self._thread.submit(work)
        except RuntimeError as error:
            raise SpectraceError("The store is closed.") from error
        return waiting.result()

    def _ask(self, question: Callable[[], _Result]) -> _Result:
        def after_writing() -> _Result:
            self._write()
            return question()

        return self._do(after_writing)

    def _scratch(self) -> Path:
        return self._directory.absolute()

    def newest(self, run_id: str, count: int) -> list[Cycle]:
        """The newest cycles that are in memory, the oldest first; never waits for the disk."""
        with self._lock:
            return self._recent.newest(run_id, count)

    def recent(self, run_id: str, seconds: float) -> list[Cycle]:
        """As `CycleSource.recent`; from memory where it reaches back far enough."""
        with self._lock:
            remembered = self._recent.since(run_id, seconds)
        if remembered is not None:
            return remembered
        return super().recent(run_id, seconds)

    def stats(self, run_id: str | None = None) -> Stats:
        """As `CycleSource.stats`."""
        stats = super().stats(run_id)
        return msgspec.structs.replace(
            stats,
            retain_s=self._retain_s,
            lost=self.lost_cycles,
            lost_spans=self.lost_spans,
            problem=self._problem,
            spans_problem=self._spans_problem,
        )

    def save(self, path: Path, *, force: bool = False) -> None:
        """Writes all that is here into one file that `open_recording` opens.

        Args:
            path: The file to make, mode 0600.
            force: Replace the file if there is one.

        Raises:
            SpectraceError: There is one and `force` is not given, or `path` cannot be written.
        """
        self._ask(lambda: self._writer.save(path.absolute(), force=force))

    def close(self) -> None:
        """Writes what was added and lets the next owner in; to be called once more is fine."""
        if self._closed:
            return
        self._closed = True
        try:
            self._do(self._write)
            self._do(self._writer.close)
        finally:
            self._thread.shutdown()
            self._owner.release()


def _prepared(directory: Path) -> Path:
    """The directory, made for us alone.

    Raises:
        SpectraceError: It cannot be made, or holds what no store has put there.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        left = next(directory.iterdir(), None)
        ours = (directory / FILE).exists() or any(directory.glob(PATTERN))
        if left is not None and not ours:
            raise SpectraceError(
                f"{directory} holds other files: choose an empty directory for the store."
            )
        directory.chmod(0o700)
    except OSError as error:
        raise SpectraceError(
            f"The store {directory} cannot be used ({error.strerror}): choose another directory."
        ) from error
    return directory
