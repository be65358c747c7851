"""`spectrace kernels`: looks for some cycles at the kernels of a running server."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.attach import examine, loops, ring_file
from spectrace.attach.handle import Options
from spectrace.attach.kernel_obstacles import Obstacle, before, mend, of_refusal, why
from spectrace.attach.kernel_windows import KernelWindows, names_at
from spectrace.attach.modes import MEASURED_S
from spectrace.attach.session import TraceSession, controller_of
from spectrace.attach.ways import Method
from spectrace.cli import numbers
from spectrace.cli.attach import find
from spectrace.cli.figures import removal_lines, stall_lines
from spectrace.cli.import_ import ClassesOption, classes_of
from spectrace.cli.kernel_report import KernelReport, report_of
from spectrace.cli.kernel_words import rendered
from spectrace.cli.output import OutputConsole
from spectrace.cli.progress import LineProgress, progress_on
from spectrace.cli.report import removal_of
from spectrace.cli.result_options import ResultJsonOption
from spectrace.cli.stopping import Stop, stop_on_signals
from spectrace.cli.trace_options import MethodOption, PidArgument, TakeControlOption, UrlOption
from spectrace.errors import SpectraceError
from spectrace.importing.look import look_of, with_names
from spectrace.kernels import Written
from spectrace.model import Cycle, Run
from spectrace.probe.layout_window import MOST_CYCLES, Place, Stage

_CYCLES = 20
_POLL_S = 0.02
_CYCLES_COME_WITHIN_S = 30.0
_CLOSING_S = 10.0  # the probe's own time to close a window and to ask for what is done
_AFTER_S = 1.0  # cycles behind the window, to be held against those before it
BEFORE = (
    "For {cycles} cycles NVIDIA's CUPTI records what the GPU does. Loading it holds the server up "
    "once, for a tenth of a second to some seconds; meanwhile cycles take longer. What stays in "
    "the server until it ends: CUPTI's library and its worker thread, which then has nothing to do."
)
_Cycles = dict[tuple[str, int], Cycle]


def kernels(  # noqa: PLR0913, PLR0917 - the options of the command
    pid: PidArgument = None,
    url: UrlOption = None,
    cycles: Annotated[
        int, typer.Option(min=1, max=MOST_CYCLES, metavar="N", help="Look at so many cycles.")
    ] = _CYCLES,
    classes: ClassesOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Agree to what it costs and what stays behind.")
    ] = False,
    json: ResultJsonOption = False,
    take_control: TakeControlOption = False,
    method: MethodOption = Method.AUTO,
) -> None:
    """Look at the kernels of a running server for some cycles: of what each phase is made."""
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
        report = look(run, options, cycles, table, progress, stop)
    if json:
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
        return
    for part in rendered(report):
        console.print()
        console.print(part, highlight=False)


def refuse_what_is_seen_from_outside(run: Run) -> None:
    """Looks at a server without touching it.

    Raises:
        SpectraceError: There can be no window on its kernels.
    """
    for rank in run.ranks:
        process = examine.process(rank.pid, rank=rank.name, above=run.server_pid)
        obstacle = Obstacle.LOOP if loops.loop_in(rank.pid) else before(process)
        if obstacle is not None:
            raise refusal(obstacle)


def refusal(obstacle: Obstacle, rank: str = "", said: str = "") -> SpectraceError:
    """The error that says why there is no window, and what to do.

    Args:
        obstacle: The cause.
        rank: The name of the rank that refuses; empty where all do.
        said: What CUPTI itself said.
    """
    where = f"{rank}: " if rank else ""
    return SpectraceError(f"{where}{why(obstacle, said)} {mend(obstacle)}")


def _agreed(progress: LineProgress, cycles: int, *, yes: bool) -> bool:
    progress.note(BEFORE.format(cycles=numbers.count(cycles)))
    if yes:
        return True
    if not sys.stdin.isatty():
        raise SpectraceError("Agree to that with --yes.", exit_code=2)
    return typer.confirm("Go on?", err=True)


def look(  # noqa: PLR0913, PLR0917 - each is a part that tests replace
    run: Run,
    options: Options,
    cycles: int,
    classes: KernelClasses,
    progress: LineProgress,
    stop: Stop,
) -> KernelReport:
    """Opens a window on one server, and leaves it as it was, but for CUPTI.

    Args:
        run: The server.
        options: How to attach.
        cycles: How many cycles to look at.
        classes: The table of classes.
        progress: Where to show it.
        stop: Ends it early.

    Raises:
        SpectraceError: There is no window, and why.
    """
    session = TraceSession(run, options=options)
    came: _Cycles = {}

    def read() -> None:
        _keep(came, session.poll())

    try:
        with session:
            if not session.facts().controls:
                raise SpectraceError(
                    f"{controller_of(session.facts()).capitalize()} controls how server "
                    f"{run.server_pid} is timed: end that one, or add --take-control."
                )
            progress.at("Waiting for a cycle.")
            _wait_while(lambda: not came, read, stop, _CYCLES_COME_WITHIN_S)
            written = _window(session, cycles, progress, read, stop)
            outs = session.detach()
            _keep(came, session.last_cycles)
    finally:
        progress.close()
    for line in stall_lines(tuple(session.stall()), over=True):
        progress.note(line)
    ranks = session.facts().ranks
    removals = tuple(removal_of(rank.name, out) for rank, out in zip(ranks, outs, strict=True))
    for line in removal_lines(removals):
        progress.note(line)
    seen = look_of(session.run, list(came.values()), written, classes.of, cycles)
    return report_of(session.run, seen.look)


def _keep(came: _Cycles, cycles: list[Cycle]) -> None:
    """Keeps the newest version of each."""
    for cycle in cycles:
        came[cycle.group, cycle.number] = cycle


def _window(
    session: TraceSession,
    cycles: int,
    progress: LineProgress,
    read: Callable[[], None],
    stop: Stop,
) -> list[Written]:
    """Opens the windows of all ranks, waits until they are done, and reads on for a moment.

    Raises:
        SpectraceError: There is no window, and why.
    """
    with KernelWindows(session.run, cycles) as windows:
        _wait_while(lambda: True, read, stop, MEASURED_S)
        windows.ask()
        for stage, text, longest_s in (
            (Stage.GRAPHS, "The window is asked for.", _CYCLES_COME_WITHIN_S),
            (Stage.DONE, "The window is open.", windows.longest_s + _CLOSING_S),
        ):
            progress.at(text)
            waits = partial(_is_waited_for, windows, session, stage)
            _wait_while(waits, read, stop, longest_s)
            if windows.stage() < stage:
                break
        refused = windows.refused()
        if refused is not None:
            obstacle = of_refusal(refused.words[Place.REFUSAL])
            raise refusal(obstacle, refused.rank.name, refused.text)
        if session.end is not None:
            raise SpectraceError("The server has ended: nothing is shown.")
        if stop.requested:
            raise SpectraceError("Stopped before the window was over: nothing is shown.")
        if windows.stage() < Stage.DONE:
            raise refusal(Obstacle.NO_CYCLES)
        written = []
        for one in windows.written():
            written.append(with_names(one, names_at))
            read()  # a sign of life, too
        if not any(one.words[Place.RECORDS] for one in written):
            raise refusal(Obstacle.NO_RECORDS)
        _wait_while(lambda: True, read, stop, _AFTER_S)
        return written


def _is_waited_for(windows: KernelWindows, session: TraceSession, stage: int) -> bool:
    """Whether a rank has not come so far, and may still do so."""
    return session.end is None and windows.refused() is None and windows.stage() < stage


def _wait_while(
    holds: Callable[[], bool], read: Callable[[], None], stop: Stop, longest_s: float
) -> None:
    """Reads on for so long, while something holds."""
    deadline_s = time.monotonic() + longest_s
    while holds() and not stop.requested and time.monotonic() < deadline_s:
        read()
        time.sleep(_POLL_S)
