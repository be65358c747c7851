"""Runs the comparison of timing modes many times on data of known truth, and counts."""

from __future__ import annotations

from collections.abc import Iterator

from spectrace.analysis.intervals import Estimate
from spectrace.analysis.sample_table import SampleTable
from spectrace.analysis.samples import Sample
from spectrace.analysis.timing_comparison import compare
from spectrace.analysis.timing_report import Comparison, Verdict
from spectrace.model import PhaseName, TimingMode
from tests.helpers.timing_truth import PHASES, STORY, Server, mean_noise, noise_quantile, samples

_ROUNDS = 3
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


def coverage(runs: int) -> dict[str, float]:
    """The part of runs in which each kind of interval holds the truth."""
    held: dict[str, int] = {}
    for seed in range(runs):
        for kind, estimate, truth in _intervals(seed):
            assert estimate is not None
            held[kind] = held.get(kind, 0) + (not estimate.excludes(truth))
    return {kind: count / runs for kind, count in held.items()}


def _intervals(seed: int) -> Iterator[tuple[str, Estimate | None, float]]:
    steady = compare(samples(_STEADY, _ROUNDS, seed))
    yield from _of_one_mode(steady)
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


def _of_one_mode(found: Comparison) -> Iterator[tuple[str, Estimate | None, float]]:
    host = found.of(TimingMode.HOST)
    assert host is not None
    verify = next(phase for phase in host.host if phase.name is PHASES[1])
    yield "phase_median", verify.time_ms, 28.71 + noise_quantile(_STEADY, 0.5)
    yield "rate", host.cycles_per_s, 1e3 / (29.90 + 3 * mean_noise(_STEADY))
