"""Reads what a page asks to be done, and refuses what no page of ours, or no one who may, asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import msgspec
from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from spectrace.errors import SpectraceError
from spectrace.server.peer import owner_of

JSON = "application/json"
_MOST_BYTES = 1024  # of a body
_ROOT = 0
_T = TypeVar("_T")


async def body_of(request: Request) -> bytes:
    """The body of a request that no form of a foreign page can send.

    Raises:
        HTTPException: It is no JSON (415), or too long (413).
    """
    if request.headers.get("content-type", "").split(";")[0].strip() != JSON:
        raise HTTPException(415, f"Say what is asked for as {JSON}.")
    found = b""
    async for chunk in request.stream():
        found += chunk
        if len(found) > _MOST_BYTES:
            raise HTTPException(413, "That is too long to be a wish.", {"connection": "close"})
    return found


def decoded(body: bytes, wish: type[_T], say: str) -> _T:
    """What a body asks for.

    Args:
        body: JSON.
        wish: What it should be.
        say: What to say instead of what is none.

    Raises:
        HTTPException: It is something else. Status 400.
    """
    try:
        return msgspec.json.decode(body, type=wish)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise HTTPException(400, f"Say {say}: this was not understood ({error}).") from error


def refuse_strangers(request: Request, why: str) -> None:
    """Refuses whoever is neither the account that runs spectrace, on this machine, nor root.

    Everybody on a machine reaches its loopback, and not everybody there may decide.

    Args:
        request: Who asks.
        why: A sentence for whoever may not.

    Raises:
        HTTPException: They may not. Status 403.
    """
    client, here = request.client, request.scope["server"]
    user = None if client is None else owner_of((client.host, client.port), (here[0], here[1]))
    if user not in {_ROOT, os.geteuid()}:
        raise HTTPException(403, why)


async def answered(ask: Callable[[], _T]) -> _T:
    """What comes of a wish, in a thread: it reads files, or waits for a server.

    Args:
        ask: Does what is wished for.

    Raises:
        HTTPException: It cannot be done, and why. Status 409.
    """
    try:
        return await run_in_threadpool(ask)
    except SpectraceError as error:
        raise HTTPException(409, str(error)) from error
