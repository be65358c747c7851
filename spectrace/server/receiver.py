"""Receives OTLP over HTTP and turns the spans back into cycles."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from fastapi import HTTPException, Request, Response

from spectrace.otlp.join import CycleCollector, Received
from spectrace.otlp.receive import Answer, receive
from spectrace.server.hub import Hub
from spectrace.server.state import Source

_TICK_S = 0.5
_AT_ONCE = 4  # bodies that are in memory at the same time
_PATIENCE_S = 30.0
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
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def post(self, request: Request) -> Response:
        """Answers one request of a sender.

        Raises:
            HTTPException: The body is too large, or takes too long to come.
        """
        async with self._slots:
            try:
                body = await asyncio.wait_for(request.body(), _PATIENCE_S)
            except asyncio.TimeoutError:
                raise HTTPException(408, "The body took too long to arrive.") from None
            kind, encoding = (
                request.headers.get(name) for name in ("content-type", "content-encoding")
            )
            answer = await self._in_thread(lambda: self._take(body, kind, encoding))
        return Response(answer.body, answer.status, answer.headers)

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
        for run in {one.run.run_id: one.run for one in arrived}.values():
            self._hub.put_run(run, Source.RECEIVED)
        self._hub.feed(one.cycle for one in arrived)
