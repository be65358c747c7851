"""Traces and metrics to an endpoint that does not answer: both are given up in the same time."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest
from spectrace_exporters.otlp import OtlpExporter
from spectrace_exporters.otlp_metrics import OtlpMetrics

from spectrace.metrics.meter import Meter
from spectrace.otlp.shape import span_count
from tests.helpers.no_endpoint import BEHAVIOURS, listening
from tests.helpers.otlp_endpoint import GRPC, PROTOBUF, PROTOCOLS, Answer, serving
from tests.helpers.recorded import cycle_of, run_of
from tests.integration.attach_targets import wait_until

pytestmark = pytest.mark.beside_others

CLOSE_S = 40.0  # ten or more times what a command takes, so that a busy machine changes nothing
CYCLES = [cycle_of(number, 2) for number in range(1, 101)]
METER = Meter()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("behave", BEHAVIOURS)
def test_both_are_given_up_at_the_same_time(
    protocol: str, behave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 40 s the first push has a fifth, 8 s, and one request of traces 15 %, 6 s: together 8."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "60")
    metrics_protocol = GRPC if protocol == GRPC else PROTOBUF
    with listening(behave) as url:
        exporter = OtlpExporter(url, run_of(), protocol=protocol, interval_s=0.0)
        pusher = OtlpMetrics(url, METER.read, protocol=metrics_protocol, interval_s=600)
        began_s = time.monotonic()
        exporter.add(CYCLES)
        pusher.finish()
        stats = exporter.close(CLOSE_S)
        pushed = pusher.close(CLOSE_S)
        took_s = time.monotonic() - began_s

    assert (stats.sent_spans, stats.lost_spans) == (0, sum(map(span_count, CYCLES)))
    assert (pushed.sent, pushed.is_current) == (0, False)
    assert stats.last_error
    assert pushed.last_error
    assert took_s < 8 + 6  # which one after the other they would take


def has_sent(exporter: OtlpExporter, cycles: int) -> bool:
    """Whether so many cycles have arrived."""
    return exporter.stats.sent_cycles >= cycles


def test_a_slow_answer_of_long_ago_is_forgotten() -> None:
    """One answer took 5 s and the next eight none: the one that hangs has the least time, 6 s."""
    over = threading.Event()

    def behave(number: int) -> Answer:
        if number == 9:
            over.wait(60)
        return Answer(delay_s=5.0 if number == 0 else 0.0)

    with serving(PROTOBUF, behave) as endpoint:
        exporter = OtlpExporter(endpoint.url, run_of(), protocol=PROTOBUF, interval_s=0.0)
        for number in range(1, 11):
            exporter.add([cycle_of(number, 2)])
            wait_until(partial(has_sent, exporter, min(number, 9)))
        began_s = time.monotonic()
        stats = exporter.close(CLOSE_S)
        took_s = time.monotonic() - began_s
        over.set()

    assert (stats.sent_cycles, stats.lost_cycles) == (9, 1)
    assert took_s < 10  # which it would be with the slow one in mind
