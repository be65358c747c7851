"""The OTLP exporter against endpoints that are dead, slow, refusing, or picky."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from spectrace_exporters import Exporter, ExporterFactory
from spectrace_exporters.otlp import MAX_BATCH_SPANS, OtlpExporter

from spectrace.errors import SpectraceError
from spectrace.model import (
    Cycle,
    Phase,
    PhaseName,
    RequestRow,
)
from tests.helpers.anything import any_cycle, any_rank, any_run
from tests.integration.attach_targets import wait_until

pytestmark = pytest.mark.beside_others

RUN = any_run()
ROWS = (RequestRow(request_id="a", correct_drafts=2, output_tokens=3),)
SPANS = 4  # of one cycle: root, rank, host, draft


def cycle(number: int, requests: tuple[RequestRow, ...] | None = ROWS) -> Cycle:
    """A cycle of one rank that only drafts: four spans."""
    draft = Phase(name=PhaseName.DRAFT, start_ns=100, end_ns=120, of_cycle=number)
    return any_cycle(number, any_rank(phases=(draft,)), requests=requests)


def cycles(count: int) -> list[Cycle]:
    """So many cycles."""
    return [cycle(number) for number in range(count)]


class Backend(ThreadingHTTPServer):
    """A backend that answers what `answers` say, one after the other, and then 200."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: list[tuple[int, bytes]] = []
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        """The base endpoint."""
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> list[tuple[str, str]]:
        """All spans that came, as (service, name)."""
        return [
            (group.resource.attributes[0].value.string_value, span.name)
            for request in self.requests
            for group in request.resource_spans
            for scoped in group.scope_spans
            for span in scoped.spans
        ]

    def numbers(self) -> list[int]:
        """The numbers of the cycles whose own spans came, in this order."""
        return [
            pair.value.int_value
            for request in self.requests
            for group in request.resource_spans
            for scoped in group.scope_spans
            for span in scoped.spans
            if not span.parent_span_id
            for pair in span.attributes
            if pair.key == "spectrace.cycle.number"
        ]


class Handler(BaseHTTPRequestHandler):
    """Keeps what came and answers."""

    server: Backend

    def do_POST(self) -> None:
        """Receives spans; http.server calls it by this name."""
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append(ExportTraceServiceRequest.FromString(body))
        self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
        status, answer = self.server.answers.pop(0) if self.server.answers else (200, b"")
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture
def backend() -> Iterator[Backend]:
    """A running backend."""
    with Backend() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_the_exporter_is_what_the_entry_points_promise(backend: Backend) -> None:
    """Its class is a factory of exporters, which the type checker sees too."""
    factory: ExporterFactory = OtlpExporter
    exporter: Exporter = factory(backend.url, RUN)

    assert exporter.close().lost_cycles == 0


def test_cycles_arrive_without_anybody_closing(backend: Backend) -> None:
    """They are sent after the interval, to the path of the signal."""
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.01)
    exporter.add(cycles(2))
    wait_until(lambda: exporter.stats.sent_cycles == 2)

    assert exporter.stats.sent_spans == 2 * SPANS
    assert backend.spans().count(("spectrace-host", "decode_cycle")) == 2
    exporter.close(timeout_s=20.0)


def test_no_request_has_more_spans_than_a_batch(backend: Backend) -> None:
    """300 cycles of 4 spans go in several requests of at most 512 spans."""
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.01)
    exporter.add(cycles(300))

    assert exporter.close(timeout_s=10.0).sent_spans == 300 * SPANS
    sizes = [
        sum(len(scoped.spans) for group in request.resource_spans for scoped in group.scope_spans)
        for request in backend.requests
    ]
    assert sum(sizes) == 300 * SPANS
    assert max(sizes) <= MAX_BATCH_SPANS


def test_a_cycle_without_results_is_held_back(backend: Backend) -> None:
    """With results it goes at once, without them after the time to hold."""
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.01, hold_s=3.0)
    began_s = time.monotonic()
    exporter.add([cycle(1, None), cycle(2, None), cycle(3)])
    wait_until(lambda: exporter.stats.sent_cycles >= 1)
    exporter.add([cycle(2)])
    wait_until(lambda: exporter.stats.sent_cycles == 3)

    assert time.monotonic() - began_s >= 3.0
    assert exporter.close(timeout_s=20.0).sent_cycles == 3
    assert backend.numbers() == [3, 2, 1]


