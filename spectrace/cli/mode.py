"""`spectrace mode`: switches how the cycles of a traced server are timed."""

from __future__ import annotations

from typing import Annotated

import typer

from spectrace.attach import discover, modes
from spectrace.attach.modes import Switch, Wish
from spectrace.cli import numbers
from spectrace.errors import SpectraceError
from spectrace.model import Run, TimingMode

TakeControl = Annotated[
    bool,
    typer.Option(
        "--take-control", help="Also where several spectraces read, of which one controls."
    ),
]


Server = Annotated[
    int | None,
    typer.Argument(help="Any process of the server, where several run.", show_default=False),
]


ServerUrl = Annotated[
    str | None,
    typer.Option("--url", help="Its address, such as http://127.0.0.1:30000.", show_default=False),
]


def mode(
    mode: Annotated[
        TimingMode,
        typer.Argument(
            help="device: events on the accelerator; host: the CPU's clock alone; sync: a "
            "synchronize at every boundary, which slows the server; off: whole cycles only.",
            show_default=False,
        ),
    ],
    pid: Server = None,
    url: ServerUrl = None,
    take_control: TakeControl = False,
) -> None:
    """Time a traced server in another way, from the same cycle on on all of its ranks."""
    ask(server_of(pid, url), Wish(mode=mode), take_control=take_control)


def ask(run: Run, wish: Wish, *, take_control: bool) -> None:
    """Asks a server for something, and says from which cycle on it holds.

    Args:
        run: The server.
        wish: What is asked for.
        take_control: Also where several spectraces read, of which one controls.

    Raises:
        SpectraceError: It cannot be asked.
    """
    for switch in modes.switch(run, wish, take_control=take_control):
        typer.echo(describe(switch, str(wish)))


def server_of(pid: int | None, url: str | None) -> Run:
    """The server that the command line names.

    Args:
        pid: Any of its processes.
        url: Its address; where neither is given the only one is meant.

    Raises:
        BadParameter: Both are given.
        SpectraceError: There is no such server.
    """
    if pid is not None and url is not None:
        raise typer.BadParameter("give the server's process id or its --url, one of them.")
    if url is not None:
        return discover.find_by_url(url)
    return discover.find_by_pid(pid) if pid is not None else the_only(discover.list_runs())


def the_only(runs: list[Run]) -> Run:
    """The one server that there is.

    Raises:
        SpectraceError: There is none, or more than one.
    """
    if len(runs) == 1:
        return runs[0]
    if not runs:
        raise SpectraceError("No SGLang server runs here, or none that you may see.")
    pids = ", ".join(str(run.server_pid) for run in runs)
    raise SpectraceError(
        f"Several servers run here ({pids}): say which, by its process id or --url."
    )


def describe(switch: Switch, what: str) -> str:
    """What was asked of a group, in one line."""
    ranks = ", ".join(switch.ranks)
    if not switch.from_cycle:
        return f"{ranks}: {what} from the next cycle on."
    ahead = switch.from_cycle - switch.newest_cycle
    when = (
        f"in about {numbers.milliseconds(1000 * ahead / switch.cycles_per_s)}"
        if switch.cycles_per_s
        else "the server is idle"
    )
    return f"{ranks}: {what} from cycle {switch.from_cycle} on ({ahead} cycles ahead, {when})."
