"""The routes by which a page has a run recorded."""

from __future__ import annotations

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool

from spectrace.server.hub import Hub
from spectrace.server.recorder import LEAST_BYTES, MOST_BYTES
from spectrace.server.state import RecordingState
from spectrace.server.wishes import JSON, answered, body_of, decoded, refuse_strangers

_WISH = f'{{"name": …, "max_bytes": …}} with a size from {LEAST_BYTES} to {MOST_BYTES}'
_MAY_NOT = (
    "Only the account that runs spectrace may have it record where it runs: ask from there, or "
    "use `spectrace record`."
)


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    max_bytes: int

    def __post_init__(self) -> None:
        if not LEAST_BYTES <= self.max_bytes <= MOST_BYTES:
            raise ValueError("max_bytes is out of bounds")


def record_router(hub: Hub) -> APIRouter:
    """The routes; for whoever runs spectrace, on its machine, and root.

    Args:
        hub: Whose runs are recorded.
    """
    routes = APIRouter(prefix="/api/runs/{run}")

    @routes.post("/recording")
    async def start(run: str, request: Request) -> Response:
        body = await body_of(request)
        await run_in_threadpool(refuse_strangers, request, _MAY_NOT)
        wish = decoded(body, _Wish, _WISH)
        return _told(await answered(lambda: hub.record(run, wish.name, wish.max_bytes)))

    @routes.post("/recording/stop")
    async def stop(run: str, request: Request) -> Response:
        await body_of(request)
        await run_in_threadpool(refuse_strangers, request, _MAY_NOT)
        return _told(await answered(lambda: hub.recorder.stop(run)))

    return routes


def _told(state: RecordingState) -> Response:
    return Response(msgspec.json.encode(state), media_type=JSON)
