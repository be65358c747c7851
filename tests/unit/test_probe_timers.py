"""Device timing where things go wrong: counted, never waited for, never raised."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from spectrace.probe import timers
from spectrace.probe.layout import DeviceFlag, Ph
from spectrace.probe.timers import Counters, DeviceTimer, SyncTimer, supports_events
from tests.helpers.scripted_torch import NAME, ScriptedTorch, Stream

MS = 1_000_000
SECOND = 1_000_000_000
PHASES = (Ph.RESOLVE, Ph.DRAFT, Ph.VERIFY, Ph.DRAFT_EXTEND, Ph.SCHEDULE, Ph.WAIT, Ph.RESULT)
ON_DEVICE = bytes((Ph.DRAFT, Ph.VERIFY, Ph.DRAFT_EXTEND, 0))
EVENTS_PER_CYCLE = 4


class Emitted(NamedTuple):
    """What the timer gives of one cycle."""

    number: int
    start_ns: int
    error_ns: int
    flags: int
    phases: bytes
    distances_ns: list[int]


class Rig:
    """A timer on a scripted device, and what came out of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, events: int = timers.EVENTS) -> None:
        self.now_ns = 1000 * SECOND
        monkeypatch.setattr(timers, "now", lambda: self.now_ns)
        self.torch = ScriptedTorch()
        self.counters = Counters()
        self.out: list[Emitted] = []
        self.timer = DeviceTimer(
            self.torch, NAME, lambda *values: self.out.append(Emitted(*values)), self.counters,
            events=events,
        )  # fmt: skip

    def cycle(self, number: int, phases: tuple[int, ...] = PHASES) -> None:
        """One cycle on the host."""
        self.timer.begin(number)
        for phase in phases:
            self.timer.mark(phase)
        self.timer.end(number)

    def finish(self, step_ms: float = 1.0) -> None:
        """The device passes all that waits, one event every `step_ms`."""
        before_ms = self.torch.now_ms
        self.torch.finish(step_ms)
        self.now_ns += int((self.torch.now_ms - before_ms) * MS)

    def drain(self) -> list[int]:
        """Drains; gives the numbers of all cycles emitted so far."""
        self.timer.drain(self.now_ns)
        return [cycle.number for cycle in self.out]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A timer with its usual pool."""
    return Rig(monkeypatch)


def test_neighbours_share_one_event(rig: Rig) -> None:
    """Three phases on the device take four events; what follows on the host takes none."""
    rig.cycle(7)
    rig.finish(step_ms=2.5)
    assert rig.drain() == [7]
    assert rig.out[0].phases == ON_DEVICE
    assert rig.out[0].distances_ns == [0, 2_500_000, 5_000_000, 7_500_000]
    assert rig.out[0].flags == 0


def test_nothing_is_emitted_before_the_device_is_through(rig: Rig) -> None:
    """An unfinished cycle costs one query and holds up those behind it."""
    rig.cycle(1)
    rig.cycle(2)
    calls = rig.torch.calls
    assert rig.drain() == []
    assert rig.torch.calls == calls + 1
    rig.finish()
    assert rig.drain() == [1, 2]


def test_a_cycle_without_device_work_costs_nothing(rig: Rig) -> None:
    """An idle or unknown cycle records no event and emits nothing."""
    rig.cycle(1)
    calls = rig.torch.calls
    rig.cycle(2, (Ph.RESOLVE, Ph.SCHEDULE, Ph.WAIT))
    assert rig.torch.calls == calls
    rig.finish()
    assert rig.drain() == [1]


def test_an_empty_pool_is_counted_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boundaries without a free event are missing, flagged and counted; later cycles are whole."""
    rig = Rig(monkeypatch, events=6)
    rig.cycle(1)
    rig.cycle(2)
    assert rig.counters.no_event == 2
    rig.finish()
    assert rig.drain() == [1, 2]
    assert [cycle.flags for cycle in rig.out] == [0, DeviceFlag.LOST]
    assert rig.out[1].phases == ON_DEVICE[:2]
    rig.cycle(3)
    rig.finish()
    rig.drain()
    assert rig.out[2].flags == 0


def test_more_cycles_than_there_is_room_for_are_counted(rig: Rig) -> None:
    """A device that is far behind costs boundaries, not memory."""
    for number in range(timers.CYCLES * 2):
        rig.cycle(number, (Ph.RESOLVE, Ph.FORWARD))
    assert rig.timer.pending == timers.CYCLES
    assert rig.counters.no_event == timers.CYCLES


