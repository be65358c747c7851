"""Gaps on the simulated GPU, which keeps a log of its own: are they as long as it says, and why."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest

from spectrace.analysis.bubbles import Bound, Bubbles, Cause, bubbles
from spectrace.attach import discover
from spectrace.attach.handle import Options
from spectrace.attach.session import TraceSession
from spectrace.model import Cycle
from spectrace.probe.layout import Mode
from tests.helpers.fake_worker import Account, FakeWorker
from tests.helpers.measured_run import measures_of
from tests.helpers.tracing import Collected

CYCLES = 200
UNSETTLED = 5  # the newest, whose device times may still come
LIMIT_S = 60.0
# Of the time: an event takes a moment, 0.1 ms on a slow machine; the clock's error is not claimed.
TOLERANCE = 0.02


@dataclass(frozen=True)
class Seen:
    """What was traced of a worker, and what its device did meanwhile."""

    cycles: list[Cycle]
    found: Bubbles
    account: Account

    @property
    def idle_share(self) -> float:
        """Part of the time in which the device ran nothing, by its own log."""
        judged = self.cycles[1:]  # nobody knows what was before the first one
        numbers = {cycle.number for cycle in judged}
        taken_ns = sum(cycle.end_ns - cycle.start_ns for cycle in judged)
        kernels = (kernel for kernel in self.account.kernels if kernel.cycle in numbers)
        return 1 - sum(kernel.end_ns - kernel.start_ns for kernel in kernels) / taken_ns


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
        return Seen(cycles, bubbles(measures_of(cycles)), worker.stop())


@pytest.fixture(scope="module", params=["founding-story", "sglang-29960"])
def v1(request: pytest.FixtureRequest) -> Seen:
    """A worker that blocks in verify, with each of two published sets of times."""
    return seen("v1", request.param)


@pytest.fixture(scope="module")
def v2() -> Seen:
    """A worker whose host runs a cycle ahead."""
    return seen("v2", "sglang-29960")


def test_the_gaps_are_those_of_the_devices_own_log(v1: Seen) -> None:
    """Found gaps and, within graphs, at most the launches: the truth lies between the two."""
    found = v1.found
    assert found.problem == ""
    assert found.cycles > CYCLES // 2
    assert found.idle_share is not None
    assert found.launch_share is not None
    least, most = found.idle_share.value, found.idle_share.value + found.launch_share.value
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
    assert v2.found.idle_share is not None
    assert v2.found.launch_share is not None
    most = v2.found.idle_share.value + v2.found.launch_share.value
    assert v2.found.idle_share.value - TOLERANCE <= v2.idle_share <= most + TOLERANCE
