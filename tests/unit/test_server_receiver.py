"""Spans that are sent over HTTP come back as cycles; what is no OTLP is answered with a reason."""

from __future__ import annotations

import contextlib
import gzip
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from spectrace.otlp.encode import Encoder
from spectrace.otlp.receive import MAX_BODY_BYTES, PROTOBUF
from spectrace.server.hub import Hub
from spectrace.server.run import PageServer
from spectrace.server.state import Source
from spectrace.store.store import CycleStore
from tests.unit.test_store_round_trip import RUN_A, cycle_of, open_store, run_of

HEADERS = {"content-type": PROTOBUF}


@contextmanager
def receiving(tmp_path: Path) -> Iterator[tuple[str, CycleStore, Hub]]:
    """The address for spans of a server on a free port."""
    with open_store(tmp_path) as store:
        hub = Hub(store, sink=store)
        with PageServer(hub, port=0) as server:
            yield f"{server.url}/v1/traces", store, hub


def body_of(*numbers: int) -> bytes:
    """A request with the spans of these cycles."""
    spans = [span for number in numbers for span in Encoder().spans(run_of(), cycle_of(number))]
    return encode_spans(spans).SerializeToString()


def test_cycles_that_are_sent_are_stored_and_their_run_is_known(tmp_path: Path) -> None:
    """Plain and compressed, the cycles come back as they were, of a run that is received."""
    with receiving(tmp_path) as (url, store, hub):
        plain = httpx.post(url, content=body_of(1, 2), headers=HEADERS)
        packed = httpx.post(
            url,
            content=gzip.compress(body_of(3)),
            headers=HEADERS | {"content-encoding": "gzip"},
        )
        assert (plain.status_code, packed.status_code) == (200, 200)
        assert plain.headers["content-type"] == PROTOBUF
        end_s = time.monotonic() + 5
        while store.stats(RUN_A).cycles < 3 and time.monotonic() < end_s:
            time.sleep(0.01)
        assert store.cycles(RUN_A) == [cycle_of(3), cycle_of(2), cycle_of(1)]
        assert store.runs() == [run_of()]
        [state] = hub.state().runs
        assert (state.run, state.source) == (RUN_A, Source.RECEIVED)


def test_foreign_spans_are_told_back(tmp_path: Path) -> None:
    """A request without anything of ours is answered with 200 and nothing is stored."""
    with receiving(tmp_path) as (url, store, _):
        answer = httpx.post(url, content=b"", headers=HEADERS)
        assert answer.status_code == 200
        assert ExportTraceServiceResponse.FromString(answer.content).ByteSize() == 0
        assert store.runs() == []


def test_what_is_no_otlp_is_refused(tmp_path: Path) -> None:
    """No protobuf is 400, another type 415."""
    with receiving(tmp_path) as (url, _, _):
        assert httpx.post(url, content=b"\xff" * 9, headers=HEADERS).status_code == 400
        assert httpx.post(url, json={}).status_code == 415


def test_too_long_a_body_is_refused_before_it_has_come(tmp_path: Path) -> None:
    """One that announces its length is refused at once, one that does not at the bound."""
    chunk = b"\0" * (1 << 20)
    head = "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
    with receiving(tmp_path) as (url, _, _):
        port = httpx.URL(url).port
        announced = connect(port, f"{head}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n")
        assert announced.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
        chunked = connect(port, f"{head}Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        with contextlib.suppress(ConnectionError):  # the server hangs up within the body
            while sent < 100 * len(chunk):
                chunked.sendall(b"100000\r\n" + chunk + b"\r\n")
                sent += len(chunk)
        announced.close()
        chunked.close()
    assert MAX_BODY_BYTES <= sent < 100 * len(chunk)


def connect(port: int | None, head: str) -> socket.socket:
    """A connection that has sent the head of a request."""
    connection = socket.create_connection(("127.0.0.1", port or 0), timeout=5)
    connection.sendall(head.encode())
    return connection
