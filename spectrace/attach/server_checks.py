"""What attaching to a whole server needs: the checks of its ranks, and of its command line."""

from __future__ import annotations

from collections.abc import Collection

from spectrace.attach import checks, discover, engine_checks, loops
from spectrace.attach.check import Check, merged
from spectrace.attach.facts import Machine, Process
from spectrace.model import Run


def of_server(machine: Machine, run: Run, ranks: Collection[Process]) -> list[Check]:
    """What attaching to a server needs, what is the same for several ranks once.

    Args:
        machine: Where we run.
        run: The server.
        ranks: Its ranks, as `examine.ranks` gives them.
    """
    by_rank = {}
    for process in ranks:
        found = checks.of_process(machine, process, len(ranks))
        if process.state and not loops.loop_in(process.pid):  # a loop's engine is its author's
            found += engine_checks.of_rank(process)
        by_rank[process.rank] = found
    found = merged(by_rank)
    if discover.is_server(run.command):
        found += engine_checks.of_command(run.command)
    return found
