"""The page of a collector: behind its token, with requests of others beside the cycles."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Status, StatusCode
from playwright.sync_api import Page, expect

from spectrace.otlp.encode import Encoder
from spectrace.server.token import Token
from tests.helpers.collector import OFFICIAL, Collector, collecting
from tests.helpers.otlp_in_speed import CYCLE_NS, T0_NS, cycle_of, run_of
from tests.helpers.page import PAGE_TIMEOUT_MS, until

pytestmark = pytest.mark.beside_others

TOKEN = Token("a-token-for-the-tests")
SHOWN = {"authorization": f"Bearer {TOKEN.text}"}
REQUEST = "request-2"  # one that the cycles speak of
CYCLES = 30


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector that wants the token, and has a request that somebody traced."""
    with collecting(tmp_path_factory.mktemp("store"), TOKEN) as running:
        send_requests(running)
        yield running


def send_requests(collector: Collector) -> None:
    """Two requests with the names that SGLang gives, one of which failed."""
    provider = TracerProvider(resource=Resource({"service.name": "sglang"}))
    provider.add_span_processor(SimpleSpanProcessor(OFFICIAL["grpc"](collector, SHOWN)))
    tracer = provider.get_tracer("sglang server")
    for name in (REQUEST, "aborted"):
        with (
            tracer.start_as_current_span(f" Req {name}", attributes={"rid": name}) as root,
            tracer.start_as_current_span("decode_loop"),
        ):
            if name == "aborted":
                root.set_status(Status(StatusCode.ERROR))
    provider.shutdown()


def send_cycles(collector: Collector) -> None:
    """Cycles of the last moments."""
    run = run_of(ranks=2)
    newest = (time.time_ns() - T0_NS) // CYCLE_NS - 1
    sent = [cycle_of(run, number) for number in range(newest - CYCLES, newest)]
    exporter = OFFICIAL["http/json"](collector, SHOWN)
    exporter.export([span for cycle in sent for span in Encoder().spans(run, cycle)])
    exporter.shutdown()
    until(lambda: collector.store.stats(run.run_id).cycles == CYCLES)


def test_requests_of_others_stand_beside_the_cycles(collector: Collector, page: Page) -> None:
    """Before there is a cycle and with cycles; a bar each, and a list that counts their cycles."""
    page.goto(collector.server.entrance)
    expect(page.get_by_text("Waiting for cycles.")).to_be_visible(timeout=PAGE_TIMEOUT_MS)
    assert TOKEN.text not in page.url
    for endpoint in (collector.hub.otlp_endpoint, collector.hub.grpc_endpoint):
        assert endpoint is not None
        expect(page.get_by_text(endpoint, exact=True)).to_be_visible()
    rows = page.locator("table.traced tbody tr")
    expect(rows).to_have_count(2)

    send_cycles(collector)
    track = page.locator(".requesttrack")
    expect(track.locator("i")).to_have_count(2, timeout=PAGE_TIMEOUT_MS)
    expect(track.locator("i.failed")).to_have_count(1)
    page.get_by_role("button", name="Requests 2").click()
    served = rows.filter(has_text=REQUEST)
    expect(served.locator("td").nth(3)).to_have_text(str(CYCLES))
    expect(served.locator(".spans i")).to_have_count(2)
    expect(rows.filter(has_text="aborted")).to_contain_text("failed")


def test_spans_that_are_refused_are_told_with_the_reason(collector: Collector, page: Page) -> None:
    """Apart from cycles that are lost, and before there is a run to speak of."""
    span = {"traceId": "1" * 32, "spanId": "", "startTimeUnixNano": 1, "endTimeUnixNano": 2}
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    assert httpx.post(collector.http, json=body, headers=SHOWN).status_code == 200
    page.goto(collector.server.entrance)
    told = page.locator(".notice", has_text="1 span refused.")
    expect(told).to_contain_text("the span id is not 8 bytes", timeout=PAGE_TIMEOUT_MS)


def test_without_the_token_there_is_no_page(collector: Collector, page: Page) -> None:
    """A sentence says where the address with the token is to be found."""
    answer = page.goto(collector.server.url)
    assert answer is not None
    assert answer.status == 401
    expect(page.get_by_text("spectrace serve")).to_be_visible()
