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
    take_control: TakeControl = False,
) -> None:
    """Time a traced server in another way, from the same cycle on on all of its ranks."""
    ask(pid, Wish(mode=mode), take_control=take_control)


def ask(pid: int | None, wish: Wish, *, take_control: bool) -> None:
    """Asks a server for something, and says from which cycle on it holds.

    Args:
        pid: Any process of the server; None for the only one.
        wish: What is asked for.
        take_control: Also where several spectraces read, of which one controls.

    Raises:
        SpectraceError: There is no such server, or it cannot be asked.
    """
    run = discover.find_by_pid(pid) if pid is not None else the_only(discover.list_runs())
    for switch in modes.switch(run, wish, take_control=take_control):
        typer.echo(describe(switch, str(wish)))


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
    raise SpectraceError(f"Several servers run here ({pids}): say which, by its process id.")


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
