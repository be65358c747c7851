"""Switches the timing mode of a traced server, on all ranks of a group at the same cycle."""

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
from spectrace.probe.layout import Mode, State, Word, mode_word, split_mode

MODES = {
    TimingMode.OFF: Mode.OFF,
    TimingMode.HOST: Mode.HOST,
    TimingMode.DEVICE: Mode.DEVICE,
    TimingMode.SYNC: Mode.SYNC,
}
_REPLICA = re.compile(r" ?\bDP\d+")
MEASURED_S = 0.25  # for so long the speed of a server is measured
AHEAD_CYCLES = 50  # at least, so that no rank comes to the cycle before it has read the word
Ringed = tuple[Rank, RingView]


@dataclass(frozen=True)
class Switch:
    """What was asked of the ranks of one group.

    Attributes:
        ranks: Their names.
        from_cycle: The first cycle in the new mode; 0 for the next one of each.
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

    @classmethod
    def of(cls, ring: RingView) -> _Before:
        return cls(ring.word(Word.CYCLES), ring.word(Word.CONTROLLER), ring.word(Word.MODE))


class OutpacedError(SpectraceError):
    """Somebody else decided while the speed of the server was measured, and has the say.

    Args:
        message: Who or what, and what to do now.
        mode: The mode that they asked for; empty where they have taken control.
    """

    def __init__(self, message: str, mode: str = "") -> None:
        super().__init__(message)
        self.mode = mode


class Asking:
    """Begins to ask ranks for another mode: from now on the speed of their server is measured.

    Args:
        rings: The ranks and their rings, which stay open until they are asked.
    """

    def __init__(self, rings: Sequence[Ringed]) -> None:
        self._rings = rings
        self._before = {rank.name: _Before.of(ring) for rank, ring in rings}

    def ask(self, run: Run, mode: TimingMode, controls: Callable[[], bool]) -> list[Switch]:
        """Asks them, to be called `MEASURED_S` later.

        Args:
            run: Their server.
            mode: The new mode.
            controls: Whether the reader that asks controls still.

        Returns:
            One entry for all ranks that step together.

        Raises:
            OutpacedError: Somebody else was quicker; none is asked then.
        """
        with _undisturbed(self._rings):
            _refuse_who_was_slower(run, mode, self._rings, self._before, controls())
            groups = groups_of_rings(run, self._rings).values()
            return [_switch_group(members, self._before, MODES[mode]) for members in groups]


def switch(
    run: Run,
    mode: TimingMode,
    sleep: Callable[[float], None] = time.sleep,
    *,
    take_control: bool = False,
    controls: Callable[[], bool] = lambda: True,
) -> list[Switch]:
    """Asks all ranks of a server for another timing mode.

    The cycle at which they switch lies a second ahead, and 50 cycles at least. Who takes control
    or asks for a mode while the speed of the server is measured is left alone: seats and words
    are looked at again before anything is written, and nobody can take control in between.

    Args:
        run: The server.
        mode: The new mode.
        sleep: Waits while the speed of the server is measured.
        take_control: Also where several spectraces read, of which one controls.
        controls: Whether the reader that asks controls still; one that does not read does not
            know.

    Returns:
        One entry for all ranks that step together.

    Raises:
        SpectraceError: A rank is not traced, several read it, or somebody else was quicker;
            none is asked then.
    """
    with opened_rings(run.ranks) as rings:
        if not take_control:
            _refuse_over_heads(run, *rings[0])
        asking = Asking(rings)
        sleep(MEASURED_S)
        return asking.ask(run, mode, controls)


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


def _switch_group(members: list[Ringed], before: dict[str, _Before], mode: int) -> Switch:
    ran = max(ring.word(Word.CYCLES) - before[rank.name].cycles for rank, ring in members)
    newest = max(ring.word(Word.NEWEST_CYCLE) for _, ring in members)
    a_second = math.ceil(ran / MEASURED_S)
    # A server that was idle since it is traced has not told its number: its next cycle it is.
    from_cycle = newest + max(AHEAD_CYCLES, a_second) if newest else 0
    for _, ring in members:
        ring.set_word(Word.MODE, mode_word(mode, from_cycle))
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
    mode: TimingMode,
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
                f"was left alone, and {mode.value} was not asked for. `spectrace status` shows how "
                "it is timed now."
            )
        if found.mode != was.mode:
            raise OutpacedError(
                f"Somebody else has just switched rank {rank.name} of server {run.server_pid} to "
                f"{_name_in(found.mode)}: {mode.value} was not asked for. Run this again if it is "
                f"to be {mode.value}.",
                _name_in(found.mode),
            )


def _not_traced(rank: Rank) -> SpectraceError:
    return SpectraceError(
        f"Rank {rank.name} (process {rank.pid}) is not traced: `spectrace attach {rank.pid}` first."
    )
