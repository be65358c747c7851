"""Gaps on the simulated GPU, which keeps a log of its own: are they as long as it says, and why."""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass

import pytest

from spectrace.analysis.bubbles import Bound, Bubbles, Cause, bubbles
from spectrace.attach import discover
from spectrace.attach.handle import Options
from spectrace.attach.session import TraceSession
from spectrace.model import Cycle, Lane
from spectrace.probe.layout import Mode
from tests.helpers.fake_worker import Account, FakeWorker
from tests.helpers.measured_run import measures_of
from tests.helpers.tracing import Collected

CYCLES = 200
UNSETTLED = 5  # the newest, whose device times may still come
LIMIT_S = 60.0
TOLERANCE = 0.01  # of the time: an event takes a moment, and the clock's error is not claimed


@dataclass(frozen=True)
class Seen:
    """What was traced of a worker, and what its device did meanwhile."""

    cycles: list[Cycle]
    found: Bubbles
    account: Account
    anchor_ns: int  # UNIX time less CLOCK_MONOTONIC

    @property
    def judged(self) -> list[Cycle]:
        """Nobody knows what was before the first one."""
        return self.cycles[1:]

    @property
    def taken_ns(self) -> int:
        """The time of them all."""
        return sum(cycle.end_ns - cycle.start_ns for cycle in self.judged)

    @property
    def idle_share(self) -> float:
        """Part of the time in which the device ran nothing, by its own log."""
        numbers = {cycle.number for cycle in self.judged}
        kernels = (kernel for kernel in self.account.kernels if kernel.cycle in numbers)
        return 1 - sum(kernel.end_ns - kernel.start_ns for kernel in kernels) / self.taken_ns

    @property
    def hollow_share(self) -> float:
        """Part of the time in phases of the device in which, by its own log, no kernel ran.

        Between two events the host may launch nothing, as where V1 hands out the tokens. Events
        do not show that, so that such a phase is no gap; the slower the machine, the longer it is.
        """
        kernels = self.account.kernels
        starts_ns = [kernel.start_ns + self.anchor_ns for kernel in kernels]
        hollow_ns = 0
        for cycle in self.judged:
            (rank,) = cycle.ranks
            error_ns = rank.clock_error_ns or 0
            for phase in rank.phases:
                # The last kernel that began before the phase's end: one that had ended before it
                # began, as far as the clock can tell, leaves it hollow.
                last = bisect_left(starts_ns, phase.end_ns - error_ns) - 1
                ends_ns = kernels[last].end_ns + self.anchor_ns
                if phase.lane is Lane.DEVICE and ends_ns <= phase.start_ns + error_ns:
                    hollow_ns += phase.end_ns - phase.start_ns
        return hollow_ns / self.taken_ns

    @property
    def bounds(self) -> tuple[float, float]:
        """What the device's idle share must lie between, by what was found.

        The gaps, and what is no gap although nothing may run in it: graphs that wait for the end
        of their launch, and hollow phases.
        """
        assert self.found.idle_share is not None
        assert self.found.launch_share is not None
        least = self.found.idle_share.value
        return least, least + self.found.launch_share.value + self.hollow_share


def seen(shape: str, figures: str) -> Seen:
    """Traces a worker with these times."""
    with FakeWorker(shape, "--figures", figures) as worker:
        run = discover.find_by_pid(worker.pid)
        collected = Collected()
        deadline = time.monotonic() + LIMIT_S
        with TraceSession(run, options=Options(mode=Mode.DEVICE)) as session:
            while len(collected.cycles) < CYCLES:
                assert time.monotonic() < deadline, session.facts()
                collected.add(session.poll())
                time.sleep(0.02)
        cycles = collected.cycles[1:-UNSETTLED]
        anchor_ns = session.run.anchor_unix_ns - session.run.anchor_monotonic_ns
        return Seen(cycles, bubbles(measures_of(cycles)), worker.stop(), anchor_ns)


@pytest.fixture(scope="module", params=["founding-story", "sglang-29960"])
def v1(request: pytest.FixtureRequest) -> Seen:
    """A worker that blocks in verify, with each of two published sets of times."""
    return seen("v1", request.param)


@pytest.fixture(scope="module")
def v2() -> Seen:
    """A worker whose host runs a cycle ahead."""
    return seen("v2", "sglang-29960")


def test_the_gaps_are_those_of_the_devices_own_log(v1: Seen) -> None:
    """At least what was found, at most that, launches within graphs, and hollow phases."""
    assert v1.found.problem == ""
    assert v1.found.cycles > CYCLES // 2
    least, most = v1.bounds
    assert least - TOLERANCE <= v1.idle_share <= most + TOLERANCE


def test_a_blocking_worker_waits_for_its_host_alone(v1: Seen) -> None:
    """Nothing else keeps this device: the scheduler's 0.32 or 4.47 ms, and launches."""
    causes = {cause: part.value for cause, part in v1.found.causes.items()}
    assert causes[Cause.SCHEDULER] == max(causes.values())
    assert causes[Cause.WAITING] < TOLERANCE
    assert v1.found.hidden_share is not None
    if v1.idle_share > 0.15:
        assert v1.found.bound is Bound.HOST


def test_a_host_that_runs_ahead_hides_its_work(v2: Seen) -> None:
    """The device is busy while the scheduler works: most of 4.47 ms in each 13.5."""
    assert v2.found.hidden_share is not None
    assert v2.found.hidden_share.value > 0.8
    least, most = v2.bounds
    assert least - TOLERANCE <= v2.idle_share <= most + TOLERANCE
