"""An idle server and one that stands still look different."""

from __future__ import annotations

import pytest

from spectrace.attach.pulse import Activity, Pulse

S = 1_000_000_000


def pulse_of(*looks: tuple[float, int, int], idle_is_told: bool = True) -> Pulse:
    """A pulse that was looked at: times in s, each with cycles and idle calls so far."""
    pulse = Pulse(0, idle_is_told=idle_is_told)
    for time_s, cycles, idle_calls in looks:
        pulse.look(cycles, idle_calls, int(time_s * S))
    return pulse


@pytest.mark.parametrize(
    ("looks", "now_s", "activity"),
    [
        (((0, 7, 50), (1, 7, 50)), 1.0, Activity.UNKNOWN),
        (((0, 7, 50), (1, 8, 50)), 4.0, Activity.DECODING),
        (((0, 7, 50), (1, 8, 60)), 4.0, Activity.DECODING),
        (((0, 7, 50), (1, 7, 60)), 4.0, Activity.IDLE),
        (((0, 7, 50), (1, 8, 50), (6, 8, 90)), 6.0, Activity.IDLE),
        (((0, 7, 50), (1, 8, 60)), 4.1, Activity.STILL),
        (((0, 7, 50),), 3.1, Activity.STILL),
    ],
)
def test_what_a_scheduler_does_shows_in_its_counts(
    looks: tuple[tuple[float, int, int], ...], now_s: float, activity: Activity
) -> None:
    """Within 3 s: a cycle means decoding, an idle call idle, and neither standing still."""
    assert pulse_of(*looks).activity(int(now_s * S)) is activity


def test_a_loop_that_does_not_tell_when_it_waits_is_not_said_to_stand_still() -> None:
    """Nothing for 10 s may be that it has nothing to do."""
    pulse = pulse_of((0, 7, 0), (1, 7, 0), idle_is_told=False)
    assert pulse.activity(10 * S) is Activity.UNKNOWN


def test_quiet_is_the_time_since_it_came_round() -> None:
    """By a cycle or by an idle call, whichever was later."""
    pulse = pulse_of((0, 1, 1), (1, 2, 1), (3, 2, 2), (5, 2, 2))
    assert pulse.quiet_s(7 * S) == 4.0
