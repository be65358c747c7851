"""Metrics pushed over OTLP: to endpoints that take them, refuse them, or never answer."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from spectrace_exporters.otlp_metrics import OtlpMetrics

from spectrace.metrics.meter import Facts, Meter
from tests.helpers.metered import (
    Endpoint,
    Expected,
    assert_equal_sums,
    endpoint,
    key,
    metrics_of,
    numbers_of,
    resource_of,
)
from tests.helpers.recorded import cycle_of, run_of
from tests.integration.attach_targets import wait_until

pytestmark = pytest.mark.beside_others

CYCLES = [cycle_of(number, ranks=3) for number in range(40)]
OFTEN_S = 0.02
_ALONE = """
import sys
from spectrace.metrics.meter import Meter
from spectrace_exporters.otlp_metrics import OtlpMetrics
stats = OtlpMetrics(sys.argv[1], Meter().read, protocol="grpc").close(timeout_s=20.0)
sys.exit(f"it arrived: {stats}" if stats.sent else 0)
"""


@pytest.fixture
def backend() -> Iterator[Endpoint]:
    """A receiver of metrics."""
    with endpoint() as server:
        yield server


@pytest.fixture
def meter() -> Meter:
    """A meter that has counted the cycles."""
    meter = Meter()
    meter.put_run(run_of(3))
    meter.add(CYCLES)
    meter.settle()
    return meter


def test_what_arrives_are_the_sums_of_the_cycles(backend: Endpoint, meter: Meter) -> None:
    """Both lanes of three ranks: every counter, count, sum and bucket, to the path of metrics."""
    stats = OtlpMetrics(backend.url, meter.read).close(timeout_s=10.0)

    assert (stats.sent, stats.failed, stats.loss()) == (1, 0, "")
    assert backend.paths == ["/v1/metrics"]
    assert_equal_sums(backend.requests[0], Expected(CYCLES))


def test_metrics_say_what_they_are_and_whose(backend: Endpoint, meter: Meter) -> None:
    """Units of UCUM, cumulative monotonic sums since the start, and the run as the resource."""
    meter.tell(run_of(3).run_id, Facts(tracing={"TP0": True}))
    before_ns = time.time_ns()
    OtlpMetrics(backend.url, meter.read).close(timeout_s=10.0)

    [request] = backend.requests
    metrics = metrics_of(request)
    durations = metrics["spectrace.cycle.duration"]
    assert durations.unit == "s"
    cumulative = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert durations.histogram.aggregation_temporality == cumulative
    point = durations.histogram.data_points[0]
    assert not point.HasField("min")
    assert point.start_time_unix_nano < before_ns <= point.time_unix_nano
    tokens = metrics["spectrace.output.tokens"]
    assert (tokens.unit, tokens.sum.is_monotonic) == ("{token}", True)
    assert metrics["spectrace.rank.tracing"].gauge.data_points[0].as_int == 1
    resource = resource_of(request)
    assert resource["service.name"] == "spectrace"
    assert resource["service.instance.id"] == f"node/{run_of().run_id}"
    assert (resource["host.name"], resource["spectrace.engine"]) == ("node", "sglang 0.5.23")


def test_metrics_are_pushed_every_so_often(
    backend: Endpoint, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTEL_METRIC_EXPORT_INTERVAL says how often; each push has all that was counted by then."""
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    pusher = OtlpMetrics(backend.url, meter.read)
    wait_until(lambda: pusher.stats.sent >= 2)
    more = [cycle_of(number, ranks=3) for number in range(40, 50)]
    meter.add(more)
    meter.settle()
    sent = pusher.stats.sent
    wait_until(lambda: pusher.stats.sent > sent + 1)

    assert_equal_sums(backend.requests[0], Expected(CYCLES))
    assert_equal_sums(backend.requests[-1], Expected(CYCLES + more))
    pusher.close(timeout_s=10.0)


