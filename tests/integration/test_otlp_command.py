"""`spectrace attach` sends a server's cycles on, and leaves at once where nobody takes them."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.command import TIMEOUT_S, start
from tests.helpers.no_endpoint import BEHAVIOURS, listening
from tests.helpers.otlp_endpoint import PROTOBUF, PROTOCOLS, serving
from tests.helpers.simulated_server import SimulatedServer

pytestmark = pytest.mark.beside_others

REQUEST_S = 60  # so long a request would wait for its answer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SimulatedServer]:
    """Two ranks that decode."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as it:
        yield it


def reports(*arguments: str, enough: int) -> tuple[list[dict[str, Any]], str, float]:
    """Traces until so many reports have come, and ends by Ctrl-C.

    Returns:
        The reports, what was said beside them, and how long the command took to leave, in s.
    """
    process = start("attach", "--json", "--no-page", *arguments)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(enough)]
    process.send_signal(signal.SIGINT)
    began_s = time.monotonic()
    rest, said = process.communicate(timeout=TIMEOUT_S)
    took_s = time.monotonic() - began_s
    assert process.returncode == 0, said
    return [json.loads(line) for line in (*lines, *rest.splitlines())], said, took_s


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_cycles_of_a_server_arrive(server: SimulatedServer, protocol: str) -> None:
    """The report counts what arrived, and nothing is lost of what a busy machine can take."""
    with serving(protocol) as endpoint:
        arguments = ["--otlp-endpoint", endpoint.url, "--otlp-protocol", protocol]
        found, said, _ = reports(str(server.pid), *arguments, "--otlp-every", "50", enough=2)

    exported = found[-1]["exported"]
    assert (exported["sent_spans"], exported["lost_spans"]) == (endpoint.accepted, 0)
    assert exported["sent_cycles"] + exported["unsampled_cycles"] >= found[-1]["summary"]["cycles"]
    assert exported["sent_cycles"] > 0
    assert "lost" not in said


def test_one_cycle_in_ten_and_those_that_are_slow(server: SimulatedServer) -> None:
    """What arrives is of these numbers alone; no cycle of the simulated server takes a minute."""
    with serving(PROTOBUF) as endpoint:
        arguments = ["--otlp-endpoint", endpoint.url, "--otlp-every", "10", "--otlp-slow", "1m"]
        found, _, _ = reports(str(server.pid), *arguments, enough=2)

    numbers = [
        pair.value.int_value
        for request in endpoint.requests
        for group in request.resource_spans
        for scoped in group.scope_spans
        for span in scoped.spans
        for pair in span.attributes
        if pair.key == "spectrace.cycle.number"
    ]
    assert numbers
    assert all(number % 10 == 0 for number in numbers)
    assert found[-1]["exported"]["unsampled_cycles"] > len(numbers)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("behave", BEHAVIOURS)
def test_it_leaves_at_once_where_nobody_takes_the_cycles(
    server: SimulatedServer, protocol: str, behave: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All is counted as lost, cycles and metrics; the server is as it was; it takes no timeout."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(REQUEST_S))
    with listening(behave) as url:
        arguments = ["--otlp-endpoint", url, "--otlp-protocol", protocol, "--otlp-metrics", "same"]
        found, said, took_s = reports(str(server.pid), *arguments, enough=3)

    exported = found[-1]["exported"]
    assert exported["sent_spans"] == 0
    assert exported["lost_cycles"] >= found[-1]["summary"]["cycles"] > 0
    assert f"{exported['lost_spans']} spans may be lost" in said
    assert "the last metrics may not have arrived" in said
    assert took_s < REQUEST_S / 2  # the benchmark has the figure
    assert server.untouched()


def test_how_to_send_needs_a_place_to_send_to() -> None:
    """Else the option would be passed over in silence."""
    process = start("attach", "1", "--otlp-every", "10")
    _, said = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 2
    assert "say where to send" in said
