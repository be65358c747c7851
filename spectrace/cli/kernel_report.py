"""What `spectrace kernels --json` writes: a look at the kernels of one server."""

from __future__ import annotations

import msgspec

from spectrace.kernels import ClassTime, KernelLook, PhaseWork, WindowCost, WindowLoss
from spectrace.model import Run


class KernelReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes.

    Attributes:
        run_id: The run, see `model.Run`.
        server_pid: Process id of the server's root process.
        engine: Such as `sglang 0.5.23`.
        cycles: How many were asked for.
        cycles_seen: By rank in how many graphs were seen kernel by kernel.
        phases: What the device did for each phase of each rank.
        kernels: Time of kernels by rank, phase and class, over the cycles seen.
        communication: By rank the share of communication in the time of all kernels of phases.
        costs: What looking cost each rank.
        losses: What is not in the figures.
    """

    run_id: str
    server_pid: int
    engine: str
    cycles: int
    cycles_seen: dict[str, int]
    phases: tuple[PhaseWork, ...]
    kernels: tuple[ClassTime, ...]
    communication: dict[str, float]
    costs: tuple[WindowCost, ...]
    losses: tuple[WindowLoss, ...]


def report_of(run: Run, look: KernelLook) -> KernelReport:
    """The same look, with whose it is."""
    return KernelReport(
        run_id=run.run_id,
        server_pid=run.server_pid,
        engine=run.engine,
        cycles=look.cycles,
        cycles_seen=look.cycles_seen,
        phases=look.phases,
        kernels=look.kernels,
        communication=look.communication,
        costs=look.costs,
        losses=look.losses,
    )