def test_deltas_add_up_though_a_push_failed(
    backend: Endpoint, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was in a push that was refused is in the next one, once."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    ok, refused = (200, "application/x-protobuf", b""), (400, "text/plain", b"")
    backend.answers = [ok, refused]
    pusher = OtlpMetrics(backend.url, meter.read, interval_s=600)
    for number in (97, 98, 99):
        pusher._push()
        meter.add([cycle_of(number, ranks=3)])
        meter.settle()
    stats = pusher.close(timeout_s=10.0)

    cycles = key("spectrace.cycles", kind="speculative")
    counts = [numbers_of(request)[cycles] for request in backend.requests]
    assert counts == [len(CYCLES), 1, 1 + 1, 1]
    delta = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    for request in backend.requests:
        assert metrics_of(request)["spectrace.cycles"].sum.aggregation_temporality == delta
    assert (stats.sent, stats.failed, stats.loss()) == (3, 1, "")


def test_the_environment_names_endpoint_headers_and_service(
    backend: Endpoint, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTEL_* variables do what the specification says."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{backend.url}/somewhere")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "authorization=Bearer%20x")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "llama")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "cluster=blue,host.name=not-this")
    OtlpMetrics(None, meter.read).close(timeout_s=10.0)

    assert backend.paths == ["/somewhere"]
    assert backend.headers[0]["authorization"] == "Bearer x"
    resource = resource_of(backend.requests[0])
    assert (resource["service.name"], resource["cluster"]) == ("llama", "blue")
    assert resource["host.name"] == "node"


def test_what_is_switched_off_pushes_nothing(
    backend: Endpoint, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And says so; nothing is missing then."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", backend.url)
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
    pusher = OtlpMetrics(None, meter.read, interval_s=OFTEN_S)

    assert pusher.notices == ("OTEL_METRICS_EXPORTER is 'none': no metrics are pushed.",)
    assert pusher.close().loss() == ""
    assert backend.requests == []


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_dead_endpoint_is_given_up_within_a_second(
    dead_url: str,
    meter: Meter,
    protocol: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Closing ends the official exporter's sleep between two tries, and says what is missing."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    pusher = OtlpMetrics(dead_url, meter.read, interval_s=OFTEN_S)
    wait_until(lambda: bool(pusher.stats.last_error))
    before_s = time.monotonic()
    stats = pusher.close(timeout_s=1.0)

    assert time.monotonic() - before_s < 5  # its tries would go on for 10
    assert (stats.sent, stats.is_current) == (0, False)
    assert "the last metrics may not have arrived" in stats.loss()
    assert "refused" in stats.last_error
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_a_mute_endpoint_is_given_up_within_a_second(
    mute_url: str, meter: Meter, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And counting goes on while a push waits for its answer."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    pusher = OtlpMetrics(mute_url, meter.read, interval_s=0.0)
    longest_s = 0.0
    for number in range(100, 1100):
        before_s = time.perf_counter()
        meter.add([cycle_of(number, ranks=1)])
        longest_s = max(longest_s, time.perf_counter() - before_s)
    before_s = time.monotonic()
    stats = pusher.close(timeout_s=1.0)

    assert time.monotonic() - before_s < 5
    assert longest_s < 5  # the endpoint would have held it up for 10
    assert (stats.sent, stats.is_current) == (0, False)
    assert pusher.close() == stats


def test_the_end_pushes_what_came_after_it_was_announced(backend: Endpoint, meter: Meter) -> None:
    """Once when the end is announced, and once more with what has come until it is there."""
    more = [cycle_of(number, ranks=3) for number in range(40, 50)]
    pusher = OtlpMetrics(backend.url, meter.read, interval_s=600)
    pusher.finish()
    wait_until(lambda: pusher.stats.sent == 1)
    meter.add(more)
    meter.settle()
    stats = pusher.close(timeout_s=20.0)

    assert (stats.sent, stats.failed, len(backend.requests)) == (2, 0, 2)
    assert_equal_sums(backend.requests[0], Expected(CYCLES))
    assert_equal_sums(backend.requests[1], Expected(CYCLES + more))


def test_an_end_that_was_announced_may_be_late(backend: Endpoint, meter: Meter) -> None:
    """What was pushed at the announcement is over; closing much later has its own time."""
    pusher = OtlpMetrics(backend.url, meter.read, interval_s=600)
    pusher.finish()
    wait_until(lambda: pusher.stats.sent == 1)
    time.sleep(3.0)
    assert pusher.close(timeout_s=3.0).loss() == ""


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((400, "text/plain", b""), "400"),
        ((404, "text/plain", b""), "404"),
        ((200, "text/html", b"<html>ok</html>"), "not that of an OTLP receiver"),
        ((302, "text/plain", b""), "not that of an OTLP receiver"),
    ],
)
def test_what_is_refused_is_told(
    backend: Endpoint, meter: Meter, answer: tuple[int, str, bytes], error: str
) -> None:
    """Also where somebody answers who is no receiver."""
    backend.answers = [answer]
    stats = OtlpMetrics(backend.url, meter.read).close(timeout_s=10.0)
    assert (stats.sent, stats.failed) == (0, 1)
    assert error in stats.loss()


