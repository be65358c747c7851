"""Chooses which stretches of a run are read in full, when there is too much to read all of it."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spectrace.measures import Columns

WINDOW = 500  # cycles that follow each other
SAMPLE = 40_000  # cycles that are read in full, of one rank
_SHARE = 0.5  # of the sample for windows spread evenly; the rest is for what they would miss
_ENOUGH = 4  # windows of one kind of cycles
_DENSE = 0.5
_SHORTEST = 25  # cycles of a window of a short run,
_PARTS = 40  # of which there are about so many
_LIKE = ("kind", "steps", "draft_tokens", "batch")


class Window(NamedTuple):
    """Cycles of one group with numbers from `first_n` to `last_n`."""

    group: int
    first_n: int
    last_n: int


def plan(counts: Columns, sample: int) -> list[Window]:
    """The windows to read, by group and number; they do not overlap.

    Half of them are spread evenly over the cycles of the run. The others go to kinds, steps,
    draft tokens and batch sizes of which these meet too little, the rarest first.

    Args:
        counts: As `Measures.cycle_counts`.
        sample: How many cycles to read at most, about.
    """
    total = int(counts["cycles"].sum())
    if not total:
        return []
    if total <= sample:
        return _cut(_whole(counts), total)
    length = min(WINDOW, max(1, total // _blocks(counts)))  # none reaches beyond its block
    chosen = _even(counts, total, max(1, int(sample * _SHARE) // length))
    spare = max(0, sample // length - len(chosen))
    return _apart(chosen + _rare(counts, chosen, spare))


def _blocks(counts: Columns) -> int:
    """How many blocks there are, of all groups."""
    return len(np.unique(np.stack([counts["group"], counts["block"]]), axis=1).T)


def _whole(counts: Columns) -> list[tuple[Window, int]]:
    """All numbers of each group, and how many cycles they are."""
    found = []
    for group in np.unique(counts["group"]):
        here = counts["group"] == group
        first, last = int(counts["first_n"][here].min()), int(counts["last_n"][here].max())
        found.append((Window(int(group), first, last), int(counts["cycles"][here].sum())))
    return found


def _cut(spans: list[tuple[Window, int]], total: int) -> list[Window]:
    """The same numbers in windows, so that even a short run has several."""
    each = min(WINDOW, max(_SHORTEST, total // _PARTS))
    found = []
    for span, cycles in spans:
        length = span.last_n - span.first_n + 1
        parts = max(1, min(length, math.ceil(cycles / each)))
        edges = [span.first_n + length * part // parts for part in range(parts + 1)]
        found += [
            Window(span.group, first, behind - 1) for first, behind in itertools.pairwise(edges)
        ]
    return found


def _even(counts: Columns, total: int, windows: int) -> list[Window]:
    """Windows at equal distances, by the numbers of cycles up to each block."""
    order = np.lexsort((counts["block"], counts["group"]))
    reached = np.cumsum(counts["cycles"][order])
    found = []
    for part in range(windows):
        at = order[np.searchsorted(reached, (part + 0.5) * total / windows)]
        found.append(_inside(counts, int(at), part))
    return found


def _rare(counts: Columns, chosen: list[Window], spare: int) -> list[Window]:
    """For each kind of cycles as many windows as it lacks, from blocks spread over its own."""
    keys = np.stack([counts[name] for name in _LIKE], axis=1)
    kinds, places = np.unique(keys, axis=0, return_inverse=True)
    places = places.reshape(-1)
    totals = np.bincount(places, weights=counts["cycles"], minlength=len(kinds))
    found: list[Window] = []
    for kind in np.argsort(totals):
        rows = np.flatnonzero(places == kind)
        met = sum(_meets(counts, rows, window) for window in chosen)
        lacking = min(_ENOUGH - met, spare - len(found), len(rows))
        if lacking > 0:
            spread = rows[np.linspace(0, len(rows) - 1, lacking).astype(np.intp)]
            found += [_inside(counts, int(row), 0) for row in spread]
    return found


def _meets(counts: Columns, rows: NDArray[np.intp], window: Window) -> bool:
    """Whether a window lies where mostly cycles of this kind are."""
    here = counts["group"][rows] == window.group
    here &= (counts["first_n"][rows] <= window.first_n) & (window.last_n <= counts["last_n"][rows])
    span = counts["last_n"][rows] - counts["first_n"][rows] + 1
    return bool((here & (counts["cycles"][rows] > _DENSE * span)).any())


def _inside(counts: Columns, row: int, part: int) -> Window:
    """A window within the numbers of one row: in the midst where they are dense, else at first."""
    first, last = int(counts["first_n"][row]), int(counts["last_n"][row])
    length = last - first + 1
    dense = int(counts["cycles"][row]) > _DENSE * length
    room = max(0, length - WINDOW)
    # Not always the same place: what happens at regular distances would be met always or never.
    start = first + (room * ((part * 0.618) % 1.0) if dense else 0)
    start = int(start)
    return Window(int(counts["group"][row]), start, min(start + WINDOW - 1, max(last, start)))


def _apart(windows: list[Window]) -> list[Window]:
    """The same without overlaps: what overlaps an earlier one begins behind it."""
    found: list[Window] = []
    for window in sorted(windows):
        before = found[-1] if found and found[-1].group == window.group else None
        first = window.first_n if before is None else max(window.first_n, before.last_n + 1)
        if first <= window.last_n:
            found.append(window._replace(first_n=first))
    return found
