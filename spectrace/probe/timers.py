"""Times the boundaries of a cycle on the device: by events, without waiting, or by synchronizing.

`DeviceTimer` records one event at each boundary of a phase that runs on the forward stream, and
reads it when the device has passed it, at a later cycle boundary. It never waits, never raises
and never makes an event after its start: what cannot be timed is counted.
"""

from __future__ import annotations

from time import monotonic_ns as now
from typing import TYPE_CHECKING, Any, Protocol

from .clock import DeviceClock
from .faults import pass_on
from .layout import DEVICE_PHASES, MAX_MARKS, DeviceFlag

if TYPE_CHECKING:
    from collections.abc import Callable

    # Cycle number, start in CLOCK_MONOTONIC ns, its error in ns, flags, phases, distances in ns.
    Emit = Callable[[int, int, int, int, bytes, list[int]], None]

NOTHING = 0  # the phase of a mark behind which no phase runs on the device
EVENTS = 128
CYCLES = 32  # whose events wait to be read
ANCHORS = 8
ANCHOR_EVERY_NS = 50_000_000
# A float32 of milliseconds keeps 0.5 us up to 8.4 s: no distance from an anchor comes near that.
ANCHOR_EXPIRES_NS = 5_000_000_000
_ANCHOR_LOOK_NS = 15_000  # asked again so long: an idle stream is through in some microseconds
_ANCHOR_LOST_NS = 1_000_000_000
_STUCK_CYCLES = 4  # more than the host runs ahead: is the oldest event lost?
_ABANDONED_NS = 30_000_000_000
_UNFINISHED = -1  # the number of a cycle that did not come to its end
_NS_PER_MS = 1e6

_ON_DEVICE = bytes(phase in DEVICE_PHASES for phase in range(256))


class _Stream(Protocol):
    """What we use of torch.Stream."""

    stream_id: int


class _Event(Protocol):
    """What we use of torch.Event."""

    def record(self, stream: Any) -> None: ...
    def query(self) -> bool: ...
    def elapsed_time(self, end_event: Any) -> float: ...


class Counters:
    """What could not be timed.

    Attributes:
        no_event: Boundaries for which no event was free.
        lost: Events that never came.
        capturing: Boundaries within a capture.
        other_stream: Boundaries under another stream than the cycle's forward stream.
        failure: Why device timing is off for good; empty while it works.
    """

    __slots__ = ("capturing", "failure", "lost", "no_event", "other_stream")

    def __init__(self) -> None:
        self.no_event = self.lost = self.capturing = self.other_stream = 0
        self.failure = ""


class _Device:
    """The functions of the server's torch that we call, looked up once."""

    __slots__ = ("_module", "_name", "_torch", "current_stream", "is_capturing", "synchronize")

    def __init__(self, torch_module: Any, device_type: str) -> None:
        self._torch = torch_module
        self._name = device_type.partition(":")[0]
        self._module: Any = getattr(torch_module, self._name, None)
        face: Any = torch_module.accelerator if self.generic else self._module
        self.current_stream: Callable[[], Any] = face.current_stream
        self.synchronize: Callable[[], None] = face.synchronize
        self.is_capturing = self._capture_test()

    @property
    def generic(self) -> bool:
        """This torch has events and streams that work for every accelerator (2.6 and later)."""
        return hasattr(self._torch, "Event") and hasattr(self._torch, "accelerator")

    def _capture_test(self) -> Callable[[Any], bool]:
        of_stream: Callable[[Any], bool] | None = getattr(
            getattr(self._torch, "Stream", None), "is_capturing", None
        )
        if of_stream is not None:
            return of_stream
        of_current: Callable[[], bool] | None = getattr(
            self._module, "is_current_stream_capturing", None
        )
        if of_current is None:
            return lambda _stream: False
        return lambda _stream: of_current()

    def event(self) -> _Event:
        """A new event with timing."""
        if self.generic:
            event: _Event = self._torch.Event(device=self._name, enable_timing=True)
        else:
            event = self._module.Event(enable_timing=True)
        return event

    def new_stream(self) -> _Stream:
        """A stream that is likely not the server's: torch has a pool of its own per priority."""
        new = self._torch.Stream if self.generic else self._module.Stream
        stream: _Stream = new(device=self._name, priority=-1)
        return stream


