"""Makes files of what is stored, one after the other, for a browser to save.

A part of the store becomes a recording (`CycleSource.cut`), and `spectrace export` writes that in
another format: in a process of its own and at a low priority, so that the one that reads the
rings keeps its time.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import subprocess
import sys
import threading
import zipfile
from contextlib import suppress
from enum import Enum
from pathlib import Path

import msgspec

from spectrace.errors import SpectraceError
from spectrace.store.formats import file_formats
from spectrace.store.recorded import SUFFIX
from spectrace.store.source import Cut, CycleSource

RECORDING = "spectrace"
KEPT_S = 600.0  # that a file waits to be saved
LEAST_FREE_BYTES = 256_000_000  # on the disk, where the store has to go on writing
_POLL_S = 0.2
_STOP_S = 3.0
_NICE = 10
_COMMAND = f"import os; os.nice({_NICE}); from spectrace.cli.entry import main; main()"
_LEFT_OUT = "Slices left out"  # as the command says it
_SAID = "said"  # the file with what the command says
_LOG = logging.getLogger(__name__)


class Stage(str, Enum):
    """How far an export is."""

    MAKING = "making"
    READY = "ready"
    FAILED = "failed"


class ExportState(msgspec.Struct, frozen=True, kw_only=True):
    """An export as the page gets it.

    Attributes:
        id: Nobody can guess it.
        name: Of the file, as a browser should save it; not final before it is ready.
        stage: How far it is.
        bytes: Written so far, or in the end.
        problem: Why it failed, a sentence.
        note: What is not in it, a sentence, or empty.
    """

    id: str
    name: str
    stage: Stage
    bytes: int
    problem: str
    note: str


def formats() -> list[str]:
    """The formats that can be asked for, that of recordings first."""
    return [RECORDING, *file_formats()]


class _DroppedError(Exception):
    """Nobody wants it any more."""


class _Job:
    """One export, from its wish until its file is removed."""

    def __init__(self, stem: str, format_: str, cut: Cut) -> None:
        self.id = secrets.token_urlsafe(16)
        self.stem = stem
        self.format = format_
        self.cut = cut
        self.stage = Stage.MAKING
        self.problem = self.note = ""
        self.bytes = 0
        self.path: Path | None = None
        self.dropped = threading.Event()

    def state(self) -> ExportState:
        """As the page gets it."""
        name = self.stem + SUFFIX if self.path is None else self.path.name
        return ExportState(
            id=self.id,
            name=name,
            stage=self.stage,
            bytes=self.bytes,
            problem=self.problem,
            note=self.note,
        )


class Exports:
    """The exports of one page, of which one is made or kept at a time; from any thread.

    Args:
        store: What is exported.
        kept_s: How long a file waits to be saved, in s.
        least_free_bytes: What has to stay free on the disk.
    """

    def __init__(
        self,
        store: CycleSource,
        *,
        kept_s: float = KEPT_S,
        least_free_bytes: int = LEAST_FREE_BYTES,
    ) -> None:
        self._store = store
        self._kept_s = kept_s
        self._least_free_bytes = least_free_bytes
        self._lock = threading.Lock()
        self._job: _Job | None = None
        self._thread: threading.Thread | None = None  # also of a job that was dropped
        self._closed = False

    def start(self, stem: str, format_: str, cut: Cut) -> ExportState:
        """Begins to make a file; one that is ready is dropped.

        Args:
            stem: The file's name without its ending.
            format_: One of `formats`.
            cut: What it is to hold.

        Raises:
            SpectraceError: There is no such format, or another one is being made.
        """
        if format_ not in formats():
            raise SpectraceError(
                f"There is no format {format_!r}: choose one of {', '.join(formats())}."
            )
        with self._lock:
            if self._closed:
                raise SpectraceError("This page is closing.")
            if self._job is not None and self._job.stage is Stage.MAKING:
                raise SpectraceError("Another export is being made: wait for it, or cancel it.")
            self._drop()
            job = self._job = _Job(stem, format_, cut)
            self._thread = threading.Thread(
                target=self._run, args=[job, self._thread], name="spectrace-export", daemon=True
            )
            self._thread.start()
        return job.state()

    def state(self, id_: str) -> ExportState | None:
        """How far an export is; None if it is not here any more."""
        job = self._of(id_)
        return None if job is None else job.state()

    def file(self, id_: str) -> Path | None:
        """The file of an export that is ready."""
        job = self._of(id_)
        return None if job is None or job.stage is not Stage.READY else job.path

    def drop(self, id_: str) -> None:
        """Ends an export, or removes its file."""
        with self._lock:
            if self._job is not None and self._job.id == id_:
                self._drop()

    def close(self) -> None:
        """Ends what is being made and removes what is kept; returns when that is done."""
        with self._lock:
            self._closed = True
            self._drop()
        if self._thread is not None:
            self._thread.join(_STOP_S)

    def _of(self, id_: str) -> _Job | None:
        job = self._job
        same = job is not None and secrets.compare_digest(job.id.encode(), id_.encode())
        return job if same else None

    def _drop(self) -> None:
        if self._job is not None:
            self._job.dropped.set()
            self._job = None

    def _run(self, job: _Job, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()  # one that was dropped may still be on its way out of the store
        try:
            self._make(job)
        except _DroppedError:
            pass
        except SpectraceError as error:
            job.problem, job.stage = str(error), Stage.FAILED
        except Exception as error:  # noqa: BLE001 - whatever it was, who asked is told
            _LOG.exception("An export failed.")
            job.problem, job.stage = f"The export failed ({error!r}).", Stage.FAILED

    def _make(self, job: _Job) -> None:
        def check(part: Path) -> None:
            self._check(job, part)

        with self._store.cut(job.cut, job.stem + SUFFIX, check) as whole:
            path = whole if job.format == RECORDING else self._exported(job, whole)
            job.path, job.bytes, job.stage = path, path.stat().st_size, Stage.READY
            job.dropped.wait(self._kept_s)
            with self._lock:
                if self._job is job:
                    self._drop()

    def _check(self, job: _Job, part: Path) -> None:
        """Notes how much is written.

        Raises:
            SpectraceError: The disk is nearly full.
            _DroppedError: It is not wanted any more.
        """
        if job.dropped.is_set():
            raise _DroppedError
        job.bytes = _bytes_of(part)
        if shutil.disk_usage(part.parent).free < self._least_free_bytes:
            raise SpectraceError(
                f"The disk of {part.parent.parent} is nearly full: make room there, or export a "
                "shorter stretch of time."
            )

    def _exported(self, job: _Job, whole: Path) -> Path:
        """The same in another format; a folder becomes one file."""
        made = whole.with_name("made")
        made.mkdir()
        source = whole.rename(made / whole.name)  # beside which the command writes
        self._command(job, source, whole.with_name(_SAID))
        source.unlink()
        (written,) = made.iterdir()
        return self._zipped(job, written) if written.is_dir() else written

    def _command(self, job: _Job, source: Path, said: Path) -> None:
        arguments = ["export", str(source), "--to", job.format]
        with (
            said.open("wb") as words,
            subprocess.Popen(
                [sys.executable, "-c", _COMMAND, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=words,
            ) as process,
        ):
            try:
                while True:
                    self._check(job, source.parent)
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(_POLL_S)
                        break
            except BaseException:
                process.kill()
                raise
        lines = said.read_text("utf-8", "replace").splitlines()
        job.note = next((line for line in lines if line.startswith(_LEFT_OUT)), "")
        if process.returncode:
            why = lines[-1].removeprefix("spectrace: ") if lines else "It was ended from outside."
            raise SpectraceError(f"The export failed: {why}")

    def _zipped(self, job: _Job, folder: Path) -> Path:
        path = folder.with_name(f"{folder.name}.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.iterdir()):
                self._check(job, path)
                archive.write(file, f"{folder.name}/{file.name}")
        shutil.rmtree(folder)
        return path


def _bytes_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder, of which some may go meanwhile."""
    if not path.is_dir():
        return path.stat().st_size if path.exists() else 0
    return sum(
        _bytes_of(Path(folder) / name) for folder, _, names in os.walk(path) for name in names
    )
