"""Records runs into files while they are on a page, as `spectrace record` does."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Collection, Iterable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from spectrace.errors import SpectraceError
from spectrace.kernels import Seen
from spectrace.model import Cycle, OtherSpan, Run
from spectrace.server.state import RecordingState
from spectrace.store.recorded import SUFFIX, recorded
from spectrace.store.source import Stats

LEAST_BYTES = 1_000_000
MOST_BYTES = 1_000_000_000_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_COPIES = 3  # on the disk at the end: the store, what is saved of it, and the file
_NS_PER_MS = 1_000_000


class _Recording:
    """One recording, from its start on."""

    def __init__(self, run: Run, path: Path, max_bytes: int) -> None:
        self.run_id = run.run_id
        self.ending = False
        self.finished = threading.Event()
        self._path = path
        self._open = ExitStack()
        self._store = self._open.enter_context(recorded(path, force=False, max_bytes=max_bytes))
        self._store.put_run(run)
        self._lock = threading.Lock()
        self._active = True
        self._first_ns: int | None = None
        self.state = RecordingState(
            name=path.name,
            active=True,
            since_ms=time.time_ns() // _NS_PER_MS,
            cycles=0,
            bytes=0,
            max_bytes=max_bytes,
            lost=0,
            cut=False,
            problem="",
        )

    def add(self, cycles: Iterable[Cycle], spans: Iterable[OtherSpan]) -> None:
        """Takes in what came; never waits."""
        own = [cycle for cycle in cycles if cycle.run_id == self.run_id]
        with self._lock:
            if not self._active:
                return
            if own and self._first_ns is None:
                self._first_ns = min(cycle.start_ns for cycle in own)
            self._store.add(own, wait=False)
            self._store.add_spans(spans)

    def add_look(self, seen: Seen) -> None:
        """Takes in a look, and waits until it is written; not for what else comes meanwhile."""
        with self._lock:
            active = self._active
        if active:
            self._store.add_look(self.run_id, seen)

    def put_run(self, run: Run) -> None:
        """Takes in what more is known of the run."""
        with self._lock:
            if self._active:
                self._store.put_run(run)

    def refresh(self) -> None:
        """Looks how much there is."""
        with self._lock:
            if self._active:
                self._tell(self._store.stats())

    def finish(self) -> None:
        """Writes the file; whoever comes second waits until it is there."""
        with self._lock:
            mine, self._active = self._active, False
        if mine:
            try:
                self._save()
            finally:
                self.finished.set()
        self.finished.wait()

    def _save(self) -> None:
        self._tell(self._store.stats())
        problem, size = self.state.problem, 0
        try:
            self._open.close()
            size = self._path.stat().st_size
        except (SpectraceError, OSError) as error:
            problem = str(error)
        self.state = msgspec.structs.replace(self.state, active=False, bytes=size, problem=problem)

    def _tell(self, stats: Stats) -> None:
        first_ns = self._first_ns
        self.state = msgspec.structs.replace(
            self.state,
            cycles=stats.cycles,
            bytes=stats.bytes,
            lost=stats.lost,
            cut=None not in {first_ns, stats.first_ns} and (stats.first_ns or 0) > (first_ns or 0),
            problem=stats.problem or stats.spans_problem,
        )


class Recorder:
    """The recordings of a page, one of a run at a time; from any thread.

    Args:
        folder: Where the files are made; where spectrace runs if not given.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._recordings: dict[str, _Recording] = {}
        self._closed = False

    def start(self, run: Run, name: str, max_bytes: int) -> RecordingState:
        """Begins a recording of what comes from now on.

        Args:
            run: The run.
            name: Of the file, which does not exist; its ending is added where it lacks it.
            max_bytes: Size beyond which the oldest cycles go.

        Raises:
            SpectraceError: The name is none or is taken, there is too little room, or the run
                is recorded already.
        """
        path = self._path(name)
        if path.exists() or path.is_symlink():
            raise SpectraceError(f"{path.name} is there already: choose another name.")
        free = shutil.disk_usage(path.parent).free
        if free < _COPIES * max_bytes:
            raise SpectraceError(
                f"There is no room for that: while it is saved a recording takes {_COPIES} times "
                f"its size, and {free // 1_000_000:,} MB are free in {path.parent}. Choose less."
            )
        with self._lock:
            before = self._recordings.get(run.run_id)
            if self._closed or (before is not None and before.state.active):
                raise SpectraceError("This run is recorded already: stop that recording first.")
            if any(one.state.active and one.state.name == path.name for one in self._all()):
                raise SpectraceError(f"Another run is recorded into {path.name}: choose another.")
            fresh = self._recordings[run.run_id] = _Recording(run, path, max_bytes)
        return fresh.state

    def _path(self, name: str) -> Path:
        if _NAME.fullmatch(name) is None:
            raise SpectraceError(
                "A name has letters, digits, dots, dashes and underscores, begins with a letter or "
                "a digit, and names no folder: choose another."
            )
        named = name if name.endswith(SUFFIX) else name + SUFFIX
        return (self._folder or Path.cwd()) / named

    def stop(self, run_id: str) -> RecordingState:
        """Ends the recording of a run; returns when its file is there.

        Raises:
            SpectraceError: None goes on.
        """
        found = self._recordings.get(run_id)
        if found is None or not found.state.active:
            raise SpectraceError("This run is not recorded, or not any more.")
        found.finish()
        return found.state

    def state(self, run_id: str) -> RecordingState | None:
        """The recording of a run that goes on, or was the last; None if there was none."""
        found = self._recordings.get(run_id)
        return None if found is None else found.state

    def add(self, cycles: Collection[Cycle] = (), spans: Collection[OtherSpan] = ()) -> None:
        """Takes in what came, of any run; never waits."""
        for one in self._all():
            one.add(cycles, spans)

    def add_look(self, run_id: str, seen: Seen) -> None:
        """Takes in a look at the kernels of a run, and waits until it is written.

        Raises:
            SpectraceError: It could not be written; the recording goes on without it.
        """
        found = self._recordings.get(run_id)
        if found is not None:
            found.add_look(seen)

    def put_run(self, run: Run) -> None:
        """Takes in what more is known of a run."""
        found = self._recordings.get(run.run_id)
        if found is not None:
            found.put_run(run)

    def refresh(self, ended: Collection[str] = ()) -> None:
        """Looks how much there is.

        Args:
            ended: Runs from which nothing comes any more. Their recordings end when they are named
                a second time: what came last is then here.
        """
        for one in self._all():
            one.refresh()
            if one.run_id in ended and one.state.active:
                if one.ending:
                    threading.Thread(target=one.finish, name="spectrace-recording").start()
                one.ending = True

    def close(self) -> None:
        """Ends all recordings; returns when their files are there."""
        with self._lock:
            self._closed = True
        for one in self._all():
            one.finish()

    def _all(self) -> list[_Recording]:
        return list(self._recordings.values())
