"""`spectrace attach`: traces a running server until Ctrl-C, and leaves it as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Annotated
from urllib.parse import urlsplit

import typer

from spectrace.attach import discover, ring_file
from spectrace.attach.handle import Options
from spectrace.attach.modes import MODES
from spectrace.attach.session import End, TraceSession
from spectrace.attach.tapped import Tap, TappedSession
from spectrace.cli.exporting import exporting
from spectrace.cli.follow import Follower, Session
from spectrace.cli.output import OutputConsole
from spectrace.cli.page_options import (
    MAX_SIZE,
    RETAIN,
    DurationOption,
    JsonOption,
    MaxSizeOption,
    PidArgument,
    PortOption,
    RetainOption,
    RingSizeOption,
    SampleEveryOption,
    StoreOption,
    TakeControlOption,
    TimingOption,
    UrlOption,
)
from spectrace.cli.report import Report
from spectrace.cli.screens import JsonScreen, LineScreen, LiveScreen, Screen
from spectrace.cli.stopping import Stop, stop_on_signals, wait
from spectrace.errors import SpectraceError
from spectrace.model import Run, TimingMode
from spectrace.probe.layout import DEFAULT_UNITS, MIN_UNITS, UNIT_BYTES
from spectrace.server.open import open_page
from spectrace.server.security import LOOPBACK
from spectrace.server.traced import PageTap

_SERVER_DIED = 3
_PROBE_IN_TROUBLE = 1
_FROM_ENVIRONMENT = "env"


def screen_for(*, json: bool) -> Screen:
    """JSON where it was asked for, a live table on a terminal, lines elsewhere."""
    if json:
        return JsonScreen(sys.stdout)
    console = OutputConsole()
    return LiveScreen(console) if console.is_terminal else LineScreen(console)


def find(pid: int | None, url: str | None) -> Run:
    """The server by its process or by its address.

    Raises:
        BadParameter: Neither is given, or both are.
        SpectraceError: There is no such server, or we may not look into it.
    """
    if pid is not None and url is None:
        return discover.find_by_pid(pid)
    if url is not None and pid is None:
        return discover.find_by_url(url)
    raise typer.BadParameter("give the server's process id or its --url, one of them.")


def trace(  # noqa: PLR0913 - each is a part that tests replace
    run: Run,
    open_session: Callable[[Run], AbstractContextManager[Session]],
    screen: Screen,
    stop: Stop,
    *,
    duration_s: float | None = None,
    page: str | None = None,
    export_lost: Callable[[], int] | None = None,
) -> int:
    """Traces a server and shows it.

    Args:
        run: The server.
        open_session: Gives the session, which is entered here.
        screen: Where to show it.
        stop: Ends it.
        duration_s: Ends it after so many seconds.
        page: Address of the page, where there is one; told once the probe is in.
        export_lost: Cycles that an exporter could not deliver, where there is one.

    Returns:
        The exit code: 0, 1 where the probe could not be taken out or had failed, 3 where
        the server ended.

    Raises:
        SpectraceError: The server cannot be attached to.
    """
    screen.found(run)
    with open_session(run) as session:
        if page is not None:
            screen.note(f"The page: {page}")
        follower = Follower(session, screen, export_lost=export_lost)
        return exit_code(follower.follow(stop, duration_s))


def refuse_own_page(endpoint: str, port: int) -> None:
    """Refuses to send to the page of this very command, which has the cycles already.

    Raises:
        SpectraceError: The endpoint is the page.
    """
    parts = urlsplit(endpoint)
    host = (parts.hostname or "").removesuffix(".")
    if (host in LOOPBACK or host.startswith("127.")) and parts.port == port:
        raise SpectraceError(
            f"--otlp-endpoint {endpoint} is the page of this command, which has the cycles "
            "already: name another address, leave the option away, or add --no-page.",
            exit_code=2,
        )


def exit_code(report: Report) -> int:
    """How the command ends after this last report."""
    if report.end is End.SERVER_DIED:
        return _SERVER_DIED
    kept = not all(removal.removed or removal.left_to for removal in report.removals)
    if report.end is End.PROBE_FAILED or kept:
        return _PROBE_IN_TROUBLE
    return 0


def options_of(
    timing: TimingMode | None,
    sample_every: int,
    ring_bytes: int | None,
    *,
    take_control: bool = False,
) -> Options:
    """How ranks are to be traced, from what the command line says.

    Raises:
        BadParameter: The ring is too small.
    """
    units = DEFAULT_UNITS if ring_bytes is None else ring_bytes // UNIT_BYTES
    if units < MIN_UNITS:
        raise typer.BadParameter(
            f"a ring takes {MIN_UNITS * UNIT_BYTES} bytes at least.", param_hint="--ring-size"
        )
    return Options(
        units=units,
        mode=None if timing is None else MODES[timing],
        every=None if sample_every == 1 else sample_every,
        take_control=take_control,
    )


def attach(  # noqa: PLR0913, PLR0917 - the options of the command
    pid: PidArgument = None,
    url: UrlOption = None,
    duration: DurationOption = None,
    json: JsonOption = False,
    no_page: Annotated[bool, typer.Option("--no-page", help="Only the terminal.")] = False,
    timing: TimingOption = None,
    take_control: TakeControlOption = False,
    sample_every: SampleEveryOption = 1,
    ring_size: RingSizeOption = None,
    port: PortOption = None,
    retain: RetainOption = RETAIN,
    max_size: MaxSizeOption = MAX_SIZE,
    store: StoreOption = None,
    otlp_endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Send every cycle there as an OTLP trace (HTTP), such as http://127.0.0.1:4318; "
            "`env` for what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT "
            "says. Nothing is sent without this option.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Time every speculative decode cycle of a running server; Ctrl-C takes the tracer out."""
    screen = screen_for(json=json)
    with stop_on_signals() as stop, ExitStack() as opened:
        ring_file.sweep()  # what a killed spectrace and then a killed server left behind
        run = find(pid, url)
        taps: list[Tap] = []
        exporter = page = None
        if otlp_endpoint is not None:
            target = None if otlp_endpoint == _FROM_ENVIRONMENT else otlp_endpoint
            exporter = opened.enter_context(exporting("otlp", target, run, screen.note))
            taps.append(exporter)
        if not no_page:
            kept = open_page(retain_s=retain, max_bytes=max_size, directory=store, port=port)
            hub, server = opened.enter_context(kept)
            if exporter is not None:
                refuse_own_page(exporter.endpoint, server.port)
            taps.append(PageTap(hub, exporter.lost if exporter else lambda: 0))
            page = server.url
        options = options_of(timing, sample_every, ring_size, take_control=take_control)
        code = trace(
            run,
            lambda run: TappedSession(TraceSession(run, options=options), taps),
            screen,
            stop,
            duration_s=duration,
            page=page,
            export_lost=exporter.lost if exporter else None,
        )
        nobody_waits = not json and duration is None  # for this command to end
        if code == _SERVER_DIED and not no_page and nobody_waits:
            screen.note("The page stays until Ctrl-C, with what was collected.")
            wait(stop)
    raise typer.Exit(code)
