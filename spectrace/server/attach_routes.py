"""The routes by which the page finds servers of this machine, and has one attached to."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, HTTPException, Request, Response
from starlette.concurrency import run_in_threadpool

from spectrace.model import TimingMode
from spectrace.server.attacher import Attacher
from spectrace.server.one_reader import OneReader
from spectrace.server.wishes import JSON, answered, body_of, decoded, refuse_strangers

_MODES = ", ".join(mode.value for mode in TimingMode)
_WISH = f'{{}}, or of "run" the run that is meant and of "mode" one of {_MODES}'
_MAY_NOT = (
    "Only the account that runs spectrace may look for servers here and attach to them: ask from "
    "there, or use `spectrace status` and `spectrace attach`."
)
_MOST_DIGITS = 10  # of a process id; the kernel's are below 2^22


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    run: str | None = None
    mode: TimingMode | None = None


def attach_router(attacher: Attacher) -> APIRouter:
    """The routes; for whoever runs spectrace, on its machine, and root.

    Args:
        attacher: Finds servers and attaches to them.
    """
    routes = APIRouter(prefix="/api/servers")
    reader = OneReader("Others are looking for servers: ask again in a few seconds.")

    def look() -> bytes:
        with reader.turn():
            return msgspec.json.encode({"servers": attacher.look()})

    @routes.get("")
    async def servers(request: Request) -> Response:
        await _refuse(attacher, request)
        return Response(await answered(look), media_type=JSON)

    @routes.post("/{pid}/attach")
    async def attach(pid: str, request: Request) -> Response:
        body = await body_of(request)
        await _refuse(attacher, request)
        wish, number = decoded(body, _Wish, _WISH), _process_id(pid)
        run = await answered(lambda: attacher.attach(number, run_id=wish.run, mode=wish.mode))
        return Response(msgspec.json.encode({"run": run.run_id}), media_type=JSON)

    return routes


async def _refuse(attacher: Attacher, request: Request) -> None:
    """Refuses where the page attaches to nothing, and who may not."""
    if attacher.refusal:
        raise HTTPException(403, attacher.refusal)
    await run_in_threadpool(refuse_strangers, request, _MAY_NOT)


def _process_id(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        raise HTTPException(400, "Name the server by its process id, a whole number.")
    return int(text)
