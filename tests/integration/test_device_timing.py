"""Simulated workers on a simulated GPU, attached to for real: are the times right?

The device keeps its own log; the set times and what must come of them are the consistent figures
of device-timing.md: a V1 worker with device draft 2.18 ms, device verify 27.40, host launches 0.87
and 1.05 and 0.32 of other work has host draft 0.87, host verify 28.71 and a cycle of 29.90; timed
with synchronize it has draft 2.18, verify 28.45 and a cycle of 30.95.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import pytest

from spectrace.attach import discover
from spectrace.attach.handle import Options
from spectrace.attach.session import TraceSession
from spectrace.model import Lane, Phase, PhaseName, RankCycle, TimingMode
from spectrace.probe.layout import Mode, Word
from tests.helpers.fake_worker import Account, FakeWorker, Kernel
from tests.helpers.tracing import Collected

CYCLES = 50  # of 30 ms each, for one mode
WARM_UP = 5
UNSETTLED = 4
LIMIT_S = 60.0
POLL_S = 0.02
NEARLY_ALL = 0.9  # of the cycles; the machine is shared, and some wait for a CPU
MODES = {
    TimingMode.DEVICE: Mode.DEVICE,
    TimingMode.HOST: Mode.HOST,
    TimingMode.SYNC: Mode.SYNC,
    TimingMode.OFF: Mode.OFF,
}


@dataclass(frozen=True)
class Traced:
    """What one mode gave on one worker.

    Attributes:
        cycles: The rank's share of each cycle, by number.
        syncs: Synchronize calls meanwhile that were not the worker's.
        offset_ns: UNIX minus CLOCK_MONOTONIC.
    """

    cycles: dict[int, RankCycle]
    syncs: int
    offset_ns: int

    def ms(self, *names: PhaseName, lane: Lane = Lane.HOST) -> float:
        """Median time of some phases together, in ms."""
        return median(total_ms(cycle, names, lane) for cycle in self.cycles.values())

    @property
    def cycle_ms(self) -> float:
        """Median time of a cycle, in ms."""
        return median(cycle.duration_ns for cycle in self.cycles.values()) / 1e6


VERIFY = (
    PhaseName.VERIFY_PREPARE,
    PhaseName.VERIFY_FORWARD,
    PhaseName.VERIFY_SAMPLE,
    PhaseName.VERIFY_COMMIT,
)


def total_ms(cycle: RankCycle, names: tuple[PhaseName, ...], lane: Lane) -> float:
    """Time of some phases of one lane of a cycle together, in ms."""
    phases = (phase for phase in cycle.phases if phase.lane is lane and phase.name in names)
    return sum(phase.duration_ns for phase in phases) / 1e6


class Tracing:
    """A session on a worker, and the Cycles that it gave so far."""

    def __init__(self, session: TraceSession) -> None:
        self.session = session
        self._collected = Collected()

    def more(self, count: int) -> dict[int, RankCycle]:
        """Polls until so many cycles more are there; gives those, without the newest few.

        The newest may still be amended: their device times come later.
        """
        before = len(self._collected.cycles)
        deadline = time.monotonic() + LIMIT_S
        while len(self._collected.cycles) < before + count + UNSETTLED:
            assert time.monotonic() < deadline, self.session.facts()
            self._collected.add(self.session.poll())
            time.sleep(POLL_S)
        cycles = self._collected.cycles[before:-UNSETTLED]
        return {cycle.number: cycle.ranks[0] for cycle in cycles}

    def count(self, word: int) -> int:
        """A count that the probe keeps in its ring."""
        (traced,) = self.session._traced
        return traced.view.word(word)


@contextlib.contextmanager
def tracing(worker: FakeWorker, mode: TimingMode) -> Iterator[Tracing]:
    """Attaches to a worker in one mode."""
    run = discover.find_by_pid(worker.pid)
    with TraceSession(run, options=Options(mode=MODES[mode])) as session:
        yield Tracing(session)


def trace(worker: FakeWorker, mode: TimingMode) -> Traced:
    """Traces a worker for a while in one mode."""
    before = worker.counters()["syncs"]
    with tracing(worker, mode) as traced:
        traced.more(WARM_UP)
        cycles = traced.more(CYCLES)
        offset_ns = traced.session.run.unix_ns(0)
    return Traced(cycles, worker.counters()["syncs"] - before, offset_ns)


@dataclass(frozen=True)
class Measured:
    """A worker traced in every mode, and what its device did."""

    modes: dict[TimingMode, Traced]
    account: Account


def measure(shape: str) -> Measured:
    """Attaches to one worker four times."""
    with FakeWorker(shape) as worker:
        modes = {mode: trace(worker, mode) for mode in MODES}
        return Measured(modes, worker.stop())


@pytest.fixture(scope="module")
def v1() -> Measured:
    """A worker that blocks in verify."""
    return measure("v1")


@pytest.fixture(scope="module")
def v2() -> Measured:
    """A worker whose host runs ahead."""
    return measure("v2")


@pytest.fixture(params=["v1", "v2"])
def measured(request: pytest.FixtureRequest) -> Measured:
    """Each of the two."""
    found: Measured = request.getfixturevalue(request.param)
    return found


def mostly(differences: list[float], limit: float) -> bool:
    """Whether nearly all are within the limit."""
    within = sum(abs(difference) <= limit for difference in differences)
    return within >= NEARLY_ALL * len(differences)


def pairs(measured: Measured, name: str, phase: PhaseName) -> list[tuple[RankCycle, Phase, Kernel]]:
    """The device's phase and the device's own log of its kernel, for every cycle."""
    kernels = measured.account.of(name)
    return [
        (cycle, found, kernels[number])
        for number, cycle in measured.modes[TimingMode.DEVICE].cycles.items()
        for found in cycle.phases
        if found.lane is Lane.DEVICE and found.name is phase
    ]


ON_DEVICE = [("draft", PhaseName.DRAFT, 2.18), ("verify", PhaseName.VERIFY_FORWARD, 27.40)]


@pytest.mark.parametrize(("name", "phase", "set_ms"), ON_DEVICE)
def test_device_times_are_those_of_the_device(
    measured: Measured, name: str, phase: PhaseName, set_ms: float
) -> None:
    """Each phase is within 5 % of what the device logged in that cycle, and of the set time."""
    found = pairs(measured, name, phase)
    assert len(found) >= NEARLY_ALL * CYCLES
    ratios = [share.duration_ns / 1e6 / kernel.ms - 1 for _, share, kernel in found]
    assert mostly(ratios, 0.05)
    assert median(share.duration_ns for _, share, _ in found) / 1e6 == pytest.approx(set_ms, 0.05)


@pytest.mark.parametrize(("name", "phase", "set_ms"), ON_DEVICE)
def test_device_times_stand_where_they_belong_on_the_host_axis(
    measured: Measured, name: str, phase: PhaseName, set_ms: float
) -> None:
    """The end of a phase is where the device's log has it, within the error that is stated."""
    del set_ms
    traced = measured.modes[TimingMode.DEVICE]
    beyond = []
    for cycle, share, kernel in pairs(measured, name, phase):
        assert cycle.clock_error_ns is not None
        off_ns = abs(share.end_ns - traced.offset_ns - kernel.end_ns)
        beyond.append(off_ns - cycle.clock_error_ns)
    # The event is worked on behind the kernel, by a thread that other programs may hold up.
    assert mostly([max(0, ns) for ns in beyond], 100_000)


