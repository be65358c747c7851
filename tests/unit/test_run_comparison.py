"""Two runs held against each other: like with like, and parts that add up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from msgspec.structs import replace

from spectrace.analysis.run_comparison import (
    Note,
    PhaseDifference,
    RunComparison,
    compare_runs,
)
from spectrace.analysis.timing_report import Verdict
from spectrace.measures import Measures
from spectrace.model import Cycle, CycleKind, PhaseName, TimingMode
from tests.helpers.measured_run import Stretch, cycle_of, measures_of, rank_of, touching

CYCLES = 500
Times = Callable[[int], tuple[float, float, float]]


def run(  # noqa: PLR0913 - each is what some test varies
    times: Times,
    *,
    seed: int = 1,
    spread: float = 0.02,
    batch: Callable[[int], int] = lambda _: 1,
    correct: Callable[[int], int] = lambda number: number % 3,
    steps: int = 5,
    kind: CycleKind = CycleKind.SPECULATIVE,
    mode: TimingMode = TimingMode.DEVICE,
    on_device: bool = True,
    cycles: int = CYCLES,
    context: int = 100,
) -> Measures:
    """A run whose draft, verify and result take these times in ms for a batch of so many.

    They vary by a share. On the device draft and verify begin half a ms late and take as long.
    """
    random = np.random.default_rng(seed)
    made: list[Cycle] = []
    at = 0.0
    for number in range(cycles):
        size = batch(number)
        draft, verify, result = (
            ms * float(np.exp(spread * random.standard_normal())) for ms in times(size)
        )
        host = touching(at, draft=draft, verify=verify, result=result)
        device: list[Stretch] = touching(at + 0.5, draft=draft, verify=verify) if on_device else []
        made.append(
            cycle_of(
                number,
                rank_of(number, host, device, mode=mode),
                correct=[correct(number)] * size,
                kind=kind,
                steps=steps,
                context=context,
            )
        )
        at += draft + verify + result
    return measures_of(made)


def part(phases: tuple[PhaseDifference, ...], name: PhaseName | None) -> PhaseDifference:
    """One of them."""
    return next(one for one in phases if one.phase is name)


def five(_: int) -> tuple[float, float, float]:
    """The founding story with 5 steps: draft 0.87, verify 28.7, the rest 0.33."""
    return 0.87, 28.7, 0.33


def two(_: int) -> tuple[float, float, float]:
    """With 2 steps: verify 25.6, and a draft of two fifths."""
    return 0.35, 25.6, 0.33


def test_the_parts_of_a_difference_add_up_to_it() -> None:
    """On both lanes, exactly, and the largest comes first."""
    found = compare_runs(run(five), run(two, seed=2))
    assert found.cycle_ms is not None
    whole = found.cycle_ms.excess.value
    for phases in (found.host, found.device):
        assert sum(one.time_ms.excess.value for one in phases) == pytest.approx(whole, abs=1e-6)
        assert sum(one.share or 0 for one in phases) == pytest.approx(1)
        assert phases[0].phase is PhaseName.VERIFY


def test_five_steps_against_two_differ_by_verify() -> None:
    """28.7 less 25.6 are 3.1 ms of 3.62; the cycle is shorter by 12 %."""
    found = compare_runs(run(five), run(two, seed=2))
    assert found.cycle_ms is not None
    assert found.cycle_ms.verdict is Verdict.DIFFERS
    assert found.cycle_ms.excess.low is not None
    assert found.cycle_ms.excess.high is not None
    assert found.cycle_ms.excess.low < -3.62 < found.cycle_ms.excess.high
    verify = part(found.host, PhaseName.VERIFY)
    assert verify.share == pytest.approx(3.1 / 3.62, abs=0.05)
    assert part(found.host, PhaseName.RESULT).time_ms.verdict is Verdict.SAME
    assert found.notes == ()


def test_a_run_does_not_differ_from_one_like_it() -> None:
    """Nothing is claimed: 1 % is more than what the intervals leave open."""
    found = compare_runs(run(five, spread=0.002), run(five, spread=0.002, seed=2))
    assert found.cycle_ms is not None
    assert found.cycle_ms.verdict is Verdict.SAME
    assert {one.time_ms.verdict for one in found.host} == {Verdict.SAME}


def test_other_mixtures_of_batch_sizes_do_not_make_a_difference() -> None:
    """A batch of 4 takes twice as long; the second run has three times as many of them.

    Of the first run a quarter is of batch 4, of the second three quarters: both count with a
    half. Weighted, both take (10 + 20) / 2 = 15 ms.
    """

    def times(batch: int) -> tuple[float, float, float]:
        return (1.0, 8.0, 1.0) if batch == 1 else (2.0, 16.0, 2.0)

    found = compare_runs(
        run(times, spread=0.002, batch=lambda n: 4 if n % 4 == 0 else 1),
        run(times, spread=0.002, batch=lambda n: 1 if n % 4 == 0 else 4, seed=2),
    )
    assert found.cycle_ms is not None
    assert found.cycle_ms.one.value == pytest.approx(15, rel=0.005)
    assert found.cycle_ms.other.value == pytest.approx(15, rel=0.005)
    assert found.cycle_ms.verdict is Verdict.SAME
    assert [(each.batch, round(each.share, 3)) for each in found.alike] == [(1, 0.5), (4, 0.5)]


def test_tokens_of_a_second_are_those_of_the_cycles_that_are_alike() -> None:
    """Two tokens on average in cycles of 30 and of 25 ms: 66.7 and 80 a second, 1.2 times."""
    found = compare_runs(
        run(lambda _: (5.0, 24.0, 1.0), spread=0.002),
        run(lambda _: (5.0, 19.0, 1.0), spread=0.002, seed=2),
    )
    assert found.tokens_per_s is not None
    assert found.tokens_per_s.one.value == pytest.approx(2 / 0.030, rel=0.01)
    assert found.tokens_per_s.other.value == pytest.approx(2 / 0.025, rel=0.01)
    assert found.throughput_ratio is not None
    assert found.throughput_ratio.low is not None
    assert found.throughput_ratio.high is not None
    assert found.throughput_ratio.low < 1.2 < found.throughput_ratio.high


def test_the_accept_length_is_compared_too() -> None:
    """0, 1, 2 correct drafts are 2.0; 0 and 1 are 1.5."""
    found = compare_runs(run(five), run(five, seed=2, correct=lambda number: number % 2))
    assert found.accept_length is not None
    assert found.accept_length.one.value == pytest.approx(2.0, abs=0.01)
    assert found.accept_length.other.value == pytest.approx(1.5, abs=0.01)
    assert found.accept_length.verdict is Verdict.DIFFERS


def test_speculation_is_compared_with_plain_decode_by_tokens() -> None:
    """Cycles of the same batch; what a token costs says which is faster.

    Plain decode takes 11.1 ms for one token, speculation 29.9 for two.
    """
    plain = run(lambda _: (0.1, 10.7, 0.3), kind=CycleKind.DECODE, on_device=False, spread=0.002)
    found = compare_runs(run(five, spread=0.002, on_device=False), plain)
    assert Note.OTHER_KINDS in found.notes
    assert found.ms_per_token is not None
    assert found.ms_per_token.one.value == pytest.approx(29.9 / 2, rel=0.01)
    assert found.ms_per_token.other.value == pytest.approx(11.1, rel=0.01)
    assert found.accept_length is None


def test_without_cycles_that_are_alike_nothing_is_said() -> None:
    """Batches of 1 and of 2 have nothing in common."""
    found = compare_runs(run(five), run(five, batch=lambda _: 2))
    assert found.cycle_ms is None
    assert found.notes == (Note.NOTHING_LIKE,)


def test_runs_that_are_too_short_have_no_intervals() -> None:
    """30 cycles make no blocks: the values stand without a verdict."""
    found = compare_runs(run(five, cycles=30), run(two, cycles=30))
    assert Note.FEW_BLOCKS in found.notes
    assert found.cycle_ms is not None
    assert found.cycle_ms.verdict is Verdict.OPEN
    assert found.cycle_ms.excess.low is None


def test_what_keeps_runs_from_being_alike_is_noted() -> None:
    """Other timing, sync timing, and contexts that are twice as long."""
    found = compare_runs(run(five), run(five, mode=TimingMode.SYNC, context=200, on_device=False))
    assert found.notes == (Note.OTHER_MODES, Note.SYNC, Note.OTHER_CONTEXTS)
    assert found.device == ()
    assert found.host != ()


def test_most_cycles_left_out_is_noted() -> None:
    """Three quarters of the second run have a batch size that the first one never has."""
    found = compare_runs(run(five), run(five, batch=lambda n: 1 if n % 4 == 0 else 2))
    assert Note.OTHER_BATCHES in found.notes
    assert (found.sides[1].cycles, found.sides[1].of) == (125, CYCLES)


def holds(found: RunComparison, truth: float) -> bool:
    """Whether the interval of the cycle's difference holds it."""
    assert found.cycle_ms is not None
    excess = found.cycle_ms.excess
    assert excess.low is not None
    assert excess.high is not None
    return excess.low <= truth <= excess.high


