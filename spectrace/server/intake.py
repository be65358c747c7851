"""Takes in what senders sent over any protocol, and gives the cycles and spans in it to the hub."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from spectrace.otlp.body import MAX_BODY_BYTES
from spectrace.otlp.decode import SpanBatch
from spectrace.otlp.join import CycleCollector, Received
from spectrace.server.hub import Hub
from spectrace.server.reading_thread import ReadingThread
from spectrace.server.state import Source

RETRY_S = 1
"""A sender that cannot be served now may come again after so many seconds."""
TOO_MUCH = "Too much is being received: send it again later."

_TICK_S = 0.5
_LAST_S = 0.3  # who leaves does not wait longer for what waits for its spans
_WAITING_BYTES = 4 * MAX_BODY_BYTES
_Result = TypeVar("_Result")


class Intake:
    """Decodes in one thread of its own, and knows when there is room for more.

    Args:
        hub: Where cycles and spans go.
        clock_s: A clock that never goes back, in s.

    Attributes:
        waiting_bytes: Of all bodies that are being read or are not decoded yet; whoever reads
            one counts it here.
    """

    def __init__(self, hub: Hub, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.waiting_bytes = 0
        self._hub = hub
        self._clock_s = clock_s
        self._collector = CycleCollector()
        self._thread = ReadingThread("spectrace-otlp")

    @property
    def is_full(self) -> bool:
        """Whether senders have to wait: too much is on its way, or the store does not keep up."""
        return self.waiting_bytes > _WAITING_BYTES or self._hub.is_behind

    async def decode(self, read: Callable[[], _Result]) -> _Result:
        """Does a piece of reading in the thread that is there for it."""
        return await asyncio.wrap_future(self._thread.submit(read))

    def take(self, batch: SpanBatch) -> None:
        """Passes on what is whole; to be called within `decode` only."""
        if batch.refused:
            self._hub.refuse_spans(batch.refused)
        if batch.others:
            self._hub.feed_spans(batch.others)
        self._pass_on(self._collector.add(batch, self._clock_s()))

    async def run(self) -> None:
        """Gives out cycles whose spans have waited for too long; all of them when cancelled."""
        try:
            while True:
                await asyncio.sleep(_TICK_S)
                await self.decode(self._tick)
        finally:
            last = asyncio.wrap_future(self._thread.submit(self._finish))
            self._thread.end()
            with suppress(asyncio.TimeoutError):  # it reads a body: then that and these are lost
                await asyncio.wait_for(last, _LAST_S)

    def _tick(self) -> None:
        self._pass_on(self._collector.tick(self._clock_s()))

    def _finish(self) -> None:
        self._pass_on(self._collector.finish())

    def _pass_on(self, received: Iterable[Received]) -> None:
        arrived = list(received)
        runs = {one.run.run_id: one.run for one in arrived}
        self._hub.tell_joined(self._collector.stats)
        wanted = {key for key, run in runs.items() if self._hub.put_run(run, Source.RECEIVED)}
        self._hub.feed(one.cycle for one in arrived if one.run.run_id in wanted)
