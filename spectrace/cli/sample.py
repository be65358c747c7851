"""`spectrace sample`: switches how many cycles of a traced server are recorded in full."""

from __future__ import annotations

from typing import Annotated

import typer

from spectrace.attach.modes import Wish
from spectrace.cli.mode import Server, ServerUrl, TakeControl, ask, server_of
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
    pid: Server = None,
    url: ServerUrl = None,
    take_control: TakeControl = False,
) -> None:
    """Record every Nth cycle of a traced server, from the same cycle on on all of its ranks."""
    ask(server_of(pid, url), Wish(every=every), take_control=take_control)
