"""The real server traces its requests itself: each cycle has links to the spans of its batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from spectrace_exporters.otlp import OtlpExporter

from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import TraceSession
from spectrace.otlp import names
from tests.helpers.otlp_endpoint import GRPC, PROTOBUF, Endpoint, serving
from tests.helpers.tracing import assert_the_servers_counts, requests_of, traced

ROOT = Path(__file__).parents[2]
OPENTELEMETRY = ROOT / ".run/server-otel"  # that the server's own tracing needs
REQUESTS, TOKENS = 6, 24
TIMEOUT_S = 60.0


def spans_of(endpoint: Endpoint, scope: str) -> list[Span]:
    """All spans that came, of one instrumentation scope."""
    return [
        span
        for request in list(endpoint.requests)
        for group in request.resource_spans
        for scoped in group.scope_spans
        if scoped.scope.name == scope
        for span in scoped.spans
    ]


def texts_of(span: Span | Span.Link) -> dict[str, str]:
    """The attributes that are texts."""
    return {pair.key: pair.value.string_value for pair in span.attributes}


def wait_for(condition: Callable[[], bool]) -> None:
    """Waits until something is so."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


@pytest.fixture(scope="module")
def tracing_server() -> Iterator[tuple[CpuServer, Endpoint]]:
    """A server that sends its own spans, and where they go."""
    assert OPENTELEMETRY.exists(), "install it: make peers-setup"
    with serving(GRPC) as endpoint:
        address = endpoint.url.removeprefix("http://")
        options = ServerOptions(
            extra_args=("--enable-trace", "--otlp-traces-endpoint", address),
            extra_env={"PYTHONPATH": str(OPENTELEMETRY)},
        )
        with CpuServer(options) as server:
            yield server, endpoint


def test_every_link_leads_to_the_servers_own_span_of_that_request(
    tracing_server: tuple[CpuServer, Endpoint],
) -> None:
    """By its ids, and by the request's id on both sides; each request is linked to."""
    server, theirs = tracing_server
    work = requests_of(server.url, requests=REQUESTS, tag="linked", tokens=TOKENS)
    with serving(PROTOBUF) as ours, TraceSession(find_by_pid(server.pid)) as session:
        answers, collected = traced(session, work)
        exporter = OtlpExporter(ours.url, session.run)
        exporter.add(collected.cycles)
        assert exporter.close(TIMEOUT_S).lost_spans == 0
        removals = session.detach()
    assert_the_servers_counts(answers, collected)
    assert all(removal.removed for removal in removals)

    def requests() -> dict[str, Span]:
        spans = spans_of(theirs, "sglang server")
        return {texts_of(one)["rid"]: one for one in spans if not one.parent_span_id}

    ids = {answer.request_id for answer in answers}
    wait_for(lambda: ids <= requests().keys())
    known = requests()
    links = [link for span in spans_of(ours, names.SCOPE) for link in span.links]
    assert {texts_of(link)[names.LINKED_REQUEST] for link in links} >= ids
    for link in links:
        request = known[texts_of(link)[names.LINKED_REQUEST]]
        assert (link.trace_id, link.span_id) == (request.trace_id, request.span_id)
    rows = [row for cycle in collected.cycles for row in cycle.requests or ()]
    assert all(row.span for row in rows)
    assert len(links) == len(rows)
