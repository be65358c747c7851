"""One turn of a sweep: the server is started with a setting, loaded, recorded, and stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from spectrace.attach.handle import Options
from spectrace.attach.launched import Launched
from spectrace.attach.session import TraceSession
from spectrace.attach.tapped import TappedSession
from spectrace.cli import numbers
from spectrace.cli.stopping import Stop
from spectrace.cli.store_tap import StoreTap
from spectrace.cli.sweep_folder import SweepFolder, Turn, TurnRecord
from spectrace.cli.sweep_load import Load, LoadMaker, LoadResult, is_healthy, is_taken
from spectrace.cli.sweep_settings import Setting
from spectrace.cli.timing_run import Progress
from spectrace.errors import SpectraceError
from spectrace.hidden import text_without_secrets
from spectrace.model import CycleKind, Run
from spectrace.shown import address, words
from spectrace.store.extract import Extract
from spectrace.store.recorded import recorded

_POLL_S = 0.05
_LOOK_S = 0.25
_GRACE_S = 30.0
_AFTERMATH_S = 2.0  # a server whose rank has died takes a moment to end itself
_LAST_LINES = 12
_LINE = 1000  # characters of one
_SHOW_S = 1.0


@dataclass(frozen=True)
class Means:
    """What all turns are run with.

    Attributes:
        command: What starts the server, before a setting changes it.
        url: Where it then answers.
        load: Makes the load, given that address and where its output goes.
        options: How it is traced.
        start_timeout_s: How long it has to come up.
        max_bytes: Size of a recording at most.
    """

    command: tuple[str, ...]
    url: str
    load: LoadMaker
    options: Options
    start_timeout_s: float
    max_bytes: int


def measure(
    turn: Turn, means: Means, folder: SweepFolder, progress: Progress, stop: Stop
) -> TurnRecord | None:
    """Runs a turn and writes down what came of it; the server that it starts is gone then.

    Returns:
        What came of it, also where it failed; None where it was stopped, and nothing is left.

    Raises:
        SpectraceError: No turn can be run: the program cannot be started, or somebody else
            answers where the server is to.
    """
    if is_taken(means.url):
        raise SpectraceError(
            f"Somebody answers at {address(means.url)} already, where the sweep's own server is "
            "to: end that one, or give the command another --port."
        )
    folder.forget(turn.name)
    command = turn.setting.command(means.command)
    record = TurnRecord(
        setting=turn.setting, round=turn.round, command=command, start_ns=time.time_ns()
    )
    with folder.server_log(turn.name).open("wb") as output:
        server = Launched(command, output)
    try:
        with folder.running(server.pid):
            try:
                record = _Attempt(turn, means, folder, progress, stop).run(server, record)
            finally:
                progress.at(f"{turn.name}: stopping the server")
                server.stop(_GRACE_S)
    except SpectraceError as error:
        record = replace(
            record,
            failure=text_without_secrets(str(error)),
            last_lines=last_lines(folder.server_log(turn.name)),
        )
    if stop.requested and (record.failure or record.load is None):
        folder.forget(turn.name)
        return None
    if not record.failure:
        folder.unfinished(turn.name).replace(folder.recording(turn.name))
    folder.unfinished(turn.name).unlink(missing_ok=True)
    folder.finish(turn.name, record)
    return record


class _Attempt:
    """A turn whose server has been started."""

    def __init__(
        self, turn: Turn, means: Means, folder: SweepFolder, progress: Progress, stop: Stop
    ) -> None:
        self._turn = turn
        self._means = means
        self._folder = folder
        self._progress = progress
        self._stop = stop
        self._shown_s = 0.0

    def run(self, server: Launched, record: TurnRecord) -> TurnRecord:
        """Gives what was run; without a load where it was stopped.

        Raises:
            SpectraceError: The turn failed.
        """
        begin_s = time.monotonic()
        run = self._wait_for_health(server, begin_s + self._means.start_timeout_s)
        if run is None:
            return record
        up_s = time.monotonic() - begin_s
        load = self._means.load(self._means.url, self._folder.load_log(self._turn.name))
        engine = self._record(server, run, load, f"up after {up_s:.0f} s")
        if self._stop.requested and not load.over:
            return record
        file = self._folder.unfinished(self._turn.name)
        check_setting(self._turn.setting, file)
        return replace(record, engine=engine, up_s=up_s, load=_result(load, server))

    def _wait_for_health(self, server: Launched, deadline_s: float) -> Run | None:
        """The server once it answers; None where it was stopped before."""
        self._show("starting the server")
        run = server.wait_for_ranks(lambda: self._stop.requested or time.monotonic() > deadline_s)
        while not self._stop.requested:
            if server.exit_code is not None:
                raise _ended(server, "while it started")
            if run is not None and is_healthy(self._means.url):
                return server.find() or run  # ranks may have come since
            if time.monotonic() > deadline_s:
                raise SpectraceError(
                    f"The server gave no answer at {address(self._means.url)} within "
                    f"{self._means.start_timeout_s:.0f} s: give it more time with "
                    "--start-timeout, or its address with --url."
                )
            self._show("the server starts")
            time.sleep(_LOOK_S)
        return None

    def _record(self, server: Launched, run: Run, load: Load, doing: str) -> str:
        """Traces the server while it is loaded; gives its engine."""
        path = self._folder.unfinished(self._turn.name)
        with recorded(path, force=True, max_bytes=self._means.max_bytes) as store:
            session = TappedSession(
                TraceSession(run, options=self._means.options), [StoreTap(store)]
            )
            with session:
                load.start()
                try:
                    self._folder.loaded_by(load.pid)
                    while not (load.over or self._stop.requested):
                        session.poll()
                        if server.exit_code is not None:
                            raise _ended(server, "under the load")
                        if session.end is not None:
                            raise SpectraceError(f"Tracing ended early: {session.end.value}.")
                        self._show(f"{doing}, {load.progress()}")
                        time.sleep(_POLL_S)
                finally:
                    load.stop()
                session.poll()
            stats = store.stats()
            engine = session.run.engine
        if stats.lost:
            raise SpectraceError(
                f"{numbers.count(stats.lost)} cycles could not be stored. {stats.problem}".strip()
            )
        return engine

    def _show(self, text: str) -> None:
        if time.monotonic() - self._shown_s >= _SHOW_S:
            self._shown_s = time.monotonic()
            self._progress.at(f"{self._turn.name}: {text}")


def _result(load: Load, server: Launched) -> LoadResult:
    """What the load was; where the server's end is why it failed, that is said."""
    try:
        return load.result()
    except SpectraceError:
        deadline_s = time.monotonic() + _AFTERMATH_S
        while server.exit_code is None and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        if server.exit_code is not None:
            raise _ended(server, "under the load") from None
        raise