def supports_events(torch_module: Any, device_type: str) -> str:
    """Whether a device has timing events, tried without waiting for it.

    Args:
        torch_module: The server's torch.
        device_type: Such as `cuda` or `cpu`.

    Returns:
        Empty if it has, else the reason, as a sentence.
    """
    if torch_module is None:
        return "The server uses no torch."
    name = device_type.partition(":")[0]
    if name == "cpu":
        return "The server runs on the CPU, which has no timing events."
    if getattr(torch_module, name, None) is None:
        return f"The server's torch has no device {name}."
    try:
        device = _Device(torch_module, device_type)
        stream = device.current_stream()
        if device.is_capturing(stream):
            return ""
        start, end = device.event(), device.event()
        start.record(stream)
        end.record(stream)
        if end.query():
            start.elapsed_time(end)
    except Exception as error:  # noqa: BLE001 - whatever a backend raises for what it lacks
        pass_on(error)
        return f"Device {name} has no timing events: {_first_line(error)}."
    return ""


def make_timers(
    torch_module: Any, device_type: str, emit: Emit, counters: Counters
) -> tuple[SyncTimer | None, DeviceTimer | None, str]:
    """Makes what times a device; raises nothing of its own.

    Args:
        torch_module: The server's torch.
        device_type: Such as `cuda`.
        emit: As in `DeviceTimer`.
        counters: Where that which could not be timed is counted.

    Returns:
        What waits for the device and what records events, None where the device has no such
        thing, and why it has no events, as a sentence; empty if it has.
    """
    sync: SyncTimer | None = None
    if device_type.partition(":")[0] == "cpu":  # there is nothing to wait for
        return None, None, supports_events(torch_module, device_type)
    try:
        sync = SyncTimer(torch_module, device_type, counters)
        reason = supports_events(torch_module, device_type)
        if not reason:
            return sync, DeviceTimer(torch_module, device_type, emit, counters), ""
    except Exception as error:  # noqa: BLE001 - without timers it is traced all the same
        pass_on(error)
        return sync, None, f"{_first_line(error)}."
    return sync, None, reason


def _first_line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0].rstrip(".")
    return f"{type(error).__name__}: {text}"


class SyncTimer:
    """Waits for the device before each host stamp: mode `sync`, which the server does notice.

    Args:
        torch_module: The server's torch.
        device_type: Such as `cuda`.
        counters: Where captures and failure are noted.
    """

    __slots__ = ("_counters", "_device", "failed")

    def __init__(self, torch_module: Any, device_type: str, counters: Counters) -> None:
        self._counters = counters
        self._device = _Device(torch_module, device_type)
        self.failed = False

    def before(self) -> None:
        """Synchronizes, unless the current stream is being captured."""
        if self.failed:
            return
        device = self._device
        try:
            if device.is_capturing(device.current_stream()):
                self._counters.capturing += 1
            else:
                device.synchronize()
        except Exception as error:  # noqa: BLE001 - the server meets it by itself
            pass_on(error)
            self.failed = True
            self._counters.failure = f"Sync timing is off: {_first_line(error)}."


class _Anchor:
    """An event on a stream of our own whose place on the device's axis is known."""

    __slots__ = ("device_ns", "epoch", "event", "recorded_ns", "users")

    def __init__(self, event: _Event) -> None:
        self.event = event
        self.recorded_ns = 0  # CLOCK_MONOTONIC just before the record
        self.device_ns = 0
        self.epoch = 0  # anchors of other epochs stand on another axis
        self.users = 0  # cycles that are measured from it


