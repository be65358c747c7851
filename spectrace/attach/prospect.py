"""What is known of a server before it is attached to: what stands in the way, and the way in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from spectrace.attach import discover, examine, ring_file, server_checks, ways
from spectrace.attach.check import Check, State
from spectrace.attach.facts import Machine, Process
from spectrace.attach.rank_status import RankStatus, look_at
from spectrace.attach.ring_state import ASLEEP
from spectrace.attach.ways import Method, Way
from spectrace.errors import SpectraceError
from spectrace.model import Run

_SLEEPERS = {"plugin": Way.PLUGIN, "loop": Way.LOOP}
_IN_IT = {"loaded", "armed", "traced"}


class Prospect(msgspec.Struct, frozen=True, kw_only=True):
    """A server of this machine that may be attached to.

    Attributes:
        run: The run's id.
        pid: The server's process.
        command: Its command line.
        engine: Such as `sglang 0.5.23`; empty where that is not known.
        ranks: Names of its ranks.
        way: How the probe would go in, of the ways that are tried the first.
        reader: Who traces it and decides how, such as `process 41`; empty where nobody does.
        mode: How it is timed, None where it is not traced.
        obstacle: What keeps attach out, a sentence as `spectrace doctor` has it; empty for nothing.
        mend: What mends it.
    """

    run: str
    pid: int
    command: tuple[str, ...]
    engine: str
    ranks: tuple[str, ...]
    way: Way
    reader: str
    mode: str | None
    obstacle: str
    mend: str


def look() -> list[Prospect]:
    """All servers of this machine, the lowest process id first; touches none of them."""
    ring_file.sweep()  # what a killed spectrace and then a killed server left behind
    machine = examine.machine()
    found = (_if_there(machine, run) for run in discover.list_runs())
    return [one for one in found if one is not None]


def _if_there(machine: Machine, run: Run) -> Prospect | None:
    try:
        ranks, statuses = examine.ranks(run), [look_at(rank) for rank in run.ranks]
        return prospect(machine, run, ranks, statuses)
    except (SpectraceError, OSError):  # ended while we looked
        return None


def prospect(
    machine: Machine, run: Run, ranks: Sequence[Process], statuses: Sequence[RankStatus]
) -> Prospect:
    """What is known of one server.

    Args:
        machine: Where we run.
        run: The server.
        ranks: What can be said of its ranks.
        statuses: What their rings say.
    """
    traced = next((one for one in statuses if one.reader), None)
    failed = _first_failed(server_checks.of_server(machine, run, ranks))
    return Prospect(
        run=run.run_id,
        pid=run.server_pid,
        command=run.command,
        engine=_engine(ranks, statuses),
        ranks=tuple(rank.name for rank in run.ranks),
        way=_way(ranks, statuses),
        reader=traced.reader if traced else "",
        mode=traced.mode if traced else None,
        obstacle=_sentence(failed) if failed else "",
        mend=failed.mend if failed else "",
    )


def _engine(ranks: Iterable[Process], statuses: Iterable[RankStatus]) -> str:
    """As the probe says it where it is in, else by the package that is installed there."""
    said = next((one.engine for one in statuses if one.engine), "")
    version = next((one.packages["sglang"] for one in ranks if "sglang" in one.packages), "")
    return said or (f"sglang {version}" if version else "")


def _way(ranks: Iterable[Process], statuses: Iterable[RankStatus]) -> Way:
    for one in statuses:
        if one.way in _SLEEPERS and one.state == ASLEEP:
            return _SLEEPERS[one.way]
        if one.state in _IN_IT:
            return Way.JOINED
    pythons = (one.interpreter for one in ranks)
    version = next((python.version for python in pythons if python), None)
    return ways.order(Method.AUTO, version)[0]


def _first_failed(found: Iterable[Check]) -> Check | None:
    return next((check for check in found if check.state is State.FAIL), None)


def _sentence(check: Check) -> str:
    """As `doctor` writes it in its line, with the ranks that it is about."""
    ranks = f" of {', '.join(check.ranks)}" if check.ranks else ""
    return f"{check.name}{ranks}: {check.found.rstrip('.')}."
