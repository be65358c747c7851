"""Switches the timing mode of a live server over and over, and holds every record against that."""

from __future__ import annotations

import itertools
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from examples.simulated_gpu import options as simulated
from examples.simulated_gpu.demo import running
from spectrace.attach import discover, modes
from spectrace.attach.handle import Options
from spectrace.attach.session import TraceSession
from spectrace.model import Cycle, CycleKind, Lane, PhaseName, RankCycle, TimingMode
from spectrace.probe.layout import DEFAULT_UNITS, Mode
from tests.helpers.fake_worker import Account, FakeWorker, Kernel
from tests.helpers.unnoticed import CheckedLoad

# Each mode follows each other one, and so on all over again.
ORDER = (
    *(TimingMode.DEVICE, TimingMode.SYNC, TimingMode.HOST, TimingMode.OFF),
    *(TimingMode.SYNC, TimingMode.DEVICE, TimingMode.HOST, TimingMode.SYNC),
    *(TimingMode.OFF, TimingMode.DEVICE, TimingMode.OFF, TimingMode.HOST),
)
_FIRST = TimingMode.HOST
_LEAD_S = 0.4  # however busy the machine is, each rank is told before
_VISITORS = ("--batch", "3", "--visitors")
_WITHOUT_END = 10_000_000
_RUNNING = 3  # requests may leave in another order than they came
_STILL_OPEN = 30  # requests that end in cycles that are not settled
_SCALE = 0.1  # cycles of 3 ms, which two ranks and a reader can keep up with on a busy machine
_NEARLY_ALL = 0.99
_PLACED_NS = 2_000  # the steps of the device's times and of marks
# What is to be proved is not how fast we read.
_OPTIONS = Options(mode=Mode.HOST, units=4 * DEFAULT_UNITS)
_TIMEOUT_S = 120.0
_POLL_S = 0.002
_SETTLED = 100  # cycles behind the newest: nothing amends them any more
_KEPT = 1000  # records of cycles to compare with what the device did


@dataclass
class Switched:
    """What came of switching.

    Attributes:
        asked: From which cycle on which mode was asked for; from 0 on the first.
        records: Ranks' shares of cycles that were looked at, by mode.
        wrong: What was not as asked, a sentence each.
        bare: Cycles in mode `device` without a whole device lane.
        newest: The newest of them, by number.
        tokens: Tokens that each request got, by its id, where its prefill was seen.
    """

    asked: list[tuple[int, TimingMode]]
    records: Counter[TimingMode] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    bare: int = 0
    newest: dict[int, RankCycle] = field(default_factory=dict)
    tokens: Counter[str] = field(default_factory=Counter)

    def mode_of(self, number: int) -> TimingMode:
        """The mode that was asked for a cycle."""
        place = bisect_right(self.asked, number, key=lambda entry: entry[0])
        return self.asked[place - 1][1]

    def take(self, cycle: Cycle) -> None:
        """Looks at a cycle that nothing amends any more."""
        for row in cycle.requests or ():
            if cycle.kind is CycleKind.EXTEND or row.request_id in self.tokens:
                self.tokens[row.request_id] += row.output_tokens
        for rank in cycle.ranks:
            self.records[rank.mode] += 1
            self.wrong += complaints(cycle.number, rank, self.mode_of(cycle.number))
            if rank.mode is TimingMode.DEVICE:
                self.bare += rank.device_incomplete or not lane(rank, Lane.DEVICE)
        self.newest[cycle.number] = cycle.ranks[0]
        if len(self.newest) > _KEPT:
            del self.newest[next(iter(self.newest))]


def lane(rank: RankCycle, of: Lane) -> dict[PhaseName, tuple[int, int]]:
    """Start and end of each phase on a lane, in UNIX ns; of a phase that comes twice the last."""
    return {phase.name: (phase.start_ns, phase.end_ns) for phase in rank.phases if phase.lane is of}


