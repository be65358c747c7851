"""Where the server traces its requests itself, readers are told which spans they have."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from opentelemetry import baggage
from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

from spectrace.collect.assembler import Assembler
from spectrace.collect.reader import TextRecord
from spectrace.model import Cycle
from spectrace.probe.layout import Command, RecordType, Word
from spectrace.probe.request_spans import RequestSpans, span_of
from tests.helpers import simulated_scheduler as simulated
from tests.helpers.anything import any_run
from tests.helpers.probe_ring import decoded
from tests.helpers.simulated_scheduler import Batch, Request
from tests.unit.test_probe_tracer import Traced

SPAN = "000000000000000000000000000000ab-00000000000000cd"
RUN = any_run()


def context_of(trace_id: int, span_id: int) -> Any:
    """What SGLang holds of a request: a real context of OpenTelemetry with other things in it."""
    span = NonRecordingSpan(SpanContext(trace_id, span_id, is_remote=True))
    return set_span_in_context(span, baggage.set_baggage("user", "a"))


def request(rid: str, context: Any) -> Request:
    """A request whose spans hang below the one in `context`."""
    made = Request(rid)
    trace_ctx = SimpleNamespace(tracing_enable=True, root_span_context=context)
    made.time_stats = SimpleNamespace(trace_ctx=trace_ctx)  # type: ignore[attr-defined]  # as SGLang
    return made


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    """A scheduler that traces its requests, with the tracer armed."""
    for _ in simulated.installed():
        it = Traced(tmp_path / "test.ring")
        it.scheduler.server_args = SimpleNamespace(enable_trace=True)  # type: ignore[attr-defined]  # as SGLang
        yield it
        it.view.set_word(Word.COMMAND, Command.DETACH)
        it.scheduler.on_idle()
        it.view.close()
        it.assert_untouched()


def texts(traced: Traced) -> list[tuple[int, int, str]]:
    """The texts in the ring: type, number, and what they say."""
    traced.rows()  # what is held back is written
    records = decoded(traced.path)
    return [(r.kind, r.interned, r.text.decode()) for r in records if isinstance(r, TextRecord)]


def cycles(traced: Traced) -> list[Cycle]:
    """The cycles as a reader puts them together."""
    traced.rows()
    assembler = Assembler(RUN)
    return assembler.add("TP0", decoded(traced.path), 0) + assembler.close()


def test_a_request_and_its_span_are_told_once(traced: Traced) -> None:
    """The span stands before the id, so that whoever knows the id knows the span."""
    batch = Batch([request("a", context_of(0xAB, 0xCD)), request("b", None)])
    for _ in range(3):
        traced.scheduler.step(batch)
    traced.scheduler.on_idle()

    assert texts(traced) == [
        (RecordType.SPAN, 1, SPAN),
        (RecordType.REQUEST, 1, "a"),
        (RecordType.REQUEST, 2, "b"),
    ]


def test_cycles_know_the_spans_of_their_requests(traced: Traced) -> None:
    """In every cycle of the request; one without a span has none."""
    batch = Batch([request("a", context_of(0xAB, 0xCD)), Request("b")])
    for _ in range(2):
        traced.scheduler.step(batch)
    traced.scheduler.on_idle()

    spans = [[row.span for row in cycle.requests or ()] for cycle in cycles(traced)]
    assert spans == [[SPAN, None]] * 2


def test_a_reader_that_joins_is_told_again(traced: Traced) -> None:
    """Like the ids, the spans of requests that still run."""
    batch = Batch([request("a", context_of(0xAB, 0xCD))])
    traced.scheduler.step(batch)
    traced.rows()  # what is held back is written
    traced.view.set_word(Word.JOINS, traced.view.word(Word.JOINS) + 1)
    traced.scheduler.step(batch)
    traced.scheduler.on_idle()

    kinds = [(kind, text) for kind, _, text in texts(traced)]
    assert kinds == [(RecordType.SPAN, SPAN), (RecordType.REQUEST, "a")] * 2


def test_a_server_that_traces_nothing_is_not_looked_at(traced: Traced) -> None:
    """Without `--enable-trace` no attribute of a request is read for it."""
    traced.scheduler.server_args = SimpleNamespace(enable_trace=False)  # type: ignore[attr-defined]  # as SGLang
    traced.scheduler.step(Batch([request("a", context_of(0xAB, 0xCD))]))
    traced.scheduler.on_idle()

    assert [kind for kind, _, _ in texts(traced)] == [RecordType.REQUEST]
    assert traced.tracer.recorder.spans is None


@pytest.mark.parametrize(
    "context",
    [
        None,
        {},
        "text",
        {"key": object()},
        {"key": SimpleNamespace(get_span_context=lambda: None)},
        {"key": SimpleNamespace(get_span_context=lambda: SimpleNamespace(trace_id="a", span_id=1))},
        {"key": SimpleNamespace(get_span_context=lambda: SimpleNamespace(trace_id=0, span_id=0))},
    ],
)
def test_what_is_no_context_is_no_span(context: object) -> None:
    """Another release may keep anything there; nothing of it may raise."""
    assert span_of(request("a", context)) == ""
    assert span_of(Request("a")) == ""


def test_what_is_known_of_requests_does_not_grow() -> None:
    """Past 4096 requests it is forgotten, and looked up again."""
    spans = RequestSpans()
    spans.look((request(str(number), context_of(1, 1)), 0, False) for number in range(10_000))

    assert len(spans._known) <= 4096


def test_a_damaged_span_is_none(traced: Traced) -> None:
    """A reader takes nothing for a span that does not look like one."""
    traced.scheduler.step(Batch([request("a", context_of(0xAB, 0xCD))]))
    traced.scheduler.on_idle()
    traced.rows()
    records = [
        replace(record, text=b"no span")
        if isinstance(record, TextRecord) and record.kind == RecordType.SPAN
        else record
        for record in decoded(traced.path)
    ]
    assembler = Assembler(RUN)
    (cycle,) = assembler.add("TP0", records, 0) + assembler.close()

    assert [row.span for row in cycle.requests or ()] == [None]