def test_the_pool_neither_grows_nor_shrinks(rig: Rig) -> None:
    """After many cycles the same events are there, and none was recorded before it was read."""
    made = len(rig.torch.events)
    for number in range(500):
        rig.cycle(number)
        rig.now_ns += 20 * MS
        if number % 3 == 0:
            rig.finish()
        rig.drain()
    assert len(rig.torch.events) == made
    assert sum(event.overwritten for event in rig.torch.events) == 0
    assert rig.counters.no_event == 0
    assert len(rig.out) >= 498


def test_an_end_that_never_comes_costs_a_count(rig: Rig) -> None:
    """The cycles behind it are read all the same, and the event is never recorded again."""
    rig.timer.begin(1)
    for phase in (Ph.DRAFT, Ph.VERIFY, Ph.DRAFT_EXTEND):
        rig.timer.mark(phase)
    rig.torch.lose = 1
    rig.timer.mark(Ph.SCHEDULE)
    rig.timer.end(1)
    lost = next(event for event in rig.torch.events if event.lost)
    for number in range(2, 60):
        rig.cycle(number)
        rig.finish()
        rig.drain()
    assert [cycle.number for cycle in rig.out] == list(range(1, 60))
    assert rig.counters.lost == 1
    assert rig.out[0].flags & DeviceFlag.LOST
    assert rig.out[0].phases == ON_DEVICE[:3]
    assert not any(cycle.flags for cycle in rig.out[1:])
    assert lost.overwritten == 0


def test_a_boundary_that_never_comes_costs_a_count(rig: Rig) -> None:
    """The other boundaries of its cycle are there."""
    rig.timer.begin(1)
    rig.timer.mark(Ph.DRAFT)
    rig.torch.lose = 1
    for phase in (Ph.VERIFY, Ph.DRAFT_EXTEND, Ph.SCHEDULE):
        rig.timer.mark(phase)
    rig.timer.end(1)
    rig.finish()
    assert rig.drain() == [1]
    assert rig.out[0].phases == bytes((Ph.DRAFT, Ph.DRAFT_EXTEND, 0))
    assert rig.out[0].flags == DeviceFlag.LOST
    assert rig.counters.lost == 1


def test_a_boundary_under_another_stream_is_left_to_the_host(rig: Rig) -> None:
    """A plan stream's boundary would give a wrong number without an error."""
    forward, plan = rig.torch.stream, Stream(rig.torch, 9)
    rig.timer.begin(1)
    rig.timer.mark(Ph.DRAFT)
    rig.torch.stream = plan
    rig.timer.mark(Ph.VERIFY_PREPARE)
    rig.torch.stream = forward
    rig.timer.mark(Ph.VERIFY_FORWARD)
    rig.timer.mark(Ph.SCHEDULE)
    rig.timer.end(1)
    rig.finish()
    rig.drain()
    assert rig.out[0].phases == bytes((Ph.DRAFT, Ph.VERIFY_FORWARD, 0))
    assert rig.counters.other_stream == 1
    assert rig.out[0].flags == 0


def test_a_capture_is_left_alone(rig: Rig) -> None:
    """While the stream is captured nothing is recorded or asked; it goes on afterwards."""
    rig.cycle(1)
    rig.finish()
    rig.torch.capturing = True
    calls = rig.torch.calls
    rig.cycle(2)
    assert rig.drain() == []
    assert rig.torch.calls == calls
    rig.torch.capturing = False
    assert rig.drain() == [1]
    assert rig.counters.capturing > 0
    rig.cycle(3)
    rig.finish()
    assert rig.drain() == [1, 3]


@pytest.mark.parametrize("when", ["mark", "drain", "begin"])
def test_an_error_of_the_device_switches_timing_off(rig: Rig, when: str) -> None:
    """Errors stay, so nothing is called any more, and why is written down."""
    rig.cycle(1)
    if when == "mark":
        rig.timer.begin(2)
    rig.now_ns += SECOND  # an anchor is due
    rig.torch.broken = True
    if when == "mark":
        rig.timer.mark(Ph.DRAFT)
    elif when == "drain":
        rig.drain()
    else:
        rig.timer.begin(2)
    assert rig.timer.failed
    assert rig.counters.failure == (
        "Device timing is off: RuntimeError: CUDA error: an illegal memory access was encountered."
    )
    calls = rig.torch.calls
    rig.cycle(3)
    rig.drain()
    assert rig.torch.calls == calls
    assert rig.out == []
    rig.timer.close()


def test_a_device_that_fails_at_the_start_is_switched_off() -> None:
    """The server goes on, and the reason is there."""
    torch = ScriptedTorch()
    torch.broken = True
    counters = Counters()
    timer = DeviceTimer(torch, NAME, lambda *_: None, counters)
    assert timer.failed
    assert "illegal memory access" in counters.failure
    timer.begin(1)
    timer.mark(Ph.DRAFT)
    timer.end(1)
    assert counters.no_event == 0