class _Anchors:
    """Keeps a recent anchor, from which each cycle is measured, and by them the clock.

    The stream of ours is idle, so an event on it is through at once and the host sees it
    within microseconds: that brackets the clock much closer than the server's events, which
    wait in their queue. Each anchor is measured from the one before; past
    `ANCHOR_EXPIRES_NS` without any the axis begins anew.
    """

    __slots__ = ("_candidate", "_stream", "_turn", "clock", "current", "epoch", "waiting")

    def __init__(self, device: _Device) -> None:
        self._stream = device.new_stream()
        self._turn = [_Anchor(device.event()) for _ in range(ANCHORS)]
        self._candidate: _Anchor | None = None
        self.waiting = False  # the anchor recorded last is not through yet
        self.current: _Anchor | None = None
        self.clock = DeviceClock()
        self.epoch = 0
        for anchor in self._turn:
            anchor.event.record(self._stream)  # torch makes an event at its first record

    def refresh(self, now_ns: int) -> None:
        """Records a new anchor where one is due, and asks for it; not during a capture."""
        if self.waiting:
            self.look()
            return
        current = self.current
        if current is not None and now_ns - current.recorded_ns < ANCHOR_EVERY_NS:
            return
        candidate = self._free_one()
        if candidate is None:
            return
        candidate.recorded_ns = now()
        candidate.event.record(self._stream)
        self._candidate = candidate
        self.waiting = True
        until_ns = candidate.recorded_ns + _ANCHOR_LOOK_NS
        while self.waiting and now() < until_ns:
            self.look()

    def _free_one(self) -> _Anchor | None:
        for anchor in self._turn:
            if anchor.users == 0 and anchor is not self.current:
                return anchor
        return None

    def look(self) -> None:
        """Asks whether the anchor that was recorded last is through; then it is the current one."""
        candidate = self._candidate
        if candidate is None:
            return
        if candidate.event.query():
            self._accept(candidate, now())
        elif now() - candidate.recorded_ns < _ANCHOR_LOST_NS:
            return
        elif len(self._turn) > 1:
            self._turn.remove(candidate)  # unread, so never recorded again
        self._candidate = None
        self.waiting = False

    def _accept(self, anchor: _Anchor, seen_ns: int) -> None:
        before = self.current
        if before is None or anchor.recorded_ns - before.recorded_ns > ANCHOR_EXPIRES_NS:
            self.epoch += 1
            self.clock.restart()
            anchor.device_ns = 0
        else:
            anchor.device_ns = before.device_ns + _elapsed_ns(before.event, anchor.event)
        anchor.epoch = self.epoch
        self.current = anchor
        self.clock.not_before(anchor.device_ns, anchor.recorded_ns)
        self.clock.not_after(anchor.device_ns, seen_ns)

    def take(self, now_ns: int) -> _Anchor | None:
        """The anchor for a cycle that begins now; to be given back by `release`."""
        anchor = self.current
        if anchor is None or now_ns - anchor.recorded_ns > ANCHOR_EXPIRES_NS:
            return None
        anchor.users += 1
        return anchor


def _elapsed_ns(start: _Event, end: _Event) -> int:
    return int(start.elapsed_time(end) * _NS_PER_MS + 0.5)


class _Cycle:
    """The events of one cycle, in the order of the stream."""

    __slots__ = (
        "anchor",
        "count",
        "ended_ns",
        "events",
        "first_ns",
        "flags",
        "last_ns",
        "number",
        "phases",
        "running",
        "stream_id",
    )

    def __init__(self) -> None:
        self.events: list[Any] = [None] * MAX_MARKS
        self.phases = bytearray(MAX_MARKS)
        self.anchor: _Anchor | None = None
        self.reset(None)

    def reset(self, anchor: _Anchor | None) -> None:
        self.anchor = anchor
        self.count = 0
        self.running = False  # a phase runs on the device
        self.flags = 0
        self.number = _UNFINISHED
        self.first_ns = self.last_ns = self.ended_ns = 0  # before the records, and the end
        self.stream_id = 0

    @property
    def last(self) -> _Event:
        event: _Event = self.events[self.count - 1]
        return event


