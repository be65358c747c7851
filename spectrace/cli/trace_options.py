"""The options of the commands that trace a server: which one, how to time it, how to get in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spectrace.attach.handle import Options
from spectrace.attach.modes import MODES
from spectrace.attach.ways import Method
from spectrace.cli.otlp_options import Otlp
from spectrace.cli.page_options import duration_option
from spectrace.model import TimingMode
from spectrace.probe.layout import DEFAULT_UNITS, MIN_UNITS, UNIT_BYTES

PidArgument = Annotated[
    int | None, typer.Argument(help="Any process of the server.", show_default=False)
]
UrlOption = Annotated[
    str | None,
    typer.Option(help="Its address, such as http://127.0.0.1:30000.", show_default=False),
]
DurationOption = Annotated[
    float | None,
    typer.Option(
        parser=duration_option,
        metavar="TIME",
        help="Stop after 30s, 500ms, 2m or 1h; otherwise at Ctrl-C.",
        show_default=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Write one JSON object a second, and one at the end.")
]
NoPageOption = Annotated[bool, typer.Option("--no-page", help="Only the terminal.")]
TimingOption = Annotated[
    TimingMode | None,
    typer.Option(
        help="How to time phases: events on the device, the default, which falls back to the "
        "host's clock where it has none; the host's clock; a synchronize at every boundary, "
        "which slows the server; or not at all.",
        show_default=False,
    ),
]
TakeControlOption = Annotated[
    bool,
    typer.Option(
        "--take-control",
        help="Where another spectrace traces the server already, decide from now on how it "
        "is timed; the other one reads on.",
    ),
]
MethodOption = Annotated[
    Method,
    typer.Option(
        help="How to get in: by the plugin that sleeps in the server, by sys.remote_exec of "
        "Python 3.14, by ptrace on x86-64, or by gdb. `auto` takes the first that is open."
    ),
]


@dataclass(frozen=True)
class Wanted:
    """What the command line asks for of a traced session.

    Attributes:
        options: How ranks are traced.
        duration_s: Ends the session after so many seconds; None for never.
        json: Reports are JSON.
        no_page: There is no page.
        port: Of the page; None for the next free one.
        retain_s: For how long the page keeps cycles.
        max_bytes: How much it keeps at most.
        store: Where it keeps them beyond the end, None for nowhere.
        otlp: Where to send cycles, and which; None for nowhere.
        metrics: Where to push metrics, `same`, `env`, or None.
    """

    options: Options
    duration_s: float | None
    json: bool
    no_page: bool
    port: int | None
    retain_s: float
    max_bytes: int
    store: Path | None
    otlp: Otlp | None
    metrics: str | None = None


def options_of(
    timing: TimingMode | None,
    sample_every: int,
    ring_bytes: int | None,
    method: Method = Method.AUTO,
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
        method=method,
    )
