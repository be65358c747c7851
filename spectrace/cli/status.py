"""`spectrace status`: the servers on this machine, and which of them are traced by whom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from spectrace.attach import discover, ring_file
from spectrace.attach.rank_status import RankStatus, look_at
from spectrace.attach.ring_state import ASLEEP
from spectrace.cli import numbers
from spectrace.cli.output import OutputConsole


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One server with its ranks."""

    run_id: str
    server_pid: int
    command: tuple[str, ...]
    ranks: tuple[RankStatus, ...]


def status(
    json: Annotated[bool, typer.Option("--json", help="Write one JSON array.")] = False,
) -> None:
    """List the servers on this machine, their ranks, and who traces them."""
    ring_file.sweep()  # what a killed spectrace and then a killed server left behind
    servers = [
        ServerStatus(
            run_id=run.run_id,
            server_pid=run.server_pid,
            command=run.command,
            ranks=tuple(look_at(rank) for rank in run.ranks),
        )
        for run in discover.list_runs()
    ]
    if json:
        typer.echo(msgspec.json.encode(servers).decode())
    elif servers:
        OutputConsole().print(render(servers))
        for note in notes(servers):
            typer.echo(note)
    else:
        typer.echo("No SGLang server runs here, or none that you may see.")


def notes(servers: list[ServerStatus]) -> list[str]:
    """What the ranks of traced servers say of themselves, each sentence once a server."""
    return [
        f"{server.server_pid}: {sentence}"
        for server in servers
        for sentence in dict.fromkeys(
            text for rank in server.ranks for text in _sentences(rank) if text
        )
    ]


def _sentences(rank: RankStatus) -> Iterator[str]:
    yield f"{rank.name}: {rank.error}" if rank.error else ""
    yield rank.untried
    yield f"Not seen: {', '.join(rank.missing)}." if rank.missing else ""
    yield rank.no_device_timing
    yield rank.nvtx
    lost = rank.losses.boundaries if rank.losses else 0
    if lost:
        yield f"{rank.name}: {lost:,} boundaries of the device were not timed."


def render(servers: list[ServerStatus]) -> Table:
    """The servers as a table, one line a rank."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in ("server", "rank", "process"):
        table.add_column(head, no_wrap=True)
    table.add_column("state", overflow="fold")
    table.add_column("timing", no_wrap=True)
    for head in ("cycles", "lost"):
        table.add_column(head, justify="right", no_wrap=True)
    for server in servers:
        for place, rank in enumerate(server.ranks):
            table.add_row(
                "" if place else str(server.server_pid),
                rank.name,
                str(rank.pid),
                Text(_state(rank)),
                _timing(rank),
                numbers.count(rank.cycles),
                numbers.count(rank.losses.records if rank.losses else None),
            )
    return table


def _timing(rank: RankStatus) -> str:
    if rank.mode is None or rank.sample_every in {None, 1}:
        return rank.mode or numbers.MISSING
    return f"{rank.mode}, 1 in {numbers.count(rank.sample_every)}"


def _state(rank: RankStatus) -> str:
    state = f"{rank.state} ({rank.way})" if rank.way else rank.state
    if rank.reader:
        return f"{state} by {rank.reader}"
    return state if rank.cycles is None or rank.state == ASLEEP else f"{state}, nobody reads"
