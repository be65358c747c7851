"""The spans of a recording, trace by trace, for the formats that hold spans."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from opentelemetry.sdk.trace import ReadableSpan

from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Run
from spectrace.otlp.encode import Encoder
from spectrace.otlp.shape import Trace, trace_of
from spectrace_exporters import Recorded

_Written = TypeVar("_Written")


def traces(recorded: Recorded) -> Iterator[list[ReadableSpan]]:
    """The spans of each cycle as those of the SDK, the root first.

    Raises:
        SpectraceError: A cycle has more phases on a rank than spans can be numbered.
    """
    encoders: dict[str, Encoder] = {}  # a resource is made once for each
    for run, cycle in _cycles(recorded):
        encoder = encoders.setdefault(run.run_id, Encoder())
        yield _written(cycle, lambda cycle: encoder.spans(run, cycle))  # noqa: B023 - called now


def batches(recorded: Recorded, most: int) -> Iterator[tuple[Run, list[Trace]]]:
    """Whole traces of one run, put together up to `most` spans; one with more stands alone.

    Raises:
        SpectraceError: As `traces`.
    """
    waiting: list[Trace] = []
    spans = 0
    of_run: Run | None = None
    for run, cycle in _cycles(recorded):
        trace = _written(cycle, trace_of)
        spans += len(trace.spans)
        if of_run is not None and waiting and (run is not of_run or spans > most):
            yield of_run, waiting
            waiting, spans = [], len(trace.spans)
        waiting.append(trace)
        of_run = run
    if of_run is not None:
        yield of_run, waiting


def _cycles(recorded: Recorded) -> Iterator[tuple[Run, Cycle]]:
    """Every cycle with its run."""
    runs = {run.run_id: run for run in recorded.runs}
    for cycle in recorded.cycles():
        if cycle.run_id not in runs:
            runs[cycle.run_id] = _unknown(cycle)
        yield runs[cycle.run_id], cycle


def _written(cycle: Cycle, write: Callable[[Cycle], _Written]) -> _Written:
    try:
        return write(cycle)
    except ValueError as error:
        raise SpectraceError(f"Cycle {cycle.number} cannot be written as spans: {error}") from error


def _unknown(cycle: Cycle) -> Run:
    """A run of which nothing was written down but its cycles."""
    return Run(
        run_id=cycle.run_id,
        host="",
        server_pid=0,
        command=(),
        ranks=(),
        anchor_unix_ns=0,
        anchor_monotonic_ns=0,
    )


def trace_id_of(span: ReadableSpan) -> str:
    """32 hexadecimal digits."""
    return f"{span.get_span_context().trace_id:032x}"  # type: ignore[union-attr]  # all of ours have one


def span_id_of(span: ReadableSpan) -> str:
    """16 hexadecimal digits."""
    return f"{span.get_span_context().span_id:016x}"  # type: ignore[union-attr]  # all of ours have one


def bounds_ns(span: ReadableSpan) -> tuple[int, int]:
    """Start and end, UNIX times in ns."""
    return span.start_time or 0, span.end_time or 0
