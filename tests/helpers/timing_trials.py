"""Runs the comparison of timing modes many times on data of known truth, and counts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.sample_table import SampleTable
from spectrace.analysis.samples import Sample
from spectrace.analysis.timing_comparison import compare
from spectrace.analysis.timing_report import Comparison, Verdict
from spectrace.model import PhaseName, TimingMode
from tests.helpers.timing_truth import (
    MODES,
    PHASES,
    STORY,
    TOKENS,
    Server,
    mean_noise,
    noise_quantile,
    samples,
    sum_quantile,
)

_ROUNDS = 3
LONG_ROUNDS = 18  # until a p99 has an interval
_MOST_ROUNDS = 8
_PRECISION = 0.01  # of a cycle's time
_STEADY = Server(host=STORY.host, drift_ms=0.0)  # of a drifting server there is no one true median


def stopped(server: Server, seed: int) -> list[Sample]:
    """The rounds that the command would have run: until all intervals are narrow enough."""
    every = samples(server, _MOST_ROUNDS, seed)
    for rounds in range(2, _MOST_ROUNDS):
        so_far = [sample for sample in every if sample.round < rounds]
        widest = compare(so_far).widest
        if widest is not None and widest <= _PRECISION:
            return so_far
    return every


def aa_rate(runs: int, *, stops: bool) -> float:
    """The part of runs on a server without differences that claim any."""
    server = Server(spread_ms=0.8)
    claimed = 0
    for seed in range(runs):
        found = compare(
            stopped(server, seed) if stops else samples(server, _ROUNDS, seed), margin=0.0
        )
        verdicts = {one.verdict for one in found.differences}
        verdicts |= {one.verdict for one in found.costs}
        claimed += Verdict.DIFFERS in verdicts
    return claimed / runs


class Tally(NamedTuple):
    """What became of one kind of intervals.

    Attributes:
        held: How many held the truth.
        wide: How many lacked a limit; these are no intervals, and hold nothing.
        runs: How many there were in all.
    """

    held: int
    wide: int
    runs: int

    @property
    def coverage(self) -> float | None:
        """The part of intervals that hold the truth; None where there was none."""
        return self.held / (self.runs - self.wide) if self.wide < self.runs else None


def coverage(runs: int) -> dict[str, Tally]:
    """How often each kind of interval holds the truth."""
    found: dict[str, Tally] = {}
    for seed in range(runs):
        for kind, estimate, truth in _intervals(seed):
            held, wide, count = found.get(kind, (0, 0, 0))
            whole = estimate is not None and math.isfinite(estimate.half_width)
            holds = estimate is not None and whole and not estimate.excludes(truth)
            found[kind] = Tally(held + holds, wide + (not whole), count + 1)
    return found


def drift_coverage(runs: int, modes: int, drift: float) -> Tally:
    """How often a cost's interval holds the truth, that there is none, while the server drifts.

    Args:
        runs: So many runs of the least rounds that the command would take.
        modes: How many of them are compared.
        drift: By what part of its time a cycle becomes longer over the run.
    """
    server = Server(drift_ms=drift * 29.90 / 3)  # draft, verify and the rest by a third each
    rounds = max(2, math.ceil(4 / (modes - 1)))
    held = wide = 0
    for seed in range(runs):
        table = SampleTable(samples(server, rounds, seed, MODES[:modes]))
        cycles = table.column(lambda sample: sample.cycle_ms)
        found = table.factor(TimingMode.HOST, TimingMode.OFF, cycles, 0.95)
        whole = found is not None and math.isfinite(found.half_width)
        held += found is not None and whole and not found.excludes(1.0)
        wide += not whole
    return Tally(held, wide, runs)


def _intervals(seed: int) -> Iterator[tuple[str, Estimate | None, float]]:
    yield from _of_one_mode(compare(samples(_STEADY, _ROUNDS, seed)), "")
    yield from _of_the_tail(compare(samples(_STEADY, LONG_ROUNDS, seed)), "_of_a_long_run")
    drifting = samples(STORY, _ROUNDS, seed)
    yield "difference", _draft_difference(drifting), 0.87 - 2.18
    table = SampleTable(drifting)
    cycles = table.column(lambda sample: sample.cycle_ms)
    mean = 3 * (mean_noise(STORY) + STORY.drift_ms / 2)
    yield (
        "throughput_ratio",
        table.factor(TimingMode.SYNC, TimingMode.OFF, cycles, 0.95),
        (30.95 + mean) / (29.90 + mean),
    )
    yield "stopped_difference", _draft_difference(stopped(STORY, seed)), 0.87 - 2.18


def _draft_difference(taken: list[Sample]) -> Estimate | None:
    """Of draft by the host's clock and on the device, with an interval of its own."""
    table = SampleTable(taken)
    host = table.column(lambda sample: sample.host.get(PhaseName.DRAFT))
    device = table.column(lambda sample: (sample.device or {}).get(PhaseName.DRAFT))
    return table.excess((TimingMode.HOST, host), (TimingMode.DEVICE, device), 0.95)


def _of_one_mode(found: Comparison, suffix: str) -> Iterator[tuple[str, Estimate | None, float]]:
    host = found.of(TimingMode.HOST)
    assert host is not None
    verify = next(phase for phase in host.host if phase.name is PHASES[1])
    mean = mean_noise(_STEADY)
    yield "phase_median", verify.time_ms, 28.71 + noise_quantile(_STEADY, 0.5)
    yield "phase_share", verify.share, (28.71 + mean) / (29.90 + 3 * mean)
    yield "rate", host.cycles_per_s, 1e3 / (29.90 + 3 * mean)
    yield "tokens_rate", host.tokens_per_s, TOKENS * 1e3 / (29.90 + 3 * mean)
    yield from _of_the_tail(found, suffix)


def _of_the_tail(found: Comparison, suffix: str) -> Iterator[tuple[str, Estimate | None, float]]:
    host = found.of(TimingMode.HOST)
    assert host is not None
    yield f"p50{suffix}", host.cycle_p50_ms, 29.90 + _quantile(0.5)
    yield f"p95{suffix}", host.cycle_p95_ms, 29.90 + _quantile(0.95)
    yield f"p99{suffix}", host.cycle_p99_ms, 29.90 + _quantile(0.99)


@cache
def _quantile(part: float) -> float:
    return sum_quantile(_STEADY, part)
