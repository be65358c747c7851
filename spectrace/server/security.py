"""Keeps others out: web pages by the Host and Origin headers, other machines by the token."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from spectrace.otlp.receive import failure
from spectrace.server.address import LOOPBACK
from spectrace.server.receiver import PATH
from spectrace.server.token import ASKED_FOR, Token

QUERY = "token"
"""Name of the parameter by which a browser shows the token for the first time."""
_WHERE_TO_LOOK = (
    "A token is required. Open the page at the address that `spectrace serve` printed; it ends in "
    "?token=… with the token.\n"
)
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


class Guard:
    """Refuses requests that a web page of somebody else may have caused, or who lacks the token.

    A browser that is led here by a foreign name (DNS rebinding) sends that name as Host. A
    foreign page that asks us itself sends its own Origin. The port of the Host may be any:
    a tunnel (`ssh -L`) changes it, and no attacker gains by it. Where a token is required any
    Host is fine: under a foreign name no browser has the cookie.

    Args:
        app: What is guarded.
        hosts: Names that are allowed beside those of loopback.
        token: What has to be shown; None for nothing.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str] = (), token: Token | None = None) -> None:
        self._app = app
        self._hosts = None if token else LOOPBACK | {host.lower() for host in hosts}
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 401 or 403, takes a browser's token, or passes the request on."""
        if scope["type"] == "http":
            answer = self._answer(scope, Headers(scope=scope))
            await (answer or self._app)(scope, receive, _with_headers(scope, send))
        else:
            await self._app(scope, receive, send)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        """What to answer in place of the application, None where it may answer."""
        reason = refusal(headers, self._hosts)
        if reason is not None:
            return PlainTextResponse(reason + "\n", 403)
        if self._token is None or _shows(headers, self._token):
            return None
        # Of a token that was typed in as it is: a plus sign means a space there, and it has none.
        shown = QueryParams(scope["query_string"]).get(QUERY, "").replace(" ", "+")
        if scope["method"] == "GET" and self._token.equals(shown):
            return _remembering(scope, self._token)
        return _asking(scope["path"], headers.get("content-type"))


def _shows(headers: Headers, token: Token) -> bool:
    shown = headers.getlist("authorization")
    if len(shown) == 1:
        return token.is_shown_in(shown[0])
    return any(map(token.is_remembered_in, headers.getlist("cookie")))


def _remembering(scope: Scope, token: Token) -> Response:
    """Sends a browser on to the same place without the token in its address."""
    answer = RedirectResponse("/" + scope["path"].lstrip("/"), 303)
    answer.set_cookie(
        token.cookie_name,
        token.cookie_value,
        secure=scope["scheme"] == "https",
        httponly=True,
        samesite="strict",
    )
    return answer


def _asking(path: str, content_type: str | None) -> Response:
    challenge = {"www-authenticate": "Bearer"}
    if path == PATH:
        answer = failure(401, ASKED_FOR, content_type)
        return Response(answer.body, answer.status, answer.headers | challenge)
    return PlainTextResponse(_WHERE_TO_LOOK, 401, challenge)


def refusal(headers: Headers, hosts: Container[str | None] | None) -> str | None:
    """Why a request with these headers is refused; None if it is not.

    Args:
        headers: The headers.
        hosts: The names that are allowed as Host; None for any.
    """
    found = headers.getlist("host")
    if len(found) != 1 or (hosts is not None and host_name(found[0]) not in hosts):
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
