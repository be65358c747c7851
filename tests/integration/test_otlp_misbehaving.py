"""Endpoints that misbehave, over every protocol: what is counted as lost is what did not arrive."""

from __future__ import annotations

import random
import threading
import time

import pytest
from spectrace_exporters import ExportStats
from spectrace_exporters.otlp import OtlpExporter

from spectrace.otlp.shape import span_count
from tests.helpers.no_endpoint import BEHAVIOURS, listening
from tests.helpers.otlp_endpoint import (
    PROTOBUF,
    PROTOCOLS,
    Answer,
    Endpoint,
    serving,
)
from tests.helpers.ports import free_port
from tests.helpers.recorded import cycle_of, run_of
from tests.integration.attach_targets import wait_until

pytestmark = pytest.mark.beside_others

RANKS = 2
SPANS = span_count(cycle_of(1, RANKS))
EACH_PROTOCOL = pytest.mark.parametrize("protocol", PROTOCOLS)
BUSY = Answer(503)


@pytest.fixture(autouse=True)
def small_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """One cycle goes into each request, so that there are many."""
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", str(SPANS))


def export(url: str, protocol: str, cycles: int, *, timeout_s: float = 60.0) -> ExportStats:
    """Sends so many cycles, waits until each has arrived or is lost, and closes."""
    exporter = OtlpExporter(url, run_of(), protocol=protocol, interval_s=0.0)
    exporter.add([cycle_of(number, RANKS) for number in range(1, cycles + 1)])
    deadline_s = time.monotonic() + timeout_s
    while exporter.stats.sent_cycles + exporter.stats.lost_cycles < cycles:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    return exporter.close()


def check_counts(stats: ExportStats, given: int, endpoint: Endpoint) -> None:
    """Compares what the exporter counted of `given` cycles with what the endpoint has."""
    stored = endpoint.accepted - endpoint.rejected
    assert stats.sent_spans == endpoint.accepted
    assert stats.rejected_spans == endpoint.rejected
    assert stats.lost_spans == given * SPANS - stored
    assert stats.sent_cycles + stats.lost_cycles == given


@EACH_PROTOCOL
def test_everything_arrives_where_nothing_is_wrong(protocol: str) -> None:
    """One request for each cycle, and nothing is lost."""
    with serving(protocol) as endpoint:
        stats = export(endpoint.url, protocol, 5)
        check_counts(stats, 5, endpoint)

    assert (stats.sent_cycles, stats.lost_spans, len(endpoint.requests)) == (5, 0, 5)
    assert stats.last_error == ""


@EACH_PROTOCOL
@pytest.mark.parametrize("status", [400, 401, 413])
def test_what_is_refused_for_good_is_lost_and_not_sent_again(protocol: str, status: int) -> None:
    """Two of five requests are refused: their two cycles are lost, with the reason."""
    refusing = {1, 3}
    with serving(protocol, lambda n: Answer(status if n in refusing else 200)) as endpoint:
        stats = export(endpoint.url, protocol, 5)
        check_counts(stats, 5, endpoint)

    assert (stats.failed_cycles, stats.failed_spans) == (2, 2 * SPANS)
    assert len(endpoint.requests) == 5
    assert stats.last_error


@EACH_PROTOCOL
@pytest.mark.parametrize("status", [429, 503])
def test_who_asks_for_a_pause_gets_it(protocol: str, status: int) -> None:
    """After the second the same request comes again, and nothing is lost."""
    with serving(
        protocol, lambda n: Answer(status, retry_after=1) if n == 0 else Answer()
    ) as endpoint:
        stats = export(endpoint.url, protocol, 3)
        check_counts(stats, 3, endpoint)

    first, second, *_ = endpoint.arrivals_s
    assert second - first >= 1.0
    assert (endpoint.requests[0], stats.lost_spans) == (endpoint.requests[1], 0)