def complaints(number: int, rank: RankCycle, asked: TimingMode) -> list[str]:
    """What is wrong with a record that was to be taken in a mode."""
    host, device = lane(rank, Lane.HOST), lane(rank, Lane.DEVICE)
    found = {
        f"was taken as {rank.mode.value}": (rank.asked_mode or rank.mode) is not asked,
        "switched late": rank.late_switch,
        "has host phases": rank.mode is TimingMode.OFF and bool(host),
        "has no host phases": rank.mode is not TimingMode.OFF and not host,
        "has a device lane": rank.mode is not TimingMode.DEVICE and bool(device),
    }
    where = f"cycle {number} of {rank.rank}, asked for as {asked.value},"
    return [f"{where} {what}" for what, so in found.items() if so]


def switch_often(session: TraceSession, count: int, *, lead_s: float = _LEAD_S) -> Switched:
    """Switches a traced server so often, each time as soon as the switch before has come.

    Args:
        session: On the server, and the only one; it began in mode `host`.
        count: How often.
        lead_s: How far ahead a switch lies in s, and 50 cycles at least; the product takes 1.
    """

    def measure(usual_s: float) -> None:
        time.sleep(usual_s * lead_s)

    watch = _Watch(session, Switched([(0, _FIRST)]))
    # An idle server's next cycle switches, whichever that is: nothing to hold records against.
    watch.until(1)
    for mode in itertools.islice(itertools.cycle(ORDER), count):
        (switch,) = modes.switch(session.run, mode, measure)
        watch.found.asked.append((switch.from_cycle, mode))
        watch.until(switch.from_cycle)
    last, _ = watch.found.asked[-1]
    watch.until(last + _SETTLED + 20)
    return watch.found


class _Watch:
    """Polls a session, and passes on what is settled."""

    def __init__(self, session: TraceSession, found: Switched) -> None:
        self.found = found
        self._newest = 0
        self._session = session
        self._open: dict[int, Cycle] = {}

    def until(self, number: int) -> None:
        """Polls until a cycle has come."""
        deadline = time.monotonic() + _TIMEOUT_S
        while self._newest < number:
            assert time.monotonic() < deadline, (number, self._newest, self._session.facts())
            self._look()
            time.sleep(_POLL_S)

    def _look(self) -> None:
        for cycle in self._session.poll():
            self._open[cycle.number] = cycle
            self._newest = max(self._newest, cycle.number)
        for number in sorted(self._open):
            if number > self._newest - _SETTLED:
                return
            self.found.take(self._open.pop(number))


def prove(shape: str, count: int, *, scale: float = _SCALE, lead_s: float = _LEAD_S) -> Switched:
    """Switches a simulated server so often, and holds it against the untraced one and its device.

    Args:
        shape: Of the worker, `v1` or `v2`.
        count: How often.
        scale: Of its times; a cycle of 30 ms is 1.
        lead_s: As for `switch_often`.

    Raises:
        AssertionError: A record was not in the mode that was asked for its cycle or not taken
            that way, a request had other tokens than untraced, or something was lost.
    """
    with FakeWorker(shape, *_VISITORS, str(_WITHOUT_END), "--scale", str(scale)) as worker:
        with TraceSession(discover.find_by_pid(worker.pid), options=_OPTIONS) as session:
            switched = switch_often(session, count, lead_s=lead_s)
            offset_ns = session.run.unix_ns(0)
            assert session.lost == 0, session.facts()
        account = worker.stop()
    assert switched.wrong == [], switched.wrong[:10]
    assert set(switched.records) == set(TimingMode)
    assert switched.bare <= (1 - _NEARLY_ALL) * switched.records[TimingMode.DEVICE]
    _hold_against_untraced(switched, account, shape)
    _hold_against_device(switched, account, offset_ns)
    return switched


def _hold_against_untraced(switched: Switched, account: Account, shape: str) -> None:
    """Each request got what it gets where nobody looks on, as fast as it goes, and was told so."""
    assert account.answers
    count = str(len(account.answers) + _RUNNING)
    with FakeWorker(shape, *_VISITORS, count, "--scale", "0.001") as worker:
        untraced = worker.account().answers
    assert account.answers.items() <= untraced.items()
    seen = account.answers.keys() & switched.tokens.keys()
    cut = [name for name in seen if switched.tokens[name] != account.answers[name][0]]
    assert len(seen) > len(account.answers) / 2
    assert len(cut) <= _STILL_OPEN


