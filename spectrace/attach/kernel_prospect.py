"""Says of a running server, without touching it, whether there can be a window on its kernels."""

from __future__ import annotations

from spectrace.attach import examine, loops
from spectrace.attach.kernel_obstacles import Obstacle, before, refusal
from spectrace.model import Run


def refuse_what_is_seen_from_outside(run: Run) -> None:
    """Looks at the ranks of a server, one after the other.

    Raises:
        ShutError: There can be no window on its kernels.
    """
    for rank in run.ranks:
        process = examine.process(rank.pid, rank=rank.name, above=run.server_pid)
        obstacle = Obstacle.LOOP if loops.loop_in(rank.pid) else before(process)
        if obstacle is not None:
            raise refusal(obstacle)
