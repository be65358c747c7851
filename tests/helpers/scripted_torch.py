"""What device timing uses of torch, with a device that does what the test says, when it says it.

For what a real device rarely does. Timing as such is tested on the simulated GPU
(`examples/simulated_gpu`).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NAME = "scripted"


class Event:
    """A torch.Event; `records` says how often it was recorded before it was read."""

    def __init__(self, device: ScriptedTorch) -> None:
        self._device = device
        self.done_ms: float | None = 0.0
        self.lost = False
        self.overwritten = 0

    def record(self, stream: Any) -> None:
        """Behind what the stream still has to do; on other streams than the first at once."""
        self._device.calls += 1
        self._device.check()
        if self.done_ms is None:
            self.overwritten += 1
        self.done_ms = None
        self.lost = self._device.lose > 0
        if self.lost:
            self._device.lose -= 1
        elif stream.stream_id in self._device.busy:
            self._device.queue.append(self)
        else:
            self.done_ms = self._device.now_ms

    def query(self) -> bool:
        """Whether the device has passed it."""
        self._device.calls += 1
        self._device.check()
        assert not self._device.capturing, "query during a capture"
        return self.done_ms is not None

    def elapsed_time(self, end_event: Event) -> float:
        """In ms, as a double."""
        if self.done_ms is None or end_event.done_ms is None:
            raise RuntimeError("device not ready")
        return end_event.done_ms - self.done_ms


class Stream:
    """A torch.Stream."""

    def __init__(self, device: ScriptedTorch, stream_id: int) -> None:
        self._device = device
        self.stream_id = stream_id

    def is_capturing(self) -> bool:
        """Whether a capture runs."""
        return self._device.capturing


class ScriptedTorch:
    """A module like torch with one device, whose current stream is busy until `finish`.

    Attributes:
        now_ms: The device's clock.
        busy: Streams on which events wait for `finish`.
        stream: The current stream.
        capturing: It is being captured.
        lose: How many of the next records never complete.
        broken: Every call fails.
        calls: Records and queries so far.
        events: All events that were made.
        synchronizes: Synchronize calls so far.
    """

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.busy = {0}
        self.queue: list[Event] = []
        self.stream = Stream(self, 0)
        self.capturing = self.broken = False
        self.lose = self.calls = self.synchronizes = 0
        self.events: list[Event] = []
        self._streams = 0
        face = SimpleNamespace(
            current_stream=lambda: self.stream,
            synchronize=self.synchronize,
            is_current_stream_capturing=lambda: self.capturing,
            Event=self._new_event,
            Stream=self._new_stream,
        )
        self.scripted = face
        self.accelerator = face
        self.Event: Any = self._new_event
        self.Stream: Any = self._new_stream

    def _new_event(self, **_: Any) -> Event:
        self.events.append(Event(self))
        return self.events[-1]

    def _new_stream(self, **_: Any) -> Stream:
        self._streams += 1
        return Stream(self, self._streams)

    def check(self) -> None:
        """Fails as CUDA does once it has failed."""
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    def synchronize(self) -> None:
        """Waits for the device."""
        self.check()
        self.synchronizes += 1

    def finish(self, step_ms: float = 1.0) -> None:
        """The device passes all that waits, one event every `step_ms`."""
        for event in self.queue:
            event.done_ms = self.now_ms
            self.now_ms += step_ms
        self.queue.clear()