def test_the_true_difference_lies_within_the_interval_as_often_as_promised() -> None:
    """All claims of a comparison together are wrong in 5 % of cases at most, so this one less.

    Times have the median of `five` and `two` and the same relative spread of 2 %, so that their
    means are larger by e to the 0.0002.
    """
    truth = (sum(two(1)) - sum(five(1))) * float(np.exp(0.02**2 / 2))
    held = sum(
        holds(
            compare_runs(run(five, seed=s, cycles=250), run(two, seed=900 + s, cycles=250)), truth
        )
        for s in range(60)
    )
    assert held >= 57


def test_a_server_that_also_decodes_plainly_is_compared_with_all_that_it_does() -> None:
    """One cycle in ten is plain, at the batch size of a plain server: nine tenths are not left."""
    speculative, decode = (
        run(five, on_device=False), run(five, kind=CycleKind.DECODE, on_device=False, seed=2)
    )  # fmt: skip
    kind = speculative.cycles["kind"].copy()
    kind[::10] = decode.cycles["kind"][0]
    adaptive = replace(speculative, cycles={**speculative.cycles, "kind": kind})
    found = compare_runs(adaptive, decode)
    assert found.sides[0].cycles == CYCLES
    assert Note.OTHER_KINDS in found.notes
    assert Note.OTHER_BATCHES not in found.notes