def test_the_stated_error_of_the_clock_is_small(measured: Measured) -> None:
    """Device and host lanes can be compared to a tenth of a millisecond."""
    errors = [c.clock_error_ns for c in measured.modes[TimingMode.DEVICE].cycles.values()]
    assert median(error for error in errors if error is not None) < 100_000
    assert mostly([error is None for error in errors], 0)


def test_the_host_charges_draft_to_verify(v1: Measured) -> None:
    """On a V1 worker the host's clock shows what arithmetic gives: 0.87, 28.71, 29.90."""
    for mode in (TimingMode.HOST, TimingMode.DEVICE):
        traced = v1.modes[mode]
        assert traced.ms(PhaseName.DRAFT) == pytest.approx(0.87, abs=0.13)
        assert traced.ms(*VERIFY) == pytest.approx(28.71, rel=0.02)
        assert traced.cycle_ms == pytest.approx(29.90, rel=0.025)


def test_a_host_that_runs_ahead_waits_elsewhere(v2: Measured) -> None:
    """On a V2 worker neither draft nor verify shows on the host what it takes on the device."""
    traced = v2.modes[TimingMode.DEVICE]
    assert traced.ms(PhaseName.DRAFT) == pytest.approx(0.87, abs=0.13)
    assert traced.ms(*VERIFY) == pytest.approx(1.05, abs=0.13)
    assert traced.ms(PhaseName.WAIT) > 26
    assert traced.cycle_ms == pytest.approx(2.18 + 27.40, rel=0.025)


def test_sync_gives_right_phases_and_a_longer_cycle(measured: Measured) -> None:
    """Draft 2.18, verify 28.45, cycle 30.95, on V2 too: what overlapped no longer does."""
    traced, host = measured.modes[TimingMode.SYNC], measured.modes[TimingMode.HOST]
    assert traced.ms(PhaseName.DRAFT) == pytest.approx(2.18, abs=0.13)
    assert traced.ms(*VERIFY) == pytest.approx(28.45, rel=0.02)
    assert traced.cycle_ms == pytest.approx(30.95, rel=0.025)
    assert traced.cycle_ms > host.cycle_ms + 0.6


@pytest.mark.parametrize("mode", [TimingMode.DEVICE, TimingMode.HOST, TimingMode.OFF])
def test_only_sync_synchronizes(measured: Measured, mode: TimingMode) -> None:
    """The device counts no synchronize call in the other modes, and many in sync."""
    assert measured.modes[mode].syncs == 0
    assert measured.modes[TimingMode.SYNC].syncs > CYCLES


