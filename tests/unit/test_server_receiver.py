"""Spans that are sent over HTTP come back as cycles; what is no OTLP is answered with a reason."""

from __future__ import annotations

import contextlib
import gzip
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from spectrace.otlp import body
from spectrace.otlp.body import MAX_BODY_BYTES, PROTOBUF
from spectrace.otlp.encode import Encoder
from spectrace.server import intake, receiver
from spectrace.server.hub import Hub
from spectrace.server.run import PageServer
from spectrace.server.state import Source
from spectrace.store.store import CycleStore
from tests.helpers.bad_otlp import ten_million_attributes
from tests.helpers.page import until
from tests.helpers.stored import RUN_A, cycle_of, open_store, run_of

HEAD = "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-protobuf\r\n"
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
        until(lambda: store.stats(RUN_A).cycles == 3)
        assert store.cycles(RUN_A) == [cycle_of(3), cycle_of(2), cycle_of(1)]
        assert store.runs() == [run_of()]
        [state] = hub.state().runs
        assert (state.run, state.source) == (RUN_A, Source.RECEIVED)


def test_an_empty_request_is_fine(tmp_path: Path) -> None:
    """It is answered with 200, and nothing is stored."""
    with receiving(tmp_path) as (url, store, _):
        answer = httpx.post(url, content=b"", headers=HEADERS)
        assert answer.status_code == 200
        assert ExportTraceServiceResponse.FromString(answer.content).ByteSize() == 0
        assert store.runs() == []


def test_what_is_no_otlp_is_refused(tmp_path: Path) -> None:
    """No protobuf is 400, another type 415."""
    with receiving(tmp_path) as (url, _, _):
        assert httpx.post(url, content=b"\xff" * 9, headers=HEADERS).status_code == 400
        assert httpx.post(url, json=[]).status_code == 400
        assert (
            httpx.post(url, content=b"", headers={"content-type": "text/plain"}).status_code == 415
        )


def test_ten_million_attributes_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """413 for 19 KB that would take the one thread that reads for half a minute."""
    monkeypatch.setattr(body, "ExportTraceServiceRequest", None)
    packed = gzip.compress(ten_million_attributes())
    with receiving(tmp_path) as (url, _, _):
        headers = HEADERS | {"content-encoding": "gzip"}
        answer = httpx.post(url, content=packed, headers=headers, timeout=60)
    assert answer.status_code == 413
    assert "send fewer spans" in Status.FromString(answer.content).message


def test_too_long_a_body_is_refused_before_it_has_come(tmp_path: Path) -> None:
    """One that announces its length is refused at once, one that does not at the bound."""
    chunk = b"\0" * (1 << 20)
    with receiving(tmp_path) as (url, _, _):
        port = httpx.URL(url).port
        announced = connect(port, f"{HEAD}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n")
        assert announced.recv(1 << 16).startswith(b"HTTP/1.1 413 ")
        chunked = connect(port, f"{HEAD}Transfer-Encoding: chunked\r\n\r\n")
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
    connection = socket.create_connection(("127.0.0.1", port or 0), timeout=60)
    connection.sendall(head.encode())
    return connection


def test_slow_senders_hold_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight bodies that do not go on leave the way free, and are answered 408 in the end."""
    monkeypatch.setattr(receiver, "_IDLE_S", 10.0)
    with receiving(tmp_path) as (url, _, _):
        slow = [
            connect(httpx.URL(url).port, f"{HEAD}Content-Length: 9\r\n\r\nab") for _ in range(8)
        ]
        assert httpx.post(url, content=body_of(1), headers=HEADERS, timeout=9.5).status_code == 200
        answers = [connection.recv(1 << 16) for connection in slow]
        for connection in slow:
            connection.close()
    assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers)
    assert all(b"retry-after: 1\r\n" in answer for answer in answers)


def test_more_than_the_memory_set_aside_is_asked_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with Retry-After, and room again once the others are done."""
    monkeypatch.setattr(intake, "_WAITING_BYTES", 10)
    with receiving(tmp_path) as (url, _, _):
        for _ in range(2):
            answer = httpx.post(url, content=bytes(11), headers=HEADERS)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert httpx.post(url, content=b"", headers=HEADERS).status_code == 200


def test_senders_wait_while_the_store_does_not_keep_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 with Retry-After, so that nothing is lost on the way; afterwards it is taken."""
    with receiving(tmp_path) as (url, store, _):
        monkeypatch.setattr(CycleStore, "is_behind", True)
        refused = httpx.post(url, content=body_of(1), headers=HEADERS)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert Status.FromString(refused.content).code == 14
        monkeypatch.setattr(CycleStore, "is_behind", False)
        assert httpx.post(url, content=body_of(1), headers=HEADERS).status_code == 200
        until(lambda: store.stats(RUN_A).cycles == 1)


def test_a_store_that_is_half_full_is_behind(tmp_path: Path) -> None:
    """10,001 of 20,000 cycles wait while its thread is busy, 10,000 are fine."""
    go = threading.Event()
    with open_store(tmp_path) as store:
        store._thread.submit(go.wait)
        try:
            store.add([cycle_of(number) for number in range(10_000)], wait=False)
            assert not store.is_behind
            store.add([cycle_of(10_000)], wait=False)
            assert store.is_behind
        finally:
            go.set()


def test_a_sender_that_goes_away_leaves_no_word_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither in the midst of its body nor with what is no HTTP."""
    with receiving(tmp_path) as (url, _, hub):
        connect(httpx.URL(url).port, f"{HEAD}Content-Length: 9\r\n\r\nab").close()
        stranger = connect(httpx.URL(url).port, "no http at all\r\n\r\n")
        assert stranger.recv(1 << 16).startswith(b"HTTP/1.1 400 ")
        stranger.close()
        time.sleep(0.2)
        assert hub.receives
    assert capfd.readouterr() == ("", "")


def test_a_refusal_is_a_status_in_the_type_of_the_request(tmp_path: Path) -> None:
    """Too long a body, announced or not, and another method than POST."""
    with receiving(tmp_path) as (url, _, _):
        port = httpx.URL(url).port
        announced = connect(port, f"{HEAD}Content-Length: {MAX_BODY_BYTES + 1}\r\n\r\n")
        with announced, announced.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
        asked = httpx.get(url)
    assert b"content-type: application/x-protobuf" in head
    assert "send fewer spans" in Status.FromString(body).message
    assert (asked.status_code, asked.headers["allow"]) == (405, "POST")


def test_what_is_traced_here_is_not_taken_from_a_sender(tmp_path: Path) -> None:
    """Its cycles would be there twice, once late."""
    with receiving(tmp_path) as (url, store, hub):
        hub.put_run(run_of(), Source.ATTACHED)
        assert httpx.post(url, content=body_of(1), headers=HEADERS).status_code == 200
        hub.pass_on()
        assert store.cycles(RUN_A) == []
