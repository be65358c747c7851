"""Only pages of this machine's own address may ask."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from spectrace.server.address import LOOPBACK
from spectrace.server.security import refusal

OWN = [
    "127.0.0.1:7711",
    "localhost:7711",
    "localhost",
    "[::1]:7711",
    "LOCALHOST:8080",
    "localhost.:7711",
]
FOREIGN = [
    "evil.example:7711",
    "127.0.0.1.evil.example:7711",
    "localhost.evil.example",
    "127.0.0.1@evil.example",
    "evil.example/127.0.0.1",
    "evil.example@127.0.0.1",
    "localhost/",
    "localhost:7711/evil.example",
    "localhost..",
    "192.168.0.7:7711",
    "0.0.0.0:7711",
    "[::1",
    "",
]


@pytest.mark.parametrize("host", OWN)
def test_loopback_names_are_let_in_on_any_port(host: str) -> None:
    """A tunnel may have changed the port."""
    assert refusal(Headers({"host": host}), LOOPBACK) is None


@pytest.mark.parametrize("host", FOREIGN)
def test_other_hosts_are_refused(host: str) -> None:
    """A foreign name that leads here (DNS rebinding) is not ours, whatever it looks like."""
    assert refusal(Headers({"host": host}), LOOPBACK) is not None


def test_a_host_that_was_configured_is_let_in() -> None:
    """A name behind a proxy can be allowed."""
    assert refusal(Headers({"host": "traces.lan"}), LOOPBACK | {"traces.lan"}) is None


def test_no_host_and_two_hosts_are_refused() -> None:
    """Which of two names counts would be a guess."""
    two = Headers(raw=[(b"host", b"localhost"), (b"host", b"evil.example")])
    assert refusal(Headers({}), LOOPBACK) is not None
    assert refusal(two, LOOPBACK) is not None


@pytest.mark.parametrize(
    ("origin", "allowed"),
    [
        ("http://localhost:7711", True),
        ("https://localhost:7711", True),
        ("http://localhost:3000", False),
        ("http://127.0.0.1:7711", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
    ],
)
def test_an_origin_has_to_be_the_host_itself(origin: str, allowed: bool) -> None:
    """Another port, another name of this machine and a sandboxed page are other origins."""
    headers = Headers({"host": "localhost:7711", "origin": origin})
    assert (refusal(headers, LOOPBACK) is None) is allowed