class DeviceTimer:
    """The boundaries of the cycles of one scheduler on its device's forward stream.

    The forward stream of a cycle is the one that is current at its first boundary on the
    device; a boundary under another stream is left to the host. In what is emitted a mark of
    phase 0 ends the one before it. No method raises.

    Args:
        torch_module: The server's torch.
        device_type: Such as `cuda`; `supports_events` must have said yes.
        emit: Takes the marks of a cycle once they have been read, in the order of the cycles.
        counters: Where that which could not be timed is counted.
        events: How many events there are.
    """

    __slots__ = (
        "_anchors",
        "_counters",
        "_current_stream",
        "_cycles",
        "_emit",
        "_free",
        "_head",
        "_is_capturing",
        "_running",
        "failed",
        "pending",
    )

    def __init__(
        self,
        torch_module: Any,
        device_type: str,
        emit: Emit,
        counters: Counters,
        *,
        events: int = EVENTS,
    ) -> None:
        self._emit = emit
        self._counters = counters
        self._free: list[_Event] = []
        self._cycles = [_Cycle() for _ in range(CYCLES)]
        self._head = 0
        self.pending = 0  # cycles whose events were not read yet
        self._running: _Cycle | None = None
        self.failed = False
        try:
            device = _Device(torch_module, device_type)
            self._current_stream = device.current_stream
            self._is_capturing = device.is_capturing
            self._anchors = _Anchors(device)
            stream = device.new_stream()
            self._free = [device.event() for _ in range(events)]
            for event in self._free:
                event.record(stream)  # torch makes an event at its first record
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._switch_off(error)

    def begin(self, number_hint: int) -> None:  # noqa: ARG002 - the number is known at the end
        """A cycle begins."""
        if self.failed:
            return
        if self._running is not None:
            self.end(_UNFINISHED)
        try:
            anchor = None
            if not self._is_capturing(self._current_stream()):
                time_ns = now()
                self._anchors.refresh(time_ns)
                anchor = self._anchors.take(time_ns)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._switch_off(error)
            return
        if self.pending < CYCLES:
            self._running = self._cycles[(self._head + self.pending) % CYCLES]
            self._running.reset(anchor)
        elif anchor is not None:
            anchor.users -= 1

    def mark(self, phase: int) -> None:
        """Phase `phase` begins now, and the one before ends; all phases are given."""
        cycle = self._running
        if cycle is None:
            if _ON_DEVICE[phase]:
                self._counters.no_event += not self.failed
            return
        on_device = _ON_DEVICE[phase]
        if not on_device:
            if not cycle.running:
                return
            phase = NOTHING
        try:
            event = self._record(cycle)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._switch_off(error)
            return
        if event is not None:
            cycle.events[cycle.count] = event
            cycle.phases[cycle.count] = phase
            cycle.count += 1
            cycle.running = bool(on_device)
        elif not on_device:  # what runs has no end
            cycle.running = False
            cycle.flags |= DeviceFlag.LOST

    def _record(self, cycle: _Cycle) -> _Event | None:
        """Records an event on the cycle's stream, unless that cannot be."""
        stream = self._current_stream()
        if self._refuses(cycle, stream):
            return None
        if self._anchors.waiting:
            self._anchors.look()
        event = self._free.pop()
        cycle.last_ns = now()
        if not cycle.count:
            cycle.stream_id = stream.stream_id
            cycle.first_ns = cycle.last_ns
        event.record(stream)
        return event

    def _refuses(self, cycle: _Cycle, stream: _Stream) -> bool:
        """Whether no event can be recorded here; counts why."""
        counters = self._counters
        if self._is_capturing(stream):
            counters.capturing += 1
        elif cycle.count and stream.stream_id != cycle.stream_id:
            counters.other_stream += 1
            return True  # by rule, so nothing is missing
        elif not self._free or cycle.count == MAX_MARKS:
            counters.no_event += 1
        else:
            return False
        cycle.flags |= DeviceFlag.LOST
        return True

    def end(self, number: int) -> None:
        """The running cycle is whole, and this is its number."""
        cycle = self._running
        self._running = None
        if cycle is None:
            return
        if not cycle.count:
            self._release(cycle)
            return
        if cycle.running:
            cycle.flags |= DeviceFlag.LOST
        cycle.number = number
        cycle.ended_ns = now()
        self.pending += 1

    def drain(self, now_ns: int) -> None:
        """Emits the cycles that the device has finished; asks, and never waits.

        Args:
            now_ns: CLOCK_MONOTONIC.
        """
        if not self.pending or self.failed:
            return
        try:
            if self._is_capturing(self._current_stream()):
                return
            while self.pending:
                cycle = self._cycles[self._head]
                if cycle.last.query():
                    self._read(cycle, now())
                elif self._is_stuck(cycle, now_ns):
                    self._read_partly(cycle)
                else:
                    return
                self._release(cycle)
                self._head = (self._head + 1) % CYCLES
                self.pending -= 1
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            self._switch_off(error)

    def _is_stuck(self, oldest: _Cycle, now_ns: int) -> bool:
        """Whether the oldest cycle's last event is lost: younger ones of its stream are done."""
        if now_ns - oldest.ended_ns > _ABANDONED_NS:
            return True
        if self.pending <= _STUCK_CYCLES and self._free:
            return False
        newest = self._cycles[(self._head + self.pending - 1) % CYCLES]
        if newest is oldest or newest.stream_id != oldest.stream_id:
            return False
        return newest.last.query() and not oldest.last.query()

    def _read(self, cycle: _Cycle, seen_ns: int) -> None:
        """Reads a cycle whose last event was seen done at `seen_ns`."""
        events = cycle.events[: cycle.count]
        elapsed = events[0].elapsed_time
        try:
            distances = [int(elapsed(event) * _NS_PER_MS + 0.5) for event in events]
        except Exception as error:  # noqa: BLE001 - an event was lost, or the device is broken
            pass_on(error)
            self._read_partly(cycle)
            return
        if cycle.number != _UNFINISHED:
            phases = bytes(cycle.phases[: cycle.count])
            self._place(cycle, seen_ns, phases, distances)
        self._free.extend(events)

    def _read_partly(self, cycle: _Cycle) -> None:
        """Reads the events of a cycle that came; those that did not are given up."""
        came = []
        for place, event in enumerate(cycle.events[: cycle.count]):
            if event.query():
                came.append(place)
            else:
                self._counters.lost += 1
        cycle.flags |= DeviceFlag.LOST
        events = [cycle.events[place] for place in came]
        if events and cycle.number != _UNFINISHED:
            distances = [_elapsed_ns(events[0], event) for event in events]
            cycle.events[0] = events[0]  # where the cycle starts from now on
            phases = bytes(cycle.phases[place] for place in came)
            self._place(cycle, now(), phases, distances)
        self._free.extend(events)

    def _place(self, cycle: _Cycle, seen_ns: int, phases: bytes, distances: list[int]) -> None:
        """Puts a cycle that has been read on the host's axis, and emits it."""
        anchor = cycle.anchor
        found = None
        if anchor is not None and anchor.epoch == self._anchors.epoch:
            clock = self._anchors.clock
            start_ns = anchor.device_ns + _elapsed_ns(anchor.event, cycle.events[0])
            clock.not_before(start_ns, cycle.first_ns)
            if len(phases) == cycle.count:  # else the last one never came
                clock.not_before(start_ns + distances[-1], cycle.last_ns)
            clock.not_after(start_ns + distances[-1], seen_ns)
            found = clock.host_ns(start_ns)
        if found is None:
            cycle.flags |= DeviceFlag.NO_CLOCK
            found = _between(cycle.first_ns, seen_ns - distances[-1])
        self._emit(cycle.number, found[0], found[1], cycle.flags, phases, distances)

    def _release(self, cycle: _Cycle) -> None:
        """Lets go of a cycle's events and its anchor."""
        if cycle.anchor is not None:
            cycle.anchor.users -= 1
            cycle.anchor = None
        cycle.count = 0

    def _switch_off(self, error: BaseException) -> None:
        """Stops for good: an error of the device stays, and the server meets it by itself."""
        pass_on(error)
        self.failed = True
        self.pending = 0
        self._running = None
        self._counters.failure = f"Device timing is off: {_first_line(error)}."

    def close(self) -> None:
        """Lets go of all events; the device frees them when it has passed them."""
        self.failed = True
        self.pending = 0
        self._running = None
        self._free.clear()
        self._cycles.clear()


def _between(earliest_ns: int, latest_ns: int) -> tuple[int, int]:
    """The middle of two times, and how far they are from it."""
    return (earliest_ns + latest_ns) // 2, max(0, latest_ns - earliest_ns) // 2
