"""The folder of a sweep: what was asked, and of each turn what was run, with its recording."""

from __future__ import annotations

import contextlib
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import psutil

from spectrace import __version__
from spectrace.attach.launched import end_what_was_left
from spectrace.cli.sweep_load import LoadResult
from spectrace.cli.sweep_settings import Setting
from spectrace.errors import SpectraceError
from spectrace.hidden import command_without_secrets
from spectrace.store.lock import FILE as LOCK
from spectrace.store.lock import OwnerLock

_PLAN = "sweep.json"
_RUNNING = "running.json"
_RECORDING = ".spectrace"
_UNFINISHED = ".unfinished"
_FRESH = ".new"
_FORMAT = 1
_Kind = TypeVar("_Kind", bound=msgspec.Struct)


class LoadPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The load, which is the same for every setting.

    Attributes:
        command: A command of one's own; None for requests over HTTP.
        prompts: The file of prompts; None for those that spectrace brings, or with a command.
        digest: Of all requests in their order, so that another content is noticed.
        requests: How many count.
        warm_up: How many come before.
        concurrency: How many are under way at a time.
        max_tokens: Tokens to generate where a prompt does not say.
        temperature: Of sampling.
        seed: Of the order.
    """

    command: str | None = None
    prompts: str | None = None
    digest: str = ""
    requests: int = 0
    warm_up: int = 0
    concurrency: int = 0
    max_tokens: int = 0
    temperature: float = 0.0
    seed: int = 0


class SweepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What all turns of a sweep have in common.

    Attributes:
        command: What starts the server, before a setting changes it.
        load: What keeps it busy.
        timing: How it is timed; empty for the default.
        version: Of this file's format.
    """

    command: tuple[str, ...]
    load: LoadPlan
    timing: str = ""
    version: int = _FORMAT


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One start of the server with one setting.

    Attributes:
        setting: How.
        round: Which round, from 1.
    """

    setting: Setting
    round: int

    @property
    def name(self) -> str:
        """Of its files, without their endings."""
        return f"{self.setting.name}.{self.round}"


class TurnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What was run in a turn, and what came of it.

    Attributes:
        setting: The setting.
        round: Which round.
        command: What started the server.
        spectrace: The version that measured.
        engine: Such as `sglang 0.5.23`.
        start_ns: UNIX time in ns at which the server was started.
        up_s: Seconds until it answered.
        load: What the load was; None where the turn failed.
        failure: Why it failed, a sentence; empty where it did not.
        last_lines: What the server said last, where it failed.
    """

    setting: Setting
    round: int
    command: tuple[str, ...]
    start_ns: int
    spectrace: str = __version__
    engine: str = ""
    up_s: float | None = None
    load: LoadResult | None = None
    failure: str = ""
    last_lines: tuple[str, ...] = ()