def test_a_lane_without_its_end_says_so(rig: Rig) -> None:
    """The last phase is there from its beginning, and flagged."""
    rig.cycle(1, (Ph.RESOLVE, Ph.DRAFT, Ph.VERIFY))
    rig.finish()
    rig.drain()
    assert rig.out[0].phases == bytes((Ph.DRAFT, Ph.VERIFY))
    assert rig.out[0].flags == DeviceFlag.LOST


def test_a_cycle_that_never_ended_is_left_out(rig: Rig) -> None:
    """Its events are read and used again."""
    rig.timer.begin(1)
    rig.timer.mark(Ph.DRAFT)
    rig.cycle(2)
    rig.finish()
    assert rig.drain() == [2]


def test_start_and_error_come_from_the_anchor(rig: Rig) -> None:
    """A cycle 30 ms behind its anchor on the device lies 30 ms behind it on the host."""
    anchored_ns = rig.now_ns
    rig.timer.begin(1)
    rig.torch.now_ms += 30
    rig.now_ns += 30 * MS
    rig.timer.mark(Ph.DRAFT)
    rig.timer.mark(Ph.SCHEDULE)
    rig.timer.end(1)
    rig.now_ns += 200 * MS  # nobody looks for long
    rig.finish()
    rig.drain()
    assert abs(rig.out[0].start_ns - anchored_ns - 30 * MS) <= rig.out[0].error_ns
    assert rig.out[0].error_ns < 25_000


def test_after_a_long_pause_the_axis_begins_anew(rig: Rig) -> None:
    """Nothing is measured over more than a few seconds, and times are right again at once."""
    for number in (1, 2):
        rig.cycle(number)
        rig.finish()
        rig.drain()
        rig.now_ns += 3600 * SECOND
        rig.torch.now_ms += 3600e3 + 700.0  # it drifted
    last_ns = rig.now_ns
    rig.cycle(3)
    rig.finish()
    rig.drain()
    assert rig.out[2].flags == 0
    assert abs(rig.out[2].start_ns - last_ns) <= rig.out[2].error_ns < 10_000


def test_a_cycle_from_before_the_pause_is_bounded_by_itself(rig: Rig) -> None:
    """Read when its axis has gone, it lies between its record and its reading, and says so."""
    rig.cycle(1)
    rig.now_ns += 10 * SECOND
    rig.torch.now_ms += 10e3
    rig.cycle(2)
    happened_ns = rig.now_ns
    rig.finish()
    rig.drain()
    first = rig.out[0]
    assert first.flags == DeviceFlag.NO_CLOCK
    assert abs(first.start_ns - happened_ns) <= first.error_ns


def test_a_torch_without_general_events_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before torch 2.6 events and streams are the device module's own."""
    monkeypatch.setattr(timers, "EVENTS", 8)
    torch: Any = ScriptedTorch()
    del torch.Event, torch.Stream, torch.accelerator
    assert supports_events(torch, NAME) == ""
    out: list[Any] = []
    timer = DeviceTimer(torch, NAME, lambda *values: out.append(values), Counters())
    timer.begin(1)
    timer.mark(Ph.DRAFT)
    timer.mark(Ph.SCHEDULE)
    timer.end(1)
    torch.finish()
    timer.drain(0)
    assert len(out) == 1
    torch.capturing = True
    timer.begin(2)
    timer.mark(Ph.DRAFT)
    timer.end(2)
    assert timer.pending == 0


def test_what_cannot_time_says_why() -> None:
    """A CPU, an unknown device, a broken one, no torch: a sentence each."""
    torch = ScriptedTorch()
    assert supports_events(torch, NAME) == supports_events(torch, f"{NAME}:1") == ""
    assert "CPU" in supports_events(torch, "cpu")
    assert "no torch" in supports_events(None, "cuda")
    assert "nowhere" in supports_events(torch, "nowhere")
    torch.broken = True
    assert "illegal memory access" in supports_events(torch, NAME)


def test_sync_waits_but_not_for_a_capture() -> None:
    """One synchronize per boundary; during a capture it would fail and spoil it."""
    torch, counters = ScriptedTorch(), Counters()
    timer = SyncTimer(torch, NAME, counters)
    timer.before()
    torch.capturing = True
    timer.before()
    assert (torch.synchronizes, counters.capturing) == (1, 1)


def test_sync_on_a_broken_device_raises_nothing() -> None:
    """It is off for good and says why."""
    torch, counters = ScriptedTorch(), Counters()
    timer = SyncTimer(torch, NAME, counters)
    torch.broken = True
    timer.before()
    torch.broken = False
    timer.before()
    assert timer.failed
    assert torch.synchronizes == 0
    assert "illegal memory access" in counters.failure
