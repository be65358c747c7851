"""Switching the sampling of a live server leaves each cycle recorded in full or counted, as asked.

Thousands of such switches at any cycle are in `tests/unit/test_sampling_switches.py`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from examples.simulated_gpu import options as simulated
from examples.simulated_gpu.demo import running
from spectrace.attach import discover, modes
from spectrace.attach.handle import Options
from spectrace.attach.modes import Wish
from spectrace.attach.session import SessionFacts, TraceSession
from spectrace.model import Cycle
from spectrace.probe.layout import DEFAULT_UNITS, Mode
from tests.helpers.fake_worker import FakeWorker

SAMPLINGS = (10, 3, 64, 2, 100, 5, 1)
_OPTIONS = Options(mode=Mode.HOST, units=4 * DEFAULT_UNITS)
_SCALE = 0.1  # cycles of 3 ms
_LEAD = 0.4  # of the usual second
_BEGUN = 1500  # cycles, by which whoever attaches to another such server reads, too
_TIMEOUT_S = 120.0
_POLL_S = 0.002


@dataclass
class Resampled:
    """What came of switching a server from sampling to sampling, all in full at both ends.

    Attributes:
        asked: From which cycle on every how many; from 0 on all.
        cycles: Those that were recorded, by number.
        facts: What the session says at the end.
    """

    asked: list[tuple[int, int]] = field(default_factory=lambda: [(0, 1)])
    cycles: dict[int, Cycle] = field(default_factory=dict)
    facts: SessionFacts | None = None

    @property
    def numbers(self) -> range:
        """All cycles that ran meanwhile."""
        return range(min(self.cycles), max(self.cycles) + 1)

    @property
    def wanted(self) -> list[int]:
        """Those that were to be recorded."""
        return [number for number in self.numbers if number % self.every_at(number) == 0]

    @property
    def left_out(self) -> list[int]:
        """Those that were not recorded."""
        return [number for number in self.numbers if number not in self.cycles]

    def every_at(self, number: int) -> int:
        """What was asked for of a cycle."""
        return next(every for since, every in reversed(self.asked) if since <= number)

    def take(self, cycles: Iterable[Cycle]) -> None:
        """Takes in new and amended ones."""
        self.cycles |= {cycle.number: cycle for cycle in cycles}


def resample(pid: int, samplings: Iterable[int]) -> Resampled:
    """Traces a server, and switches it each time as soon as the switch before has come."""
    found = Resampled()
    with TraceSession(discover.find_by_pid(pid), options=_OPTIONS) as session:
        _watch(session, found, _BEGUN)
        for every in samplings:
            (switch,) = modes.switch(
                session.run, Wish(every=every), lambda usual_s: time.sleep(usual_s * _LEAD)
            )
            found.asked.append((switch.from_cycle, every))
            _watch(session, found, switch.from_cycle + every)
            assert session.facts().sample_every == every
        last = max(found.cycles)
        _watch(session, found, last + 20)
        assert session.lost == 0, session.facts()
    found.take(session.last_cycles)
    # The very last one has some ranks alone: they leave one after the other.
    found.cycles = {number: cycle for number, cycle in found.cycles.items() if number <= last}
    found.facts = session.facts()
    return found


def _watch(session: TraceSession, found: Resampled, number: int) -> None:
    """Polls until a cycle from that number on has come."""
    deadline = time.monotonic() + _TIMEOUT_S
    while max(found.cycles, default=0) < number:
        assert time.monotonic() < deadline, (number, session.facts())
        found.take(session.poll())
        time.sleep(_POLL_S)


def hold(found: Resampled) -> None:
    """Recorded is what was asked for, and of the others the count and the time are right."""
    assert found.facts is not None
    assert sorted(found.cycles) == found.wanted
    assert not [n for n, cycle in found.cycles.items() for one in cycle.ranks if one.late_switch]
    skipped = found.facts.skipped
    assert skipped.cycles == len(found.left_out) > 0
    # A server that is never idle begins each cycle when it ends the one before.
    recorded = [found.cycles[number] for number in sorted(found.cycles)]
    gaps = [after.start_ns - before.end_ns for before, after in pairwise(recorded)]
    assert skipped.total_ns == sum(gaps)


def test_all_ranks_go_from_sampling_to_sampling_at_the_same_cycle() -> None:
    """Every cycle is recorded by both of them or by none."""
    kind = simulated.Options(shape="v2", ranks=2, scale=_SCALE, batch=3)
    with running(kind) as pid:
        found = resample(pid, SAMPLINGS)
    hold(found)
    assert {len(cycle.ranks) for cycle in found.cycles.values()} == {2}


@pytest.mark.parametrize("shape", ["v1", "v2"])
def test_what_the_cycles_brought_that_were_not_recorded_is_counted(shape: str) -> None:
    """The same server recorded in full says what they did: its work depends on its seed alone."""
    options = ("--batch", "3", "--visitors", "10000000")
    with FakeWorker(shape, *options, "--scale", str(_SCALE)) as worker:
        found = resample(worker.pid, SAMPLINGS)
        worker.stop()
    hold(found)
    with FakeWorker(shape, *options, "--scale", str(_SCALE)) as worker:
        whole = Resampled()
        with TraceSession(discover.find_by_pid(worker.pid), options=_OPTIONS) as session:
            _watch(session, whole, max(found.cycles))
        whole.take(session.last_cycles)
    rows = {
        number: [row for row in cycle.requests or () if not row.overshoot]
        for number, cycle in whole.cycles.items()
    }
    left_out = [row for number in found.left_out for row in rows[number]]
    verified = [row.correct_drafts for row in left_out if row.correct_drafts is not None]
    assert found.facts is not None
    skipped = found.facts.skipped
    assert skipped.output_tokens == sum(row.output_tokens for row in left_out) > 0
    assert (skipped.verifies, skipped.correct_drafts) == (len(verified), sum(verified))