@EACH_PROTOCOL
def test_who_stays_busy_is_given_up_after_a_while(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OTEL_BSP_EXPORT_TIMEOUT says after how long; what comes then arrives."""
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "1000")  # tries at 0, about 0.5 and 1.5 s
    with serving(protocol, lambda n: BUSY if n < 3 else Answer()) as endpoint:
        stats = export(endpoint.url, protocol, 3)
        check_counts(stats, 3, endpoint)

    assert (stats.failed_cycles, stats.sent_cycles) == (1, 2)
    assert "503" in stats.last_error or "UNAVAILABLE" in stats.last_error


@EACH_PROTOCOL
def test_who_takes_spans_and_does_not_store_them_is_believed(protocol: str) -> None:
    """Partial success: of each request two spans are rejected, and the reason is kept."""
    with serving(protocol, lambda _: Answer(rejected=2, message="too old")) as endpoint:
        stats = export(endpoint.url, protocol, 4)
        check_counts(stats, 4, endpoint)

    assert (stats.sent_cycles, stats.rejected_spans) == (4, 8)
    assert stats.last_error == "too old"


@EACH_PROTOCOL
@pytest.mark.parametrize(("says", "counted"), [(10**9, SPANS), (-5, 0)])
def test_who_rejects_more_than_there_was_is_not_believed(
    protocol: str, says: int, counted: int
) -> None:
    """No more spans are lost than were sent, and no fewer than none."""
    with serving(protocol, lambda _: Answer(rejected=says)) as endpoint:
        stats = export(endpoint.url, protocol, 1)

    assert (stats.sent_spans, stats.rejected_spans, stats.lost_spans) == (SPANS, counted, counted)


@EACH_PROTOCOL
def test_a_warning_is_no_loss(protocol: str) -> None:
    """A message without rejected spans is shown and counts nothing."""
    with serving(protocol, lambda _: Answer(message="slow down")) as endpoint:
        stats = export(endpoint.url, protocol, 1)

    assert (stats.sent_spans, stats.lost_spans, stats.last_error) == (SPANS, 0, "slow down")


@EACH_PROTOCOL
def test_who_hangs_up_gets_it_again(protocol: str) -> None:
    """A connection that is closed in the place of an answer has stored nothing."""
    with serving(protocol, lambda n: Answer(hang_up=n in {0, 1, 4})) as endpoint:
        stats = export(endpoint.url, protocol, 3)
        check_counts(stats, 3, endpoint)

    assert stats.lost_spans == 0


@EACH_PROTOCOL
def test_a_slow_endpoint_keeps_nobody_waiting(protocol: str) -> None:
    """Who adds returns at once, the newest cycles wait, and what finds no room is counted."""
    with serving(protocol, lambda _: Answer(delay_s=0.1)) as endpoint:
        exporter = OtlpExporter(
            endpoint.url, run_of(), protocol=protocol, interval_s=0.0, max_spans=10 * SPANS
        )
        began_s = time.monotonic()
        for number in range(1, 301):
            exporter.add([cycle_of(number, RANKS)])
        added_s = time.monotonic() - began_s
        stats = exporter.close(timeout_s=30.0)
        check_counts(stats, 300, endpoint)

    assert added_s < 30 * 0.9  # 300 requests one after the other take 30 s
    assert stats.dropped_cycles >= 300 - 10 - added_s / 0.1 - 2
    newest = endpoint.requests[-1].resource_spans[0].scope_spans[0].spans[0]
    numbers = [p.value.int_value for p in newest.attributes if p.key == "spectrace.cycle.number"]
    assert numbers == [300]


@EACH_PROTOCOL
def test_any_mixture_is_counted_exactly(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refusals, pauses, lies and closed connections in any order, over 60 cycles."""
    monkeypatch.setenv("OTEL_BSP_EXPORT_TIMEOUT", "0")  # no second try
    chance = random.Random(protocol)  # noqa: S311 - the same at each run
    kinds = [Answer(), Answer(400), BUSY, Answer(hang_up=True), Answer(rejected=3), Answer(413)]
    monkeypatch.setattr("spectrace_exporters.otlp._FIRST_BACKOFF_S", 0.01)
    with serving(protocol, lambda _: chance.choice(kinds)) as endpoint:
        stats = export(endpoint.url, protocol, 60)
        check_counts(stats, 60, endpoint)

    assert 0 < stats.lost_spans < 60 * SPANS


@EACH_PROTOCOL
def test_a_short_outage_loses_nothing(protocol: str) -> None:
    """What came while nobody was there waits, and arrives once somebody is."""
    port = free_port()
    exporter = OtlpExporter(f"http://127.0.0.1:{port}", run_of(), protocol=protocol, interval_s=0.0)
    exporter.add([cycle_of(number, RANKS) for number in range(1, 11)])
    wait_until(lambda: bool(exporter.stats.last_error))
    with serving(protocol, port=port) as endpoint:
        exporter.add([cycle_of(11, RANKS)])
        wait_until(lambda: exporter.stats.sent_cycles == 11)
        check_counts(exporter.close(), 11, endpoint)

    assert exporter.stats.lost_spans == 0


@EACH_PROTOCOL
def test_who_asks_for_a_long_pause_is_not_waited_for_at_the_end(protocol: str) -> None:
    """What waits is lost and counted: nothing could be sent before the time is over."""
    with serving(protocol, lambda _: Answer(429, retry_after=60)) as endpoint:
        exporter = OtlpExporter(endpoint.url, run_of(), protocol=protocol, interval_s=0.0)
        exporter.add([cycle_of(number, RANKS) for number in range(1, 11)])
        wait_until(lambda: bool(exporter.stats.last_error))
        began_s = time.monotonic()
        check_counts(exporter.close(timeout_s=20.0), 10, endpoint)
    assert time.monotonic() - began_s < 16  # when the time to close would have been over


def test_who_answered_before_and_now_hangs_is_given_up_early() -> None:
    """After a part of the time; what is under way counts as lost, what had arrived as sent."""
    over = threading.Event()

    def behave(number: int) -> Answer:
        if number > 0:
            over.wait(60)
        return Answer()

    with serving(PROTOBUF, behave) as endpoint:
        exporter = OtlpExporter(endpoint.url, run_of(), protocol=PROTOBUF, interval_s=0.0)
        exporter.add([cycle_of(number, RANKS) for number in range(1, 11)])
        wait_until(lambda: exporter.stats.sent_cycles == 1)
        began_s = time.monotonic()
        stats = exporter.close(timeout_s=20.0)
        took_s = time.monotonic() - began_s
        over.set()
    assert (stats.sent_spans, stats.lost_spans) == (SPANS, 9 * SPANS)
    assert 2 < took_s < 16  # 3, and not 16


@EACH_PROTOCOL
@pytest.mark.parametrize("behave", BEHAVIOURS)
def test_who_never_answers_costs_what_was_sent_and_no_time(
    protocol: str, behave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything is lost and counted; closing does not wait for a request that takes a minute."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    with listening(behave) as url:
        exporter = OtlpExporter(url, run_of(), protocol=protocol, interval_s=0.0)
        exporter.add([cycle_of(number, RANKS) for number in range(1, 101)])
        time.sleep(0.5)
        began_s = time.monotonic()
        stats = exporter.close()
        took_s = time.monotonic() - began_s

    assert (stats.sent_spans, stats.lost_spans, stats.lost_cycles) == (0, 100 * SPANS, 100)
    assert stats.last_error
    assert "closed channel" not in stats.last_error  # as it is by then
    assert took_s < 30


@EACH_PROTOCOL
def test_the_environment_gives_headers_compression_and_timeout(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of traces come before those of all signals, whichever protocol it is."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-all=1,authorization=no")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20x")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", protocol)
    with serving(protocol) as endpoint:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.url)
        exporter = OtlpExporter(None, run_of(), interval_s=0.0)
        exporter.add([cycle_of(1, RANKS)])
        check_counts(exporter.close(30.0), 1, endpoint)

    headers = endpoint.headers[0]
    assert headers["authorization"] == "Bearer x"
    assert "x-all" not in headers
    assert headers.get("content-encoding", headers.get("grpc-encoding", "gzip")) == "gzip"


