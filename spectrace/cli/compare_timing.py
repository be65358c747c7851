"""`spectrace compare-timing`: times a running server in every mode, and says how far each lies."""

from __future__ import annotations

import re
import select
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TextIO

import msgspec
import typer
from rich.console import Console

from spectrace.analysis.timing_report import Comparison
from spectrace.attach import modes, ring_file
from spectrace.attach.handle import Options
from spectrace.attach.modes import OutpacedError, Switch
from spectrace.attach.session import End, TraceSession, controller_of
from spectrace.attach.ways import Method
from spectrace.cli import numbers
from spectrace.cli.attach import SERVER_DIED, find
from spectrace.cli.figures import of_the_living, removal_lines, stall_lines, who_ended
from spectrace.cli.output import OutputConsole
from spectrace.cli.page_options import ForceOption, duration_option
from spectrace.cli.progress import progress_on
from spectrace.cli.report import removal_of
from spectrace.cli.result_options import HtmlOption, ResultJsonOption, count_option
from spectrace.cli.stopping import Stop, stop_on_signals
from spectrace.cli.timing_page import page
from spectrace.cli.timing_run import ComparisonEnd, Glance, Progress, TimingRun, Wish
from spectrace.cli.timing_table import render
from spectrace.cli.timing_words import sentences
from spectrace.cli.trace_options import MethodOption, PidArgument, TakeControlOption, UrlOption
from spectrace.errors import SpectraceError
from spectrace.model import Run, TimingMode
from spectrace.store.publish import published, refuse_unwritable

_DURATION: Any = "2m"  # Any: typer sends a default through the option's parser as well
_PRECISION = 0.01
_PRECISE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_MOST_PRECISION = 0.5
_KEPT_THE_PROBE = 1
_ASK_S = 0.05
_NS_PER_S = 1_000_000_000
_ENDS = {  # but the death of the server, of which more is known
    ComparisonEnd.TAKEN_OUT: "Somebody took the probe out before the end.",
    ComparisonEnd.PROBE_FAILED: "The probe failed before the end.",
    ComparisonEnd.LOST_CONTROL: "Another spectrace took control of the server before the end.",
    ComparisonEnd.SWITCHED: "Somebody asked for another mode before the end.",
}
_NO_MATTER = 0.01  # of a cycle: mixed phases are not worth a word


def precision_option(text: str) -> float:
    """A share of a cycle's time on the command line, such as 1% or 0.5%.

    Raises:
        BadParameter: It is none.
    """
    match = _PRECISE.fullmatch(text.strip())
    share = float(match[1]) / 100 if match else 0.0
    if not 0 < share <= _MOST_PRECISION:
        raise typer.BadParameter(f"{text!r} is no precision: write 1%, 0.5% or up to 50%.")
    return share


def milliseconds_option(text: str) -> float:
    """Milliseconds of a duration on the command line.

    Raises:
        BadParameter: It is no duration.
    """
    return 1000 * duration_option(text)


def wish_of(
    duration_s: float,
    cycles: int | None,
    precision: float | None,
    plain_decode_ms: float | None,
    seed: int,
) -> Wish:
    """What the options ask for: who asks for cycles alone gets as many, however precise."""
    return Wish(
        duration_s,
        cycles,
        _PRECISION if precision is None else precision,
        plain_decode_ms,
        seed,
        precision_ends=cycles is None or precision is not None,
    )


class TimingResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` writes.

    Attributes:
        run_id: The run, see `model.Run`.
        server_pid: Process id of the server's root process.
        engine: Such as `sglang 0.5.23`.
        worker: Class of the worker.
        device: Such as `cuda`.
        seed: Of the order of blocks.
        ended_unix_ns: When it was over.
        duration_s: How long it took.
        end: Why it ended, if not by itself: see `timing_run.ComparisonEnd`.
        comparison: What was found.
    """

    run_id: str
    server_pid: int
    engine: str
    worker: str
    device: str
    seed: int
    ended_unix_ns: int
    duration_s: float
    end: ComparisonEnd | None
    comparison: Comparison


@dataclass(frozen=True)
class Sync:
    """Whether blocks of mode `sync` may be, as far as the command line says.

    Attributes:
        wanted: They may be.
        agreed: Nobody needs to be asked any more.
    """

    wanted: bool
    agreed: bool


def page_of(result: TimingResult) -> str:
    """The result as a page."""
    parts = (result.engine, result.worker, result.device, f"process {result.server_pid}")
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(result.ended_unix_ns / _NS_PER_S))
    made = (when, f"{result.duration_s:.0f} s", f"seed {result.seed}")
    server = " · ".join(part for part in (*parts, *made) if part)
    return page(result.comparison, server, msgspec.json.encode(result))


class _Closing(Progress, Protocol):
    def close(self) -> None: ...


def compare_timing(  # noqa: PLR0913, PLR0917 - the options of the command
    pid: PidArgument = None,
    url: UrlOption = None,
    duration: Annotated[
        float,
        typer.Option(
            parser=duration_option,
            metavar="TIME",
            help=f"Take no longer than this; {_DURATION} if not given.",
            show_default=False,
        ),
    ] = _DURATION,
    cycles: Annotated[
        int | None,
        count_option("N", "Enough when N cycles of each mode count, at the end of a round."),
    ] = None,
    precision: Annotated[
        float | None,
        typer.Option(
            parser=precision_option,
            metavar="PERCENT",
            help="Enough when no interval reaches further than this part of a cycle's time; what "
            f"is smaller counts as no difference. {_PRECISION:.0%} if not given; with --cycles it "
            "ends nothing then.",
            show_default=False,
        ),
    ] = None,
    no_sync: Annotated[
        bool, typer.Option("--no-sync", help="Leave out the mode that slows the server.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Agree to the blocks that slow the server.")
    ] = False,
    plain_decode: Annotated[
        float | None,
        typer.Option(
            parser=milliseconds_option,
            metavar="TIME",
            help="What a plain decode of the same batch takes on average, such as 11.1ms: gives "
            "the accept length at which each mode says that speculation pays.",
            show_default=False,
        ),
    ] = None,
    json: ResultJsonOption = False,
    html: HtmlOption = None,
    force: ForceOption = False,
    seed: Annotated[int, typer.Option(min=0, help="Of the random order of the blocks.")] = 0,
    take_control: TakeControlOption = False,
    method: MethodOption = Method.AUTO,
) -> None:
    """Time a running server in every mode by turns: what each shows, hides and costs."""
    sync = Sync(wanted=not no_sync, agreed=yes)
    if sync.wanted and not sync.agreed and not sys.stdin.isatty():
        raise SpectraceError(
            "Blocks of sync timing slow the server while they last: agree to them with --yes, or "
            "leave them out with --no-sync.",
            exit_code=2,
        )
    if html is not None:
        refuse_unwritable(html, force=force)
    console = Console(stderr=True) if json else OutputConsole()
    progress = progress_on(console)
    wish = wish_of(duration, cycles, precision, plain_decode, seed)
    options = Options(take_control=take_control, method=method)
    with stop_on_signals() as stop:
        ring_file.sweep()  # what a killed spectrace and then a killed server left behind
        run = find(pid, url)
        result, code = measure(run, options, wish, sync, progress, stop)
        try:
            if html is not None:
                with published(html, force=force) as temporary:
                    temporary.write_text(page_of(result), "utf-8")
        finally:  # what took minutes to measure is shown wherever it can be
            if json:
                sys.stdout.write(msgspec.json.encode(result).decode() + "\n")
            else:
                console.print()
                console.print(render(result.comparison), highlight=False)
        if html is not None:
            progress.note(f"The page is in {html}.")
    raise typer.Exit(code)


def measure(  # noqa: PLR0913, PLR0917 - each is a part that tests replace
    run: Run, options: Options, wish: Wish, sync: Sync, progress: _Closing, stop: Stop
) -> tuple[TimingResult, int]:
    """Compares the modes on one server, and leaves it as it was.

    Args:
        run: The server.
        options: How to attach.
        wish: When it is long enough.
        sync: Whether blocks of mode `sync` may be.
        progress: Where to show it.
        stop: Ends it; what came until then is compared.

    Returns:
        What was found, and the exit code: 0, 1 where the probe is still in, 3 where the server
        has ended.

    Raises:
        SpectraceError: The server cannot be attached to, or somebody else controls it.
    """
    ranks = ", ".join(f"{rank.name} (process {rank.pid})" for rank in run.ranks)
    progress.note(f"Attaching to server {run.server_pid}: {ranks}.")
    session = TraceSession(run, options=options)
    with session:
        facts = session.facts()
        if not facts.controls:
            raise SpectraceError(
                f"{controller_of(facts).capitalize()} controls how server {run.server_pid} is "
                "timed, and this spectrace could only read along: end that one, or add "
                "--take-control."
            )
        timing = TimingRun(session, _switcher(session), wish, progress, stop)
        with _as_it_was(session, timing, progress):
            try:
                glance = timing.look()
                if glance is not None:
                    agreed = _agreed(sync, glance, timing, progress)
                    timing.run(timing.modes(with_sync=agreed))
            finally:
                progress.close()
        end = session.end
        outs = session.detach()
        timing.ledger.add(session.last_cycles)
    facts = session.facts()
    removals = tuple(
        removal_of(rank.name, out) for rank, out in zip(facts.ranks, outs, strict=True)
    )
    died = end is End.SERVER_DIED
    how = (who_ended(facts.ranks),) if died else ()
    living = of_the_living(removals, facts.ranks) if died else removals
    for line in (*stall_lines(tuple(session.stall()), over=True), *how, *removal_lines(living)):
        progress.note(line)
    found = timing.result()
    cut_off = ComparisonEnd(end.value) if end is not None else timing.outpaced
    result = TimingResult(
        run_id=run.run_id,
        server_pid=run.server_pid,
        engine=facts.engine,
        worker=facts.worker,
        device=facts.device,
        seed=wish.seed,
        ended_unix_ns=time.time_ns(),
        duration_s=timing.passed_s(),
        end=cut_off,
        comparison=msgspec.structs.replace(
            found, sentences=sentences(found, _why_cut_off(cut_off, how), stopped=stop.requested)
        ),
    )
    if died:
        return result, SERVER_DIED
    kept = not all(removal.removed or removal.left_to for removal in removals)
    return result, _KEPT_THE_PROBE if kept else 0


def _why_cut_off(end: ComparisonEnd | None, how: tuple[str, ...]) -> str:
    """What ended it early, in sentences, empty where nothing did; `how` of a server that died."""
    if end is None:
        return ""
    return " ".join(how) or _ENDS.get(end, "The server ended.")


def _switcher(
    session: TraceSession,
) -> Callable[[TimingMode, Callable[[float], None]], list[Switch]]:
    """What asks all ranks for another mode, late ones too, while this spectrace controls them."""

    def switch(mode: TimingMode, sleep: Callable[[float], None]) -> list[Switch]:
        return modes.switch(
            session.run,
            mode,
            sleep,
            take_control=True,
            controls=lambda: session.facts().controls,
        )

    return switch


@contextmanager
def _as_it_was(session: TraceSession, timing: TimingRun, progress: Progress) -> Iterator[None]:
    """Has the server timed as before at the end, for whoever reads on or comes just then.

    Where somebody has taken control, or asked for a mode, they time it as they like.
    """
    before = None
    with suppress(SpectraceError):  # it has ended at once
        before = modes.asked_of(session.run)
    try:
        yield
    finally:
        ours = timing.outpaced is None and session.facts().controls
        if before is not None and session.end is None and ours:
            try:
                _switcher(session)(before, time.sleep)
            except OutpacedError as error:
                whose = f"in mode {error.mode}" if error.mode else "to whoever took control"
                progress.note(f"The server is left {whose}: somebody else has just asked for it.")
            except SpectraceError as error:
                if session.end is None:  # else the probe has just been taken out
                    progress.note(str(error))


def _agreed(sync: Sync, glance: Glance, timing: TimingRun, progress: Progress) -> bool:
    """Whether there are to be blocks of mode `sync`; says before what they will cost."""
    if not sync.wanted:
        return False
    if timing.ledger.sync_is_host:
        progress.note("On the CPU there is nothing to synchronize with: sync blocks cost nothing.")
        return True
    progress.note(announcement(glance, len(timing.modes(with_sync=True))))
    if sync.agreed:
        return True
    progress.note("Go on with them? Type y, or n to compare the other modes alone.")
    with timing.asking():
        return answer(sys.stdin, timing.keep_reading, timing.is_over).lower() in {"y", "yes"}


def announcement(glance: Glance, count: int) -> str:
    """What the blocks of mode `sync` will cost.

    Args:
        glance: What the server did before.
        count: How many modes there are with `sync`.
    """
    return " ".join(_announcement(glance, count))


def _announcement(glance: Glance, count: int) -> Iterator[str]:
    cycle, works, mixed = map(
        numbers.milliseconds, (glance.cycle_ms, glance.works_ms, glance.mixed_ms)
    )
    likely, most = map(numbers.share, (glance.likely_sync_costs, glance.most_sync_costs))
    yield f"One of {count} blocks is timed with a synchronize at every boundary."
    if glance.mode is TimingMode.SYNC:
        yield f"The server is timed so already: its cycles of {cycle} do not become longer."
        return
    yield "What the host does while the device works then no longer overlaps."
    if glance.mode is TimingMode.OFF:
        yield (
            f"How much of a cycle of {cycle} that is, is not known, since the server was timed "
            "without phases: it can become longer by 100 % at most."
        )
    elif glance.most_sync_costs - glance.likely_sync_costs < _NO_MATTER:
        yield f"A cycle of {cycle} becomes longer by {works} at most, {most}."
    else:
        yield (
            f"A cycle of {cycle} becomes longer by up to {works}, {likely}, if the host only waits "
            f"where it waits for the device ({mixed}). How much it works there too is not known: "
            f"{most} is the most."
        )
    yield "Requests are that much slower meanwhile."


def answer(stream: TextIO, meanwhile: Callable[[], None], is_over: Callable[[], bool]) -> str:
    """Waits for a line while the session is read on; empty where it is over instead.

    Args:
        stream: Where the line comes from.
        meanwhile: Reads on.
        is_over: Ends the waiting.
    """
    while not is_over():
        meanwhile()
        if select.select([stream], [], [], _ASK_S)[0]:
            return stream.readline().strip()
    return ""
