"""`spectrace detach`: takes the probe out of a server, whoever put it in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from spectrace.attach import discover, leave, ring_file
from spectrace.attach.handle import TakenOut
from spectrace.cli.figures import removal_lines
from spectrace.cli.report import Removal, removal_of
from spectrace.errors import SpectraceError
from spectrace.model import Rank, Run


def detach(
    pid: Annotated[int, typer.Argument(help="Any process of the server.", show_default=False)],
) -> None:
    """Take the tracer out of all ranks of a server, whoever put it in."""
    ring_file.sweep()  # what a killed spectrace and then a killed server left behind
    run = discover.find_by_pid(pid)
    traced = [rank for rank in run.ranks if ring_file.ring_path(rank.pid).exists()]
    for rank in traced:  # all are told first, so that they leave together
        with suppress(SpectraceError):  # taking it out will say it
            leave.ask_pid_to_leave(rank.pid)
    removals = take_out_all(traced, lambda rank: leave.take_out_pid(rank.pid, was_there=True))
    for line in removal_lines(removals) or [nothing_there(run)]:
        typer.echo(line)
    raise typer.Exit(0 if all(removal.removed for removal in removals) else 1)


def nothing_there(run: Run) -> str:
    """What to say where no rank has the probe."""
    return f"Server {run.server_pid} is not traced: there was nothing to take out."


def take_out_all(ranks: list[Rank], take_out: Callable[[Rank], TakenOut]) -> tuple[Removal, ...]:
    """Takes the probe out of `ranks`; one that does not let go keeps no other from it."""
    return tuple(_take_out(rank, take_out) for rank in ranks)


def _take_out(rank: Rank, take_out: Callable[[Rank], TakenOut]) -> Removal:
    try:
        out = take_out(rank)
    except SpectraceError as error:
        out = TakenOut(removed=False, foreign=(), reason=str(error))
    return removal_of(rank.name, out)