def test_closing_a_dead_endpoint_takes_a_second_and_says_what_is_lost(
    dead_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """The official exporter sleeps between its tries; closing ends that and counts."""
    exporter = OtlpExporter(dead_url, RUN, interval_s=0.01)
    exporter.add(cycles(1000))
    wait_until(lambda: bool(exporter.stats.last_error))
    before = time.monotonic()
    stats = exporter.close(timeout_s=1.0)

    assert time.monotonic() - before < 5  # of a request's 10, on a machine however busy
    assert stats.sent_cycles == 0
    assert stats.lost_cycles == 1000
    assert stats.last_error == "connection refused"
    assert "1000 cycles may not have arrived" in stats.loss()
    assert capfd.readouterr() == ("", "")


def test_closing_a_mute_endpoint_takes_a_second_too(mute_url: str) -> None:
    """A request under way cannot be known to have arrived: it counts as lost."""
    exporter = OtlpExporter(mute_url, RUN, interval_s=0.0)
    exporter.add(cycles(1000))
    time.sleep(0.1)
    before = time.monotonic()
    stats = exporter.close(timeout_s=1.0)

    assert time.monotonic() - before < 5  # of a request's 10, on a machine however busy
    assert (stats.sent_cycles, stats.dropped_cycles) == (0, 1000)
    assert stats.last_error == "no answer"
    assert exporter.close(timeout_s=1.0) == stats


def test_a_mute_endpoint_never_blocks_who_adds(mute_url: str) -> None:
    """10,000 cycles are taken in well under 0.1 ms each; the oldest are dropped and counted."""
    exporter = OtlpExporter(mute_url, RUN, interval_s=0.0, max_spans=100 * SPANS)
    try:
        longest_s = 0.0
        for one in cycles(10_000):
            before = time.perf_counter()
            exporter.add([one])
            longest_s = max(longest_s, time.perf_counter() - before)
        dropped = exporter.stats.dropped_cycles
    finally:
        stats = exporter.close(timeout_s=0.2)

    assert longest_s < 5  # on a machine however busy; a request would take 10 s
    assert dropped >= 10_000 - 100 - MAX_BATCH_SPANS // SPANS
    assert stats.dropped_cycles == 10_000


def test_what_is_refused_counts_as_failed(
    backend: Backend, capfd: pytest.CaptureFixture[str]
) -> None:
    """400 is final: the cycles are not sent again, and nothing shows on the terminal."""
    backend.answers = [(400, b"")]
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.0)
    exporter.add(cycles(2))
    stats = exporter.close(timeout_s=20.0)

    assert (stats.failed_cycles, stats.failed_spans) == (2, 2 * SPANS)
    assert "400" in stats.last_error
    assert len(backend.requests) == 1
    assert capfd.readouterr() == ("", "")


def test_an_overloaded_backend_gets_a_second_try(backend: Backend) -> None:
    """503 is tried again after about a second, and then counts as sent."""
    backend.answers = [(503, b"")]
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.0)
    exporter.add(cycles(1))
    stats = exporter.close(timeout_s=20.0)

    assert (stats.sent_cycles, stats.lost_cycles) == (1, 0)
    assert len(backend.requests) == 2


def test_rejected_spans_are_heard_of(backend: Backend) -> None:
    """The official exporter does not read partial success, this one does."""
    partial = ExportTracePartialSuccess(rejected_spans=3, error_message="too old")
    answer = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    backend.answers = [(200, answer)]
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.0)
    exporter.add(cycles(1))
    stats = exporter.close(timeout_s=20.0)

    assert (stats.sent_cycles, stats.rejected_spans, stats.last_error) == (1, 3, "too old")
    assert "3 were rejected" in stats.loss()


def test_an_answer_that_is_no_protobuf_is_none(backend: Backend) -> None:
    """A proxy may answer 200 with a page: nothing has arrived where it should."""
    backend.answers = [(200, b"<html>ok</html>")]
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.0)
    exporter.add(cycles(1))

    stats = exporter.close(timeout_s=20.0)
    assert (stats.sent_cycles, stats.failed_cycles) == (0, 1)
    assert "not that of an OTLP receiver" in stats.last_error


def test_a_cycle_that_cannot_be_encoded_does_not_end_the_worker(backend: Backend) -> None:
    """It counts as failed and the next one is sent."""
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.0)
    exporter.add([replace(cycle(1), ranks=())])
    wait_until(lambda: exporter.stats.failed_cycles == 1)
    exporter.add([cycle(2)])
    stats = exporter.close(timeout_s=20.0)

    assert (stats.sent_cycles, stats.failed_cycles) == (1, 1)
    assert "no rank" in stats.last_error


def test_a_better_known_run_is_used_from_then_on(backend: Backend) -> None:
    """The engine is known only after the probe has spoken."""
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.0)
    exporter.run = replace(RUN, engine="sglang 0.5.23")
    exporter.add([cycle(1)])
    exporter.close(timeout_s=20.0)

    values = [
        pair.value.string_value
        for pair in backend.requests[0].resource_spans[0].resource.attributes
    ]
    assert "sglang 0.5.23" in values


def test_the_environment_names_service_headers_and_endpoint(
    backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTEL_* variables do what the specification says."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{backend.url}/somewhere")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "llama")
    exporter = OtlpExporter(None, RUN, interval_s=0.0)
    exporter.add(cycles(1))
    exporter.close(timeout_s=20.0)

    assert exporter.endpoint == f"{backend.url}/somewhere"
    assert backend.headers[0]["authorization"] == "Bearer x"
    assert {service for service, _ in backend.spans()} == {"llama-host"}


def test_a_closed_exporter_takes_nothing(backend: Backend) -> None:
    """What is added after the end is neither sent nor counted."""
    exporter = OtlpExporter(backend.url, RUN, interval_s=0.0)
    stats = exporter.close(timeout_s=20.0)
    exporter.add(cycles(1))

    assert exporter.stats == stats
    assert backend.requests == []


def test_what_is_no_endpoint_is_refused_at_once() -> None:
    """Before a thread is started."""
    threads = threading.active_count()
    with pytest.raises(SpectraceError, match="no URL"):
        OtlpExporter("localhost:4318", RUN)

    assert threading.active_count() == threads
