"""What counts as an answer of a receiver, and which reason of a failure is kept."""

from __future__ import annotations

import os
from typing import Any

import grpc
import pytest
import requests
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # likewise
from spectrace_exporters._counts import why
from spectrace_exporters._endpoint import HTTP_PROTOBUF, is_loopback
from spectrace_exporters._grpc import _failed, _insecure
from spectrace_exporters._http import HttpSender
from spectrace_exporters._outcome import of_http
from spectrace_exporters._settings import Settings

PROTOBUF, JSON = "application/x-protobuf", "application/json"


@pytest.mark.parametrize(
    ("status", "kind", "body", "rejected", "reason"),
    [
        (200, PROTOBUF, b"", 0, ""),
        (200, "", b"", 0, ""),
        (202, JSON, b"{}", 0, ""),
        (200, JSON, b"", 0, ""),
        (200, JSON, b'{"partialSuccess":{"rejectedSpans":"2"},"x":1}', 2, ""),
        (200, PROTOBUF, b"\x0a\x05\x08\x03\x12\x01x", 3, "x"),
    ],
)
def test_receivers_answer_in_several_ways(
    status: int, kind: str, body: bytes, rejected: int, reason: str
) -> None:
    """As protobuf, as JSON, or with nothing, and they may say that they did not store all."""
    outcome = of_http(status, "OK", kind, body)
    assert (outcome.taken, outcome.rejected, outcome.reason) == (True, rejected, reason)


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html; charset=utf-8", b""),
        (200, JSON, b"no json"),
        (200, PROTOBUF, b"\xff\xff"),
        (302, "", b""),
    ],
)
def test_what_no_receiver_answers_fails_the_request(status: int, kind: str, body: bytes) -> None:
    """A page, a login and what cannot be read are those of somebody in between."""
    outcome = of_http(status, "OK", kind, body)
    assert (outcome.taken, outcome.again) == (False, False)
    assert "not that of an OTLP receiver" in outcome.reason


@pytest.mark.parametrize(
    ("status", "again"),
    [(400, False), (401, False), (413, False), (429, True), (500, False), (503, True)],
)
def test_what_is_refused_is_tried_again_where_the_specification_says_so(
    status: int, again: bool
) -> None:
    """429, 502, 503 and 504 may be better later; all others stay as they are."""
    outcome = of_http(status, "Why", "text/html", b"<html>", 3.0)
    assert (outcome.taken, outcome.again, outcome.wait_s) == (False, again, 3.0)
    assert outcome.reason.startswith(f"{status} Why")


def test_a_refusal_says_what_to_do_where_it_is_known() -> None:
    """A token is missing, or requests are too long."""
    assert "OTEL_EXPORTER_OTLP_HEADERS" in of_http(401, "Unauthorized", "", b"").reason
    assert "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" in of_http(413, "Too Large", "", b"").reason


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://localhost:4318", True),
        ("http://LOCALHOST.:1", True),
        ("http://127.8.0.1:1", True),
        ("https://[::1]:1", True),
        ("127.0.0.1:4317", True),
        ("http://10.0.0.1:1", False),
        ("http://localhost.example:1", False),
        ("10.0.0.1:4317", False),
    ],
)
def test_a_proxy_does_not_get_what_is_for_this_machine(
    url: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTP_PROXY and its like are read for other machines only."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("all_proxy", "http://proxy:3128")
    assert is_loopback(url) is own
    if "://" in url:  # as it has to be for HTTP
        session = HttpSender(url, HTTP_PROTOBUF, Settings())._session
        assert ("http://proxy:3128" in session.proxies.values()) is not own


class Refusal(grpc.RpcError):
    """An error as gRPC raises it."""

    def __init__(self, code: grpc.StatusCode, details: str, **trailers: bytes) -> None:
        super().__init__()
        self._code, self._details = code, details
        self._trailers = [(name.replace("_", "-"), value) for name, value in trailers.items()]

    def code(self) -> grpc.StatusCode:
        """As gRPC."""
        return self._code

    def details(self) -> str:
        """As gRPC."""
        return self._details

    def trailing_metadata(self) -> Any:
        """As gRPC."""
        return self._trailers


def retry_details(seconds: float) -> bytes:
    """A google.rpc.Status that asks to come back after some time."""
    status = Status(code=8)
    delay = Duration()
    delay.FromNanoseconds(int(seconds * 1e9))
    status.details.add().Pack(RetryInfo(retry_delay=delay))
    packed: bytes = status.SerializeToString()
    return packed


def test_grpc_says_by_its_code_whether_to_come_back() -> None:
    """RESOURCE_EXHAUSTED is for good unless it says when."""
    code = grpc.StatusCode
    assert not _failed(Refusal(code.UNAUTHENTICATED, "no token")).again
    assert not _failed(Refusal(code.RESOURCE_EXHAUSTED, "message too long")).again
    assert _failed(Refusal(code.UNAVAILABLE, "busy")).again
    later = Refusal(code.RESOURCE_EXHAUSTED, "busy", grpc_status_details_bin=retry_details(1.5))
    outcome = _failed(later)
    assert (outcome.again, outcome.wait_s, outcome.answered) == (True, 1.5, True)
    assert outcome.reason == "RESOURCE_EXHAUSTED: busy"


def test_grpc_that_finds_nobody_says_so_in_few_words() -> None:
    """Of all that it says only the end is of use."""
    details = (
        "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: "
        "Failed to connect to remote host: connect: Connection refused (111)"
    )
    outcome = _failed(Refusal(grpc.StatusCode.UNAVAILABLE, details))
    assert (outcome.answered, outcome.again) == (False, True)
    assert outcome.reason == "connection refused"


@pytest.mark.parametrize("code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
def test_grpc_says_no_more_than_a_line(code: grpc.StatusCode) -> None:
    """What the other side adds to its code is cut, and holds neither controls nor passwords."""
    outcome = _failed(Refusal(code, "\x1b[1mno\u202e ann:s3cret@host " + "x" * 3_000_000))
    assert outcome.reason.isprintable()
    assert outcome.reason.endswith("…")
    assert "s3cret" not in outcome.reason
    assert len(outcome.reason) <= len("UNAVAILABLE: ") + 200


def test_the_scheme_decides_on_encryption_before_the_environment() -> None:
    """Only `host:port` leaves it to OTEL_EXPORTER_OTLP_INSECURE."""
    schemes = ("http://h:1", "https://h:1", "h:1")
    assert [_insecure(endpoint) for endpoint in schemes] == [True, False, None]


def test_an_error_is_cut_down_to_its_reason() -> None:
    """That of the system where there is one; one that waited in vain is no answer."""
    refused = requests.ConnectionError(OSError(111, os.strerror(111)))
    assert why(refused) == "connection refused"
    assert why(requests.ReadTimeout("read timed out")) == "no answer"
    assert why(ValueError("odd")) == "odd"
