"""How verify depends on tokens and batch size, where the truth is known."""

from __future__ import annotations

import pytest

from spectrace.analysis.acceptance import Setting
from spectrace.analysis.costs import strata
from spectrace.analysis.estimates import exact
from spectrace.analysis.intervals import Estimate
from spectrace.analysis.run_report import report
from spectrace.analysis.verify_cost import Shape, VerifyPoint, fit, graph_steps
from tests.helpers.simulated_run import Stretch, Truth, simulated


def near(value: float, reach: float = 0.1) -> Estimate:
    """A value that is known so well."""
    return Estimate(value=value, low=value - reach, high=value + reach)


def at(tokens: int, verify_ms: Estimate, batch: int = 1, padded: int | None = None) -> VerifyPoint:
    """A measured point."""
    return VerifyPoint(tokens=tokens, batch=batch, verify_ms=verify_ms, padded_batch=padded)


def test_one_number_of_tokens_says_nothing_of_a_line() -> None:
    """Neither fixed part nor part per token is given, and no other point."""
    found = fit([at(6, near(28.7))], near(11.1))
    assert found.shape is Shape.UNKNOWN
    assert found.fixed_ms is None
    assert found.per_token_ms is None
    assert found.jump_ms is None
    assert found.at(3) is None
    known = found.at(6)
    assert known is not None
    assert known.value == 28.7


def test_limits_of_a_line_through_two_points() -> None:
    """At 2 and 4 tokens, each ±0.1: the slope is ±0.1 √2 / 2, the fixed part ±0.1 √5."""
    found = fit([at(2, near(12.0)), at(4, near(14.0))], exact(10.0))
    assert found.per_token_ms is not None
    assert found.fixed_ms is not None
    assert found.per_token_ms.value == pytest.approx(1.0)
    assert found.per_token_ms.half_width == pytest.approx(0.1 * 2**0.5 / 2)
    assert found.fixed_ms.value == pytest.approx(10.0)
    assert found.fixed_ms.half_width == pytest.approx(0.1 * 5**0.5)
    assert found.jump_ms is not None
    assert found.jump_ms.value == pytest.approx(1.0)  # 11 at one token, less 10


def test_a_flat_verify_with_noise_is_a_line() -> None:
    """R² says nothing where nothing rises."""
    found = fit([at(n, near(ms, 1.0)) for n, ms in ((2, 20.0), (4, 20.9), (6, 20.0), (8, 20.6))])
    assert found.shape is Shape.LINE
    assert found.per_token_ms is not None
    assert not found.per_token_ms.excludes(0.0)


@pytest.mark.parametrize(
    ("times", "shape"),
    [
        ((10.0, 14.0, 16.0, 17.0), Shape.CONCAVE),
        ((10.0, 11.0, 13.0, 17.0), Shape.CONVEX),
        ((10.0, 17.0, 12.0, 20.0), Shape.IRREGULAR),
    ],
)
def test_what_bends_beyond_chance_is_no_line(times: tuple[float, ...], shape: Shape) -> None:
    """However well its points are known."""
    found = fit([at(n, exact(ms)) for n, ms in zip((2, 4, 6, 8), times, strict=True)])
    assert found.shape is shape
    assert found.fixed_ms is None


def test_points_of_several_batch_sizes_are_no_fit() -> None:
    """Each has its own."""
    with pytest.raises(ValueError, match="one batch size"):
        fit([at(2, near(1.0)), at(3, near(1.0), batch=2)])


def test_a_step_where_the_next_graph_runs() -> None:
    """From 8 to 9 requests the graph for 16 runs; from 7 to 8 nothing changes but noise."""
    points = [
        at(6, near(20.0), batch=7, padded=8),
        at(6, near(20.05), batch=8, padded=8),
        at(6, near(24.0), batch=9, padded=16),
    ]
    [step] = graph_steps(points)
    assert (step.from_batch, step.to_batch) == (8, 9)
    assert (step.from_padded, step.to_padded) == (8, 16)
    assert step.step_ms.value == pytest.approx(3.95)


RUN = (Stretch(1500, 5), Stretch(700, 0), Stretch(1500, 2))


def test_outliers_do_not_move_the_cost_model() -> None:
    """One cycle in twenty takes ten times as long: fixed part and slope stay within 2 %."""
    found = report(simulated(RUN, Truth(slow=0.05))).verify[0]
    assert found.fixed_ms is not None
    assert found.per_token_ms is not None
    assert found.fixed_ms.value == pytest.approx(22.5, rel=0.02)
    assert found.per_token_ms.value == pytest.approx(1.03, abs=0.15)


def test_the_cost_model_holds_the_truth_as_often_as_it_promises() -> None:
    """Noise with a memory, 100 runs: at least 90 % of the intervals hold each figure.

    So do those of a setting that was not measured: three steps, from two and five.
    """
    held = dict.fromkeys(("fixed", "slope", "jump", "cycle", "length", "predicted"), 0)
    three = Setting(steps=3, topk=1, draft_tokens=4)
    for seed in range(100):
        measures = simulated(RUN, seed=seed)
        whole = report(measures)
        [found] = whole.verify
        [point] = [one for one in whole.what_if.points if one.setting == three]
        cycle = strata(measures)[0].cycle
        for name, estimate, true in (
            ("fixed", found.fixed_ms, 22.5),
            ("slope", found.per_token_ms, 1.03),
            ("jump", found.jump_ms, 22.5 + 1.03 - 10.1),
            ("length", point.accept_length, 1 + 0.7 + 0.42 + 0.252),
            ("predicted", point.cycle_ms, 22.5 + 4 * 1.03 + 3 * 0.4 + 1.5),
            ("cycle", None if cycle is None else cycle.p50_ms, 22.5 + 6 * 1.03 + 5 * 0.4 + 1.5),
        ):
            assert estimate is not None
            held[name] += not estimate.excludes(true)
    assert min(held.values()) >= 90, held
