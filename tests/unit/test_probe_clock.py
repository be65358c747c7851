"""The clock: device times on the host's axis, always within the error that it states."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from spectrace.probe.clock import MAX_DRIFT_PPM, RESOLUTION_NS, DeviceClock

US, MS = 1_000, 1_000_000
DEVICE_RESOLUTION_NS = 500
START_NS = 5_000_000 * MS  # the host's clock when the test begins


class Event(NamedTuple):
    """One event: how long after the one before, and what the host sees of it.

    Attributes:
        after_ns: Since the event before.
        drift_ppm: Of the device's clock meanwhile.
        queued_ns: Between the host's record and the event.
        unseen_ns: Between the event and the host's successful query.
    """

    after_ns: int
    drift_ppm: int
    queued_ns: int
    unseen_ns: int


def events(max_drift_ppm: int) -> st.SearchStrategy[list[Event]]:
    """Runs of events with changing drift, jitter, and queries as late as they like."""
    return st.lists(
        st.builds(
            Event,
            after_ns=st.integers(0, 2_000 * MS),
            drift_ppm=st.integers(-max_drift_ppm, max_drift_ppm),
            queued_ns=st.integers(0, 100 * MS),
            unseen_ns=st.integers(0, 500 * MS),
        ),
        min_size=1,
        max_size=40,
    )


def rounded(device_ns: float) -> int:
    """As the device says it."""
    return round(device_ns / DEVICE_RESOLUTION_NS) * DEVICE_RESOLUTION_NS


def run(clock: DeviceClock, script: list[Event]) -> list[tuple[int, int]]:
    """Shows the clock every event; gives (device time, true host time) of each."""
    host_ns, device_ns = START_NS, 0.0
    seen = []
    for event in script:
        host_ns += event.after_ns
        device_ns += event.after_ns * (1 + event.drift_ppm / 1e6)
        stamp = rounded(device_ns)
        clock.not_before(stamp, host_ns - event.queued_ns)
        clock.not_after(stamp, host_ns + event.unseen_ns)
        seen.append((stamp, host_ns))
    return seen


def host_ns(clock: DeviceClock, device_ns: int) -> tuple[int, int]:
    """As `clock.host_ns`, where it must know."""
    found = clock.host_ns(device_ns)
    assert found is not None
    return found


@given(events(200))
def test_the_true_time_is_always_within_the_error(script: list[Event]) -> None:
    """With 200 ppm of drift, jitter and late queries, no event lies outside its error bar."""
    clock = DeviceClock()
    for device_ns, true_ns in run(clock, script):
        time_ns, error_ns = host_ns(clock, device_ns)
        assert abs(time_ns - true_ns) <= error_ns
    assert clock.restarts == 0


@given(events(MAX_DRIFT_PPM - 1), st.integers(0, 39))
def test_it_holds_at_every_moment_of_the_way(script: list[Event], asked: int) -> None:
    """The newest event is within its error whenever one asks, up to the greatest drift."""
    clock = DeviceClock()
    device_ns, true_ns = run(clock, script[: asked + 1])[-1]
    time_ns, error_ns = host_ns(clock, device_ns)
    assert abs(time_ns - true_ns) <= error_ns


@given(st.integers(-200, 200), st.integers(0, 50 * MS))
def test_close_brackets_every_50_ms_keep_the_error_small(drift_ppm: int, later_ns: int) -> None:
    """An hour after the first bracket the error is still that of the last one and its drift."""
    clock = DeviceClock()
    brackets = [Event(50 * MS, drift_ppm, 5 * US, 5 * US)] * 100
    seen = run(clock, [Event(3600_000 * MS, drift_ppm, 5 * US, 5 * US), *brackets])
    device_ns, true_ns = seen[-1]
    later_device_ns = device_ns + rounded(later_ns * (1 + drift_ppm / 1e6))
    time_ns, error_ns = host_ns(clock, later_device_ns)
    assert abs(time_ns - true_ns - later_ns) <= error_ns
    assert error_ns <= 5 * US + 50 * MS * MAX_DRIFT_PPM // 1_000_000 + 2 * RESOLUTION_NS


def test_without_both_bounds_it_knows_nothing() -> None:
    """One inequality alone says nothing of when."""
    clock = DeviceClock()
    assert clock.host_ns(0) is None
    clock.not_before(0, START_NS)
    assert clock.host_ns(0) is None
    clock.not_after(0, START_NS + MS)
    assert clock.host_ns(0) is not None


def test_what_waits_in_a_queue_widens_nothing() -> None:
    """A loose bracket behind a close one leaves the close one in force."""
    clock = DeviceClock()
    clock.not_before(0, START_NS - 5 * US)
    clock.not_after(0, START_NS + 5 * US)
    clock.not_before(MS, START_NS - 30 * MS)
    clock.not_after(MS, START_NS + 30 * MS)
    _, error_ns = host_ns(clock, MS)
    assert error_ns < 10 * US


def test_a_device_that_was_reset_starts_the_clock_anew() -> None:
    """Bounds that contradict each other are not mixed: the newer ones count."""
    clock = DeviceClock()
    run(clock, [Event(MS, 0, 5 * US, 5 * US)] * 3)
    clock.not_before(0, START_NS + 60_000 * MS)
    clock.not_after(0, START_NS + 60_000 * MS + 10 * US)
    assert clock.restarts == 1
    time_ns, error_ns = host_ns(clock, 0)
    assert abs(time_ns - START_NS - 60_000 * MS) <= error_ns < 10 * US


def test_restart_forgets_the_axis() -> None:
    """After a restart the clock knows nothing until it is shown new bounds."""
    clock = DeviceClock()
    run(clock, [Event(MS, 0, 5 * US, 5 * US)])
    clock.restart()
    assert clock.host_ns(0) is None
