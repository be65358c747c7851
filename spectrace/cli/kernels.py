"""`spectrace kernels`: looks for some cycles at the kernels of a running server."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.attach import ring_file
from spectrace.attach.handle import Options
from spectrace.attach.kernel_look import KernelLooks
from spectrace.attach.kernel_obstacles import Obstacle, ShutError, refusal
from spectrace.attach.kernel_prospect import refuse_what_is_seen_from_outside
from spectrace.attach.looking import LookStage
from spectrace.attach.session import TraceSession
from spectrace.attach.tapped import Tap, TappedSession
from spectrace.attach.ways import Method
from spectrace.cli import numbers
from spectrace.cli.attach import find
from spectrace.cli.figures import removal_lines, stall_lines
from spectrace.cli.import_ import ClassesOption, classes_of
from spectrace.cli.kernel_report import KernelReport, report_of
from spectrace.cli.kernel_words import rendered
from spectrace.cli.output import OutputConsole
from spectrace.cli.page_options import ForceOption
from spectrace.cli.progress import LineProgress, progress_on
from spectrace.cli.recording_file import OUTPUT, recording_at
from spectrace.cli.report import removal_of
from spectrace.cli.result_options import ResultJsonOption
from spectrace.cli.stopping import Stop, stop_on_signals
from spectrace.cli.store_tap import StoreTap
from spectrace.cli.trace_options import MethodOption, PidArgument, TakeControlOption, UrlOption
from spectrace.errors import SpectraceError
from spectrace.kernels import Seen
from spectrace.model import Run
from spectrace.probe.layout_window import MOST_CYCLES
from spectrace.server.kernel_reader import WindowReader
from spectrace.store.publish import refuse_existing
from spectrace.store.recorded import recorded
from spectrace.store.store import CycleStore

_CYCLES = 20
_POLL_S = 0.02
_CYCLE_COMES_WITHIN_S = 30.0
_UNBOUNDED_BYTES = 1 << 50  # nothing goes: the window has bounds of its own
_SAID = {
    LookStage.ASKED: "The window is asked for.",
    LookStage.OPEN: "The window is open.",
    LookStage.READING: "What it recorded is read.",
}
BEFORE = (
    "For {cycles} cycles NVIDIA's CUPTI records what the GPU does. Loading it holds the server up "
    "once, for a tenth of a second to some seconds; meanwhile cycles take longer. What stays in "
    "the server until it ends: CUPTI's library and its worker thread, which then has nothing to do."
)


def kernels(  # noqa: PLR0913, PLR0917 - the options of the command
    pid: PidArgument = None,
    url: UrlOption = None,
    cycles: Annotated[
        int, typer.Option(min=1, max=MOST_CYCLES, metavar="N", help="Look at so many cycles.")
    ] = _CYCLES,
    classes: ClassesOption = None,
    output: Annotated[Path | None, OUTPUT] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Agree to what it costs and what stays behind.")
    ] = False,
    json: ResultJsonOption = False,
    force: ForceOption = False,
    take_control: TakeControlOption = False,
    method: MethodOption = Method.AUTO,
) -> None:
    """Look at the kernels of a running server for some cycles: of what each phase is made."""
    path = None if output is None else recording_at(output)
    if path is not None:
        refuse_existing(path, force=force)
    table = KernelClasses(classes_of(classes))
    console = Console(stderr=True) if json else OutputConsole()
    progress = progress_on(console)
    ring_file.sweep()  # what a killed spectrace and then a killed server left behind
    run = find(pid, url)
    refuse_what_is_seen_from_outside(run)
    if not _agreed(progress, cycles, yes=yes):
        raise typer.Exit(1)
    with stop_on_signals() as stop:
        options = Options(take_control=take_control, method=method)
        with _kept_in(path, progress, force=force) as store:
            report = look(run, options, cycles, table, progress, stop, store)
            _show(report, console, json=json)  # also where the file cannot be written


def _show(report: KernelReport, console: Console, *, json: bool) -> None:
    if json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    for part in rendered(report):
        console.print()
        console.print(part, highlight=False)


def _agreed(progress: LineProgress, cycles: int, *, yes: bool) -> bool:
    progress.note(BEFORE.format(cycles=numbers.count(cycles)))
    if yes:
        return True
    if not sys.stdin.isatty():
        raise SpectraceError("Agree to that with --yes.", exit_code=2)
    return typer.confirm("Go on?", err=True)


@contextmanager
def _kept_in(
    path: Path | None, progress: LineProgress, *, force: bool
) -> Iterator[CycleStore | None]:
    """What becomes the recording, where one is wanted; nothing is left of one that failed."""
    if path is None:
        yield None
        return
    with recorded(path, force=force, max_bytes=_UNBOUNDED_BYTES, whole=True) as store:
        yield store
    size = numbers.size(path.stat().st_size)
    progress.note(f"The cycles around the window and its kernels are in {path} ({size}).")


def look(  # noqa: PLR0913, PLR0917 - each is a part that tests replace
    run: Run,
    options: Options,
    cycles: int,
    classes: KernelClasses,
    progress: LineProgress,
    stop: Stop,
    store: CycleStore | None = None,
) -> KernelReport:
    """Opens a window on one server, and leaves it as it was, but for CUPTI.

    Args:
        run: The server.
        options: How to attach.
        cycles: How many cycles to look at.
        classes: The table of classes.
        progress: Where to show it.
        stop: Ends it early.
        store: Is given the cycles around the window, and its kernels.

    Raises:
        SpectraceError: There is no window, and why.
    """
    found: list[Seen] = []

    def keep(run_id: str, seen: Seen) -> None:
        found.append(seen)
        if store is not None:
            store.add_look(run_id, seen)

    session = TraceSession(run, options=options)
    looks = KernelLooks(session, WindowReader(classes, keep))
    taps: list[Tap] = [] if store is None else [StoreTap(store)]
    try:
        with TappedSession(session, [*taps, looks]) as tapped:
            looks.refuse_without_control()
            _wait_for_a_cycle(tapped, progress, stop)
            looks.ask(cycles)
            _follow(tapped, looks, progress, stop)
            outs = tapped.detach()
    finally:
        progress.close()
    for line in stall_lines(tuple(session.stall()), over=True):
        progress.note(line)
    ranks = session.facts().ranks
    removals = tuple(removal_of(rank.name, out) for rank, out in zip(ranks, outs, strict=True))
    for line in removal_lines(removals):
        progress.note(line)
    [seen] = found
    return report_of(session.run, seen.look)


def _wait_for_a_cycle(session: TappedSession, progress: LineProgress, stop: Stop) -> None:
    """Lets all ranks tell their numbers, where cycles come: they begin the window together."""
    progress.at("Waiting for a cycle.")
    until_s = time.monotonic() + _CYCLE_COMES_WITHIN_S
    while not (session.poll() or stop.requested or session.end) and time.monotonic() < until_s:
        time.sleep(_POLL_S)


def _follow(session: TappedSession, looks: KernelLooks, progress: LineProgress, stop: Stop) -> None:
    """Polls until a look is over.

    Raises:
        ShutError: It shows nothing, and why.
    """
    while (looking := looks.looking) is not None and looking.stage is not LookStage.DONE:
        if looking.stage is LookStage.REFUSED:
            raise ShutError(looking.why, looking.mend)
        if session.end is not None:
            raise refusal(Obstacle.ENDED)
        if stop.requested:
            raise refusal(Obstacle.LEFT)
        progress.at(_SAID[looking.stage])
        session.poll()
        time.sleep(_POLL_S)
