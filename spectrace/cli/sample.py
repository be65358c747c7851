"""`spectrace sample`: switches how many cycles of a traced server are recorded in full."""

from __future__ import annotations

from typing import Annotated

import typer

from spectrace.attach import discover, modes
from spectrace.cli.mode import TakeControl, describe, the_only
from spectrace.probe.layout import MAX_EVERY


def sample(
    every: Annotated[
        int,
        typer.Argument(
            min=1,
            max=MAX_EVERY,
            help="Cycles whose number it divides are recorded in full, of the others only sums; "
            "1 for all.",
            show_default=False,
        ),
    ],
    pid: Annotated[
        int | None,
        typer.Argument(help="Any process of the server, where several run.", show_default=False),
    ] = None,
    take_control: TakeControl = False,
) -> None:
    """Record every Nth cycle of a traced server, from the same cycle on on all of its ranks."""
    run = discover.find_by_pid(pid) if pid is not None else the_only(discover.list_runs())
    wish = modes.Wish(every=every)
    for switch in modes.switch(run, wish, take_control=take_control):
        typer.echo(describe(switch, str(wish)))
