"""The cycles that somebody picks out of a run, and their times: exact, as columns.

The store reads them, `analysis` computes with them, and neither knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import msgspec
from numpy.typing import NDArray

from spectrace.model import CycleKind, Lane, PhaseName, TimingMode

Columns: TypeAlias = Mapping[str, NDArray[Any]]
Part: TypeAlias = tuple[Lane, PhaseName]
"""A phase on one of the two lanes."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """Which cycles of a run are picked; None leaves a question open.

    Attributes:
        run_id: The run.
        group: The group.
        rank: Name of the rank whose times are read; if not given the first of each cycle.
        kind: What the cycles did; if not given what most of those did that decode.
        mode: How they were timed; if not given as most of those of this kind were.
        batch: Requests in the batch; if not given any number.
        steps: Draft steps; if not given any number.
        last_s: How far to look back from the end of the newest cycle, in s; if not given to the
            oldest that is kept.
    """

    run_id: str
    group: str = ""
    rank: str | None = None
    kind: CycleKind | None = None
    mode: TimingMode | None = None
    batch: int | None = None
    steps: int | None = None
    last_s: float | None = None


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to choose from, each with the number of its cycles, the smallest value first.

    Of more than 200 batch sizes or numbers of steps those with most cycles.

    Attributes:
        kinds: By kind, of all cycles that were looked at.
        modes: By timing mode, of those of the chosen kind.
        batches: By batch size, of those of the chosen kind and mode.
        steps: By draft steps, likewise.
        ranks: Names of all ranks.
    """

    kinds: dict[CycleKind, int]
    modes: dict[TimingMode, int]
    batches: dict[int, int]
    steps: dict[int, int]
    ranks: tuple[str, ...]


class Times(NamedTuple):
    """The time of one phase in the cycles in which it occurs.

    Attributes:
        at: Places of these cycles, ascending.
        took_ns: In ns; a phase that occurs several times in a cycle counts with the sum.
    """

    at: NDArray[Any]
    took_ns: NDArray[Any]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The cycles that were picked, each in its newest version, the lowest number first.

    Attributes:
        choice: What was picked, with what was left open filled in where it has an answer.
        seen: What there is to choose from.
        stored: Cycles of the group that are kept.
        looked_at: The newest of them, among which was picked: all, unless these are too many.
        whole: Nothing was left out for being too much.
        warm_up: The first that were kept of a group, which are in no figure.
        untimed: Cycles that fit and whose times do not count: they are incomplete on this rank,
            it idled after them, or changed its mode late.
        cycles: `number`, `start_ns`, `took_ns` on the rank, `batch`, `steps`; `first_ns`, `last_ns`
            and `error_ns`: when the device began its first phase and ended its last one, and how
            far both may be off, each `measures.NONE` where the device's lane is not whole.
        parts: The times of each phase; a parent such as `verify` counts with all of its parts.
            Those of the device are of cycles whose device lane is whole.
        rows: Requests verified, without overshoot and health checks, those alike put together:
            `steps`, `topk`, `draft_tokens`, `block` (one of at most 25 equal stretches of the
            cycles), `correct` (drafts), `delivered` (tokens that the request got), and `rows`, how
            many there are.
    """

    choice: Choice
    seen: Seen
    stored: int
    looked_at: int
    whole: bool
    warm_up: int
    untimed: int
    cycles: Columns
    parts: dict[Part, Times]
    rows: Columns


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """How long cycles took, and nothing else of them. Times are UNIX ns.

    Attributes:
        first_ns: When the oldest of all that are kept began; 0 where none is.
        last_ns: When the newest of all that are kept ended; 0 where none is.
        since_ns: All that began from here on were looked at.
        cycles: `number`, `start_ns` and `took_ns` of each in its newest version.
    """

    first_ns: int
    last_ns: int
    since_ns: int
    cycles: Columns
