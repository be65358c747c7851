"""What official exporters send by any protocol is stored the same, to the nanosecond."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

from spectrace.model import Cycle, Run
from spectrace.otlp.encode import Encoder
from spectrace.server.token import Token
from tests.helpers.collector import OFFICIAL, Collector, collecting
from tests.helpers.otlp_in_speed import RANKS, cycle_of, run_of
from tests.helpers.page import until

pytestmark = pytest.mark.beside_others

TOKEN = Token("a-token-for-the-tests")
SHOWN = {"authorization": f"Bearer {TOKEN.text}"}


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that takes everything."""
    with collecting(tmp_path_factory.mktemp("open")) as running:
        yield running


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that wants the token."""
    with collecting(tmp_path_factory.mktemp("guarded"), TOKEN) as running:
        yield running


def spans_of(run: Run, *cycles: Cycle) -> list[ReadableSpan]:
    """What an exporter is given."""
    return [span for cycle in cycles for span in Encoder().spans(run, cycle)]


def stored(collector: Collector, run: Run, count: int) -> list[Cycle]:
    """The cycles of a run, the lowest number first, once there are `count`."""
    until(lambda: collector.store.stats(run.run_id).cycles == count)
    return collector.store.cycles(run.run_id)[::-1]


@pytest.mark.parametrize(("place", "protocol"), list(enumerate(OFFICIAL)))
def test_cycles_come_in_the_same_by_every_protocol(
    collector: Collector, place: int, protocol: str
) -> None:
    """Eight ranks with both lanes; not one ns, count or name differs."""
    run = run_of(f"{place:032x}")
    sent = [cycle_of(run, number) for number in range(20)]
    exporter = OFFICIAL[protocol](collector, {})
    try:
        assert exporter.export(spans_of(run, *sent)) is SpanExportResult.SUCCESS
        assert stored(collector, run, len(sent)) == sent
        assert collector.store.runs()[-1] == run
    finally:
        exporter.shutdown()


def test_ranks_from_two_machines_meet_in_one_cycle(collector: Collector) -> None:
    """Each sends its own half, one by HTTP and one by gRPC; all are in the same Cycle."""
    whole = run_of("a" * 32)
    cycle = cycle_of(whole, 7)
    for protocol, share in (("grpc", slice(0, 4)), ("http/json", slice(4, 8))):
        half = replace(whole, ranks=whole.ranks[share])
        exporter = OFFICIAL[protocol](collector, {})
        spans = spans_of(half, replace(cycle, ranks=cycle.ranks[share]))
        assert exporter.export(spans) is SpanExportResult.SUCCESS
        exporter.shutdown()
    until(lambda: _ranks(collector, whole, 7) == RANKS)
    assert collector.store.cycle(whole.run_id, "", 7) == cycle
    assert next(run for run in collector.store.runs() if run.run_id == whole.run_id) == whole


def _ranks(collector: Collector, run: Run, number: int) -> int:
    found = collector.store.cycle(run.run_id, "", number)
    return 0 if found is None else len(found.ranks)


def test_what_is_sent_twice_counts_once(collector: Collector) -> None:
    """A sender that got no answer sends again, and to whom it sends does not matter."""
    run = run_of("b" * 32)
    sent = [cycle_of(run, number) for number in range(3)]
    for protocol in OFFICIAL:
        exporter = OFFICIAL[protocol](collector, {})
        assert exporter.export(spans_of(run, *sent)) is SpanExportResult.SUCCESS
        exporter.shutdown()
    assert stored(collector, run, len(sent)) == sent
    collector.store.flush()
    assert collector.store.stats(run.run_id).cycles == len(sent)


def test_a_request_that_somebody_traces_is_kept_beside_the_cycles(collector: Collector) -> None:
    """A tracer in another program, with the names that SGLang gives."""
    provider = TracerProvider(resource=Resource({"service.name": "sglang"}))
    exporter = GrpcExporter(endpoint=collector.grpc, insecure=True)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("sglang server")
    with (
        tracer.start_as_current_span(" Req 0123abcd", attributes={"rid": "0123abcd-4567"}),
        tracer.start_as_current_span("Scheduler [TP 0]"),
        tracer.start_as_current_span("decode_loop"),
    ):
        pass
    provider.shutdown()
    # A span is sent as it ends, so the request's own comes last.
    requests = until(lambda: [one for one in collector.requests() if len(one["spans"]) == 3])
    assert [request["ids"] for request in requests] == [["0123abcd-4567"]]
    [request] = requests
    assert (request["service"], request["name"], request["failed"]) == (
        "sglang",
        "Req 0123abcd",
        False,
    )
    assert [(name, depth) for name, depth, *_ in request["spans"]] == [
        ("Req 0123abcd", 0),
        ("Scheduler [TP 0]", 1),
        ("decode_loop", 2),
    ]


@pytest.mark.parametrize("protocol", OFFICIAL)
def test_without_the_token_nothing_comes_in(guarded: Collector, protocol: str) -> None:
    """Nor with another one; with it everything does."""
    run = run_of("c" * 32)
    for headers in ({}, {"authorization": f"Bearer {TOKEN.text}x"}):
        exporter = OFFICIAL[protocol](guarded, headers)
        result = exporter.export(spans_of(run, cycle_of(run, 1)))
        exporter.shutdown()
        assert result is SpanExportResult.FAILURE
    assert guarded.store.stats("c" * 32).cycles == 0
    mine = run_of(f"{list(OFFICIAL).index(protocol):032x}")
    exporter = OFFICIAL[protocol](guarded, SHOWN)
    assert exporter.export(spans_of(mine, cycle_of(mine, 1))) is SpanExportResult.SUCCESS
    exporter.shutdown()
    assert stored(guarded, mine, 1) == [cycle_of(mine, 1)]