@EACH_PROTOCOL
def test_a_timeout_of_the_environment_ends_a_try(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint that answers too late gets the request again."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0.3")
    with serving(protocol, lambda n: Answer(delay_s=2.0 if n == 0 else 0.0)) as endpoint:
        exporter = OtlpExporter(endpoint.url, run_of(), protocol=protocol, interval_s=0.0)
        exporter.add([cycle_of(1, RANKS)])
        wait_until(lambda: exporter.stats.sent_cycles == 1)
        stats = exporter.close()

    assert (stats.sent_cycles, stats.lost_cycles) == (1, 0)
    assert len(endpoint.requests) >= 2


def test_the_environment_can_switch_sending_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing arrives where OTEL_SDK_DISABLED is true; a flag comes before it."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with serving(PROTOBUF) as endpoint:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.url)
        off = OtlpExporter(None, run_of(), interval_s=0.0)
        off.add([cycle_of(1, RANKS)])
        assert (off.close().unsampled_cycles, endpoint.requests) == (1, [])
        assert "OTEL_SDK_DISABLED" in off.notices[0]

        on = OtlpExporter(endpoint.url, run_of(), interval_s=0.0)
        on.add([cycle_of(1, RANKS)])
        assert on.close(30.0).sent_cycles == 1


def test_what_sampling_leaves_out_is_no_loss() -> None:
    """One cycle in ten arrives, and the others are counted apart."""
    with serving(PROTOBUF) as endpoint:
        exporter = OtlpExporter(endpoint.url, run_of(), sample_every=10, interval_s=0.0)
        exporter.add([cycle_of(number, RANKS) for number in range(1, 101)])
        stats = exporter.close(30.0)
        check_counts(stats, 10, endpoint)

    assert (stats.sent_cycles, stats.unsampled_cycles, stats.lost_spans) == (10, 90, 0)
