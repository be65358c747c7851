"""Endpoints that answer without end, or without haste, over sockets of their own."""

from __future__ import annotations

import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import requests
from spectrace_exporters._answer import MAX_ANSWER_BYTES, unpacked
from spectrace_exporters._counts import Counts
from spectrace_exporters._endpoint import HTTP_PROTOBUF
from spectrace_exporters._http import HttpSender
from spectrace_exporters._outcome import Outcome, of_http
from spectrace_exporters._session import confine
from spectrace_exporters._settings import Settings

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n"
DRIPS = 100  # and so many tenths of a second, far longer than the timeout
Speak = Callable[[socket.socket], None]


@contextmanager
def speaking(speak: Speak) -> Iterator[str]:
    """The URL of an endpoint that takes each request and then speaks as it likes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                while connection.recv(65536):
                    speak(connection)
            except OSError:  # the other side has had enough
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def sent(speak: Speak, timeout_s: float = 60.0) -> Outcome:
    """What comes of one try."""
    with speaking(speak) as url:
        sender = HttpSender(url, HTTP_PROTOBUF, Settings(timeout_s=timeout_s))
        try:
            return sender.send(b"")
        finally:
            sender.close()


def test_an_endless_answer_is_left_after_64_kib() -> None:
    """It is no receiver's, and what it goes on to say is not taken from the socket."""
    said: list[int] = []
    over = threading.Event()

    def endless(connection: socket.socket) -> None:
        connection.sendall(OK + b"\r\n")
        try:
            while sum(said) < 256 * 1024 * 1024:
                said.append(connection.send(bytes(65536)))
        finally:
            over.set()

    outcome = sent(endless)
    assert (outcome.taken, outcome.again) == (False, False)
    assert "not that of an OTLP receiver" in outcome.reason
    assert over.wait(60.0)
    assert sum(said) < 64 * 1024 * 1024  # the bound, and what the sockets hold


def test_a_refusal_without_end_is_a_refusal() -> None:
    """Its status says all that is needed."""

    def refusing(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 503 Busy\r\n\r\n")
        for _ in range(10_000):
            connection.sendall(bytes(65536))

    outcome = sent(refusing)
    assert (outcome.taken, outcome.again, outcome.reason) == (False, True, "503 Busy")


@pytest.mark.parametrize(
    ("at_once", "then", "at_last"),
    [
        (b"", b"HTTP/1.1 200 " + b"O" * DRIPS, b"\r\nContent-Length: 0\r\n\r\n"),
        (OK + b"X: ", b"x" * DRIPS, b"\r\nContent-Length: 0\r\n\r\n"),
        (OK + b"Content-Length: %d\r\n\r\n" % DRIPS, b"\x1a\x62" + b"x" * (DRIPS - 2), b""),
    ],
    ids=["status", "header", "body"],
)
def test_who_answers_byte_by_byte_is_not_waited_for(
    at_once: bytes, then: bytes, at_last: bytes
) -> None:
    """The timeout is that of the whole try: the success that comes in the end is not heard."""

    def dripping(connection: socket.socket) -> None:
        connection.sendall(at_once)
        for byte in then:
            connection.sendall(bytes([byte]))
            time.sleep(0.1)
        connection.sendall(at_last)

    outcome = sent(dripping, timeout_s=0.5)
    assert (outcome.taken, outcome.answered, outcome.reason) == (False, False, "no answer")


def test_a_connection_serves_for_the_next_request() -> None:
    """An answer that was read to its end leaves the connection as it was, packed or not."""
    ports: list[int] = []

    def answering(connection: socket.socket) -> None:
        ports.append(connection.getpeername()[1])
        body = gzip.compress(b"\x0a\x05\x08\x03\x12\x01x")
        head = OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
        connection.sendall(head + body)

    with speaking(answering) as url:
        sender = HttpSender(url, HTTP_PROTOBUF, Settings())
        outcomes = [sender.send(b"") for _ in range(3)]
        sender.close()
    assert [(one.taken, one.rejected, one.reason) for one in outcomes] == [(True, 3, "x")] * 3
    assert len(ports) == 3
    assert len(set(ports)) == 1


def test_a_session_of_metrics_is_bounded_as_well() -> None:
    """Whatever sends through a session that was confined gets no more than the bound."""

    def long(connection: socket.socket) -> None:
        connection.sendall(OK + b"Content-Length: 1000000\r\n\r\n" + bytes(1_000_000))

    with speaking(long) as url, requests.Session() as session:
        confine(session, url)
        assert len(session.post(url, data=b"", timeout=10).content) == MAX_ANSWER_BYTES + 1


def test_what_is_packed_is_unpacked_to_the_bound() -> None:
    """16 MiB of zeros are 16 KiB when packed."""
    assert len(unpacked(gzip.compress(bytes(1 << 24)), "gzip")) == MAX_ANSWER_BYTES + 1
    assert unpacked(gzip.compress(b"x"), "gzip") == b"x"
    for body, coding in ((b"x", "gzip"), (gzip.compress(b"xyz")[:-9], "gzip"), (b"x", "br")):
        with pytest.raises(requests.exceptions.ContentDecodingError):
            unpacked(body, coding)


def test_what_an_endpoint_says_is_cut_and_clean() -> None:
    """Its message, its reason phrase, its type: 200 characters of each, none a control."""
    message = b"\x1b" + b"m" * 300
    field = b"\x12" + bytes([len(message) & 127 | 128, len(message) >> 7]) + message
    inner = b"\x08\x01" + field
    partial = b"\x0a" + bytes([len(inner) & 127 | 128, len(inner) >> 7]) + inner
    assert of_http(200, "", "application/x-protobuf", partial).reason == "m" * 199 + "…"
    assert of_http(500, "\x1b[2J" + "w" * 300, "", b"").reason == "500 [2J" + "w" * 196 + "…"
    assert "\x00" not in of_http(200, "", "text/x\x00" + "k" * 9999, b"").reason
    counts = Counts()
    counts.note("BadStatusLine: \x1b]0;x\x07" + "s" * 9999)
    assert counts.stats.last_error == "BadStatusLine: ]0;x" + "s" * 380 + "…"
