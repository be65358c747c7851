"""How long an answer is waited for at the end, by a clock that the test moves."""

from __future__ import annotations

import pytest
from spectrace_exporters._patience import Patience

LEAST_S = 0.25
FIRST_S = 0.5


class Clock:
    """The time, in s."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        """The time now."""
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def patience(clock: Clock) -> Patience:
    """Nobody has been asked yet."""
    return Patience(clock)


def answer(patience: Patience, clock: Clock, took_s: float, *, answered: bool = True) -> None:
    """A try that took so long."""
    patience.begin()
    clock.now_s += took_s
    patience.end(answered=answered)


def waits_s(patience: Patience, clock: Clock, first_s: float = 0.0) -> float:
    """So long the try under way is waited for from now on, in steps of 1/64 s."""
    began_s = clock.now_s
    while not patience.is_over(began_s, LEAST_S, first_s):
        clock.now_s += 1 / 64
    return clock.now_s - began_s - 1 / 64  # at the bound itself it is not over yet


def test_nothing_is_over_where_nothing_is_under_way(patience: Patience, clock: Clock) -> None:
    """However late it is."""
    clock.now_s += 1000
    assert not patience.is_over(0.0, LEAST_S)


def test_the_first_try_has_more_time(patience: Patience, clock: Clock) -> None:
    """Where the caller gives it more; the next ones have not."""
    patience.begin()
    assert waits_s(patience, clock, FIRST_S) == FIRST_S
    patience.end(answered=False)
    patience.begin()
    assert waits_s(patience, clock, FIRST_S) == LEAST_S


def test_who_never_answered_gets_no_last_chance(patience: Patience, clock: Clock) -> None:
    """A try that hangs for longer than its patience is over at once."""
    patience.begin()
    clock.now_s += 3
    assert patience.is_over(clock.now_s, LEAST_S)


def test_who_answered_before_gets_a_last_chance(patience: Patience, clock: Clock) -> None:
    """Its time counts from the end on, however long it hangs already."""
    answer(patience, clock, took_s=0.0)
    patience.begin()
    clock.now_s += 3
    assert waits_s(patience, clock) == LEAST_S


@pytest.mark.parametrize(("took_s", "waited_s"), [(0.0625, LEAST_S), (0.5, 1.0), (2.0, 4.0)])
def test_who_is_slow_is_waited_for_twice_as_long(
    patience: Patience, clock: Clock, took_s: float, waited_s: float
) -> None:
    """As long as the slowest of the last answers took, but no less than the least."""
    answer(patience, clock, took_s)
    answer(patience, clock, took_s=0.0)
    patience.begin()
    assert waits_s(patience, clock) == waited_s


def test_who_was_slow_once_is_not_waited_for_longer_for_good(
    patience: Patience, clock: Clock
) -> None:
    """After eight faster answers the slow one is forgotten; what was no answer says nothing."""
    answer(patience, clock, took_s=2.0)
    for _ in range(7):
        answer(patience, clock, took_s=0.0)
    answer(patience, clock, took_s=60.0, answered=False)
    patience.begin()
    assert waits_s(patience, clock) == 2 * 2.0
    patience.end(answered=False)
    for _ in range(8):
        answer(patience, clock, took_s=0.0)
    patience.begin()
    assert waits_s(patience, clock) == LEAST_S
