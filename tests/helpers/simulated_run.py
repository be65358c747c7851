"""Runs of a simulated server of which the truth is known, as what a store would give of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spectrace.measures import KINDS, LANES, MODES, NONE, PHASES, Columns, LeftOut, Measures
from spectrace.model import CycleKind, Lane, PhaseName, TimingMode
from tests.helpers.recorded import T0_NS, run_of

WINDOW = 50
_REACH = 100  # cycles after which noise is forgotten
_LIVES = 200  # cycles of a request
_KEYS = ("group", "block", "kind", "steps", "topk", "draft_tokens", "batch")


@dataclass(frozen=True)
class Stretch:
    """Cycles in a row that are alike: so many, of so many steps (0 is plain decode), of a batch."""

    cycles: int
    steps: int
    batch: int = 1


@dataclass(frozen=True)
class Truth:
    """What the server really does.

    Attributes:
        chances: Acceptance at each position, given all before.
        verify_ms: From the number of tokens and the batch size.
        plain_ms: A plain decode, from the batch size.
        draft_ms: Each draft step.
        extend_ms: Draft extend.
        overhead_ms: The rest of a cycle, speculative or not.
        noise: Standard deviation of a cycle's time, as a share of it.
        memory: Correlation of one cycle's noise with the next one's.
        slow: Share of cycles that take ten times as long.
        slow_speculative: Share of speculative cycles that take four times as long.
        spread: By how much the acceptance of requests differs, up or down.
        cut: Tokens after which a request is cut off; 0 for never.
        late: The end of a request is noticed a cycle late, as by the overlap scheduler.
    """

    chances: Sequence[float] = (0.7, 0.6, 0.6, 0.5, 0.5)
    verify_ms: Callable[[int, int], float] = lambda tokens, batch: 22.5 + 1.03 * tokens * batch
    plain_ms: Callable[[int], float] = lambda batch: 10.0 + 0.1 * batch
    draft_ms: float = 0.4
    extend_ms: float = 0.5
    overhead_ms: float = 1.0
    noise: float = 0.02
    memory: float = 0.8
    slow: float = 0.0
    slow_speculative: float = 0.0
    spread: float = 0.0
    cut: int = 0
    late: bool = False


@dataclass
class _Made:
    """Columns that grow stretch by stretch."""

    parts: dict[str, list[NDArray[Any]]] = field(default_factory=dict)

    def add(self, **columns: NDArray[Any]) -> None:
        for key, column in columns.items():
            self.parts.setdefault(key, []).append(column)

    def columns(self) -> dict[str, NDArray[Any]]:
        return {key: np.concatenate(found) for key, found in self.parts.items()}


def simulated(  # noqa: PLR0913 - each is a fact of its own
    stretches: Sequence[Stretch],
    truth: Truth | None = None,
    *,
    seed: int = 0,
    lane: Lane = Lane.DEVICE,
    mode: TimingMode = TimingMode.DEVICE,
    timed: bool = True,
) -> Measures:
    """What a store gives of a run that went through these stretches.

    Args:
        stretches: One after the other.
        truth: What the server does.
        seed: Of all that is random.
        lane: Where phases were timed.
        mode: How.
        timed: Whether the times count.
    """
    truth = truth or Truth()
    random = np.random.default_rng(seed)
    cycles, phases, rows = _Made(), _Made(), _Made()
    first = 0
    for stretch in stretches:
        numbers = np.arange(first, first + stretch.cycles)
        parts = _parts(stretch, truth)
        factor = _factors(stretch.cycles, truth, random)
        if stretch.steps and truth.slow_speculative:
            factor *= np.where(random.random(stretch.cycles) < truth.slow_speculative, 4, 1)
        took = sum(parts.values()) * factor
        cycles.add(**_cycles(stretch, numbers, took))
        for name, part_ms in parts.items():
            if name is not None:
                phases.add(**_phases(numbers, name, part_ms * factor, lane))
        rows.add(**_rows(stretch, numbers, truth, random))
        first += stretch.cycles
    return _measures(cycles.columns(), phases.columns(), rows.columns(), mode, timed=timed)


def _parts(stretch: Stretch, truth: Truth) -> dict[PhaseName | None, float]:
    if not stretch.steps:
        plain_ms = truth.plain_ms(stretch.batch)
        return {PhaseName.FORWARD: plain_ms, None: truth.overhead_ms}
    return {
        PhaseName.DRAFT: truth.draft_ms * stretch.steps,
        PhaseName.VERIFY_FORWARD: truth.verify_ms(stretch.steps + 1, stretch.batch),
        PhaseName.DRAFT_EXTEND: truth.extend_ms,
        None: truth.overhead_ms,
    }


def _factors(cycles: int, truth: Truth, random: np.random.Generator) -> NDArray[np.float64]:
    """Noise that remembers, and now and then a cycle that takes ten times as long."""
    fresh = random.normal(0, truth.noise * np.sqrt(1 - truth.memory**2), cycles + _REACH)
    noise = np.convolve(fresh, truth.memory ** np.arange(_REACH + 1), mode="valid")
    found: NDArray[np.float64] = (1 + noise) * np.where(random.random(cycles) < truth.slow, 10, 1)
    return found


def _cycles(
    stretch: Stretch, numbers: NDArray[np.int64], took_ms: NDArray[np.float64]
) -> dict[str, NDArray[Any]]:
    def all_of(value: int) -> NDArray[np.int64]:
        return np.full(len(numbers), value, dtype=np.int64)

    kind = CycleKind.SPECULATIVE if stretch.steps else CycleKind.DECODE
    return {
        "group": all_of(0),
        "window": numbers // WINDOW,
        "number": numbers,
        "took_ns": np.round(took_ms * 1e6).astype(np.int64),
        "kind": all_of(KINDS.index(kind)),
        "steps": all_of(stretch.steps),
        "topk": all_of(1 if stretch.steps else 0),
        "draft_tokens": all_of(stretch.steps + 1 if stretch.steps else 0),
        "batch": all_of(stretch.batch),
        "padded_batch": all_of(stretch.batch),
        "context_sum": stretch.batch * (100 + numbers % _LIVES),
        "context_max": 100 + numbers % _LIVES,
        "queued": all_of(0),
        "running": all_of(stretch.batch),
        "graph": all_of(1),
    }


def _phases(
    numbers: NDArray[np.int64], name: PhaseName, took_ms: NDArray[np.float64], lane: Lane
) -> dict[str, NDArray[Any]]:
    """Phases that begin with their cycle: here it matters only how long they took."""
    count = len(numbers)
    return {
        "cycle": numbers,
        "place": np.zeros(count, dtype=np.int64),
        "lane": np.full(count, LANES.index(lane)),
        "phase": np.full(count, PHASES.index(name)),
        "start_ns": np.zeros(count, dtype=np.int64),
        "end_ns": np.round(took_ms * 1e6).astype(np.int64),
        "of_cycle": numbers,
        "graph": np.ones(count, dtype=np.int64),
    }


def _rows(
    stretch: Stretch, numbers: NDArray[np.int64], truth: Truth, random: np.random.Generator
) -> dict[str, NDArray[Any]]:
    cycle = np.repeat(numbers, stretch.batch)
    slot = np.tile(np.arange(stretch.batch), len(numbers))
    request = (cycle // _LIVES) * 64 + slot
    if not stretch.steps:
        correct = np.full(len(cycle), NONE)
        delivered = np.ones(len(cycle), dtype=np.int64)
    else:
        kinds, places = np.unique(request, return_inverse=True)
        ease = random.uniform(-truth.spread, truth.spread, len(kinds))[places]
        going = np.ones(len(cycle), dtype=np.bool_)
        correct = np.zeros(len(cycle), dtype=np.int64)
        for place in range(stretch.steps):
            going &= random.random(len(cycle)) < truth.chances[place] + ease
            correct += going
        delivered = correct + 1
    if truth.cut:
        delivered = _cut(request, delivered, truth)
    return {
        "cycle": cycle,
        "request": request,
        "correct": correct,
        "delivered": delivered,
        "overshoot": delivered == 0,
        "health_check": np.zeros(len(cycle), dtype=np.bool_),
    }


def _cut(
    request: NDArray[np.int64], delivered: NDArray[np.int64], truth: Truth
) -> NDArray[np.int64]:
    """A request gets `cut` tokens at most; behind it another one with as many goes on."""
    found: NDArray[np.int64] = delivered.copy()
    got: dict[int, int] = {}
    for at, (name, tokens) in enumerate(zip(request.tolist(), delivered.tolist(), strict=True)):
        if truth.late and got.get(name) == truth.cut:
            found[at] = got[name] = 0
            continue
        before = got.get(name, 0) % truth.cut
        found[at] = min(tokens, truth.cut - before)
        got[name] = before + int(found[at])
    return found


def _measures(
    cycles: dict[str, NDArray[Any]],
    phases: dict[str, NDArray[Any]],
    rows: dict[str, NDArray[Any]],
    mode: TimingMode,
    *,
    timed: bool,
) -> Measures:
    took_ns = cycles.pop("took_ns")
    count = len(took_ns)
    ends = T0_NS + np.cumsum(took_ns)
    cycles |= {
        "start_ns": ends - took_ns,
        "end_ns": ends,
        "mode": np.full(count, MODES.index(mode)),
        "timed": np.full(count, timed),
    }
    block = np.arange(count) // max(1, -(-count // 200))
    keyed = cycles | {"block": block, "cycles": np.ones(count, dtype=np.int64)}
    keyed |= {"total_ns": took_ns}
    cycle_counts = grouped(keyed, (*_KEYS, "mode", "timed"), ("cycles", "total_ns"))
    cycle_counts |= _spans(keyed, cycle_counts)
    rows_keyed = {key: keyed[key][rows["cycle"]] for key in _KEYS} | rows
    rows_keyed["rows"] = np.ones(len(rows["cycle"]), dtype=np.int64)
    counted = {key: column[~rows["overshoot"]] for key, column in rows_keyed.items()}
    row_counts = grouped(counted, (*_KEYS, "correct", "delivered"), ("rows",))
    behind = {key: column[rows["overshoot"]] for key, column in rows_keyed.items()}
    names, rows["request"] = np.unique(rows["request"], return_inverse=True)
    flags = np.zeros(count, dtype=np.bool_)
    ranks = {
        "cycle": np.arange(count),
        "place": np.zeros(count, dtype=np.int64),
        "rank": np.zeros(count, dtype=np.int64),
        "start_ns": cycles["start_ns"],
        "end_ns": cycles["end_ns"],
        "mode": cycles["mode"],
        "probe_ns": np.full(count, 40_000),
        "ended_idle": flags,
        "incomplete": flags,
        "late_switch": flags,
        "clock_error_ns": np.full(count, 900),
        "device_incomplete": flags,
    }
    return Measures(
        run=run_of(1),
        groups=("",),
        rank_names=("TP0",),
        request_ids=tuple(f"request-{name}" for name in names.tolist()),
        cycle_counts=cycle_counts,
        row_counts=row_counts,
        cycles=cycles,
        ranks=ranks,
        phases=phases,
        rows=rows,
        left_out=LeftOut(overshoot_rows=int(rows["overshoot"].sum())),
        overshoot_counts=grouped(behind, _KEYS, ("rows",)) if len(behind["rows"]) else {},
    )


def grouped(columns: Columns, keys: Sequence[str], sums: Sequence[str]) -> dict[str, NDArray[Any]]:
    """One row for each key, with sums."""
    table = np.stack([columns[key].astype(np.int64) for key in keys], axis=1)
    unique, places = np.unique(table, axis=0, return_inverse=True)
    places = places.reshape(-1)
    found: dict[str, NDArray[Any]] = {key: unique[:, at] for at, key in enumerate(keys)}
    for key in sums:
        found[key] = np.bincount(places, weights=columns[key]).astype(np.int64)
    if "timed" in found:
        found["timed"] = found["timed"].astype(np.bool_)
    return found


def _spans(keyed: Columns, counts: Columns) -> dict[str, NDArray[Any]]:
    """The lowest and the highest number of each block."""
    edges = np.searchsorted(keyed["block"], np.arange(int(keyed["block"].max()) + 2))
    return {
        "first_n": keyed["number"][edges[counts["block"]]],
        "last_n": keyed["number"][edges[counts["block"] + 1] - 1],
    }
