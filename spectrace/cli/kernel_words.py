"""Lays the report of a kernel window out for a terminal: tables by phase and class, sentences."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.table import Column, Table
from rich.text import Text

from spectrace.cli import kernel_table, numbers
from spectrace.cli.kernel_report import KernelReport
from spectrace.kernels import WindowCost, WindowLoss

_NO_PHASE = (
    "{rank}: in {cycles} cycles no phase was seen to launch a kernel. Where phases are not timed "
    "(`spectrace status` says how the server is timed), `spectrace mode host` first; where it is "
    "sampled, look at more --cycles."
)


def rendered(report: KernelReport) -> Iterator[RenderableType]:
    """Of each rank its phases, the classes in them, the share of communication; then the cost."""
    for rank, cycles in report.cycles_seen.items():
        own = [time for time in report.kernels if time.rank == rank]
        if any(phase.rank == rank for phase in report.phases):
            yield _phases(report, rank, cycles)
        else:
            yield Text(_NO_PHASE.format(rank=rank, cycles=numbers.count(cycles)))
        if own:
            yield kernel_table.render(rank, own)
        if not any(time.phase for time in own):
            continue
        yield Text(
            f"Communication is {numbers.share(report.communication[rank])} of the time of the "
            f"kernels that {rank}'s phases launched."
        )
    for cost in report.costs:
        yield Text(cost_sentence(cost))
    for loss in report.losses:
        for sentence in loss_sentences(loss):
            yield Text(sentence, style="yellow")


def _phases(report: KernelReport, rank: str, cycles: int) -> Table:
    right = [
        Column(name, justify="right", no_wrap=True)
        for name in ("device", "busy", "gaps", "kernels", "launches", "replays", "a replay")
    ]
    table = Table(
        Column("phase", no_wrap=True),
        *right,
        title=Text(f"{rank}, per cycle, over {numbers.count(cycles)} cycles", style="bold"),
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for phase in report.phases:
        if phase.rank == rank:
            table.add_row(
                phase.phase,
                numbers.milliseconds(phase.device_ms),
                numbers.milliseconds(phase.busy_ms),
                numbers.milliseconds(phase.gap_ms),
                numbers.plain(phase.kernels),
                numbers.plain(phase.launches),
                numbers.plain(phase.replays),
                numbers.milliseconds(phase.replay_ms),
            )
    return table


def cost_sentence(cost: WindowCost) -> str:
    """What the window cost a rank."""
    stood_ms = cost.loading_ms + cost.switching_ms + cost.flushing_ms
    medians = ", ".join(
        f"{numbers.milliseconds(length_ms)} {when}"
        for length_ms, when in (
            (cost.before_ms, "before the window"),
            (cost.graphs_ms, "while graphs were seen whole"),
            (cost.kernels_ms, "while kernels were"),
            (cost.after_ms, "after it"),
        )
        if length_ms is not None
    )
    stood = (
        f"The window held {cost.rank} up for {numbers.milliseconds(stood_ms)} "
        f"({numbers.milliseconds(cost.loading_ms)} of that to load CUPTI), and taking its buffers "
        f"took {numbers.milliseconds(cost.taking_ms)}."
    )
    return f"{stood} A cycle took {medians} (medians)." if medians else stood


def loss_sentences(loss: WindowLoss) -> Iterator[str]:
    """What is not in the figures, a sentence for each kind."""
    rank = loss.rank
    if loss.no_room:
        yield (
            f"{rank}: {numbers.count(loss.no_room)} of {numbers.count(loss.records)} records found "
            "no room: ask for fewer --cycles."
        )
    if loss.torn:
        yield f"{rank}: {numbers.count(loss.torn)} buffers could not be read, and are left out."
    if loss.unfinished:
        yield f"{rank}: {numbers.count(loss.unfinished)} kernels had not ended, and are left out."
    if loss.unknown:
        yield (
            f"{rank}: {numbers.count(loss.unknown)} records are of kinds that only another tool in "
            "this server can have asked for, and are left out."
        )
    if loss.unnamed:
        yield (
            f"{rank}: the names of {numbers.count(loss.unnamed)} kernels could not be read out of "
            "the server; they stand under `other`."
        )
    if loss.cut_short:
        yield f"{rank}: the window was closed before its last cycle."
    if loss.clock_stepped:
        yield f"{rank}: the machine's clock was set meanwhile: kernels may be in the wrong phase."
