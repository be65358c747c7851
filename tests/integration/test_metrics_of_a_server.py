"""Metrics of a server that decodes: what is pushed and scraped is what its cycles add up to."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from spectrace_exporters.otlp_metrics import OtlpMetrics

from spectrace.attach import discover
from spectrace.attach.session import TraceSession
from spectrace.attach.tapped import TappedSession
from spectrace.metrics.meter import Meter
from spectrace.server.metered import MeterTap
from tests.helpers.command import TIMEOUT_S, start
from tests.helpers.metered import (
    Endpoint,
    Expected,
    assert_equal_sums,
    endpoint,
    histograms_of,
    key,
    numbers_of,
)
from tests.helpers.ports import free_port
from tests.helpers.simulated_server import SimulatedServer
from tests.helpers.tracing import POLL_S, Collected

pytestmark = pytest.mark.beside_others

RANKS = ("TP0", "TP1")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedServer]:
    """Two ranks that decode."""
    with SimulatedServer(tmp_path_factory.mktemp("server"), *RANKS) as it:
        yield it


@pytest.fixture
def backend() -> Iterator[Endpoint]:
    """A receiver of metrics."""
    with endpoint() as it:
        yield it


def scraped(port: int, least_cycles: int) -> dict[str, float]:
    """Counts of the metrics page, by name, once so many cycles were counted there."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline_s:
        try:
            text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
        except httpx.TransportError:
            text = ""
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.endswith(("_total", "_count")):
                    found[sample.name] = found.get(sample.name, 0) + sample.value
        if found.get("spectrace_cycles_total", 0) >= least_cycles:
            return found
        time.sleep(0.05)
    raise AssertionError(f"{least_cycles} cycles were not counted in time")


def last_report(output: str) -> dict[str, Any]:
    """The report at the end of a session."""
    report: dict[str, Any] = json.loads(output.splitlines()[-1])
    assert report["final"]
    return report


def assert_is_the_summary(request: Any, summary: dict[str, Any]) -> None:
    """What was pushed last is what the command itself sums up at its end."""
    numbers, histograms = numbers_of(request), histograms_of(request)
    assert numbers[key("spectrace.cycles", kind="speculative")] == summary["cycles"]
    tokens = numbers[key("spectrace.output.tokens", kind="speculative")]
    assert tokens == summary["output_tokens"]
    length = histograms[key("spectrace.accept.length")]
    assert length.count == summary["verifies"]
    assert length.sum == summary["correct_drafts"] + summary["verifies"]
    accepted = sum(
        value for (name, _), value in numbers.items() if name == "spectrace.drafts.accepted"
    )
    assert accepted == summary["correct_drafts"]


def test_what_is_pushed_is_the_sum_of_the_cycles_that_were_given(
    server: SimulatedServer, backend: Endpoint
) -> None:
    """Every counter and bucket of two ranks, computed again from the last form of each cycle."""
    run = discover.find_by_pid(server.pid)
    meter, collected = Meter(), Collected()
    pusher = OtlpMetrics(backend.url, meter.read, interval_s=TIMEOUT_S)
    with TappedSession(TraceSession(run), [MeterTap(meter)]) as session:
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(collected.cycles) < 200:
            assert time.monotonic() < deadline_s
            collected.add(session.poll())
            time.sleep(POLL_S)
        session.detach()
        collected.add(session.last_cycles)
    stats = pusher.close(timeout_s=10.0)

    assert stats.sent == 1
    whole = [c for c in collected.cycles if not any(rank.incomplete for rank in c.ranks)]
    assert len(whole) == len(collected.cycles)
    assert_equal_sums(backend.requests[0], Expected(whole))
    numbers = numbers_of(backend.requests[0])
    assert [numbers[key("spectrace.lost.records", rank=rank)] for rank in RANKS] == [0, 0]
    assert numbers[key("spectrace.attach.stall", rank="TP0", part="stop")] > 0


def test_a_command_pushes_what_it_sums_up_itself(
    server: SimulatedServer, backend: Endpoint
) -> None:
    """And has it on its page, where it can be scraped meanwhile."""
    port = free_port()
    more = ("--port", str(port), "--otlp-metrics", backend.url)
    process = start("attach", str(server.pid), "--json", *more)
    found = scraped(port, least_cycles=50)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0, errors
    assert_is_the_summary(backend.requests[-1], last_report(output)["summary"])
    cycles = found["spectrace_cycles_total"]
    assert found["spectrace_cycle_duration_seconds_count"] == len(RANKS) * cycles
    assert found["spectrace_accept_length_count"] == 2 * cycles  # requests in each


def test_an_endpoint_that_is_dead_holds_nothing_up(
    server: SimulatedServer,
) -> None:
    """The command ends as ever, and says in one line what did not arrive."""
    url = f"http://127.0.0.1:{free_port()}"
    process = start("attach", str(server.pid), "--json", "--no-page", "--otlp-metrics", url)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=TIMEOUT_S)

    assert process.returncode == 0
    assert last_report(output)["summary"]["cycles"] > 0
    assert f"To {url}/v1/metrics: the last metrics may not have arrived" in errors
    assert "refused" in errors
