"""The live stream gives every browser the newest, and says what it left out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

from spectrace.server.live import Listener, Live, cycles_event, state_event


async def collect(events: AsyncIterator[bytes], count: int) -> list[bytes]:
    """The next `count` events."""
    return [await asyncio.wait_for(anext(events), 60) for _ in range(count)]


async def nothing() -> Sequence[bytes]:
    """No greeting."""
    return []


async def start(live: Live) -> tuple[AsyncIterator[bytes], asyncio.Task[bytes]]:
    """A browser that has joined, and its wait for the first event."""
    joined = asyncio.Event()

    async def greeting() -> Sequence[bytes]:
        joined.set()
        return []

    stream = live.stream(greeting)
    first = asyncio.ensure_future(anext(stream))
    await joined.wait()
    return stream, first


def test_cycles_are_joined_into_one_event() -> None:
    """What came in two steps before the browser was ready goes out at once, in order."""
    listener = Listener()
    listener.add([b"1", b"2"])
    listener.add([b"3"])
    assert listener.take() == [b"event: cycles\ndata: [1,2,3]\n\n"]
    assert listener.take() == []


def test_a_slow_browser_loses_the_oldest_and_is_told_how_many() -> None:
    """With room for 3 of 7 cycles, 4 are skipped."""
    listener = Listener(backlog=3)
    listener.add([b"1", b"2"])
    listener.add([b"3", b"4", b"5", b"6", b"7"])
    assert listener.take() == [
        b'event: skipped\ndata: {"cycles":4}\n\n',
        cycles_event([b"5", b"6", b"7"]),
    ]


def test_only_the_newest_state_is_sent() -> None:
    """An older one that was not sent yet is of no use."""
    listener = Listener()
    listener.set_state(b"{1}")
    listener.set_state(b"{2}")
    assert listener.take() == [state_event(b"{2}")]


def test_a_browser_is_greeted_and_then_follows() -> None:
    """What is published while the greeting is made is not missed."""

    async def scenario() -> list[bytes]:
        live = Live()

        async def greeting() -> Sequence[bytes]:
            live.publish([b"2"])
            return [b"hello"]

        return await collect(live.stream(greeting), 2)

    assert asyncio.run(scenario()) == [b"hello", cycles_event([b"2"])]


def test_a_stream_has_ten_events_a_second_at_most() -> None:
    """Of 25 publications, 20 ms or more apart, a browser gets all cycles in fewer events."""

    async def scenario() -> tuple[list[bytes], float]:
        live = Live()
        stream, first = await start(live)
        began_s = time.monotonic()
        events: list[bytes] = []
        for number in range(25):
            live.publish([b"%d" % number])
            await asyncio.sleep(0.02)
        events.append(await first)
        while not events[-1].endswith(b"24]\n\n"):
            events += await collect(stream, 1)
        return events, time.monotonic() - began_s

    events, took_s = asyncio.run(scenario())
    numbers = b",".join(event.split(b"[")[1].split(b"]")[0] for event in events)
    assert numbers == b",".join(b"%d" % number for number in range(25))
    assert len(events) <= 1 + took_s / 0.1


def test_closing_ends_every_stream() -> None:
    """Browsers that wait, and one that comes too late, get their end."""

    async def scenario() -> int:
        live = Live()
        _, first = await start(live)
        live.close()
        late = [event async for event in live.stream(nothing)]
        ended = await asyncio.gather(first, return_exceptions=True)
        assert isinstance(ended[0], StopAsyncIteration | RuntimeError)
        return len(late) + live.listeners

    assert asyncio.run(scenario()) == 0
