"""What a person may ask of the server that is traced here: another timing mode, and to be left."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec
from fastapi import APIRouter, HTTPException, Request, Response

from spectrace.attach import modes
from spectrace.attach.modes import Switch
from spectrace.attach.session import TraceSession, controller_of
from spectrace.errors import SpectraceError
from spectrace.model import TimingMode
from spectrace.server.peer import owner_of

_JSON = "application/json"
_MOST_BYTES = 1024  # of a body
_ROOT = 0


class Control(Protocol):
    """What the page can ask for; from any thread."""

    @property
    def run_id(self) -> str:
        """The run that it is about."""

    def time(self, mode: TimingMode) -> list[Switch]:
        """Has the server timed in another mode, from the same cycle on on all ranks of a group.

        Raises:
            SpectraceError: Somebody else controls it, or it is not traced any more.
        """

    def leave(self) -> None:
        """Has the probe taken out, soon; what was collected stays on the page."""


class SessionControl:
    """Controls the server of a session.

    Args:
        session: The session.
        leave: Asks for its end.
    """

    def __init__(self, session: TraceSession, leave: Callable[[], None]) -> None:
        self._session = session
        self._leave = leave
        self._one_at_a_time = threading.Lock()

    @property
    def run_id(self) -> str:
        """As the session's."""
        return self._session.run.run_id

    def time(self, mode: TimingMode) -> list[Switch]:
        """As `Control`."""
        with self._one_at_a_time:
            facts = self._session.facts()
            if not facts.controls:
                raise SpectraceError(
                    f"{controller_of(facts).capitalize()} controls how this server is timed: end "
                    "that one, or attach with --take-control."
                )
            return modes.switch(
                self._session.run,
                mode,
                take_control=True,
                controls=lambda: self._session.facts().controls,
            )

    def leave(self) -> None:
        """As `Control`."""
        self._leave()


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
    from starlette.concurrency import run_in_threadpool  # noqa: PLC0415

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
