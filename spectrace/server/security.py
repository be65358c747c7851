"""Keeps web pages of others out: who may ask is told by the Host and Origin headers."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d*)?", re.ASCII)
_TOO_LARGE = 413
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


class LocalOnly:
    """Refuses requests that a web page of somebody else may have caused.

    A browser that is led here by a foreign name (DNS rebinding) sends that name as Host. A
    foreign page that asks us itself sends its own Origin. The port of the Host may be any:
    a tunnel (`ssh -L`) changes it, and no attacker gains by it.

    Args:
        app: What is guarded.
        hosts: Names that are allowed beside those of loopback.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = ()) -> None:
        self._app = app
        self._hosts = LOOPBACK | {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 403 or passes the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reason = refusal(Headers(scope=scope), self._hosts)
        app = self._app if reason is None else PlainTextResponse(reason + "\n", 403)
        await app(scope, receive, _with_headers(scope, send))


def refusal(headers: Headers, hosts: Container[str | None]) -> str | None:
    """Why a request with these headers is refused; None if it is not."""
    found = headers.getlist("host")
    if len(found) != 1 or host_name(found[0]) not in hosts:
        return (
            f"The host {', '.join(found) or 'of this request'} is not this machine's own: "
            "open the page as http://127.0.0.1 with its port, or http://localhost."
        )
    origins = headers.getlist("origin")
    if any(not _is_same(origin, found[0]) for origin in origins):
        return f"A page of {origins[0]} may not use spectrace: open spectrace's own page."
    return None


def host_name(host: str) -> str | None:
    """The name in a Host header, without its port; None if it is no host."""
    match = _HOST.fullmatch(host)
    return match[1].strip("[]").lower().removesuffix(".") if match else None


def _is_same(origin: str, host: str) -> bool:
    return origin.lower() in (f"http://{host}".lower(), f"https://{host}".lower())


def _with_headers(scope: Scope, send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(_HEADERS)
            if message["status"] == _TOO_LARGE:
                headers["connection"] = "close"  # the rest of the body is not waited for
            if scope["path"].startswith("/api/"):
                headers["cache-control"] = "no-store"
        await send(message)

    return send_with_headers
