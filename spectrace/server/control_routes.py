"""The routes by which the page asks something of the server that is traced here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, HTTPException, Request, Response

from spectrace.attach.modes import MOST_EVERY, Switch, Wish
from spectrace.model import TimingMode
from spectrace.server.control import Control
from spectrace.server.wishes import JSON, answered, body_of, decoded, refuse_strangers


class _Timing(msgspec.Struct, forbid_unknown_fields=True):
    mode: TimingMode | None = None
    sample_every: Annotated[int, msgspec.Meta(ge=1, le=MOST_EVERY)] | None = None


_TIMING = (
    f'{{"mode": …}} with one of {", ".join(mode.value for mode in TimingMode)}, '
    f'{{"sample_every": …}} with a number from 1 to {MOST_EVERY}, or both'
)
_MAY_NOT = (
    "Only the account that runs spectrace may decide about this server: ask from there, or use "
    "`spectrace mode`, `spectrace sample` and `spectrace detach`."
)


def control_router(control_of: Callable[[str], Control | None]) -> APIRouter:
    """The routes by which a page asks; for whoever runs spectrace, and root.

    Args:
        control_of: Gives what can be asked of a run; None where it is not traced from here.
    """
    routes = APIRouter(prefix="/api/runs/{run}")

    def asked_of(run: str, request: Request) -> Control:
        return control_for(control_of(run), request, _MAY_NOT)

    @routes.post("/timing")
    async def timing(run: str, request: Request) -> Response:
        asked = decoded(await body_of(request), _Timing, _TIMING)
        if asked.mode is None and asked.sample_every is None:
            raise HTTPException(400, f"Say {_TIMING}: nothing was asked for.")
        wish = Wish(asked.mode, asked.sample_every)
        # In a thread: a switch measures the server's speed before.
        return _told(await answered(lambda: asked_of(run, request).time(wish)))

    @routes.post("/detach")
    async def detach(run: str, request: Request) -> Response:
        await body_of(request)
        await answered(lambda: asked_of(run, request).leave())
        return _told()

    return routes


def control_for(found: Control | None, request: Request, why: str) -> Control:
    """What controls a run, for who may.

    Args:
        found: What controls it; None where it is not traced from here.
        request: Who asks.
        why: A sentence for whoever may not.

    Raises:
        HTTPException: There is none (404), or they may not (403).
    """
    if found is None:
        raise HTTPException(404, "This run is not traced from here, or not any more.")
    refuse_strangers(request, why)
    return found


def _told(switches: Sequence[Switch] = ()) -> Response:
    return Response(msgspec.json.encode({"switches": switches}), media_type=JSON)
