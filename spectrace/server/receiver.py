"""Receives OTLP over HTTP and turns the spans back into cycles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import TypeVar

from fastapi import Request, Response
from starlette.requests import ClientDisconnect

from spectrace.otlp.join import CycleCollector, Received
from spectrace.otlp.receive import MAX_BODY_BYTES, Answer, failure, receive, too_long
from spectrace.server.hub import Hub
from spectrace.server.state import Source

_TICK_S = 0.5
_WAITING_BYTES = 4 * MAX_BODY_BYTES  # of all bodies that are read or not decoded yet
_IDLE_S = 5.0  # without anything of a body
_PATIENCE_S = 30.0  # for a whole body
_RETRY_S = "1"
_Result = TypeVar("_Result")


class Receiver:
    """The endpoint `/v1/traces`; decoding has a thread of its own.

    Args:
        hub: Where the cycles go.
        clock_s: A clock that never goes back, in s.
    """

    def __init__(self, hub: Hub, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._hub = hub
        self._clock_s = clock_s
        self._collector = CycleCollector()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spectrace-otlp")
        self._waiting_bytes = 0

    async def answer(self, request: Request) -> Response:
        """Answers one request of a sender; one that cannot be taken now may come again."""
        kind = request.headers.get("content-type")
        body = bytearray()
        try:
            answer = await self._answer(request, kind, body)
        except ClientDisconnect:  # nobody is left to answer
            return Response(status_code=400)
        except asyncio.TimeoutError:
            answer = failure(408, "The body took too long to arrive: send it again.", kind)
        finally:
            self._waiting_bytes -= len(body)
        response = Response(answer.body, answer.status, answer.headers)
        if answer.status in {408, 503}:
            response.headers["retry-after"] = _RETRY_S
            response.headers["connection"] = "close"
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            response.headers["allow"] = "POST"
        return response

    async def _answer(self, request: Request, kind: str | None, body: bytearray) -> Answer:
        """Reads the body and decodes it.

        Raises:
            ClientDisconnect: The sender went away within it.
            TimeoutError: It took too long.
        """
        if request.method != "POST":
            return failure(405, "Spans are sent with POST.", kind)
        announced = request.headers.get("content-length", "")
        if announced.isdecimal() and int(announced) > MAX_BODY_BYTES:
            return too_long(kind)
        until_s = time.monotonic() + _PATIENCE_S
        stream = request.stream()
        while chunk := await _within(anext(stream, b""), until_s):
            body += chunk
            self._waiting_bytes += len(chunk)
            if len(body) > MAX_BODY_BYTES:
                return too_long(kind)
            if self._waiting_bytes > _WAITING_BYTES:
                return failure(503, "Too much is being received: send it again later.", kind)
        encoding = request.headers.get("content-encoding")
        return await self._in_thread(lambda: self._take(bytes(body), kind, encoding))

    async def run(self) -> None:
        """Gives out cycles whose spans have waited for too long, until it is cancelled."""
        try:
            while True:
                await asyncio.sleep(_TICK_S)
                await self._in_thread(self._tick)
        finally:
            self._thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _take(self, body: bytes, kind: str | None, encoding: str | None) -> Answer:
        answer = receive(body, kind, encoding)
        if answer.batch is not None:
            self._pass_on(self._collector.add(answer.batch, self._clock_s()))
        return answer

    def _tick(self) -> None:
        self._pass_on(self._collector.tick(self._clock_s()))

    def _pass_on(self, received: Iterable[Received]) -> None:
        arrived = list(received)
        runs = {one.run.run_id: one.run for one in arrived}
        wanted = {key for key, run in runs.items() if self._hub.put_run(run, Source.RECEIVED)}
        self._hub.feed(one.cycle for one in arrived if one.run.run_id in wanted)


async def _within(coming: Awaitable[bytes], until_s: float) -> bytes:
    return await asyncio.wait_for(coming, min(_IDLE_S, until_s - time.monotonic()))
