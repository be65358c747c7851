"""Switches mode and sampling of a traced server, on all ranks of a group at the same cycle."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from spectrace.attach import readers, ring_file
from spectrace.collect.assembler import group_of
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank, Run, TimingMode
from spectrace.probe.layout import (
    MAX_EVERY,
    Mode,
    State,
    Word,
    every_at,
    mode_word,
    sampling_word,
    split_mode,
    split_sampling,
)

MODES = {
    TimingMode.OFF: Mode.OFF,
    TimingMode.HOST: Mode.HOST,
    TimingMode.DEVICE: Mode.DEVICE,
    TimingMode.SYNC: Mode.SYNC,
}
MOST_EVERY = MAX_EVERY
"""The fewest cycles that can be recorded in full: one in so many."""
_REPLICA = re.compile(r" ?\bDP\d+")
MEASURED_S = 0.25  # for so long the speed of a server is measured
AHEAD_CYCLES = 50  # at least, so that no rank comes to the cycle before it has read the word
_LOOKS = 40  # while an earlier switch of sampling is still to come: 10 s
Ringed = tuple[Rank, RingView]


@dataclass(frozen=True)
class Switch:
    """What was asked of the ranks of one group.

    Attributes:
        ranks: Their names.
        from_cycle: The first cycle of which it holds; 0 for the next one of each.
        newest_cycle: The highest number that a rank had ended when it was asked.
        cycles_per_s: How fast the group ran then.
    """

    ranks: tuple[str, ...]
    from_cycle: int
    newest_cycle: int
    cycles_per_s: float


class _Before(NamedTuple):
    """What a ring said before the speed of its rank was measured."""

    cycles: int
    controller: int
    mode: int
    sampling: int

    @classmethod
    def of(cls, ring: RingView) -> _Before:
        return cls(*map(ring.word, (Word.CYCLES, Word.CONTROLLER, Word.MODE, Word.SAMPLING)))


class Wish(NamedTuple):
    """What is asked of a server; None for what is to stay as it is.

    Attributes:
        mode: Its timing mode.
        every: Cycles whose number it divides are recorded in full, of the others only sums; from
            1, which is all, to `MOST_EVERY`.
    """

    mode: TimingMode | None = None
    every: int | None = None

    def __str__(self) -> str:
        """As people are told of it."""
        mode = [self.mode.value] if self.mode is not None else []
        every = [every_in_words(self.every)] if self.every is not None else []
        return " and ".join(mode + every)


class OutpacedError(SpectraceError):
    """Somebody else decided while the speed of the server was measured, and has the say.

    Args:
        message: Who or what, and what to do now.
        mode: The mode that they asked for; empty where they have taken control, or asked for
            another sampling.
    """

    def __init__(self, message: str, mode: str = "") -> None:
        super().__init__(message)
        self.mode = mode


class Asking:
    """Begins to ask ranks for something: from now on the speed of their server is measured.

    Args:
        rings: The ranks and their rings, which stay open until they are asked.
    """

    def __init__(self, rings: Sequence[Ringed]) -> None:
        self._rings = rings
        self._before = {rank.name: _Before.of(ring) for rank, ring in rings}

    def must_wait(self, run: Run) -> bool:
        """Whether an earlier switch of sampling is so near that it can only be waited for.

        Some ranks may come to it before they read a new word, and others after: the cycles in
        between would be kept by some of them alone.
        """
        groups = groups_of_rings(run, self._rings).values()
        return any(_is_imminent(members, self._before) for members in groups)

    def again(self) -> None:
        """Measures the speed from now on."""
        for rank, ring in self._rings:
            cycles = ring.word(Word.CYCLES)
            self._before[rank.name] = self._before[rank.name]._replace(cycles=cycles)

    def ask(self, run: Run, wish: Wish, controls: Callable[[], bool]) -> list[Switch]:
        """Asks them, to be called `MEASURED_S` later.

        Args:
            run: Their server.
            wish: What is asked for.
            controls: Whether the reader that asks controls still.

        Returns:
            One entry for all ranks that step together.

        Raises:
            OutpacedError: Somebody else was quicker; none is asked then.
        """
        with _undisturbed(self._rings):
            _refuse_who_was_slower(run, wish, self._rings, self._before, controls())
            groups = groups_of_rings(run, self._rings).values()
            return [_switch_group(members, self._before, wish) for members in groups]


def switch(
    run: Run,
    wish: TimingMode | Wish,
    sleep: Callable[[float], None] = time.sleep,
    *,
    take_control: bool = False,
    controls: Callable[[], bool] = lambda: True,
) -> list[Switch]:
    """Asks all ranks of a server for another timing mode, another sampling, or both.

    The cycle at which they switch lies a second ahead, and 50 cycles at least. Who takes control
    or asks for something while the speed of the server is measured is left alone: seats and words
    are looked at again before anything is written, and nobody can take control in between. A
    switch of sampling that was asked for just before comes first.

    Args:
        run: The server.
        wish: What is asked for; a mode alone is the new mode.
        sleep: Waits while the speed of the server is measured.
        take_control: Also where several spectraces read, of which one controls.
        controls: Whether the reader that asks controls still; one that does not read does not
            know.

    Returns:
        One entry for all ranks that step together.

    Raises:
        SpectraceError: A rank is not traced, several read it, somebody else was quicker, or a
            switch before does not come; none is asked then.
    """
    wish = Wish(mode=wish) if isinstance(wish, TimingMode) else wish
    with opened_rings(run.ranks) as rings:
        if not take_control:
            _refuse_over_heads(run, *rings[0])
        asking = Asking(rings)
        for _ in range(_LOOKS):
            sleep(MEASURED_S)
            if wish.every is None or not asking.must_wait(run):
                return asking.ask(run, wish, controls)
            asking.again()
        raise SpectraceError(
            f"Server {run.server_pid} was asked for another sampling a moment ago and has not come "
            f"to that cycle yet: {wish} was not asked for. Try again in a moment."
        )


def asked_of(run: Run) -> TimingMode | None:
    """The mode that the first rank of a server was last asked for; None where it is no known one.

    Raises:
        SpectraceError: It is not traced.
    """
    with opened_rings(run.ranks[:1]) as [(_, ring)]:
        return _mode_in(ring.word(Word.MODE))


def _mode_in(word: int) -> TimingMode | None:
    asked, _ = split_mode(word)
    return next((mode for mode, number in MODES.items() if number == asked), None)


def _name_in(word: int) -> str:
    mode = _mode_in(word)
    return mode.value if mode else "a mode that this release does not know"


def in_step(ranks: list[str]) -> dict[str, str]:
    """What the ranks of a server that begin each cycle together have in common, by rank.

    The replicas of a server step each for itself, and each numbers its TP ranks from 0. With
    DP attention (`--enable-dp-attention`) all wait for each other, and SGLang numbers the TP
    ranks through all replicas.

    Args:
        ranks: Names of all its ranks.
    """
    engines = {rank: _REPLICA.sub("", group_of(rank)) for rank in ranks}
    together = {}
    for rank, engine in engines.items():
        within = [_REPLICA.sub("", other) for other in ranks if engines[other] == engine]
        numbered_through = len(set(within)) == len(within)
        together[rank] = engine if numbered_through else group_of(rank)
    return together


def groups_of_rings(run: Run, rings: Iterable[Ringed]) -> dict[str, list[Ringed]]:
    """The ranks that step together, by what they have in common."""
    step = in_step([rank.name for rank in run.ranks])
    groups: dict[str, list[Ringed]] = {}
    for rank, ring in rings:
        groups.setdefault(step[rank.name], []).append((rank, ring))
    return groups


def _ran(members: Iterable[Ringed], before: dict[str, _Before]) -> int:
    """How many cycles a group ran while its speed was measured."""
    return max(ring.word(Word.CYCLES) - before[rank.name].cycles for rank, ring in members)


def _newest(members: Iterable[Ringed]) -> int:
    """The highest number that a rank has told."""
    return max(ring.word(Word.NEWEST_CYCLE) for _, ring in members)


def _is_imminent(members: list[Ringed], before: dict[str, _Before]) -> bool:
    """Whether the group comes to a switch of sampling now, or before all have read a new word."""
    _, from_cycle, _ = split_sampling(members[0][1].word(Word.SAMPLING))
    if all(ring.word(Word.NEWEST_CYCLE) + 1 >= from_cycle for _, ring in members):
        return False
    ran = _ran(members, before)
    half_way = max(AHEAD_CYCLES, math.ceil(ran / MEASURED_S)) // 2
    return ran > 0 and _newest(members) + half_way >= from_cycle


def _switch_group(members: list[Ringed], before: dict[str, _Before], wish: Wish) -> Switch:
    ran, newest = _ran(members, before), _newest(members)
    a_second = math.ceil(ran / MEASURED_S)
    # A server that was idle since it is traced has not told its number: its next cycle it is.
    from_cycle = newest + max(AHEAD_CYCLES, a_second) if newest else 0
    words = {}
    if wish.mode is not None:
        words[Word.MODE] = mode_word(MODES[wish.mode], from_cycle)
    if wish.every is not None:
        # The cycle behind the newest may run since before, and have come with its switch.
        until_then = every_at(members[0][1].word(Word.SAMPLING), newest + 1)
        words[Word.SAMPLING] = sampling_word(wish.every, from_cycle, until_then)
    for place, word in words.items():
        for _, ring in members:
            ring.set_word(place, word)
    return Switch(
        ranks=tuple(rank.name for rank, _ in members),
        from_cycle=from_cycle,
        newest_cycle=newest,
        cycles_per_s=ran / MEASURED_S,
    )


@contextmanager
def opened_rings(ranks: Iterable[Rank]) -> Iterator[list[Ringed]]:
    """The ranks with their rings.

    Raises:
        SpectraceError: One is not traced.
    """
    opened: list[Ringed] = []
    try:
        for rank in ranks:
            opened.append((rank, _ring_of(rank)))
            _refuse_untraced(*opened[-1])
        yield opened
    finally:
        for _, ring in opened:
            ring.close()


def _ring_of(rank: Rank) -> RingView:
    try:
        return RingView(ring_file.ring_path(rank.pid))
    except FileNotFoundError:
        raise _not_traced(rank) from None
    except OSError as error:
        raise SpectraceError(
            f"The ring of rank {rank.name} (process {rank.pid}) cannot be opened "
            f"({error.strerror}): use the account that attached."
        ) from None


def _refuse_untraced(rank: Rank, ring: RingView) -> None:
    if ring.word(Word.STATE) not in {State.ARMED, State.TRACING}:
        raise _not_traced(rank)


def _refuse_over_heads(run: Run, rank: Rank, ring: RingView) -> None:
    """One spectrace is switched from beside it; where several read, one of them controls."""
    others = len(readers.present(ring)) - 1
    if others < 1:
        return
    along = "another one reads" if others == 1 else f"{others} others read"
    raise SpectraceError(
        f"Rank {rank.name} of server {run.server_pid} is controlled by "
        f"{readers.controller(ring) or 'nobody at this moment'}, and {along} along: "
        "add --take-control to switch it for all of them."
    )


@contextmanager
def _undisturbed(rings: Iterable[Ringed]) -> Iterator[None]:
    """Keeps others from taking control of any of them meanwhile."""
    with ExitStack() as held:
        for _, ring in rings:
            held.enter_context(readers.alone(ring))
        yield


def _refuse_who_was_slower(
    run: Run,
    wish: Wish,
    rings: Sequence[Ringed],
    before: dict[str, _Before],
    still_controls: bool,
) -> None:
    """Somebody else may have decided while the speed was measured, and then has the say."""
    for rank, ring in rings:
        was, found = before[rank.name], _Before.of(ring)
        if found.controller != was.controller or not still_controls:
            whoever = str(readers.controller(ring) or "nobody")
            raise OutpacedError(
                f"Since a moment ago {whoever} controls how server {run.server_pid} is timed: it "
                f"was left alone, and {wish} was not asked for. `spectrace status` shows how "
                "it is timed now."
            )
        if wish.mode is not None and found.mode != was.mode:
            raise OutpacedError(
                _has_just_switched(run, rank, _name_in(found.mode), wish), _name_in(found.mode)
            )
        if wish.every is not None and found.sampling != was.sampling:
            every, _, _ = split_sampling(found.sampling)
            raise OutpacedError(_has_just_switched(run, rank, every_in_words(every), wish))


def _has_just_switched(run: Run, rank: Rank, to: str, wish: Wish) -> str:
    return (
        f"Somebody else has just switched rank {rank.name} of server {run.server_pid} to {to}: "
        f"{wish} was not asked for. Run this again if it is to be {wish}."
    )


def every_in_words(every: int) -> str:
    """How people are told of a sampling; 0 and 1 are all."""
    return f"one cycle in {every} in full" if every > 1 else "every cycle in full"


def _not_traced(rank: Rank) -> SpectraceError:
    return SpectraceError(
        f"Rank {rank.name} (process {rank.pid}) is not traced: `spectrace attach {rank.pid}` first."
    )
