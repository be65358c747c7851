"""The live stream: every browser gets the newest, and a slow one holds up nobody."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from weakref import WeakSet

from fastapi.sse import format_sse_event

from spectrace.server.wire import encode_list

MOST_LISTENERS = 32
_BACKLOG = 1000  # cycles that wait for one browser; then the oldest go
_BACKLOG_REQUESTS = 500  # likewise; nobody is told
_PAUSE_S = 0.1  # no more than ten events of a kind a second
_KEEP_ALIVE_S = 10.0
_KEEP_ALIVE = format_sse_event(comment="keep-alive")


def cycles_event(encoded: Iterable[bytes]) -> bytes:
    """An event with cycles that are JSON already, the oldest first."""
    return format_sse_event(event="cycles", data_str=encode_list(encoded).decode())


def state_event(encoded: bytes) -> bytes:
    """An event with the state of the server, which is JSON already."""
    return format_sse_event(event="state", data_str=encoded.decode())


def requests_event(encoded: Iterable[bytes]) -> bytes:
    """An event with requests that are JSON already; each replaces what was sent of its trace."""
    return format_sse_event(event="requests", data_str=encode_list(encoded).decode())


def _skipped_event(cycles: int) -> bytes:
    return format_sse_event(event="skipped", data_str=f'{{"cycles":{cycles}}}')


class Listener:
    """What waits for one browser; it belongs to the event loop.

    Args:
        backlog: Cycles that wait at most.
    """

    def __init__(self, backlog: int = _BACKLOG) -> None:
        self._cycles: deque[bytes] = deque(maxlen=backlog)
        self._requests: deque[bytes] = deque(maxlen=_BACKLOG_REQUESTS)
        self._skipped = 0
        self._state: bytes | None = None
        self._something = asyncio.Event()
        self._closed = False

    def add(self, encoded: Sequence[bytes]) -> None:
        """Takes in cycles; the oldest make room and are counted."""
        room = (self._cycles.maxlen or 0) - len(self._cycles)
        self._skipped += max(0, len(encoded) - room)
        self._cycles.extend(encoded)
        self._something.set()

    def add_requests(self, encoded: Sequence[bytes]) -> None:
        """Takes in requests; the oldest make room."""
        self._requests.extend(encoded)
        self._something.set()

    def set_state(self, encoded: bytes) -> None:
        """Takes in the newest state, which replaces one that has not been sent yet."""
        self._state = encoded
        self._something.set()

    def close(self) -> None:
        """Ends `events`."""
        self._closed = True
        self._something.set()

    def take(self) -> list[bytes]:
        """The events that are due now."""
        events = []
        if self._skipped:
            events.append(_skipped_event(self._skipped))
        if self._cycles:
            events.append(cycles_event(self._cycles))
        if self._requests:
            events.append(requests_event(self._requests))
        if self._state is not None:
            events.append(state_event(self._state))
        self._cycles.clear()
        self._requests.clear()
        self._skipped, self._state = 0, None
        self._something.clear()
        return events

    async def events(self) -> AsyncIterator[bytes]:
        """Events as they become due, and a sign of life every ten seconds."""
        alive_s = time.monotonic()
        while not self._closed:
            await self._wait(alive_s + _KEEP_ALIVE_S - time.monotonic())
            if time.monotonic() - alive_s >= _KEEP_ALIVE_S:
                alive_s = time.monotonic()
                yield _KEEP_ALIVE
            for event in self.take():
                yield event
            await asyncio.sleep(_PAUSE_S)

    async def _wait(self, timeout_s: float) -> None:
        try:
            await asyncio.wait_for(self._something.wait(), max(timeout_s, 0))
        except asyncio.TimeoutError:
            return


class Live:
    """All browsers that listen; it belongs to the event loop."""

    def __init__(self) -> None:
        self._listeners: WeakSet[Listener] = WeakSet()  # one whose stream never began goes too
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many browsers listen."""
        return len(self._listeners)

    def publish(self, encoded: Sequence[bytes]) -> None:
        """Passes cycles on, the oldest first."""
        for listener in self._listeners:
            listener.add(encoded)

    def publish_requests(self, encoded: Sequence[bytes]) -> None:
        """Passes requests on, the oldest change first."""
        for listener in self._listeners:
            listener.add_requests(encoded)

    def publish_state(self, encoded: bytes) -> None:
        """Passes the state on."""
        for listener in self._listeners:
            listener.set_state(encoded)

    def stream(self, greeting: Callable[[], Awaitable[Sequence[bytes]]]) -> AsyncIterator[bytes]:
        """The events for one browser, which is joined now, until it leaves or the server ends.

        Args:
            greeting: Gives the events to begin with. It is asked after the browser has been
                joined, so that no cycle falls in between.
        """
        listener = Listener()
        self._listeners.add(listener)
        return self._stream(listener, greeting)

    async def _stream(
        self, listener: Listener, greeting: Callable[[], Awaitable[Sequence[bytes]]]
    ) -> AsyncIterator[bytes]:
        try:
            for event in await greeting():
                yield event
            if not self._closed:
                async for event in listener.events():
                    yield event
        finally:
            self._listeners.discard(listener)

    def close(self) -> None:
        """Ends all streams."""
        self._closed = True
        for listener in self._listeners:
            listener.close()