def check_setting(setting: Setting, recording: Path) -> None:
    """Sees to it that the server did what its setting says.

    Raises:
        SpectraceError: It drafted otherwise, as where a script starts it and takes no options.
    """
    if setting.steps is None:
        return
    with closing(Extract(recording)) as extract:
        cycles = extract.served()
    speculative = cycles["kind"].astype(str) == CycleKind.SPECULATIVE.value
    found = sorted({int(steps) for steps in cycles["steps"][speculative]})
    asked = [setting.steps] if setting.steps else []
    if found != asked:
        raise SpectraceError(
            f"The server made {_steps(found)} and not {_steps(asked)}: does the command pass "
            "the options behind it on to the server?"
        )


def _steps(numbers_of_steps: Sequence[int]) -> str:
    if not numbers_of_steps:
        return "no drafts"
    return f"drafts of {' and '.join(map(str, numbers_of_steps))} steps"


def _ended(server: Launched, when: str) -> SpectraceError:
    return SpectraceError(f"The server ended with status {server.exit_code} {when}.")


def last_lines(log: Path) -> tuple[str, ...]:
    """What a server said last, clean and without secrets; no empty lines, no bars of progress."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 65_536))
        text = file.read().decode(errors="replace")
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and "\r" not in line]
    return tuple(words(text_without_secrets(line), _LINE) for line in lines[-_LAST_LINES:])