def test_every_cycle_says_how_it_was_timed(measured: Measured) -> None:
    """A record has one mode, and only device timing gives a device lane."""
    for mode, traced in measured.modes.items():
        for cycle in traced.cycles.values():
            assert cycle.mode is mode
            assert cycle.asked_mode is None
            lanes = {phase.lane for phase in cycle.phases}
            assert (Lane.DEVICE in lanes) <= (mode is TimingMode.DEVICE)
            assert (Lane.HOST in lanes) == (mode is not TimingMode.OFF)


QUICK = ("--scale", "0.2")


def device_lanes(cycles: dict[int, RankCycle]) -> int:
    """How many cycles have a whole device lane."""
    return sum(
        not cycle.device_incomplete and any(phase.lane is Lane.DEVICE for phase in cycle.phases)
        for cycle in cycles.values()
    )


def test_a_capture_in_the_middle_is_not_harmed() -> None:
    """No query and no record gets into it: the graph has only the worker's own kernels."""
    with FakeWorker("v1", *QUICK) as worker, tracing(worker, TimingMode.DEVICE) as traced:
        traced.more(WARM_UP)
        for _ in range(3):
            worker.tell("capture")
            cycles = traced.more(10)
            assert device_lanes(cycles) >= len(cycles) - 2
        assert traced.count(Word.EVENT_CAPTURING) == 3 * 2  # two hooked functions run within
        counters = worker.counters()
        assert (counters["refused"], counters["captured_records"], counters["syncs"]) == (0, 0, 0)


def test_an_event_that_never_completes_costs_a_count() -> None:
    """The cycles behind it have their device lanes, the server its pace."""
    with FakeWorker("v2", *QUICK) as worker, tracing(worker, TimingMode.DEVICE) as traced:
        before = traced.more(20)
        worker.tell("lose 1")
        traced.more(20)
        after = traced.more(20)
        assert traced.count(Word.EVENT_LOST) == 1
        assert device_lanes(after) >= len(after) - 1
        pace = [median(c.duration_ns for c in part.values()) for part in (before, after)]
        assert pace[1] < 1.5 * pace[0]  # waiting for it would take for ever
        assert worker.counters()["syncs"] == 0


def test_a_device_that_fails_leaves_the_host_lane() -> None:
    """Its errors stay: device timing ends and says why, the cycles go on by the host's clock."""
    with FakeWorker("v1", *QUICK) as worker, tracing(worker, TimingMode.DEVICE) as traced:
        traced.more(10)
        worker.tell("break")
        traced.more(10)
        cycles = traced.more(10)
        assert {cycle.mode for cycle in cycles.values()} == {TimingMode.HOST}
        assert {cycle.asked_mode for cycle in cycles.values()} == {TimingMode.DEVICE}
        assert "illegal access" in traced.session.facts().timing


def test_after_a_pause_device_times_are_right_at_once() -> None:
    """Past 5 s the device's axis begins anew; the first cycles behind it are placed as before."""
    with FakeWorker("v1", *QUICK) as worker:
        with tracing(worker, TimingMode.DEVICE) as traced:
            traced.more(10)
            worker.tell("idle 5.5")
            cycles = traced.more(30)
            offset_ns = traced.session.run.unix_ns(0)
        kernels = worker.stop().of("verify")
    ends = {
        number: phase.end_ns - offset_ns
        for number, cycle in cycles.items()
        for phase in cycle.phases
        if phase.lane is Lane.DEVICE and phase.name is PhaseName.VERIFY_FORWARD
    }
    assert len(ends) >= len(cycles) - 1
    for number, end_ns in ends.items():
        assert abs(end_ns - kernels[number].end_ns) < 1_000_000


def test_the_steps_of_an_eager_draft_are_timed_one_by_one() -> None:
    """Five steps share the draft's 2.18 ms on the device, whatever the host took to launch them."""
    with FakeWorker("v2", "--eager") as worker, tracing(worker, TimingMode.DEVICE) as traced:
        traced.more(WARM_UP)
        cycles = traced.more(20)
    steps = [
        [phase.duration_ns / 1e6 for phase in cycle.phases if phase.name is PhaseName.DRAFT_STEP
         and phase.lane is Lane.DEVICE]
        for cycle in cycles.values()
    ]  # fmt: skip
    assert median(len(of_cycle) for of_cycle in steps) == 5
    assert median(sum(of_cycle) for of_cycle in steps) == pytest.approx(2.18, rel=0.05)


def test_a_probe_that_reads_early_is_caught() -> None:
    """Each way to read a count before the worker copied it is counted as a synchronize."""
    with FakeWorker("v2", "--scale", "0.02", "--read-early") as worker:
        while worker.counters()["syncs"] < 100:
            time.sleep(POLL_S)
        early = worker.stop().early
    harmless = {way: early.pop(way) for way in ("len", "row")}
    assert set(harmless.values()) == {0}
    assert len(early) == 8
    assert all(count >= 1 for count in early.values()), early


def test_the_worker_alone_makes_no_synchronize() -> None:
    """What is counted is not the worker's own reading."""
    with FakeWorker("v1", "--scale", "0.02") as worker:
        for _ in range(60):  # each is answered between two cycles
            worker.counters()
        account = worker.stop()
    assert len(account.starts_ns) > 50
    assert account.counters["syncs"] == 0
