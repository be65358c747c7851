"""`spectrace record`: traces a running server into a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated

import typer

from spectrace.attach import ring_file
from spectrace.attach.session import TraceSession
from spectrace.attach.tapped import TappedSession
from spectrace.attach.ways import Method
from spectrace.cli import numbers
from spectrace.cli.attach import find, screen_for, trace
from spectrace.cli.page_options import (
    MAX_SIZE,
    ForceOption,
    MaxSizeOption,
    RingSizeOption,
    SampleEveryOption,
)
from spectrace.cli.received import cycle_losses, span_losses
from spectrace.cli.recording_file import OUTPUT, recording_at
from spectrace.cli.stopping import stop_on_signals
from spectrace.cli.store_tap import StoreTap
from spectrace.cli.trace_options import (
    DurationOption,
    JsonOption,
    MethodOption,
    PidArgument,
    TakeControlOption,
    TimingOption,
    UrlOption,
    options_of,
)
from spectrace.server.open import open_receiver
from spectrace.store.recorded import recorded
from spectrace.store.source import Stats
from spectrace.store.store import CycleStore


@contextmanager
def receiving(store: CycleStore, note: Callable[[str], None]) -> Iterator[None]:
    """Takes in spans that are sent here, too.

    Args:
        store: Where they go.
        note: Is told where to send them, and what could not be stored.
    """
    with open_receiver(store) as hub:
        note(f"Send spans to: {hub.otlp_endpoint}")
        note(f"Over gRPC: {hub.grpc_endpoint}")
        yield
    store.stats()  # for which what waits is written
    for sentence in span_losses(hub.lost_spans):
        note(sentence)


def losses(stats: Stats, first_ns: int | None) -> Iterator[str]:
    """Sentences on what is not in a recording.

    Args:
        stats: Of its store.
        first_ns: UNIX time in ns at which the first cycle began that was handed over.
    """
    yield from cycle_losses(stats)
    if first_ns is not None and stats.first_ns is not None and stats.first_ns > first_ns:
        yield "The oldest cycles went, to keep below --max-size."


def record(  # noqa: PLR0913, PLR0917 - the options of the command
    output: Annotated[Path, OUTPUT],
    pid: PidArgument = None,
    url: UrlOption = None,
    duration: DurationOption = None,
    json: JsonOption = False,
    timing: TimingOption = None,
    take_control: TakeControlOption = False,
    method: MethodOption = Method.AUTO,
    sample_every: SampleEveryOption = 1,
    ring_size: RingSizeOption = None,
    max_size: MaxSizeOption = MAX_SIZE,
    receive: Annotated[
        bool,
        typer.Option(
            "--receive",
            help="Take in spans that are sent here over OTLP, such as the server's own of its "
            "requests (--enable-trace).",
            show_default=False,
        ),
    ] = False,
    force: ForceOption = False,
) -> None:
    """Trace a running server into a file, for `view`, `export` and `spectrace.open`."""
    path = recording_at(output)
    options = options_of(timing, sample_every, ring_size, method, take_control=take_control)
    screen = screen_for(json=json)
    with stop_on_signals() as stop:
        ring_file.sweep()  # what a killed spectrace and then a killed server left behind
        run = find(pid, url)
        with recorded(path, force=force, max_bytes=max_size) as store:
            tap = StoreTap(store)
            with receiving(store, screen.note) if receive else nullcontext():
                code = trace(
                    run,
                    lambda run: TappedSession(TraceSession(run, options=options), [tap]),
                    screen,
                    stop,
                    duration_s=duration,
                )
            stats = store.stats()
        size = numbers.size(path.stat().st_size)
        screen.note(f"{numbers.count(stats.cycles)} cycles are in {path} ({size}).")
        for sentence in losses(stats, tap.first_ns):
            screen.note(sentence)
    raise typer.Exit(code)
