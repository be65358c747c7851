"""What the statistics of a run rest on: exact counts, and stretches of cycles, as columns.

The store reads them, `analysis` computes with them, and neither knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from spectrace.model import CycleKind, Lane, PhaseName, Run, TimingMode

Columns: TypeAlias = Mapping[str, NDArray[Any]]

WARM_UP_CYCLES = 10  # of a group, the first that were recorded; they are in none of the figures
NONE = -1  # stands in a column of whole numbers where a Cycle has None

# The columns `kind`, `mode`, `lane` and `phase` hold places in these.
KINDS = tuple(CycleKind)
MODES = tuple(TimingMode)
LANES = tuple(Lane)
PHASES = tuple(PhaseName)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """What is in none of the counts.

    Attributes:
        warm_up_cycles: The first cycles of each group.
        overshoot_rows: Rows whose request had ended before their result was processed.
        health_check_rows: Rows of the server's own health probe.
        unknown_cycles: Speculative and plain decode cycles of which no results came; their times
            count.
    """

    warm_up_cycles: int = 0
    overshoot_rows: int = 0
    health_check_rows: int = 0
    unknown_cycles: int = 0


class Measures(msgspec.Struct, frozen=True, kw_only=True):
    """One run, each cycle in its newest version, without warm-up and impossible times.

    All tables are columns of the same length. `group` is a place in `groups`; times are UNIX ns.

    Attributes:
        run: The run.
        groups: Names of the groups that have cycles.
        rank_names: Names of the ranks of sampled cycles.
        request_ids: Ids of the requests of sampled cycles.
        cycle_counts: Exact, of all cycles. One row for each `group`, `block`, `kind`, `steps`,
            `topk`, `draft_tokens`, `batch`, `mode` and `timed` that occur together, with `cycles`,
            `total_ns` (sum of their times on the first rank) and `first_n`, `last_n` (lowest and
            highest number). `mode` is the first rank's. `timed` says whether the times count: the
            first rank is complete, went on at once and switched its mode in time. `block` counts
            equal stretches of cycle numbers of a group from 0, at most 200 of them.
        row_counts: Exact, of the requests in all cycles, prefill among them, without
            overshoot and health checks. One row for each `group`, `block`, `kind`, `steps`, `topk`,
            `draft_tokens`, `batch`, `correct` (drafts found correct, `NONE` where nothing was
            verified), `delivered` (tokens that the request got) with `rows`, how many there are.
            Rows with the same may come apart.
        cycles: A sample: windows of cycles that follow each other, spread over the run and over
            all kinds, steps and batch sizes; all cycles where there are few. By `group` and
            `number`: `group`, `window` (counts from 0), `number`, `start_ns`, `end_ns`, `kind`,
            `steps`, `topk`, `draft_tokens`, `batch`, `padded_batch`, `context_sum`, `context_max`,
            `queued`, `running` (each `NONE` where not known), `mode`, `timed`, `graph` (whether
            the first rank's verify or forward ran as a graph: 1, 0, `NONE`).
        ranks: All ranks of these cycles: `cycle` (a place in `cycles`), `place` (0 is the first
            rank), `rank` (in `rank_names`), `start_ns`, `end_ns`, `mode`, `probe_ns`,
            `ended_idle`, `incomplete`, `late_switch`, `clock_error_ns` (or `NONE`),
            `device_incomplete`.
        phases: All phases of these ranks: `cycle`, `place`, `lane`, `phase`, `start_ns`,
            `end_ns`, `of_cycle` (a number), `graph` (1, 0, `NONE`).
        rows: All requests of these cycles: `cycle`, `request` (in `request_ids`), `correct` (or
            `NONE`), `delivered`, `overshoot`, `health_check`.
        left_out: What is in none of the counts.
        overshoot_counts: Exact, of the overshoot in cycles whose times count: the same as
            `row_counts`, but for `correct` and `delivered`. Empty where none is known of.
        is_sampled: Sampling left cycles out, in all of the run or in a part of it.
    """

    run: Run
    groups: tuple[str, ...]
    rank_names: tuple[str, ...]
    request_ids: tuple[str, ...]
    cycle_counts: Columns
    row_counts: Columns
    cycles: Columns
    ranks: Columns
    phases: Columns
    rows: Columns
    left_out: LeftOut
    overshoot_counts: Columns = msgspec.field(default_factory=dict)
    is_sampled: bool = False

    @property
    def total_cycles(self) -> int:
        """All cycles that count."""
        return int(self.cycle_counts["cycles"].sum())

    def phase_ms(self, lane: Lane, name: PhaseName, place: int = 0) -> NDArray[np.float64]:
        """The time in ms that a phase took in each sampled cycle, on one rank.

        A parent such as `verify` counts with all of its parts, and a phase that occurs several
        times with its sum. NaN where the phase does not occur, and on the device where the rank's
        device lane has holes.

        Args:
            lane: Whose time.
            name: The phase.
            place: Of the rank; 0 is the first one.
        """
        wanted = [at for at, phase in enumerate(PHASES) if name in {phase, phase.parent}]
        phases = self.phases
        here = (phases["place"] == place) & (phases["lane"] == LANES.index(lane))
        here &= np.isin(phases["phase"], wanted)
        at = phases["cycle"][here]
        took = (phases["end_ns"][here] - phases["start_ns"][here]) / 1e6
        count = len(self.cycles["number"])
        found = np.bincount(at, weights=took, minlength=count).astype(np.float64)
        found[np.bincount(at, minlength=count) == 0] = np.nan
        if lane is Lane.DEVICE:
            holes = self.ranks["device_incomplete"] & (self.ranks["place"] == place)
            found[self.ranks["cycle"][holes]] = np.nan
        return found
