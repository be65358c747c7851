"""Writes cycles into slices, opens new slices, and drops those that are too old or too much."""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import duckdb

from spectrace.errors import SpectraceError
from spectrace.kernels import KernelLook
from spectrace.model import Cycle, OtherSpan, Run
from spectrace.store.columns import Batch, batches, span_batches
from spectrace.store.database import Database, Looked, Span, log_of
from spectrace.store.look_writing import LookWriting
from spectrace.store.publish import published, reason_of
from spectrace.store.recent import GroupKey
from spectrace.store.recording import PATTERN
from spectrace.store.retention import Retention
from spectrace.store.shelf import Shelf, Slice

_SLICE = re.compile(r"slice-([0-9]+)\.duckdb")
_BATCH = 2000  # cycles or spans of one insert
_RUNS = 256  # that are remembered without having cycles

_Item = TypeVar("_Item", Cycle, OtherSpan)


class SliceWriter:
    """Keeps the slices of one directory; it belongs to one thread.

    Args:
        directory: Exists and belongs to us.
        retention: How much is kept.
        clock_ns: UNIX time in ns. A cycle from the future counts as from now, so that one
            wrong clock does not make everything else look old.

    Attributes:
        shelf: What is kept, for reading.
        refused: Cycles that no database could hold: a number beyond 64 bits, or a text that is no
            Unicode.
        refused_spans: Spans of others likewise.

    Raises:
        SpectraceError: A slice that was left here is damaged.
    """

    def __init__(self, directory: Path, retention: Retention, clock_ns: Callable[[], int]) -> None:
        self._directory = directory
        self._retention = retention
        self._clock_ns = clock_ns
        self._database = Database(directory)
        self.shelf = Shelf(self._database)
        self.refused = self.refused_spans = 0
        self._current: Slice | None = None
        self._fresh_runs: dict[str, Run] = {}
        self._next_file = 0
        self._take_in_left_slices()
        names = [part.name for part in self.shelf.slices]
        self._next_id = 1 + max(map(self._database.last_id, names), default=-1)
        self._next_place = 1 + max(map(self._database.last_place, names), default=-1)
        self._next_look = 1 + max(map(self._database.last_look, names), default=-1)

    def _take_in_left_slices(self) -> None:
        for path in sorted(self._directory.glob(PATTERN)):
            number = _SLICE.fullmatch(path.name)
            if number is None:
                raise SpectraceError(
                    f"{path.name!r} in the store {self._directory} is none of spectrace's files: "
                    "move it elsewhere, or choose another directory."
                )
            self._next_file = max(self._next_file, int(number[1]) + 1)
            self.shelf.take_in(path, _name(path), read_only=False)
            held = self.shelf.slices[-1]  # what a clock that runs ahead says is not the time
            held.newest_ns = min(held.newest_ns, self._clock_ns())
            held.cycles_ns = min(held.cycles_ns, self._clock_ns())

    def put_run(self, run: Run) -> None:
        """Remembers a run; it is written down with the next cycles, or at `write_runs`."""
        self.shelf.known[run.run_id] = run
        self._fresh_runs[run.run_id] = run
        self._forget_runs()

    def _forget_runs(self) -> None:
        held = {run_id for part in self.shelf.slices for run_id in part.runs}
        idle = [run_id for run_id in self.shelf.known if run_id not in held]
        for run_id in idle[:-_RUNS]:
            del self.shelf.known[run_id]
            self._fresh_runs.pop(run_id, None)

    def write(self, cycles: Sequence[Cycle]) -> None:
        """Writes cycles in the order given, and then drops what has to go.

        Raises:
            duckdb.Error: The disk is full, or a file cannot be written.
            OSError: The same.
        """
        for current, part in self._placed(cycles):
            inserted = self._insert(current, part, self._cycle_tables)
            self.refused += len(part) - len(inserted)
            self._count(current, inserted)
        self.write_runs()
        self._drop_expired()

    def write_spans(self, spans: Sequence[OtherSpan]) -> None:
        """The same for spans of others, which push no cycles out.

        Raises:
            duckdb.Error: The disk is full, or a file cannot be written.
            OSError: The same.
        """
        for current, part in self._placed(spans):
            inserted = self._insert(current, part, self._span_tables)
            self.refused_spans += len(part) - len(inserted)
        self._drop_expired()

    def begin_look(self, run_id: str, look: KernelLook) -> LookWriting:
        """Finds the slice for a look: the newest one, which goes no earlier than its cycles.

        Raises:
            duckdb.Error: The disk is full, or a file cannot be written.
            OSError: The same.
        """
        current = self._slice_for(min(look.end_ns, self._clock_ns()))
        looked = Looked(run_id, look.start_ns, look.end_ns)
        self._next_look += 1
        return LookWriting(self._database, current, self._next_look - 1, looked)

    def write_look(self, writing: LookWriting, write: Callable[[], None]) -> None:
        """Writes a part of a look, unless its slice, and so its cycles, have gone meanwhile.

        Raises:
            duckdb.Error: The disk is full, or a file cannot be written.
            OSError: The same.
        """
        if any(part is writing.held for part in self.shelf.slices):
            write()
            writing.held.measure()
            self._drop_expired()

    def end_look(self, writing: LookWriting) -> None:
        """Counts a look that is written."""
        held, looked = writing.held, writing.looked
        time_ns = min(looked.end_ns, self._clock_ns())
        held.looks[writing.place] = looked
        held.cycles_ns = max(held.cycles_ns, time_ns)
        held.newest_ns = max(held.newest_ns, time_ns)

    def _placed(self, items: Sequence[_Item]) -> Iterator[tuple[Slice, Sequence[_Item]]]:
        """What is to be written piece by piece, each with the slice that it belongs into."""
        done = 0
        while done < len(items):
            rest = items[done : done + _BATCH]
            times_ns = [self._time_ns(item) for item in rest]
            current = self._slice_for(times_ns[0])
            count = self._retention.fitting(current, times_ns)
            yield current, rest[:count]
            current.newest_ns = max(current.newest_ns, *times_ns[:count])
            current.measure()
            done += count

    def _time_ns(self, item: Cycle | OtherSpan) -> int:
        return min(item.end_ns, self._clock_ns())

    def write_runs(self) -> None:
        """Writes down the runs that were put since the last time."""
        if self._fresh_runs:
            current = self._current or self._open(self._clock_ns())
            self._database.put_runs(current.name, self._fresh_runs.values())
            current.runs |= self._fresh_runs.keys()
            self._fresh_runs = {}
            current.measure()

    def _slice_for(self, time_ns: int) -> Slice:
        current = self._current
        if (
            current is None
            or self._retention.is_full(current)
            or not self._retention.fitting(current, [time_ns])
        ):
            return self._open(time_ns)
        return current

    def _open(self, time_ns: int) -> Slice:
        if self._current is not None:
            self._database.checkpoint(self._current.name)
            self._current.measure()
        for part in self.shelf.slices[:-1]:
            part.seen = {}
        path = self._directory / f"slice-{self._next_file:08}.duckdb"
        self._next_file += 1
        self._database.create(path, _name(path))
        self._current = Slice(
            path=path, name=_name(path), opened_ns=time_ns, newest_ns=time_ns, spans={}
        )
        self._current.measure()
        self.shelf.slices.append(self._current)
        return self._current

    def _insert(
        self,
        current: Slice,
        items: Sequence[_Item],
        encode: Callable[[Sequence[_Item]], Mapping[str, Batch]],
    ) -> Sequence[_Item]:
        """Inserts and gives what can be inserted; halves find the one that cannot."""
        try:
            tables = encode(items)
        except (OverflowError, UnicodeError):
            if len(items) == 1:
                return []
            half = len(items) // 2
            halves = items[:half], items[half:]
            return [item for part in halves for item in self._insert(current, part, encode)]
        self._database.insert(current.name, tables)
        return items

    def _cycle_tables(self, cycles: Sequence[Cycle]) -> Mapping[str, Batch]:
        tables = batches(cycles, self._next_id)
        self._next_id += len(cycles)
        return tables

    def _span_tables(self, spans: Sequence[OtherSpan]) -> Mapping[str, Batch]:
        tables = span_batches(spans, self._next_place)
        self._next_place += len(spans)
        return tables

    def _count(self, current: Slice, cycles: Sequence[Cycle]) -> None:
        before = self.shelf.slices[-2].seen if len(self.shelf.slices) > 1 else {}
        for cycle in cycles:
            key = cycle.run_id, cycle.group
            seen = current.seen.setdefault(key, set())
            is_new = cycle.number not in seen and cycle.number not in before.get(key, ())
            seen.add(cycle.number)
            current.cycles_ns = max(current.cycles_ns, self._time_ns(cycle))
            _widen(current.spans, key, cycle, is_new=is_new)
        for run_id in {cycle.run_id for cycle in cycles} - current.runs:
            if run_id in self.shelf.known:
                self._fresh_runs.setdefault(run_id, self.shelf.known[run_id])

    def _drop_expired(self) -> None:
        for part in self._retention.expired(self.shelf.slices):
            self.shelf.slices.remove(part)
            self._database.detach(part.name)
            log_of(part.path).unlink(missing_ok=True)
            part.path.unlink(missing_ok=True)

    def recover(self, broken: Slice | None = None) -> None:
        """Puts a slice, the current one if none is given, back into order after a write has failed.

        DuckDB refuses a file in which a write or a checkpoint failed until it is attached
        again, on a full disk for reading alone. One that cannot be attached is set aside: it
        stays on the disk for the next owner, and its cycles are missing until then. Either way
        a new slice is begun next.
        """
        broken = broken or self._current
        if broken is self._current:
            self._current = None
        if broken not in self.shelf.slices:
            return
        with contextlib.suppress(duckdb.Error):
            self._database.detach(broken.name)
        for read_only in (False, True):
            try:
                self._database.attach(broken.path, broken.name, read_only=read_only)
            except (duckdb.Error, SpectraceError):
                continue
            return
        self.shelf.slices.remove(broken)

    def save(self, path: Path, *, force: bool) -> None:
        """Writes everything into one file.

        Args:
            path: The file to make, mode 0600.
            force: Replace the file if there is one.

        Raises:
            SpectraceError: There is one and `force` is not given, or `path` cannot be written.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="saving-", dir=self._directory) as work:
                whole = Path(work) / "whole.duckdb"
                self._fill(whole)
                with published(path, force=force) as fresh:
                    shutil.copyfile(whole, fresh)
        except (duckdb.Error, OSError) as error:
            raise SpectraceError(
                f"{path} cannot be written ({reason_of(error)}): make room where "
                f"{self._directory} lies."
            ) from error

    def _fill(self, whole: Path) -> None:
        self._database.create(whole, "saving")
        try:
            self._database.copy_newest([part.name for part in self.shelf.slices], "saving")
            self._database.put_runs("saving", self.shelf.runs())
            self._database.checkpoint("saving")  # says what the disk refuses, as detaching does not
        except BaseException:
            with contextlib.suppress(duckdb.Error):
                self._database.detach("saving")
            raise
        self._database.detach("saving")

    def close(self) -> None:
        """Closes all files; on a full disk their logs stay, and the next owner reads them."""
        for part in self.shelf.slices:
            with contextlib.suppress(duckdb.Error):
                self._database.detach(part.name)
        self._database.close()


def _widen(spans: dict[GroupKey, Span], key: GroupKey, cycle: Cycle, *, is_new: bool) -> None:
    number, start_ns, end_ns = cycle.number, cycle.start_ns, cycle.end_ns
    span = spans.get(key)
    if span is None:
        span = spans[key] = Span(
            cycles=0, first_n=number, last_n=number, first_ns=start_ns, last_ns=end_ns
        )
    span.cycles += is_new
    span.first_n = min(span.first_n, number)
    span.last_n = max(span.last_n, number)
    span.first_ns = min(span.first_ns, start_ns)
    span.last_ns = max(span.last_ns, end_ns)


def _name(path: Path) -> str:
    return path.stem.replace("-", "_")
