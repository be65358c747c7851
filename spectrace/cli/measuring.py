"""Gets what a report rests on: from a recording, or from a server that is traced for a while."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from spectrace.analysis.baseline import Baseline, Source, baseline_of
from spectrace.analysis.costs import strata
from spectrace.attach import ring_file
from spectrace.attach.handle import Options
from spectrace.attach.session import TraceSession
from spectrace.attach.tapped import TappedSession
from spectrace.cli import numbers
from spectrace.cli.attach import find, trace
from spectrace.cli.page_options import duration_option
from spectrace.cli.report import Report
from spectrace.cli.screens import LineScreen
from spectrace.cli.stopping import stop_on_signals
from spectrace.cli.store_tap import StoreTap
from spectrace.errors import SpectraceError
from spectrace.measures import Measures
from spectrace.model import CycleKind, Run
from spectrace.store.measured import measure_recording, runs_of
from spectrace.store.store import CycleStore

_MOST_BYTES = 1_000_000_000
_FOREVER_S = 1e9  # thirty years
LEAST_MS, MOST_MS = 0.001, 1e6  # of a plain decode
LIVE: Any = "30s"  # Any: typer sends a default through the option's parser as well

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILE|PID|URL",
        help="What `spectrace record` wrote, the directory of a store, any process of a running "
        "server, which is then traced first, or the address of a page of spectrace.",
        show_default=False,
    ),
]
RunOption = Annotated[
    str,
    typer.Option(
        "--run",
        metavar="ID",
        help="Which run of the recording, by the start of its id; the one with the most cycles "
        "if not given.",
        show_default=False,
    ),
]
LiveDurationOption = Annotated[
    float,
    typer.Option(
        parser=duration_option,
        metavar="TIME",
        help=f"For how long a running server is traced; {LIVE} if not given.",
        show_default=False,
    ),
]
BaselineOption = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="A recording of the same server with plain decode, to hold speculation against.",
        show_default=False,
    ),
]
BaselineMsOption = Annotated[
    float | None,
    typer.Option(
        "--baseline-ms",
        metavar="MS",
        help="What a plain decode takes at the batch size that is most common, in ms.",
        show_default=False,
    ),
]


class _QuietScreen(LineScreen):
    """Says what happens to the server, and leaves the figures to the report."""

    def show(self, report: Report) -> None:
        """Nothing: the report comes at the end."""

    def ended(self, report: Report) -> None:
        """How the session ended, without its table."""
        self.say_how_it_ended(report)


def measures_of(target: str, *, run_id: str, duration_s: float) -> Measures:
    """What a report on a recording or a running server rests on.

    Args:
        target: A file, a directory, or a process.
        run_id: How the id of the run begins; of a recording.
        duration_s: For how long a running server is traced.

    Raises:
        SpectraceError: There is no such recording or server, or it has no cycles.
    """
    path = Path(target)
    if not target.isdigit() or path.exists():
        return measure_recording(path, run_id)
    return _traced(int(target), duration_s)


def other_runs(target: str, run_id: str) -> tuple[str, ...]:
    """The ids of the runs with cycles that a recording has beside one; none of a process.

    Args:
        target: As of `measures_of`.
        run_id: The one.
    """
    path = Path(target)
    if target.isdigit() and not path.exists():
        return ()
    return tuple(one for one in runs_of(path) if one != run_id)


def _traced(pid: int, duration_s: float) -> Measures:
    """Traces a server for a while and measures what came."""
    screen = _QuietScreen(Console(stderr=True))
    with stop_on_signals() as stop, tempfile.TemporaryDirectory(prefix="spectrace-") as work:
        ring_file.sweep()  # what a killed spectrace and then a killed server left behind
        run = find(pid, None)
        screen.note(f"Tracing for {numbers.milliseconds(duration_s * 1000)}.")
        kept = CycleStore(Path(work) / "store", retain_s=_FOREVER_S, max_bytes=_MOST_BYTES)
        with closing(kept) as store:
            trace(
                run,
                lambda run: TappedSession(TraceSession(run, options=Options()), [StoreTap(store)]),
                screen,
                stop,
                duration_s=duration_s,
            )
            store.flush()
            known = store.runs()
            if not known:
                raise SpectraceError(
                    f"Nothing was heard of server {pid}: try again while it answers requests."
                )
            return store.measure(known[-1].run_id)


def baseline_from(path: Path) -> tuple[Baseline, Run]:
    """Plain decode as another recording has it, of several runs the one with most of it.

    Returns:
        Plain decode, and the run of which it is.

    Raises:
        SpectraceError: There is no such recording, or it has no plain decode.
    """
    plain = runs_of(path, CycleKind.DECODE)
    measures = measure_recording(path, next(iter(plain), ""))
    found = baseline_of(strata(measures), Source.RECORDING)
    if found is None:
        raise SpectraceError(
            f"{path} has too few cycles of plain decode for a baseline: record the server without "
            "--speculative-algorithm, for half a minute while it answers requests."
        )
    return found, measures.run
