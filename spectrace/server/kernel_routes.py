"""The routes of kernels: what looks have seen, and by which the page asks for one."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Request, Response

from spectrace.server.control import Control
from spectrace.server.control_routes import control_for
from spectrace.server.hub import Hub
from spectrace.server.kernel_wire import encode_kernels, encode_looks
from spectrace.server.parameters import Group, Number, RunId, check_run, no_cycle
from spectrace.server.wishes import JSON, answered, body_of, decoded

MOST_CYCLES = 1000  # of a look that the page asks for
_Cycles = Annotated[int, msgspec.Meta(ge=1, le=MOST_CYCLES)]
_SAY = f'{{"cycles": …}} with a number from 1 to {MOST_CYCLES}'
_MAY_NOT = (
    "Only the account that runs spectrace may look at the kernels of this server: ask from there, "
    "or use `spectrace kernels`."
)


class _Wish(msgspec.Struct, forbid_unknown_fields=True):
    cycles: _Cycles


def kernel_router(hub: Hub) -> APIRouter:
    """The routes; a look is for whoever runs spectrace, and root.

    Args:
        hub: Whose runs they are about.
    """
    routes = APIRouter(prefix="/api/runs/{run}")

    def asked_of(run: str, request: Request) -> Control:
        return control_for(hub.control_of(run), request, _MAY_NOT)

    @routes.get("/looks")
    def looks(run: RunId) -> Response:
        check_run(hub, run)
        return Response(encode_looks(hub.store.looks(run)), media_type=JSON)

    @routes.get("/cycles/{n}/kernels")
    def kernels(run: RunId, n: Number, group: Group = "") -> Response:
        check_run(hub, run)
        cycle = hub.store.cycle(run, group, n)
        if cycle is None:
            raise no_cycle(n)
        seen = hub.store.kernels(run, group, n)
        return Response(encode_kernels(cycle, seen), media_type=JSON)

    @routes.get("/kernels/prospect")
    def prospect(run: RunId, request: Request) -> Response:
        found = asked_of(run, request).kernel_prospect()
        return Response(msgspec.json.encode(found), media_type=JSON)

    @routes.post("/kernels")
    async def look(run: RunId, request: Request) -> Response:
        body = await body_of(request)
        control = await answered(lambda: asked_of(run, request))
        wish = decoded(body, _Wish, _SAY)
        await answered(lambda: control.look_at_kernels(wish.cycles))
        return Response(b"{}", status_code=202, media_type=JSON)

    return routes
