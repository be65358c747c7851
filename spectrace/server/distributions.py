"""Answers how the times of stored cycles are spread, and which cycles a bar has."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from spectrace.analysis.distribution import (
    Accepted,
    Alike,
    Bar,
    BarCycle,
    Cause,
    PhaseSpread,
    SlowCycle,
    cycles_of_bar,
    distribution,
)
from spectrace.chosen import Choice, Chosen, Seen
from spectrace.model import CycleKind, Lane, TimingMode
from spectrace.server.asked import Asked
from spectrace.server.one_reader import OneReader
from spectrace.server.served import groups_of
from spectrace.store.source import CycleSource

MOST_LISTED = 200  # cycles of a bar in one answer
_LISTED = 50  # when nobody says how many
_MOST_PHASE = 32  # characters of its name
_MOST_S = 1e9
_CHOICE = ("group", "rank", "kind", "mode", "batch", "steps", "last_s")
_BAR = ("phase", "lane", "from_ns", "to_ns", "before", "limit")


class WireSlowCycle(msgspec.Struct, frozen=True, kw_only=True):
    """A slow cycle; `t0` is its start, UNIX ns in decimal digits, other times are ns."""

    n: int
    t0: str
    took_ns: int
    batch: int
    steps: int
    cause: Cause | None


class WireBarCycle(msgspec.Struct, frozen=True, kw_only=True):
    """A cycle of a bar, likewise; `value_ns` is the time of the phase that the bar is of."""

    n: int
    t0: str
    took_ns: int
    value_ns: int
    batch: int
    steps: int


class WireBar(msgspec.Struct, frozen=True, kw_only=True):
    """The cycles of a bar.

    Attributes:
        total: How many it has.
        cycles: Some of them, the highest number first.
        before: What to give as `before` for those that follow; None where none do.
    """

    total: int
    cycles: tuple[WireBarCycle, ...]
    before: int | None


class WireDistribution(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution as the page gets it.

    Attributes:
        groups: Names of the groups of the run.
        choice: What was picked, with what was left open.
        seen: What there is to choose from.
        stored: As in `Chosen`, like the next four.
        looked_at: The same.
        whole: The same.
        warm_up: The same.
        untimed: The same.
        cycles: As in `Distribution`, like the rest.
        alike: The same.
        phases: The same.
        slowest: The same.
        acceptance: The same.
    """

    groups: list[str]
    choice: Choice
    seen: Seen
    stored: int
    looked_at: int
    whole: bool
    warm_up: int
    untimed: int
    cycles: int
    alike: tuple[Alike, ...]
    phases: tuple[PhaseSpread, ...]
    slowest: tuple[WireSlowCycle, ...]
    acceptance: tuple[Accepted, ...]


class _BarQuestion(NamedTuple):
    bar: Bar
    before: int | None
    limit: int


class Distributions:
    """Reads what is asked for from a store, for one browser at a time.

    What was read last is kept: whoever looks at bars asks for their cycles next, and these are to
    be the ones that were counted. Methods may be called from any thread.

    Args:
        store: What is read.
        reader: Who else reads from it.
    """

    def __init__(self, store: CycleSource, reader: OneReader) -> None:
        self._store = store
        self._reader = reader
        self._last: tuple[Choice, Chosen] | None = None

    def answer(self, run_id: str, parameters: QueryParams) -> bytes:
        """The JSON of a `WireDistribution`.

        Raises:
            HTTPException: A parameter is wrong (400), or too many ask at once (503).
            SpectraceError: A file is damaged.
        """
        asked = Asked(parameters, _CHOICE)
        choice = _choice(run_id, asked)
        with self._reader.turn():
            chosen = self._store.chosen(choice)
            self._last = choice, chosen
        return _encoded(chosen, groups_of(self._store, run_id))

    def bar(self, run_id: str, parameters: QueryParams) -> bytes:
        """The JSON of a `WireBar`.

        Raises:
            HTTPException: As `answer`.
            SpectraceError: The same.
        """
        asked = Asked(parameters, (*_CHOICE, *_BAR))
        choice, question = _choice(run_id, asked), _question(asked)
        with self._reader.turn():
            if self._last is None or self._last[0] != choice:
                self._last = choice, self._store.chosen(choice)
            chosen = self._last[1]
        total, cycles = cycles_of_bar(chosen, question.bar, question.before, question.limit + 1)
        more = len(cycles) > question.limit
        cycles = cycles[: question.limit]
        return msgspec.json.encode(
            WireBar(
                total=total,
                cycles=tuple(map(_wire_bar_cycle, cycles)),
                before=cycles[-1].number if more else None,
            )
        )


def _choice(run_id: str, asked: Asked) -> Choice:
    return Choice(
        run_id=run_id,
        group=asked.text("group") or "",
        rank=asked.text("rank"),
        kind=asked.word("kind", CycleKind),
        mode=asked.word("mode", TimingMode),
        batch=asked.number("batch"),
        steps=asked.number("steps"),
        last_s=asked.seconds("last_s", _MOST_S),
    )


def _question(asked: Asked) -> _BarQuestion:
    phase, lane = asked.text("phase", _MOST_PHASE), asked.word("lane", Lane)
    if phase is None or lane is None:
        raise HTTPException(400, "Say which bar: phase and lane are missing.")
    limit = asked.number("limit", 1, MOST_LISTED)
    return _BarQuestion(
        Bar(name=phase, lane=lane, from_ns=asked.number("from_ns"), to_ns=asked.number("to_ns")),
        asked.number("before"),
        _LISTED if limit is None else limit,
    )


def _encoded(chosen: Chosen, groups: list[str]) -> bytes:
    found = distribution(chosen)
    return msgspec.json.encode(
        WireDistribution(
            groups=groups,
            choice=chosen.choice,
            seen=chosen.seen,
            stored=chosen.stored,
            looked_at=chosen.looked_at,
            whole=chosen.whole,
            warm_up=chosen.warm_up,
            untimed=chosen.untimed,
            cycles=found.cycles,
            alike=found.alike,
            phases=found.phases,
            slowest=tuple(map(_wire_slow_cycle, found.slowest)),
            acceptance=found.acceptance,
        )
    )


def _wire_slow_cycle(cycle: SlowCycle) -> WireSlowCycle:
    return WireSlowCycle(
        n=cycle.number,
        t0=str(cycle.start_ns),
        took_ns=cycle.took_ns,
        batch=cycle.batch,
        steps=cycle.steps,
        cause=cycle.cause,
    )


def _wire_bar_cycle(cycle: BarCycle) -> WireBarCycle:
    return WireBarCycle(
        n=cycle.number,
        t0=str(cycle.start_ns),
        took_ns=cycle.took_ns,
        value_ns=cycle.value_ns,
        batch=cycle.batch,
        steps=cycle.steps,
    )