class _Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process, which its time of birth tells from a later one with the same id."""

    pid: int
    created_s: float


class _Running(_Process, frozen=True, kw_only=True):
    """The server, and the load where it is a command."""

    load: _Process | None = None


class SweepFolder:
    """Where a sweep keeps what it has, so that it can go on after anything.

    Args:
        path: The folder, made if need be.

    Raises:
        SpectraceError: It cannot be made, or another sweep is at work in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            strangers = [file.name for file in path.iterdir() if not _is_ours(file.name)]
        except OSError as error:
            raise SpectraceError(f"{path} cannot be used: {error.strerror}.") from error
        if strangers and not (path / _PLAN).exists():
            raise SpectraceError(
                f"{path} holds other files ({', '.join(sorted(strangers)[:3])}): name a new folder "
                "with -o."
            )
        try:
            self._lock = OwnerLock(path)
        except SpectraceError as error:
            raise SpectraceError(
                f"{path} cannot be used by two sweeps at a time: wait for the other one, or name "
                f"another folder with -o. ({error})"
            ) from None

    def close(self) -> None:
        """Lets another sweep in."""
        self._lock.release()

    def agree(self, plan: SweepPlan) -> None:
        """Writes down what is measured, or sees to it that it is the same as before.

        Raises:
            SpectraceError: The folder holds a sweep of another command or load.
        """
        file = self.path / _PLAN
        if not file.exists():
            _write(file, plan)
            return
        before = _read(file, SweepPlan)
        differs = [
            name
            for name in ("command", "load", "timing")
            if getattr(before, name) != getattr(plan, name)
        ]
        if differs:
            raise SpectraceError(
                f"{self.path} holds a sweep whose {' and '.join(differs)} "
                f"{'differ' if len(differs) > 1 else 'differs'} from what is asked for now, so "
                "that they cannot be compared: name another folder with -o."
            )

    def recording(self, name: str) -> Path:
        """The recording of a turn."""
        return self.path / f"{name}{_RECORDING}"

    def server_log(self, name: str) -> Path:
        """What its server said."""
        return self.path / f"{name}.server.log"

    def load_log(self, name: str) -> Path:
        """What its load said."""
        return self.path / f"{name}.load.log"

    def done(self, turn: Turn, command: Sequence[str]) -> TurnRecord | None:
        """What came of a turn; None where it has not come to an end, or its recording is gone.

        Args:
            turn: The turn.
            command: What starts the server, before the setting changes it.

        Raises:
            SpectraceError: What was measured under its name was another setting.
        """
        file = self.path / f"{turn.name}.json"
        if not file.exists():
            return None
        record = _read(file, TurnRecord)
        asked = turn.setting.command(command)
        if record.setting == turn.setting and record.command == asked:
            is_whole = record.failure or self.recording(turn.name).exists()
            return record if is_whole else None
        if record.failure:  # nothing was measured that could be taken for this
            return None
        raise SpectraceError(
            f"The setting {turn.setting.name} was measured in {self.path} with "
            f"{_words(record.setting, record.command)}, and is now "
            f"{_words(turn.setting, asked)}: give it another name, delete {file} to measure it "
            "anew, or name another folder with -o."
        )

    def finish(self, name: str, record: TurnRecord) -> None:
        """Writes down what came of a turn, which is then done."""
        _write(self.path / f"{name}.json", record)

    def forget(self, name: str) -> None:
        """Removes what is left of a turn that is to begin anew."""
        for file in (
            self.path / f"{name}.json",
            self.recording(name),
            self.unfinished(name),
            self.server_log(name),
            self.load_log(name),
        ):
            file.unlink(missing_ok=True)

    def unfinished(self, name: str) -> Path:
        """Where its recording stands until the turn has come to a good end."""
        return self.path / f"{name}{_UNFINISHED}"

    def clean(self) -> tuple[int, ...]:
        """Ends and removes what a sweep that was killed has left: server, load, and pieces.

        Returns:
            The processes of the server and its load, as far as they were left.
        """
        for left in self.path.glob(".spectrace-*"):
            shutil.rmtree(left, ignore_errors=True)
        for left in self.path.glob(f"*{_UNFINISHED}"):
            left.unlink(missing_ok=True)
        file = self.path / _RUNNING
        if not file.exists():
            return ()
        running = _read(file, _Running)
        ended = tuple(
            one.pid
            for one in (running.load, running)
            if one is not None and end_what_was_left(one.pid, one.created_s)
        )
        file.unlink(missing_ok=True)
        return ended

    @contextmanager
    def running(self, pid: int) -> Iterator[None]:
        """Notes a server while it runs, for `clean` after a kill."""
        file = self.path / _RUNNING
        with contextlib.suppress(psutil.Error):  # it has ended at once
            _write(file, _Running(pid=pid, created_s=psutil.Process(pid).create_time()))
        try:
            yield
        finally:
            file.unlink(missing_ok=True)

    def loaded_by(self, pid: int | None) -> None:
        """Notes the load of the server that runs, likewise.

        Args:
            pid: The first process of its group; None where the load is no command.
        """
        file = self.path / _RUNNING
        if pid is None or not file.exists():
            return
        with contextlib.suppress(psutil.Error):  # it has ended at once
            load = _Process(pid=pid, created_s=psutil.Process(pid).create_time())
            _write(file, msgspec.structs.replace(_read(file, _Running), load=load))


def _words(setting: Setting, command: Sequence[str]) -> str:
    return shlex.join(command_without_secrets(setting.arguments or command))


def _is_ours(name: str) -> bool:
    return name in {LOCK, _RUNNING} or name.endswith(_FRESH)


def _write(file: Path, what: msgspec.Struct) -> None:
    """A whole file or none, whatever happens.

    Raises:
        SpectraceError: It cannot be written, as on a full disk.
    """
    fresh = file.with_name(f"{file.name}{_FRESH}")
    try:
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(what)) + b"\n")
        fresh.chmod(0o600)
        fresh.replace(file)
    except OSError as error:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise SpectraceError(
            f"{file} cannot be written: {error.strerror or error}. Make room in {file.parent}: the "
            "same command then goes on from what is there."
        ) from error


def _read(file: Path, kind: type[_Kind]) -> _Kind:
    try:
        return msgspec.json.decode(file.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise SpectraceError(
            f"{file} cannot be read ({error}): delete it to measure anew, or name another folder "
            "with -o."
        ) from None
