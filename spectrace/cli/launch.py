"""`spectrace launch -- COMMAND`: starts a server, traces it from its start on, and ends it."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from spectrace.attach.launched import Launched
from spectrace.attach.ways import Method
from spectrace.cli.attach import SERVER_DIED, screen_for, stay, tracing
from spectrace.cli.metering import OtlpMetricsOption
from spectrace.cli.otlp_options import (
    OtlpEveryOption,
    OtlpOption,
    OtlpProtocolOption,
    OtlpSlowOption,
    otlp_of,
)
from spectrace.cli.page_options import (
    MAX_SIZE,
    RETAIN,
    MaxSizeOption,
    PortOption,
    RetainOption,
    RingSizeOption,
    SampleEveryOption,
    StoreOption,
)
from spectrace.cli.screens import LiveScreen, Screen
from spectrace.cli.stopping import Stop, stop_on_signals
from spectrace.cli.trace_options import (
    DurationOption,
    JsonOption,
    MethodOption,
    NoPageOption,
    TimingOption,
    Wanted,
    options_of,
)
from spectrace.errors import SpectraceError

_GRACE_S = 30.0
_POLL_S = 0.1
_FAILED = 1


@contextmanager
def output_of(server_log: Path | None, screen: Screen) -> Iterator[IO[bytes] | int]:
    """Where the server's output goes: a file where one is named or a table is drawn, else stderr.

    Raises:
        OSError: The file cannot be made.
    """
    if server_log is None and not isinstance(screen, LiveScreen):
        yield sys.stderr.fileno()
        return
    if server_log is None:
        with tempfile.NamedTemporaryFile(
            prefix="spectrace-server-", suffix=".log", delete=False
        ) as f:
            screen.note(f"The server's output goes to {f.name}")
            yield f
    else:
        with server_log.open("ab") as f:
            yield f


def trace_launched(server: Launched, wanted: Wanted, screen: Screen, stop: Stop) -> int:
    """Traces what was started until it ends or somebody stops it; returns the exit code.

    A server that cannot be traced, or no longer is, runs on: it is there for its requests.
    """
    run = server.wait_for_ranks(lambda: stop.requested)
    code = 0
    if run is not None:
        try:
            with tracing(run, wanted, screen) as follow:
                left = Stop(also=stop)
                code = follow(run, left)
                if wanted.duration_s is None:
                    stay(left, stop, screen, lambda: server.exit_code is not None)
        except SpectraceError as error:
            screen.note(f"The server runs without being traced. {error}")
            code = _FAILED
    over = wanted.duration_s is not None and code != SERVER_DIED
    while not (over or stop.requested) and server.exit_code is None:
        time.sleep(_POLL_S)
    ended = server.exit_code
    if ended is None:
        return code
    if run is None:
        raise SpectraceError(
            f"The server ended with status {ended} before it had a rank to trace: its output says "
            "why.",
            exit_code=ended or _FAILED,
        )
    return ended


def launch(  # noqa: PLR0913, PLR0917 - the options of the command
    command: Annotated[
        list[str],
        typer.Argument(help="What starts the server, after `--`.", show_default=False),
    ],
    server_log: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where the server's output goes; stderr, or where that would disturb the live "
            "table a file that is named at the start.",
            show_default=False,
        ),
    ] = None,
    duration: DurationOption = None,
    json: JsonOption = False,
    no_page: NoPageOption = False,
    timing: TimingOption = None,
    method: MethodOption = Method.AUTO,
    sample_every: SampleEveryOption = 1,
    ring_size: RingSizeOption = None,
    port: PortOption = None,
    retain: RetainOption = RETAIN,
    max_size: MaxSizeOption = MAX_SIZE,
    store: StoreOption = None,
    otlp_endpoint: OtlpOption = None,
    otlp_protocol: OtlpProtocolOption = None,
    otlp_every: OtlpEveryOption = None,
    otlp_slow: OtlpSlowOption = None,
    otlp_metrics: OtlpMetricsOption = None,
) -> None:
    """Start a server and trace it as soon as its ranks are there; Ctrl-C stops both."""
    wanted = Wanted(
        options_of(timing, sample_every, ring_size, method),
        duration,
        json,
        no_page,
        port,
        retain,
        max_size,
        store,
        otlp_of(otlp_endpoint, otlp_protocol, otlp_every, otlp_slow),
        otlp_metrics,
    )
    screen = screen_for(json=json)
    with stop_on_signals() as stop, output_of(server_log, screen) as output:
        server = Launched(command, output)
        try:
            code = trace_launched(server, wanted, screen, stop)
            if server.exit_code is None:
                screen.note("Stopping the server, which this command started.")
        finally:
            server.stop(_GRACE_S)
    raise typer.Exit(code)
