"""Drives a traced server through the blocks of a comparison of timing modes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from statistics import median
from typing import Protocol, TypeVar

from spectrace.analysis.block_plan import Plan, Turn
from spectrace.analysis.samples import WARM_UP_CYCLES
from spectrace.analysis.timing_comparison import compare
from spectrace.analysis.timing_report import Comparison
from spectrace.attach.modes import OutpacedError, Switch
from spectrace.attach.pulse import Activity
from spectrace.attach.session import controller_of, standing_still
from spectrace.cli import numbers
from spectrace.cli.block_ledger import BlockLedger
from spectrace.cli.follow import Clock, Session
from spectrace.cli.stopping import Stop
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, CycleKind, Lane, PhaseName, RankCycle, TimingMode

POLL_S = 0.05
_LEAST_ROUNDS = 2  # of one alone nothing could be told from chance
_LEAST_BLOCKS = 4  # of each mode
_LOOK_CYCLES = 30  # before the first block: what the server does, and how fast
_IDLE_AFTER_S = 2.0
_PATIENCE_S = 5.0  # with groups of ranks that have become idle, once others have switched
_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_MS_PER_S = 1e3
_WAITS = {PhaseName.WAIT}  # the host does nothing else in these
_MIXED = {  # it may also wait in these, and nobody sees for how long
    PhaseName.RESOLVE,
    PhaseName.VERIFY,
    PhaseName.VERIFY_SAMPLE,
    PhaseName.VERIFY_COMMIT,
}
_SWITCHED_AFTER_S = 0.3  # the speed is measured, and looked at again
_BLOCK_S, _BLOCK_CYCLES = 1.0, 50  # at least, as `attach.modes` switches
_SPARE = 1.2  # of the time that rounds take, for what cannot be foreseen
_GROWN = 1.25  # by so much more than at the last look, before it is compared again
_Found = TypeVar("_Found")
SwitchTo = Callable[[TimingMode, Callable[[float], None]], list[Switch]]


@dataclass(frozen=True)
class Wish:
    """When a comparison is long enough, and what it is of.

    Attributes:
        duration_s: Ends it after so many seconds.
        cycles: Ends it when so many cycles of each mode count; None for no such end.
        precision: Ends it when all intervals reach no further than this, as a share of a cycle's
            time; what is smaller counts as no difference.
        plain_decode_ms: Time of a plain decode of the same batch, where it is known.
        seed: Of the order of blocks.
        precision_ends: Whether it ends by the precision at all.
    """

    duration_s: float
    cycles: int | None
    precision: float
    plain_decode_ms: float | None
    seed: int
    precision_ends: bool = True


@dataclass(frozen=True)
class Glance:
    """What the server did before the first block.

    Attributes:
        mode: How it was timed then.
        cycle_ms: Median time of a decode cycle.
        works_ms: Of it, what the host does itself: all but its waits, and but `mixed_ms`.
        mixed_ms: Time in phases in which the host works and may wait for the device as well.
    """

    mode: TimingMode
    cycle_ms: float
    works_ms: float
    mixed_ms: float

    @property
    def likely_sync_costs(self) -> float:
        """By what part `sync` lengthens a cycle if the host only waits in the mixed phases."""
        return min(1.0, self.works_ms / self.cycle_ms)

    @property
    def most_sync_costs(self) -> float:
        """By what part `sync` can lengthen a cycle at most, beside the calls themselves.

        With a synchronize at every boundary host and device work in turns at worst: a cycle then
        takes what the one works and what the other does. The device's part fits into a cycle as
        it is now. What the host works is therefore all that can come on top of it.
        """
        return min(1.0, (self.works_ms + self.mixed_ms) / self.cycle_ms)


class ComparisonEnd(str, Enum):
    """Why a comparison ended early: with the session, as `attach.session.End`, or else."""

    SERVER_DIED = "server_died"
    TAKEN_OUT = "taken_out"
    PROBE_FAILED = "probe_failed"
    LOST_CONTROL = "lost_control"  # another spectrace has taken it
    SWITCHED = "switched"  # somebody else asked for a mode just then


class Progress(Protocol):
    """Where people see how far it is."""

    def note(self, text: str) -> None:
        """Something to know, in a sentence."""

    def at(self, text: str) -> None:
        """Where it stands now; replaces what it said before."""

    def round(self, text: str) -> None:
        """What a whole round brought."""


class TimingRun:
    """One comparison on a session that is entered already and controls the server.

    Args:
        session: The session.
        switch: Asks all ranks for another mode; waits by what it is given.
        wish: When it is long enough.
        progress: Where to show it.
        stop: Ends it.
        clock: The time.

    Attributes:
        ledger: What came of the blocks.
        outpaced: Why it ended because of somebody else who times the server now; None where it
            did not.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - each is a part that tests replace
        self,
        session: Session,
        switch: SwitchTo,
        wish: Wish,
        progress: Progress,
        stop: Stop,
        clock: Clock | None = None,
    ) -> None:
        self.ledger = BlockLedger()
        self._session = session
        self._switch = switch
        self._wish = wish
        self._progress = progress
        self._stop = stop
        self._clock = clock or Clock()
        self._start_ns = self._clock.now_ns()
        self._rounds = 0  # whole ones
        self._least_rounds = _LEAST_ROUNDS
        self.outpaced: ComparisonEnd | None = None
        self._place = ""  # where it stands, as people see it
        self._cycle_ns = self._start_ns  # when the last cycle came
        self._told_pause = False
        self._asks = False
        self._glance: Glance | None = None
        self._modes: tuple[TimingMode, ...] = ()  # that are compared
        self._device_timing = ""
        self._compared_cycles = 0  # that counted when it was last compared

    def look(self) -> Glance | None:
        """Waits for the first decode cycles.

        Returns:
            None where it ended before enough of them came.
        """
        seen: dict[int, Cycle] = {}
        told = False
        while len(seen) < _LOOK_CYCLES:
            if self.is_over():
                return None
            for cycle in self._poll():
                if cycle.kind in {CycleKind.SPECULATIVE, CycleKind.DECODE}:
                    seen[cycle.number] = cycle
            if not seen and not told and self.passed_s() > _IDLE_AFTER_S:
                told = True
                self._progress.note(" ".join(self._why_no_cycle()))
            self._clock.sleep(POLL_S)
        facts = self._session.facts()
        self._device_timing = facts.timing
        self.ledger.sync_is_host = facts.device.partition(":")[0] == "cpu"
        self._glance = glance_of(list(seen.values()))
        return self._glance

    def _why_no_cycle(self) -> Sequence[str]:
        return standing_still(self._session.facts()) or [
            "The server is idle: no cycle comes. The comparison begins with its next requests."
        ]

    def modes(self, *, with_sync: bool) -> tuple[TimingMode, ...]:
        """The modes that can be compared here; to be asked after `look`."""
        device = () if self._device_timing else (TimingMode.DEVICE,)
        sync = (TimingMode.SYNC,) if with_sync else ()
        return (TimingMode.OFF, TimingMode.HOST, *device, *sync)

    def run(self, modes: Sequence[TimingMode]) -> None:
        """Goes through the blocks until the wish is fulfilled, or it is stopped."""
        plan = Plan(modes, self._wish.seed)
        self._modes = tuple(modes)
        self._least_rounds = max(_LEAST_ROUNDS, math.ceil(_LEAST_BLOCKS / (len(modes) - 1)))
        if self.is_over():
            return
        for sentence in self._what_does_not_fit(plan.turns_per_round):
            self._progress.note(sentence)
        self._place = "before the first block"
        try:
            self._come_to(self._ask(plan.lead_in))
            for number, turn in enumerate(plan.turns()):
                if self.is_over() or not self._block(number, turn, plan.turns_per_round):
                    return
        except OutpacedError as error:
            self._end_outpaced(error)
        except SpectraceError as error:  # the probe was taken out from elsewhere, the server ends
            self._progress.note(str(error))

    def _end_outpaced(self, error: OutpacedError) -> None:
        if self.is_over() and self.outpaced is not None:
            return  # it has said who has taken control
        self.outpaced = ComparisonEnd.SWITCHED if error.mode else ComparisonEnd.LOST_CONTROL
        who = f"mode {error.mode}" if error.mode else "the hands of whoever took control"
        self._progress.note(
            f"Somebody else has decided how the server is timed while the comparison was about to: "
            f"it ends here, and leaves the server in {who}. Compare again when nobody switches it."
        )

    def _what_does_not_fit(self, turns_per_round: int) -> Iterator[str]:
        """Says what of the wish cannot be: fewer rounds than the least say nothing."""
        if self._glance is None:
            return
        block_s = max(_BLOCK_S, _BLOCK_CYCLES * self._glance.cycle_ms / _MS_PER_S)
        blocks = self._least_rounds * turns_per_round
        takes_s = (blocks + 2) * (block_s + _SWITCHED_AFTER_S)  # it leads in, and the last one ends
        least = f"{self._least_rounds} rounds, {blocks} blocks, are the least"
        left_s = self._wish.duration_s - self.passed_s()
        of_mode = blocks // len(self._modes) * (_BLOCK_CYCLES - WARM_UP_CYCLES)
        if takes_s > left_s:
            yield (
                f"{least}, and take about {takes_s:.0f} s with cycles of "
                f"{numbers.milliseconds(self._glance.cycle_ms)}: the {max(left_s, 0):.0f} s that "
                "are left will not do, and what comes until then says little. Give it a longer "
                f"--duration, such as {math.ceil(takes_s * _SPARE / 10) * 10:.0f}s."
            )
        elif self._wish.cycles is not None and self._wish.cycles < of_mode:
            yield (
                f"{least}: they bring about {of_mode} cycles of each mode, more than the "
                f"--cycles {self._wish.cycles} that were asked for."
            )

    def _block(self, number: int, turn: Turn, turns_per_round: int) -> bool:
        """Begins one, which ends the one before; False where that was the last one."""
        self._place = self._where(number, turn, turns_per_round)
        self._progress.at(self._place)
        switches = self._ask(turn.mode)
        self.ledger.begin(number, turn, switches)
        self._come_to(switches)
        if turn.round > self._rounds:
            self._rounds = turn.round
            return not self._is_enough()
        return True

    def _ask(self, mode: TimingMode) -> list[Switch]:
        return self._switch(mode, self._wait)

    def _come_to(self, switches: Sequence[Switch]) -> None:
        """Polls until all ranks that are busy have switched."""
        first_ns = None
        while not self.is_over():
            reached = [self.ledger.reached(switch) for switch in switches]
            now_ns = self._clock.now_ns()
            if any(reached) and first_ns is None:
                first_ns = now_ns
            if all(reached):
                return
            if first_ns is not None and now_ns - first_ns > _PATIENCE_S * _NS_PER_S:
                return
            self._wait(POLL_S)

    def _wait(self, seconds: float) -> None:
        """Reads on meanwhile."""
        end_ns = self._clock.now_ns() + int(seconds * _NS_PER_S)
        while (left_ns := end_ns - self._clock.now_ns()) > 0:
            self._poll()
            self._clock.sleep(min(POLL_S, left_ns / _NS_PER_S))
        self._poll()

    def _poll(self) -> list[Cycle]:
        cycles = self._session.poll()
        self.ledger.add(cycles)
        for sentence in self._session.news():
            self._progress.note(sentence)
        self._tell_pause(came=bool(cycles))
        return cycles

    def _tell_pause(self, *, came: bool) -> None:
        """Says between blocks that no cycle comes any more, once, and where it goes on."""
        now_ns = self._clock.now_ns()
        if came:
            self._cycle_ns = now_ns
            if self._told_pause:
                self._told_pause = False
                self._progress.at(self._place)
        elif (
            self._place
            and not self._told_pause
            and now_ns - self._cycle_ns > _IDLE_AFTER_S * _NS_PER_S
            and self._session.end is None
        ):
            self._told_pause = True
            self._progress.note(" ".join(self._why_paused()))
            self._progress.at(f"{self._place} · waiting: no cycle comes")

    def _why_paused(self) -> Sequence[str]:
        facts = self._session.facts()
        if still := standing_still(facts):
            return still
        idle = any(rank.activity is Activity.IDLE for rank in facts.ranks if rank.alive)
        why = "the server is idle" if idle else "the server is idle, or within a long one"
        sentence = (
            f"No cycle has come for {_IDLE_AFTER_S:.0f} s: {why}. The comparison goes on with "
            "the next one, and its time runs on."
        )
        return [sentence]

    def keep_reading(self) -> None:
        """One look at what has come; for whoever waits for something else meanwhile."""
        self._poll()

    def passed_s(self) -> float:
        """How long it has taken, in s."""
        return 0.0 if self._asks else (self._clock.now_ns() - self._start_ns) / _NS_PER_S

    @contextmanager
    def asking(self) -> Iterator[None]:
        """While a person is asked; the time begins behind that."""
        self._asks = True
        try:
            yield
        finally:
            self._asks = False
            self._start_ns = self._clock.now_ns()

    def is_over(self) -> bool:
        """Whether the comparison is to end here, whatever the intervals are."""
        facts = self._session.facts()
        self._note_device(facts.timing)
        if not facts.controls and self.outpaced is None:
            self.outpaced = ComparisonEnd.LOST_CONTROL
            self._progress.note(
                f"{controller_of(facts).capitalize()} has taken control of the server, and times "
                "it as it likes: the comparison ends here."
            )
        return (
            self._stop.requested
            or self.outpaced is not None
            or self._session.end is not None
            or self.passed_s() >= self._wish.duration_s
        )

    def _note_device(self, timing: str) -> None:
        """The device's events may fail later than at the first look."""
        if timing and not self._device_timing:
            self._device_timing = timing
            if TimingMode.DEVICE in self._modes:
                self._progress.note(
                    f"Device timing has ended: its blocks bring nothing more. {timing}"
                )

    def _is_enough(self) -> bool:
        """Looks at what the whole rounds have brought, and tells it.

        That takes the longer the more there is: it is done where enough has come since the last
        time to make a difference.
        """
        counted = self.ledger.counted()
        grown = counted.total() >= _GROWN * self._compared_cycles
        if self._rounds < self._least_rounds:
            self._progress.round(f"Round {self._rounds}: {counted.total():,} cycles count.")
            return False
        if not (grown or self._has_cycles(counted)):
            return False
        self._compared_cycles = counted.total()
        found = self._meanwhile(self._comparison(self._rounds))
        widest = found.widest
        known = "not known yet"
        if widest is not None and widest < 1:
            known = f"±{numbers.share(widest)} of a cycle"
        asked = f"±{numbers.share(self._wish.precision)}"
        if not self._wish.precision_ends:
            asked = f"{numbers.count(self._wish.cycles)} cycles of each mode"
        self._progress.round(
            f"Round {self._rounds}: {sum(figures.cycles for figures in found.modes):,} cycles "
            f"count, widest interval {known}, asked for {asked}."
        )
        if self._has_cycles({figures.mode: figures.cycles for figures in found.modes}):
            return True
        if not self._wish.precision_ends:
            return False
        explained = {TimingMode.DEVICE} if self._device_timing else set()
        silent = set(found.without_data) - explained
        return not silent and widest is not None and widest <= self._wish.precision

    def _has_cycles(self, counted: Mapping[TimingMode, int]) -> bool:
        """Whether each mode, none left out, has the cycles that were asked for."""
        wanted = self._wish.cycles
        return wanted is not None and all(counted.get(mode, 0) >= wanted for mode in self._modes)

    def _meanwhile(self, work: Callable[[], _Found]) -> _Found:
        """Does work beside reading on: rings that nobody reads overflow."""
        with ThreadPoolExecutor(max_workers=1) as beside:
            working = beside.submit(work)
            while not wait([working], POLL_S).done:
                self._poll()
        return working.result()

    def _where(self, number: int, turn: Turn, turns_per_round: int) -> str:
        counted = self.ledger.counted()
        cycles = ", ".join(f"{mode.value} {count:,}" for mode, count in sorted(counted.items()))
        return (
            f"round {turn.round + 1}, block {number % turns_per_round + 1} of {turns_per_round}: "
            f"{turn.mode.value}" + (f" · cycles: {cycles}" if cycles else "")
        )

    def result(self) -> Comparison:
        """The comparison of the whole rounds, or of everything that came while they are too few."""
        return self._comparison(self._rounds if self._rounds >= self._least_rounds else None)()

    def _comparison(self, rounds: int | None) -> Callable[[], Comparison]:
        """Takes together what there is now; calling it compares that."""
        return partial(
            compare,
            self.ledger.samples(rounds),
            asked=self._modes,
            left_out=self.ledger.left_out(rounds),
            rounds=self._rounds,
            margin=self._wish.precision,
            plain_decode_ms=self._wish.plain_decode_ms,
            device_timing=self._device_timing,
        )


