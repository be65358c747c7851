"""What a comparison of timing modes found, as it is shown, written as JSON and put on a page."""

from __future__ import annotations

import math
from enum import Enum

import msgspec

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.samples import Like
from spectrace.model import Lane, PhaseName, TimingMode


class Verdict(str, Enum):
    """What an interval says about a difference.

    `differs`: it is not 0. `same`: it is less than the margin. `open`: the data allow neither
    statement.
    """

    DIFFERS = "differs"
    SAME = "same"
    OPEN = "open"


class PhaseFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One top-level phase on one lane in one mode.

    Attributes:
        name: The phase.
        time_ms: Its median over the cycles in which it occurs.
        share: Its time in all cycles over the time of these cycles on the host, from 0 to 1.
    """

    name: PhaseName
    time_ms: Estimate
    share: Estimate


class ModeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one mode shows, over cycles of the same mixture as in the other modes.

    Attributes:
        mode: The mode.
        blocks: Blocks with cycles that count.
        cycles: Cycles that count.
        cycles_per_s: While the server decodes, per group of ranks.
        tokens_per_s: The same of tokens; None where their counts are not known.
        cycle_p50_ms: Median time of a cycle.
        cycle_p95_ms: 95th percentile.
        cycle_p99_ms: 99th percentile.
        accept_length: (correct drafts + verifies) / verifies; None if nothing was verified.
        break_even_accept_length: Which one would do as well as plain decode: the mean time of a
            speculative cycle over that of a plain decode; None where that is not known, or there
            is no such cycle.
        host: The phases by the host's clock; none in mode `off`.
        device: The phases on the device; in mode `device` alone.
    """

    mode: TimingMode
    blocks: int
    cycles: int
    cycles_per_s: Estimate
    tokens_per_s: Estimate | None
    cycle_p50_ms: Estimate
    cycle_p95_ms: Estimate
    cycle_p99_ms: Estimate
    accept_length: float | None
    break_even_accept_length: float | None
    host: tuple[PhaseFigures, ...]
    device: tuple[PhaseFigures, ...]


class PhaseDifference(msgspec.Struct, frozen=True, kw_only=True):
    """By how much one mode shows a phase longer than the reference.

    Attributes:
        mode: The mode, by its host lane.
        phase: The phase.
        difference_ms: With an interval that holds for all differences and costs together; None
            where the modes have no round in common, or too few blocks.
        verdict: What that interval says.
    """

    mode: TimingMode
    phase: PhaseName
    difference_ms: Estimate | None
    verdict: Verdict


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """What a mode costs the server.

    Attributes:
        mode: The mode.
        throughput_ratio: Throughput in mode `off` over that in this mode, both from the mean
            time of a cycle: 1.03 is a server that is 3 % slower. Its interval holds for all
            differences and costs together. None as of a difference.
        verdict: What that interval says.
    """

    mode: TimingMode
    throughput_ratio: Estimate | None
    verdict: Verdict


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Time on the device that a mode hid in one phase, and where it showed it instead.

    Attributes:
        mode: The mode.
        hidden_in: The phase that it shows too short.
        hidden_ms: By how much.
        charged_to: The phase that it shows too long, or that waits, by at least half as much
            beyond what others hid; None where there is none.
        charged_ms: With how much of that, at most what is hidden; None likewise.
        as_wait: `charged_to` is a wait by name: nothing of it is on the device.
    """

    mode: TimingMode
    hidden_in: PhaseName
    hidden_ms: Estimate
    charged_to: PhaseName | None
    charged_ms: Estimate | None
    as_wait: bool = False


class Stratum(msgspec.Struct, frozen=True, kw_only=True):
    """Cycles that are comparable, and what part of all that count they are, from 0 to 1."""

    like: Like
    cycles: int
    share: float


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What the phases of other modes are held against: one lane of one mode."""

    mode: TimingMode
    lane: Lane


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The same server timed in several modes.

    Attributes:
        confidence: Of every interval that stands alone, and of all differences and costs taken
            together.
        claims: How many differences and costs that are.
        margin: What counts as no difference, as a share of the time of a cycle.
        margin_ms: The same in ms.
        modes: What each mode shows, in the order `off`, `host`, `device`, `sync`; those of
            which enough is known.
        reference: What phases are held against; None where only one mode has phases.
        differences: Of the phases, mode by mode.
        costs: Of the modes that are not `off`.
        moved: Which phase hid what.
        strata: What was compared with what.
        left_out: Cycles of these rounds that do not count, by reason; see `samples.Refusal`.
        rounds: Whole rounds of the plan.
        blocks: Blocks of which at least one cycle counts.
        runs_ahead: The host works on the next cycle while the device is at one, so that host
            times are launches and named waits.
        without_data: Modes that were asked for, and of which too few cycles count.
        device_timing: Why there is no device timing, or none any more, a sentence; empty where
            there is.
        sentences: All that in plain words, what the data do not allow among it.
    """

    confidence: float
    claims: int
    margin: float
    margin_ms: float | None
    modes: tuple[ModeFigures, ...]
    reference: Reference | None
    differences: tuple[PhaseDifference, ...]
    costs: tuple[Cost, ...]
    moved: tuple[Moved, ...]
    strata: tuple[Stratum, ...]
    left_out: dict[str, int]
    rounds: int
    blocks: int
    runs_ahead: bool
    without_data: tuple[TimingMode, ...]
    device_timing: str
    sentences: tuple[str, ...] = ()

    def of(self, mode: TimingMode) -> ModeFigures | None:
        """What a mode shows."""
        return next((figures for figures in self.modes if figures.mode is mode), None)

    @property
    def widest(self) -> float | None:
        """Half the widest interval of differences and costs, as a share of a cycle's time.

        None where there is none, infinite where one has no limit.
        """
        widths = [_half_width(cost.throughput_ratio) for cost in self.costs]
        if self.margin_ms:
            cycle_ms = self.margin_ms / self.margin
            widths += [_half_width(one.difference_ms) / cycle_ms for one in self.differences]
        return max(widths, default=None)


def _half_width(estimate: Estimate | None) -> float:
    """Of what is not known at all it is infinite too."""
    return math.inf if estimate is None else estimate.half_width
