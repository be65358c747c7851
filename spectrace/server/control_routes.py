"""The routes by which the page asks something of the server that is traced here."""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec
from fastapi import APIRouter, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool

from spectrace.attach.modes import Switch
from spectrace.errors import SpectraceError
from spectrace.model import TimingMode
from spectrace.server.control import Control
from spectrace.server.peer import owner_of

_JSON = "application/json"
_MOST_BYTES = 1024  # of a body
_ROOT = 0


class _Timing(msgspec.Struct, forbid_unknown_fields=True):
    mode: TimingMode


def control_router(control_of: Callable[[str], Control | None]) -> APIRouter:
    """The routes by which a page asks; for whoever runs spectrace, and root.

    Everybody on a machine reaches its loopback, and not everybody there may decide about this
    server.

    Args:
        control_of: Gives what can be asked of a run; None where it is not traced from here.
    """
    routes = APIRouter(prefix="/api/runs/{run}")

    @routes.post("/timing")
    async def timing(run: str, request: Request) -> Response:
        asked = _decoded(await _body(request))
        return await _answered(lambda: _asked(control_of(run), request).time(asked.mode))

    @routes.post("/detach")
    async def detach(run: str, request: Request) -> Response:
        await _body(request)
        return await _answered(lambda: _asked(control_of(run), request).leave())

    return routes


async def _answered(ask: Callable[[], list[Switch] | None]) -> Response:
    """What was asked, in a thread: a switch measures the server's speed before."""
    try:
        done = await run_in_threadpool(ask)
    except SpectraceError as error:
        raise HTTPException(409, str(error)) from error
    return Response(msgspec.json.encode({"switches": done or []}), media_type=_JSON)


async def _body(request: Request) -> bytes:
    """The body of a request that no form of a foreign page can send."""
    if request.headers.get("content-type", "").split(";")[0].strip() != _JSON:
        raise HTTPException(415, f"Say what is asked for as {_JSON}.")
    found = b""
    async for chunk in request.stream():
        found += chunk
        if len(found) > _MOST_BYTES:
            raise HTTPException(413, "That is too long to be a wish.", {"connection": "close"})
    return found


def _decoded(body: bytes) -> _Timing:
    try:
        return msgspec.json.decode(body, type=_Timing)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        names = ", ".join(mode.value for mode in TimingMode)
        raise HTTPException(
            400, f'Say {{"mode": …}} with one of {names}: this was not understood ({error}).'
        ) from error


def _asked(found: Control | None, request: Request) -> Control:
    """What controls the run, for who may."""
    if found is None:
        raise HTTPException(404, "This run is not traced from here, or not any more.")
    client, here = request.client, request.scope["server"]
    user = None if client is None else owner_of((client.host, client.port), (here[0], here[1]))
    if user not in {_ROOT, os.geteuid()}:
        raise HTTPException(
            403,
            "Only the account that runs spectrace may decide about this server: ask from there, "
            "or use `spectrace mode` and `spectrace detach`.",
        )
    return found
