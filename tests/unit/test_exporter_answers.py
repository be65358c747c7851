"""What counts as an answer of a receiver, and which reason of a failure is kept."""

from __future__ import annotations

import logging
import os

import pytest
import requests
from spectrace_exporters._counts import Counts, ErrorsOfThisThread, why
from spectrace_exporters._endpoint import is_loopback
from spectrace_exporters.otlp import _NoAnswerError, _official_exporter, _rejected


def answer(status: int, kind: str, body: bytes) -> requests.Response:
    """An answer as `requests` gives it."""
    response = requests.Response()
    response.status_code = status
    response._content = body
    if kind:
        response.headers["content-type"] = kind
    return response


@pytest.mark.parametrize(
    ("status", "kind", "body", "rejected"),
    [
        (200, "application/x-protobuf", b"", (0, "")),
        (200, "", b"", (0, "")),
        (202, "application/json", b"{}", (0, "")),
        (200, "application/json", b'{"partialSuccess":{"rejectedSpans":"2"},"x":1}', (2, "")),
        (200, "application/x-protobuf", b"\x0a\x02\x08\x03", (3, "")),
        (503, "text/html", b"<html>", (0, "")),
    ],
)
def test_receivers_answer_in_several_ways(
    status: int, kind: str, body: bytes, rejected: tuple[int, str]
) -> None:
    """As protobuf, as JSON, or with nothing; an error speaks for itself."""
    assert _rejected(answer(status, kind, body)) == rejected


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (200, "text/html; charset=utf-8", b""),
        (200, "application/json", b"no json"),
        (200, "application/x-protobuf", b"\xff\xff"),
        (302, "", b""),
    ],
)
def test_what_no_receiver_answers_fails_the_request(status: int, kind: str, body: bytes) -> None:
    """A page, a login and what cannot be read are those of somebody in between."""
    with pytest.raises(_NoAnswerError, match="not that of an OTLP receiver"):
        _rejected(answer(status, kind, body))


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://localhost:4318", True),
        ("http://LOCALHOST.:1", True),
        ("http://127.8.0.1:1", True),
        ("https://[::1]:1", True),
        ("http://10.0.0.1:1", False),
        ("http://localhost.example:1", False),
    ],
)
def test_a_proxy_does_not_get_what_is_for_this_machine(url: str, own: bool) -> None:
    """HTTP_PROXY and its like are read for other machines only."""
    assert is_loopback(url) is own
    transport = _official_exporter(url, Counts())._client._transport
    assert transport._session.trust_env is not own  # type: ignore[attr-defined]  # that of requests


def test_the_reason_of_a_failure_outlives_what_is_said_at_the_end() -> None:
    """A logged error is cut down to its reason, and a word on shutting down is none."""
    counts = Counts()
    log = logging.Logger("test")  # noqa: LOG001 - one that nobody else hears
    log.addHandler(ErrorsOfThisThread(counts))
    refused = requests.ConnectionError(OSError(111, os.strerror(111)))
    log.warning("Transient error %s encountered, retrying in %.2fs.", refused, 1.0)
    log.warning("Shutdown in progress, aborting retry.")
    log.error("Failed to export %s batch due to timeout, max retries or shutdown.", "spans")
    assert counts.stats.last_error == "connection refused"
    log.error("Failed to export %s batch code: %s, reason: %s", "spans", 400, "Bad Request")
    assert "code: 400, reason: Bad Request" in counts.stats.last_error


def test_an_error_without_a_reason_of_the_system_is_said_as_it_is() -> None:
    """And one that waited in vain is no answer."""
    assert why(requests.ReadTimeout("read timed out")) == "no answer"
    assert why(ValueError("odd")) == "odd"