def test_rejected_values_are_heard_of(backend: Endpoint, meter: Meter) -> None:
    """The official exporter does not read partial success, this one does."""
    partial = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too many series")
    answer = ExportMetricsServiceResponse(partial_success=partial).SerializeToString()
    backend.answers = [(200, "application/x-protobuf", answer)]
    stats = OtlpMetrics(backend.url, meter.read).close(timeout_s=10.0)

    assert (stats.sent, stats.rejected_points) == (1, 3)
    assert stats.loss() == "3 values of metrics were rejected. Last error: too many series"


def test_a_meter_that_cannot_be_read_does_not_end_the_pushing(backend: Endpoint) -> None:
    """It counts as failed, and the next one is pushed."""
    meter, tries = Meter(), iter([RuntimeError("on the way")])

    def read() -> Any:
        for error in tries:
            raise error
        return meter.read()

    pusher = OtlpMetrics(backend.url, read, interval_s=OFTEN_S)
    wait_until(lambda: pusher.stats.sent >= 1)
    assert pusher.close(timeout_s=10.0).failed == 1


def test_a_proxy_does_not_get_what_is_meant_for_this_machine(
    backend: Endpoint, dead_url: str, meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over HTTP and over gRPC."""
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for name in ("http_proxy", "HTTP_PROXY", "grpc_proxy"):
        monkeypatch.setenv(name, dead_url)
    assert OtlpMetrics(backend.url, meter.read).close(timeout_s=10.0).sent == 1
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")
    with receiving_grpc() as (url, _):
        assert OtlpMetrics(url, meter.read).close(timeout_s=10.0).sent == 1


class Service(MetricsServiceServicer):
    """A receiver over gRPC."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.tokens: list[str] = []

    def Export(  # noqa: N802 - the protocol calls it by this name
        self, request: ExportMetricsServiceRequest, context: Any
    ) -> ExportMetricsServiceResponse:
        """Receives metrics."""
        self.tokens += [value for name, value in context.invocation_metadata() if name == "token"]
        self.requests.append(request)
        return ExportMetricsServiceResponse()


@contextmanager
def receiving_grpc() -> Iterator[tuple[str, Service]]:
    """A receiver over gRPC and its address."""
    service = Service()
    server = grpc.server(ThreadPoolExecutor(2))
    add_MetricsServiceServicer_to_server(service, server)  # type: ignore[no-untyped-call]  # generated
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", service
    finally:
        server.stop(0).wait()


@pytest.mark.parametrize("compression", ["gzip", "none", ""])
def test_metrics_go_over_grpc_too(
    meter: Meter, monkeypatch: pytest.MonkeyPatch, compression: str
) -> None:
    """With the same values, and the headers of the environment."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", compression)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "token=abc")
    with receiving_grpc() as (url, service):
        stats = OtlpMetrics(url, meter.read).close(timeout_s=10.0)

    assert (stats.sent, stats.loss()) == (1, "")
    assert service.tokens == ["abc"]
    assert_equal_sums(service.requests[0], Expected(CYCLES))


def test_the_protocol_that_is_named_goes_before_that_of_the_environment(
    meter: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where metrics go to the same place as traces; it may be an address without a scheme."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_INSECURE", "true")
    with receiving_grpc() as (url, service):
        target = url.removeprefix("http://")
        stats = OtlpMetrics(target, meter.read, protocol="grpc").close(timeout_s=10.0)
    assert stats.sent == len(service.requests) == 1


def test_grpc_writes_nothing_onto_the_terminal() -> None:
    """Not even where nothing else has set it up: in a process of its own, with TLS to no TLS."""
    with receiving_grpc() as (url, service):
        done = subprocess.run(
            [sys.executable, "-c", _ALONE, url.replace("http:", "https:")],
            check=False,
            capture_output=True,
            text=True,
        )
    assert not service.requests
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_what_is_no_endpoint_is_refused_before_a_thread_starts() -> None:
    """In the sentence of the settings."""
    threads = threading.active_count()
    with pytest.raises(Exception, match="no URL"):
        OtlpMetrics("localhost:4318", Meter().read)
    assert threading.active_count() == threads
