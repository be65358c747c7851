"""Drives a traced server through the blocks of a comparison of timing modes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from spectrace.analysis.block_plan import Plan, Turn
from spectrace.analysis.timing_comparison import compare
from spectrace.analysis.timing_report import Comparison
from spectrace.attach.modes import Switch
from spectrace.attach.session import controller_of, standing_still
from spectrace.cli import numbers
from spectrace.cli.block_ledger import BlockLedger
from spectrace.cli.follow import Clock, Session
from spectrace.cli.stopping import Stop
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, CycleKind, Lane, PhaseName, TimingMode

POLL_S = 0.05
_LEAST_ROUNDS = 2  # of one alone nothing could be told from chance
_LEAST_BLOCKS = 4  # of each mode
_LOOK_CYCLES = 30  # before the first block: what the server does, and how fast
_IDLE_AFTER_S = 2.0
_PATIENCE_S = 5.0  # with groups of ranks that have become idle, once others have switched
_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_LAUNCHES = (
    PhaseName.DRAFT,
    PhaseName.DRAFT_STEP,
    PhaseName.VERIFY_PREPARE,
    PhaseName.VERIFY_FORWARD,
    PhaseName.DRAFT_EXTEND,
)
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
    """

    duration_s: float
    cycles: int | None
    precision: float
    plain_decode_ms: float | None
    seed: int


@dataclass(frozen=True)
class Glance:
    """What the server did before the first block.

    Attributes:
        cycle_ms: Median time of a decode cycle.
        launch_ms: Median of what the host takes to launch in one; 0 where phases are not timed.
    """

    cycle_ms: float
    launch_ms: float

    @property
    def most_sync_costs(self) -> float:
        """By what part `sync` can lengthen a cycle at most.

        What the host launches while the device is at work is what a synchronize takes out of
        that shadow.
        """
        return self.launch_ms / self.cycle_ms


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
        self._lost_control = False
        self._device_timing = ""

    def look(self) -> Glance | None:
        """Waits for the first decode cycles.

        Returns:
            None where it ended before enough of them came.
        """
        seen: dict[int, Cycle] = {}
        told = False
        while len(seen) < _LOOK_CYCLES:
            if self._is_over():
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
        return _glance(list(seen.values()))

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
        self._least_rounds = max(_LEAST_ROUNDS, math.ceil(_LEAST_BLOCKS / (len(modes) - 1)))
        if self._is_over():
            return
        try:
            self._come_to(self._ask(plan.lead_in))
            for number, turn in enumerate(plan.turns()):
                if self._is_over() or not self._block(number, turn, plan.turns_per_round):
                    return
        except (
            SpectraceError
        ) as error:  # the probe was taken out from elsewhere, or the server ends
            self._progress.note(str(error))

    def _block(self, number: int, turn: Turn, turns_per_round: int) -> bool:
        """Begins one, which ends the one before; False where that was the last one."""
        self._progress.at(self._where(number, turn, turns_per_round))
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
        while not self._is_over():
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
        return cycles

    def keep_reading(self) -> None:
        """One look at what has come; for whoever waits for something else meanwhile."""
        self._poll()

    def passed_s(self) -> float:
        """How long it has taken, in s."""
        return (self._clock.now_ns() - self._start_ns) / _NS_PER_S

    def _is_over(self) -> bool:
        facts = self._session.facts()
        if not facts.controls and not self._lost_control:
            self._lost_control = True
            self._progress.note(
                f"{controller_of(facts).capitalize()} has taken control of the server, and times "
                "it as it likes: the comparison ends here."
            )
        return (
            self._stop.requested
            or self._lost_control
            or self._session.end is not None
            or self.passed_s() >= self._wish.duration_s
        )

    def _is_enough(self) -> bool:
        """Looks at what the whole rounds have brought, and tells it."""
        found = self.result(self._rounds)
        widest = found.widest
        known = "not known yet"
        if widest is not None and widest < 1:
            known = f"±{numbers.share(widest)} of a cycle"
        self._progress.round(
            f"Round {self._rounds}: {sum(figures.cycles for figures in found.modes):,} cycles "
            f"count, widest interval {known}, asked for ±{numbers.share(self._wish.precision)}."
        )
        if self._rounds < self._least_rounds:
            return False
        counts = [figures.cycles for figures in found.modes]
        if self._wish.cycles is not None and counts and min(counts) >= self._wish.cycles:
            return True
        return widest is not None and widest <= self._wish.precision

    def _where(self, number: int, turn: Turn, turns_per_round: int) -> str:
        counted = self.ledger.counted()
        cycles = ", ".join(f"{mode.value} {count:,}" for mode, count in sorted(counted.items()))
        return (
            f"round {turn.round + 1}, block {number % turns_per_round + 1} of {turns_per_round}: "
            f"{turn.mode.value}" + (f" · cycles: {cycles}" if cycles else "")
        )

    def result(self, rounds: int | None = None) -> Comparison:
        """The comparison of so many rounds; by default of the whole ones, once they are enough.

        With fewer it is of everything that came.
        """
        if rounds is None and self._rounds >= self._least_rounds:
            rounds = self._rounds
        return compare(
            self.ledger.samples(rounds),
            left_out=self.ledger.left_out(),
            rounds=self._rounds,
            margin=self._wish.precision,
            plain_decode_ms=self._wish.plain_decode_ms,
            device_timing=self._device_timing,
        )


def _glance(cycles: Sequence[Cycle]) -> Glance:
    launches = [
        sum(
            phase.duration_ns
            for phase in cycle.ranks[0].phases
            if phase.lane is Lane.HOST and phase.name in _LAUNCHES
        )
        for cycle in cycles
    ]
    return Glance(
        cycle_ms=median(cycle.ranks[0].duration_ns for cycle in cycles) / _NS_PER_MS,
        launch_ms=median(launches) / _NS_PER_MS,
    )
