"""The spans of a recording, trace by trace, for the formats that hold spans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from opentelemetry.sdk.trace import ReadableSpan

from spectrace.errors import SpectraceError
from spectrace.model import Cycle, Run
from spectrace.otlp.encode import Encoder
from spectrace_exporters import Recorded


def traces(recorded: Recorded) -> Iterator[list[ReadableSpan]]:
    """The spans of each cycle, the root first.

    Raises:
        SpectraceError: A cycle has more phases on a rank than spans can be numbered.
    """
    encoders = {run.run_id: (run, Encoder()) for run in recorded.runs}
    for cycle in recorded.cycles():
        run, encoder = encoders.setdefault(cycle.run_id, (_unknown(cycle), Encoder()))
        yield _spans(encoder, run, cycle)


def _spans(encoder: Encoder, run: Run, cycle: Cycle) -> list[ReadableSpan]:
    try:
        return encoder.spans(run, cycle)
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


def batches(recorded: Recorded, most: int) -> Iterator[Sequence[ReadableSpan]]:
    """Whole traces, put together up to `most` spans; a trace with more stands alone."""
    waiting: list[ReadableSpan] = []
    for spans in traces(recorded):
        if waiting and len(waiting) + len(spans) > most:
            yield waiting
            waiting = []
        waiting += spans
    if waiting:
        yield waiting
