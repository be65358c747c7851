"""The routes by which a page has what is stored made into a file, and saves it."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Annotated

import msgspec
from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import FileResponse
from starlette.concurrency import run_in_threadpool

from spectrace.errors import SpectraceError
from spectrace.server.exports import Exports, ExportState, formats
from spectrace.server.hub import Hub
from spectrace.server.wishes import JSON, body_of, decoded, refuse_strangers
from spectrace.store.source import Cut

_WISH = '{"format": …}, and for a part of the run "from_ns" and "to_ns", UNIX ns as text'
_MAY_NOT = (
    "Only the account that runs spectrace may have it write files: ask from there, or use "
    "`spectrace record` and `spectrace export`."
)
_GONE = "This export is not here any more: ask for it again."
_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")
_MOST_STEM = 40
_NS_PER_S = 1_000_000_000

_Time = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,18}$|^[0-8][0-9]{18}$")]


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    format: str
    from_ns: _Time | None = None
    to_ns: _Time | None = None


def export_router(hub: Hub, exports: Exports, *, has_token: bool) -> APIRouter:
    """The routes; for whoever runs spectrace and root, or for who has shown the token.

    Args:
        hub: Which runs there are.
        exports: Makes the files.
        has_token: Whoever gets here has shown a token.
    """
    routes = APIRouter(prefix="/api")
    _add_made(routes, exports)

    @routes.post("/runs/{run}/exports")
    async def start(run: str, request: Request) -> Response:
        body = await body_of(request)
        if not has_token:
            await run_in_threadpool(refuse_strangers, request, _MAY_NOT)
        wish = decoded(body, _Wish, _WISH)
        cut = _cut(hub, run, wish)
        try:
            return _json(exports.start(_stem(hub, cut), wish.format, cut), 202)
        except SpectraceError as error:
            raise HTTPException(409, str(error)) from error

    return routes


def _add_made(routes: APIRouter, exports: Exports) -> None:
    """The routes of what was asked for, which nobody else can name."""

    @routes.get("/exports")
    async def known() -> Response:
        return _json({"formats": formats()})

    @routes.get("/exports/{one}")
    async def told(one: str) -> Response:
        state = exports.state(one)
        if state is None:
            raise HTTPException(404, _GONE)
        return _json(state)

    @routes.delete("/exports/{one}")
    async def drop(one: str) -> Response:
        exports.drop(one)
        return Response(status_code=204)

    @routes.get("/exports/{one}/file")
    async def file(one: str) -> Response:
        path = exports.file(one)
        if path is None:
            raise HTTPException(404, _GONE)
        return FileResponse(path, media_type="application/octet-stream", filename=path.name)


def _json(body: ExportState | dict[str, list[str]], status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type=JSON)


def _cut(hub: Hub, run: str, wish: _Wish) -> Cut:
    if not hub.knows(run):
        raise HTTPException(404, "There is no such run: /api/state lists those that there are.")
    first, last = (None if text is None else int(text) for text in (wish.from_ns, wish.to_ns))
    if first is not None and last is not None and first >= last:
        raise HTTPException(400, "The stretch of time ends before it begins: give it a length.")
    return Cut(run_id=run, first_ns=first, last_ns=last)


def _stem(hub: Hub, cut: Cut) -> str:
    """A name for a file: of the machine, and of the time at which it begins."""
    (host,) = (run.host for run in hub.state().runs if run.run == cut.run_id)
    first_ns = cut.first_ns if cut.first_ns is not None else hub.first_ns(cut.run_id)
    named = _FOREIGN.sub("-", host).strip(".-")[:_MOST_STEM] or "run"
    if first_ns is None:
        return named
    began = datetime.fromtimestamp(first_ns // _NS_PER_S, timezone.utc)
    return f"{named}-{began:%Y%m%d-%H%M%S}"
