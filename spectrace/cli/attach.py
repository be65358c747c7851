"""`spectrace attach`: traces a running server until Ctrl-C, and leaves it as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

import typer

from spectrace.attach import discover, ring_file
from spectrace.attach.session import End, TraceSession
from spectrace.attach.tapped import Tap, TappedSession
from spectrace.attach.ways import Method
from spectrace.cli.exporting import exporting
from spectrace.cli.follow import Follower, Session
from spectrace.cli.metering import LastPushTap, OtlpMetricsOption, pushing, target_of
from spectrace.cli.otlp_options import (
    OtlpEveryOption,
    OtlpOption,
    OtlpProtocolOption,
    OtlpSlowOption,
    otlp_of,
)
from spectrace.cli.output import OutputConsole
from spectrace.cli.own_page import Target, refuse_own_page
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
from spectrace.cli.report import Exported, Report
from spectrace.cli.screens import JsonScreen, LineScreen, LiveScreen, Screen
from spectrace.cli.stopping import Stop, stop_on_signals, wait
from spectrace.cli.trace_options import (
    DurationOption,
    JsonOption,
    MethodOption,
    NoPageOption,
    PidArgument,
    TakeControlOption,
    TimingOption,
    UrlOption,
    Wanted,
    options_of,
)
from spectrace.metrics.meter import Meter
from spectrace.model import Run
from spectrace.server.control import SessionControl
from spectrace.server.metered import MeterTap
from spectrace.server.traced import PageTap

SERVER_DIED = 3
_PROBE_IN_TROUBLE = 1
_LEFT = "Tracing was ended on the page, which stays until Ctrl-C with what was collected."
_NO_PAGE = ", or add --no-page"


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
    exported: Callable[[], Exported] | None = None,
) -> int:
    """Traces a server and shows it.

    Args:
        run: The server.
        open_session: Gives the session, which is entered here.
        screen: Where to show it.
        stop: Ends it.
        duration_s: Ends it after so many seconds.
        page: Address of the page, where there is one; told once the probe is in.
        exported: What became of what an exporter was given, where there is one.

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
        follower = Follower(session, screen, exported=exported)
        return exit_code(follower.follow(stop, duration_s))


def exit_code(report: Report) -> int:
    """How the command ends after this last report."""
    if report.end is End.SERVER_DIED:
        return SERVER_DIED
    kept = not all(removal.removed or removal.left_to for removal in report.removals)
    if report.end is End.PROBE_FAILED or kept:
        return _PROBE_IN_TROUBLE
    return 0


@contextmanager
def tracing(run: Run, wanted: Wanted, screen: Screen) -> Iterator[Callable[[Run, Stop], int]]:
    """Opens page and exporter, and gives what traces a server until it is told to stop.

    What it gives returns the exit code as `trace` does, and may be called again. Somebody on the
    page may request the `Stop` that it is told as well.

    Args:
        run: The server.
        wanted: What the command line says.
        screen: Where to show it.

    Raises:
        SpectraceError: Page or exporter cannot be opened; later: as `trace`.
    """
    taps: list[Tap] = []
    exporter = pusher = page = hub = None
    meter = Meter()
    with ExitStack() as opened:
        if wanted.otlp is not None:
            exporter = opened.enter_context(
                exporting("otlp", wanted.otlp.target, run, screen.note, **wanted.otlp.options)
            )
            taps.append(exporter)
        if wanted.metrics is not None:  # before the page, so that it closes while this waits
            traces = (exporter.endpoint, exporter.protocol) if exporter else ()
            target = target_of(wanted.metrics, *traces)
            pusher = opened.enter_context(pushing(target, meter, screen.note))
            taps.insert(0, LastPushTap(pusher, meter))
        if not wanted.no_page:
            from spectrace.server.open import open_page  # noqa: PLC0415 - takes half a second

            kept = open_page(
                retain_s=wanted.retain_s,
                max_bytes=wanted.max_bytes,
                directory=wanted.store,
                port=wanted.port,
                meter=meter,
                note=screen.note,
            )
            hub, server = opened.enter_context(kept)
            if exporter is not None:
                cycles = Target(exporter.endpoint, "--otlp-endpoint", "cycles")
                refuse_own_page(cycles, [server.port], way_out=_NO_PAGE)
            if pusher is not None:
                metrics = Target(pusher.endpoint, "--otlp-metrics", "metrics")
                refuse_own_page(metrics, [server.port], way_out=_NO_PAGE)
            taps.append(PageTap(hub, exporter.lost if exporter else lambda: 0))
            page = server.url
        if page is not None or wanted.metrics is not None:
            taps.append(MeterTap(meter, exporter.lost if exporter else lambda: 0))

        def follow(run: Run, stop: Stop) -> int:
            def session(run: Run) -> TappedSession:
                session = TraceSession(run, options=wanted.options)
                if hub is None:
                    return TappedSession(session, taps)
                from spectrace.server.kernel_reader import looks_of  # noqa: PLC0415 - as the page

                looks = looks_of(session, hub.add_look)
                hub.steer(SessionControl(session, looks, stop.request))
                return TappedSession(session, [*taps, looks])

            return trace(
                run,
                session,
                screen,
                stop,
                duration_s=wanted.duration_s,
                page=page,
                exported=exporter.exported if exporter else None,
            )

        yield follow


def stay(
    left: Stop, stop: Stop, screen: Screen, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Where tracing was ended on the page: keeps the page.

    Args:
        left: What the page requested, perhaps.
        stop: Ends this.
        screen: Where to say so.
        is_over: Ends it, too.
    """
    if left.requested and not stop.requested:
        screen.note(_LEFT)
        ended = Stop(also=stop)
        wait(ended, lambda: ended.request() if is_over() else None)


def attach(  # noqa: PLR0913, PLR0917 - the options of the command
    pid: PidArgument = None,
    url: UrlOption = None,
    duration: DurationOption = None,
    json: JsonOption = False,
    no_page: NoPageOption = False,
    timing: TimingOption = None,
    take_control: TakeControlOption = False,
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
    """Time every speculative decode cycle of a running server; Ctrl-C takes the tracer out."""
    wanted = Wanted(
        options_of(timing, sample_every, ring_size, method, take_control=take_control),
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
    with stop_on_signals() as stop:
        ring_file.sweep()  # what a killed spectrace and then a killed server left behind
        run = find(pid, url)
        with tracing(run, wanted, screen) as follow:
            left = Stop(also=stop)
            code = follow(run, left)
            nobody_waits = not json and duration is None  # for this command to end
            if nobody_waits:
                stay(left, stop, screen)
            if code == SERVER_DIED and not no_page and nobody_waits:
                screen.note("The page stays until Ctrl-C, with what was collected.")
                wait(stop)
    raise typer.Exit(code)
