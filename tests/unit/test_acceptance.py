"""What verify accepts, by hand and against runs of which the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from spectrace.analysis.acceptance import (
    Acceptance,
    acceptance,
    at_risk,
    fitted_chance,
    positions,
    prefix_length,
)
from spectrace.analysis.estimates import exact
from spectrace.measures import Columns
from tests.helpers.simulated_run import Stretch, Truth, simulated

CHANCES = (0.7, 0.6, 0.6, 0.5, 0.5)
LENGTH = 1 + 0.7 + 0.42 + 0.252 + 0.126 + 0.063


def rows(*pairs: tuple[int, int]) -> Columns:
    """Verifies with so many correct drafts and delivered tokens."""
    correct, delivered = (np.array(column) for column in zip(*pairs, strict=True))
    return {"correct": correct, "delivered": delivered, "rows": np.ones_like(correct)}


def of(truth: Truth, *stretches: Stretch, seed: int = 0) -> Acceptance:
    """The acceptance of a simulated run."""
    return acceptance(simulated(stretches, truth, seed=seed))[0]


def test_positions_by_hand() -> None:
    """0, 1, 1 and 2 of two drafts correct: 3 of 4, then 1 of 3."""
    found = positions(rows((0, 1), (1, 2), (1, 2), (2, 3)), 2, np.arange(4), 0.95)
    assert [(one.reached, one.accepted) for one in found] == [(4, 3), (3, 1)]
    assert [one.conditional.value for one in found] == pytest.approx([3 / 4, 1 / 3])


def test_a_cut_verify_counts_up_to_the_cut_and_not_behind_it() -> None:
    """Of four correct drafts two were wanted: it tells of positions 1 and 2, not of 3."""
    cut = rows((4, 2))
    told = [at_risk(cut, place) for place in (1, 2, 3)]
    assert [(bool(risk[0]), bool(good[0])) for risk, good in told] == [
        (True, True),
        (True, True),
        (False, False),
    ]


def test_a_verify_that_ends_with_its_last_correct_draft_is_no_cut() -> None:
    """Two correct drafts and three tokens: the draft at position 3 was refused."""
    risk, good = at_risk(rows((2, 3)), 3)
    assert (bool(risk[0]), bool(good[0])) == (True, False)


def test_the_prefix_form() -> None:
    """1 + 0.5 + 0.5 · 0.4, and 1 without drafts."""
    assert prefix_length([exact(0.5), exact(0.4)]).value == pytest.approx(1.7)
    assert prefix_length([]).value == 1
    assert prefix_length([exact(0.5), exact(0.0), exact(0.9)]).value == pytest.approx(1.5)


@pytest.mark.parametrize("length", [0.9, 6.1])
def test_no_probability_gives_an_impossible_length(length: float) -> None:
    """Five steps give 1 to 6 tokens."""
    with pytest.raises(ValueError, match="5 steps"):
        fitted_chance(length, 5)


def test_where_nothing_is_cut_the_prefix_form_is_the_accept_length() -> None:
    """Both count the same drafts."""
    found = of(Truth(CHANCES), Stretch(1000, 5, batch=3))
    assert found.verifies == 3000
    assert found.cut == 0
    assert prefix_length([one.conditional for one in found.positions]).value == pytest.approx(
        found.accept_length.value
    )
    assert sum(found.histogram) == 3000
    assert found.draft_acceptance_rate == pytest.approx(found.correct_drafts / 15_000)


def test_intervals_hold_the_truth_as_often_as_they_promise() -> None:
    """Of 200 runs whose requests are alike, at least 91 % hold the acceptance of each position."""
    held = np.zeros(6)
    for seed in range(200):
        found = of(Truth(CHANCES), Stretch(1000, 5), seed=seed)
        for at, chance in enumerate(CHANCES):
            held[at] += not found.positions[at].conditional.excludes(chance)
        held[5] += not found.accept_length.excludes(LENGTH)
    assert (held / 200 >= 0.91).all(), held


def test_correlated_requests_widen_the_intervals() -> None:
    """Where requests differ, 200 verifies of one say less: still at least 90 % hold."""
    held = 0
    for seed in range(100):
        found = of(Truth((0.6,), spread=0.25), Stretch(10_000, 1), seed=seed)
        held += not found.positions[0].conditional.excludes(0.6)
    assert held >= 90


def test_requests_cut_off_do_not_mislead() -> None:
    """Requests of 8 tokens, cut in every third verify: the positions are those of the truth."""
    found = of(Truth(CHANCES, cut=8), Stretch(20_000, 5))
    assert found.cut > 2000
    assert found.delivered_length.value < found.accept_length.value
    for position, chance in zip(found.positions, CHANCES, strict=True):
        assert position.conditional.value == pytest.approx(chance, abs=0.03)


def test_a_request_that_accepts_badly_is_named() -> None:
    """And none of those that are as good as the others."""
    good = of(Truth(CHANCES), Stretch(2000, 5))
    assert not good.bad_requests
    measures = simulated([Stretch(2000, 5)], Truth(CHANCES))
    worse = dict(measures.rows)
    bad = worse["request"] == 3
    worse["correct"] = np.where(bad, np.minimum(worse["correct"], 1), worse["correct"])
    worse["delivered"] = np.where(bad, worse["correct"] + 1, worse["delivered"])
    for name, column in worse.items():
        measures.rows[name][:] = column
    [named] = acceptance(measures)[0].bad_requests
    assert named.request_id == measures.request_ids[3]
    assert named.verifies == 200
    assert named.rate.high is not None
    assert named.rate.high < named.others


def test_acceptance_by_batch_size_context_and_time() -> None:
    """The parts cover the run, and none of them differs where the truth does not."""
    found = of(Truth(CHANCES), Stretch(2000, 5, batch=1), Stretch(2000, 5, batch=4))
    assert [(one.low, one.verifies) for one in found.by_batch] == [(1, 2000), (4, 8000)]
    assert sum(one.verifies for one in found.by_context) == 10_000
    assert sum(one.verifies for one in found.by_time) == 10_000
    assert found.by_time[0].low == 0
    assert found.by_time[-1].high == 3999


def test_a_short_run_is_cut_into_as_few_stretches_as_tell_something() -> None:
    """Of 30 blocks seven stretches of four or five, of six one, which is no course: none."""
    found = of(Truth(CHANCES), Stretch(30, 5)).by_time
    assert [one.verifies for one in found] == [5, 5, 4, 4, 4, 4, 4]
    assert [one.low for one in found] == [0, 5, 10, 14, 18, 22, 26]
    assert of(Truth(CHANCES), Stretch(6, 5)).by_time == ()


def test_no_accept_length_is_said_to_be_below_1_or_above_all_drafts() -> None:
    """However few verifies there are, at one step that is seldom or nearly always accepted."""
    for chance in (0.1, 0.9):
        for seed in range(20):
            found = of(Truth((chance,)), Stretch(16, 1), seed=seed)
            parts = [part.accept_length for part in (*found.by_time, *found.by_batch)]
            for one in (found.accept_length, *parts):
                assert one.low is not None
                assert one.high is not None
                assert 1 <= one.low <= one.value <= one.high <= 2


def test_settings_are_told_apart() -> None:
    """The one with the most verifies comes first."""
    found = acceptance(simulated([Stretch(500, 5), Stretch(900, 2), Stretch(300, 0)]))
    assert [(one.setting.steps, one.verifies) for one in found] == [(2, 900), (5, 500)]
    assert [len(one.positions) for one in found] == [2, 5]