def glance_of(cycles: Sequence[Cycle]) -> Glance:
    """What the host did in some decode cycles, in medians; of their ranks the busiest counts.

    Args:
        cycles: At least one. Those count that were timed as most of them.
    """
    (mode, _), *_ = Counter(cycle.ranks[0].mode for cycle in cycles).most_common()
    alike = [cycle for cycle in cycles if cycle.ranks[0].mode is mode]
    works_ms = _median_ms(max(map(_works_ns, cycle.ranks)) for cycle in alike)
    most_ms = _median_ms(max(map(_most_works_ns, cycle.ranks)) for cycle in alike)
    return Glance(
        mode=mode,
        cycle_ms=_median_ms(cycle.ranks[0].duration_ns for cycle in alike),
        works_ms=works_ms,
        mixed_ms=most_ms - works_ms,
    )


def _median_ms(times_ns: Iterable[int]) -> float:
    return median(times_ns) / _NS_PER_MS


def _works_ns(rank: RankCycle) -> int:
    """What a rank's host is known to do itself."""
    return sum(
        phase.duration_ns
        for phase in rank.phases
        if phase.lane is Lane.HOST and phase.name not in _WAITS | _MIXED
    )


def _most_works_ns(rank: RankCycle) -> int:
    """What it does itself at most: all but its waits by name."""
    return rank.duration_ns - sum(
        phase.duration_ns
        for phase in rank.phases
        if phase.lane is Lane.HOST and phase.name in _WAITS
    )