def _hold_against_device(switched: Switched, account: Account, offset_ns: int) -> None:
    """Who synchronized waited for the device; a device lane holds the kernels of its cycle."""
    drafts, verifies = account.of("draft"), account.of("verify")
    of_mode: dict[TimingMode, list[int]] = {mode: [] for mode in TimingMode}
    for number, rank in switched.newest.items():
        if number in drafts:
            of_mode[rank.mode].append(number)
    unwaited = {
        mode: [
            ends_before_the_device(switched.newest[number], drafts[number], offset_ns)
            for number in of_mode[mode]
        ]
        for mode in (TimingMode.SYNC, TimingMode.HOST)
    }
    assert unwaited[TimingMode.SYNC]
    assert not any(unwaited[TimingMode.SYNC])
    assert sum(unwaited[TimingMode.HOST]) > len(unwaited[TimingMode.HOST]) / 2
    beyond = [
        beyond_the_lane(switched.newest[number], (drafts[number], verifies[number]), offset_ns)
        for number in of_mode[TimingMode.DEVICE]
        if switched.newest[number].clock_error_ns is not None
    ]
    assert beyond
    assert sum(ns <= _PLACED_NS for ns in beyond) >= _NEARLY_ALL * len(beyond)


def prove_on_ranks(ranks: int, count: int) -> Switched:
    """Switches a simulated server of several ranks: they go from mode to mode at one cycle.

    Raises:
        AssertionError: A rank did not, or something was lost.
    """
    kind = simulated.Options(shape="v2", ranks=ranks, scale=_SCALE, batch=3)
    with (
        running(kind) as pid,
        TraceSession(discover.find_by_pid(pid), options=_OPTIONS) as session,
    ):
        switched = switch_often(session, count)
        assert session.lost == 0, session.facts()
    assert switched.wrong == [], switched.wrong[:10]
    assert set(switched.records) == set(TimingMode)
    return switched


def prove_on_a_real_server(
    url: str, pid: int, expected: list[tuple[int, ...]], count: int
) -> Switched:
    """Switches a real server under load: requests get the tokens that they got untraced.

    Args:
        url: Its address.
        pid: Any of its processes.
        expected: Token ids as `unnoticed.answers_to` gave them without a tracer.
        count: How often.

    Raises:
        AssertionError: They did not, or a record was not in the mode that was asked for.
    """
    with (
        CheckedLoad(url, expected) as load,
        TraceSession(discover.find_by_pid(pid), options=_OPTIONS) as session,
    ):
        switched = switch_often(session, count)
        assert session.lost == 0, session.facts()
    assert load.error is None
    assert (load.wrong, load.rounds > 0) == (0, True)
    assert switched.wrong == [], switched.wrong[:10]
    return switched


def beyond_the_lane(rank: RankCycle, kernels: Iterable[Kernel], offset_ns: int) -> int:
    """By how many ns kernels reach out of a cycle's device lane, beyond the error that is stated.

    Args:
        rank: A cycle in mode `device`.
        kernels: What the device itself says that it did for that cycle.
        offset_ns: UNIX minus CLOCK_MONOTONIC.
    """
    spans = lane(rank, Lane.DEVICE).values()
    begin = min(start for start, _ in spans) - offset_ns
    end = max(end for _, end in spans) - offset_ns
    beyond = max(max(begin - kernel.start_ns, kernel.end_ns - end) for kernel in kernels)
    return max(0, beyond - (rank.clock_error_ns or 0))


def ends_before_the_device(rank: RankCycle, kernel: Kernel, offset_ns: int) -> bool:
    """Whether the host's draft ended before the device's had: nobody waited for it."""
    return lane(rank, Lane.HOST)[PhaseName.DRAFT][1] - offset_ns < kernel.end_ns
