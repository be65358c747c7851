"""`spectrace status`: the servers on this machine, and which of them are traced by whom."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from spectrace.attach import discover, procfs, ring_file, sleepers
from spectrace.attach.modes import MODES
from spectrace.cli import numbers
from spectrace.cli.output import OutputConsole
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe.layout import State, Word

_STATES = {
    State.EMPTY: "not started",
    State.LOADED: "loaded",
    State.ARMED: "armed",
    State.TRACING: "traced",
    State.DETACHED: "left",
    State.FAILED: "failed",
}
_MODES = {number: mode.value for mode, number in MODES.items()}
_PLUGIN_SLEEPS = "not traced, plugin asleep"
_NS_PER_S = 1e9
_QUIET_S = 3.0  # a reader gives a sign of life many times a second


class RankStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One rank and the probe in it.

    Attributes:
        name: Name of the rank.
        pid: Its process.
        state: `not traced`, `not traced, plugin asleep`, `not started`, `loaded`, `armed`,
            `traced`, `left`, `failed`, or why it cannot be told.
        controller_pid: Process that traces it, None where nobody does any more.
        cycles: Cycles recorded so far, None where nothing is there.
        mode: How cycles are timed, None where nothing is there.
        no_device_timing: Why the device is not timed, a sentence; empty where it can be.
        nvtx: Whether ranges are made for other tools, and which way.
    """

    name: str
    pid: int
    state: str
    controller_pid: int | None = None
    cycles: int | None = None
    mode: str | None = None
    no_device_timing: str = ""
    nvtx: str = ""


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


def look_at(rank: Rank) -> RankStatus:
    """What the ring of a rank says."""
    try:
        path = ring_file.ring_path(rank.pid)
        view = RingView(path)
    except FileNotFoundError:
        return RankStatus(name=rank.name, pid=rank.pid, state="not traced")
    except (SpectraceError, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return RankStatus(name=rank.name, pid=rank.pid, state=f"unknown: {reason}")
    try:
        return describe(rank, view, time.monotonic_ns())
    finally:
        view.close()


def describe(rank: Rank, view: RingView, now_ns: int) -> RankStatus:
    """The status in a mapped ring; `now_ns` is CLOCK_MONOTONIC."""
    if sleepers.is_asleep(view):
        return RankStatus(name=rank.name, pid=rank.pid, state=_PLUGIN_SLEEPS)
    controller = view.word(Word.CONTROLLER_PID)
    quiet_s = (now_ns - view.word(Word.HEARTBEAT_NS)) / _NS_PER_S
    controlled = controller and quiet_s < _QUIET_S and procfs.is_alive(controller)
    info = view.info()
    return RankStatus(
        name=rank.name,
        pid=rank.pid,
        mode=_MODES.get(view.word(Word.MODE_ACTIVE)),
        no_device_timing=str(info.get("no_device_timing") or ""),
        nvtx=str(info.get("ranges") or ""),
        state=_STATES.get(view.word(Word.STATE), "unknown: of another release"),
        controller_pid=controller if controlled else None,
        cycles=view.word(Word.CYCLES),
    )


def notes(servers: list[ServerStatus]) -> list[str]:
    """What the ranks of traced servers say of timing and NVTX, each sentence once a server."""
    return [
        f"{server.server_pid}: {sentence}"
        for server in servers
        for sentence in dict.fromkeys(
            text for rank in server.ranks for text in (rank.no_device_timing, rank.nvtx) if text
        )
    ]


def render(servers: list[ServerStatus]) -> Table:
    """The servers as a table, one line a rank."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for head in ("server", "rank", "process"):
        table.add_column(head, no_wrap=True)
    table.add_column("state", overflow="fold")
    table.add_column("timing", no_wrap=True)
    table.add_column("cycles", justify="right", no_wrap=True)
    for server in servers:
        for place, rank in enumerate(server.ranks):
            name = "" if place else str(server.server_pid)
            cycles = numbers.count(rank.cycles)
            timing = rank.mode or numbers.MISSING
            table.add_row(name, rank.name, str(rank.pid), Text(_state(rank)), timing, cycles)
    return table


def _state(rank: RankStatus) -> str:
    if rank.controller_pid is None:
        return f"{rank.state}, nobody reads" if rank.cycles is not None else rank.state
    return f"{rank.state} by process {rank.controller_pid}"
