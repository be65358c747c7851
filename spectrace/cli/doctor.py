"""`spectrace doctor`: checks everything that attaching needs, and says what mends it."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from spectrace.attach import checks, discover, examine, server_checks
from spectrace.attach.check import Check, State
from spectrace.attach.facts import Machine
from spectrace.cli.output import OutputConsole
from spectrace.errors import SpectraceError
from spectrace.model import Run

_STYLES = {State.OK: "green", State.WARN: "yellow", State.FAIL: "bold red"}
_COMMAND_LETTERS = 60


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """The checks of the machine, or of one server.

    Attributes:
        of: `this machine`, which server, or which process.
        checks: In the order in which attaching comes to them.
    """

    of: str
    checks: tuple[Check, ...]


def doctor(
    pid: Annotated[
        int | None,
        typer.Argument(
            help="Any process of a server; without it all servers are looked at.",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON array.")] = False,
) -> None:
    """Check what attaching needs, one by one, and say what mends it; touches no server."""
    sections = examined(pid)
    if json:
        typer.echo(msgspec.json.encode(sections).decode())
    else:
        OutputConsole(highlight=False).print(render(sections))
    failed = any(check.state is State.FAIL for section in sections for check in section.checks)
    raise typer.Exit(1 if failed else 0)


def examined(pid: int | None) -> list[Section]:
    """The machine and one server, or all of them.

    Raises:
        SpectraceError: `pid` cannot be a process id.
    """
    machine = examine.machine()
    sections = [Section(of="this machine", checks=tuple(checks.of_machine(machine)))]
    if pid is None:
        return sections + [of_server(machine, run) for run in discover.list_runs()]
    try:
        run = discover.find_by_pid(pid, check_rights=False)
    except SpectraceError as error:
        if pid <= 0:
            raise
        return [*sections, _of_no_server(machine, pid, error)]
    return [*sections, of_server(machine, run)]


def of_server(machine: Machine, run: Run) -> Section:
    """The checks of all ranks of a server."""
    ranks = examine.ranks(run)
    return Section(of=_title(run), checks=tuple(server_checks.of_server(machine, run, ranks)))


def _title(run: Run) -> str:
    command = " ".join(" ".join(run.command).split())
    if len(command) > _COMMAND_LETTERS:
        command = f"{command[: _COMMAND_LETTERS - 1]}\u2026"
    ranks = ", ".join(rank.name for rank in run.ranks)
    return f"server {run.server_pid} ({command}), {ranks}"


def _of_no_server(machine: Machine, pid: int, error: SpectraceError) -> Section:
    """The checks of a process that belongs to no server, and why it does not."""
    found = checks.of_process(machine, examine.process(pid))
    if found[0].state is not State.FAIL:
        found.append(
            Check(
                name="server",
                state=State.FAIL,
                found=str(error),
                mend="spectrace status lists the servers",
            )
        )
    return Section(of=f"process {pid}", checks=tuple(found))


def render(sections: list[Section]) -> Group:
    """Each section under its title: a line for each check, and what mends it below."""
    return Group(*(part for section in sections for part in _rendered(section)))


def _rendered(section: Section) -> tuple[Text, Table]:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in section.checks:
        ranks = f"{', '.join(check.ranks)}: " if check.ranks else ""
        found = Text(f"{ranks}{check.found}")
        if check.mend:
            found.append(f"\n\u2192 {check.mend}", style="bold")
        table.add_row(Text(check.state.value, style=_STYLES[check.state]), check.name, found)
    return Text(section.of, style="bold underline"), table
