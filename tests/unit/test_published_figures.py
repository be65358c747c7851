"""Published measurements that have the inputs give their published outputs."""

from __future__ import annotations

from itertools import accumulate
from operator import mul

import pytest

from spectrace.analysis.acceptance import Setting, fitted_chance, prefix_length
from spectrace.analysis.estimates import exact
from spectrace.analysis.speculation import break_even, speed_up, throughput
from spectrace.analysis.verify_cost import Shape, VerifyFit, VerifyPoint, fit
from spectrace.analysis.what_if import Point, best

CONDITIONAL = (0.60, 0.59, 0.64, 0.69, 0.73, 0.75, 0.76)  # F7, positions 1 to 7, ShareGPT


def fitted(batch: int, plain_ms: float | None = None, **verify_ms: float) -> VerifyFit:
    """The fit through verify times that are known exactly, such as n6=28.7."""
    points = [
        VerifyPoint(tokens=int(name[1:]), batch=batch, verify_ms=exact(value))
        for name, value in verify_ms.items()
    ]
    return fit(points, None if plain_ms is None else exact(plain_ms))


def point(steps: int, length: float, cycle_ms: float, plain_ms: float | None = None) -> Point:
    """A measured setting at batch 1."""
    return Point(
        setting=Setting(steps=steps, topk=min(steps, 1), draft_tokens=steps + 1 if steps else 0),
        batch=1,
        measured=True,
        accept_length=exact(length),
        verify_ms=None,
        draft_ms=None,
        rest_ms=None,
        cycle_ms=exact(cycle_ms),
        tokens_per_s=throughput(exact(length), exact(cycle_ms), 1),
        speed_up=None
        if plain_ms is None
        else speed_up(exact(length), exact(cycle_ms), exact(plain_ms)),
    )


def test_f1_break_even_and_loss() -> None:
    """A cycle of 29.9 ms against a plain decode of 11.1 needs 2.69 tokens and gave 2.1."""
    assert break_even(29.9, 11.1) == pytest.approx(2.69, abs=0.005)
    assert speed_up(exact(2.1), exact(29.9), exact(11.1)).value == pytest.approx(
        2.1 / 2.69, abs=0.002
    )
    assert throughput(exact(2.1), exact(29.9), 1).value == pytest.approx(71.3, rel=0.02)


def test_f1_verify_is_a_fixed_cost_and_plain_decode_no_point_of_its_line() -> None:
    """25.6 ms for 3 tokens and 28.7 for 6: 22.5 ms and 1.03 each, and a jump of 12.4."""
    found = fitted(1, 11.1, n3=25.6, n6=28.7)
    assert found.shape is Shape.LINE
    assert found.fixed_ms is not None
    assert found.fixed_ms.value == pytest.approx(22.5, abs=0.05)
    assert found.per_token_ms is not None
    assert found.per_token_ms.value == pytest.approx(1.03, abs=0.005)
    assert found.jump_ms is not None
    assert found.jump_ms.value == pytest.approx(12.4, abs=0.05)


def test_f1_one_probability_predicts_less_than_was_measured() -> None:
    """Fitted to 2.1 at 5 steps it is 0.535, and says 1.82 at 2 steps, where 2.00 came."""
    chance = fitted_chance(2.1, 5)
    assert chance == pytest.approx(0.535, abs=0.0005)
    assert prefix_length([exact(chance)] * 2).value == pytest.approx(1.82, abs=0.005)


def test_f5_no_number_of_steps_gains() -> None:
    """0.0878, 0.0883 and 0.0881 tokens per ms: the best gains less than 1 %."""
    found = [
        point(0, 1.0, 11.39, 11.39),
        point(1, 1.715, 19.43, 11.39),
        point(2, 2.153, 24.44, 11.39),
    ]
    rates = [one.tokens_per_s.value / 1000 for one in found]
    assert rates == pytest.approx([0.0878, 0.0883, 0.0881], abs=0.00005)
    top = best(found, found[2].setting)
    assert top is not None
    assert top.gain is not None
    assert top.gain.value < 0.01
    assert all(one.speed_up is not None and one.speed_up.within(0.99, 1.01) for one in found)


@pytest.mark.parametrize(
    ("batch", "times", "fixed", "slope", "r_squared"),
    [
        (8, (12.67, 15.92, 20.50, 28.65), 12.0, 0.52, 0.999),
        (32, (15.52, 29.09, 45.59, 76.13), 13.7, 1.96, 0.9998),
    ],
)
def test_f6_verify_is_a_line_at_larger_batches(
    batch: int, times: tuple[float, ...], fixed: float, slope: float, r_squared: float
) -> None:
    """The published fits and their R²."""
    found = fitted(batch, **dict(zip(("n1", "n8", "n16", "n32"), times, strict=True)))
    assert found.shape is Shape.LINE
    assert found.fixed_ms is not None
    assert found.fixed_ms.value == pytest.approx(fixed, abs=0.05)
    assert found.per_token_ms is not None
    assert found.per_token_ms.value == pytest.approx(slope, abs=0.005)
    assert found.r_squared == pytest.approx(r_squared, abs=0.0005)


def test_f6_a_concave_verify_is_not_called_a_line() -> None:
    """A line fits with R² 0.91: no fixed cost is given, and nothing beyond the points."""
    found = fitted(1, n1=11.99, n8=14.33, n16=15.50, n32=17.02)
    assert found.shape is Shape.CONCAVE
    assert found.r_squared == pytest.approx(0.91, abs=0.005)
    assert found.fixed_ms is None
    assert found.at(64) is None
    between = found.at(12)
    assert between is not None
    assert between.value == pytest.approx((14.33 + 15.50) / 2)


@pytest.mark.parametrize(("steps", "tokens"), [(1, 1.66), (3, 2.25), (5, 2.48), (7, 2.58)])
def test_f7_tokens_per_cycle_follow_from_conditional_acceptance(steps: int, tokens: float) -> None:
    """Within 5 % of what was measured on ShareGPT, at every number of steps."""
    found = prefix_length([exact(chance) for chance in CONDITIONAL[:steps]])
    assert found.value == pytest.approx(1 + sum(accumulate(CONDITIONAL[:steps], mul)))
    assert found.value == pytest.approx(tokens, rel=0.05)


def test_f8_the_longest_acceptance_is_not_the_highest_throughput() -> None:
    """7 steps accept 4.52 and give 732.3 tok/s, 3 steps accept 3.04 and give 767.8."""
    published = {0: (1.0, 447.2), 1: (1.85, 594.7), 3: (3.04, 767.8), 7: (4.52, 732.3)}
    found = [
        point(steps, length, 1000 * length / rate) for steps, (length, rate) in published.items()
    ]
    longest = max(found, key=lambda one: one.accept_length.value)
    top = best(found, longest.setting)
    assert longest.setting.steps == 7
    assert top is not None
    assert top.setting.steps == 3
    assert top.gain is not None
    assert top.gain.value == pytest.approx(767.8 / 732.3 - 1)
    assert top.flags == (
        *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1"),
        *("--speculative-num-draft-tokens", "4"),
    )


def test_f10_the_acceptance_that_break_even_needs_is_that_of_the_prefix_form() -> None:
    """1.70 at 5 steps needs 0.415, not the 0.140 of 1 + k a."""
    chance = fitted_chance(1.70, 5)
    assert chance == pytest.approx(0.415, abs=0.0005)
    assert prefix_length([exact(chance)] * 5).value == pytest.approx(1.70)
