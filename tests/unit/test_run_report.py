"""The report of a run of which the truth is known: verdict, what to change, what is not known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from spectrace.analysis.acceptance import PLAIN, Setting
from spectrace.analysis.baseline import Baseline, Source, baseline_of
from spectrace.analysis.costs import strata
from spectrace.analysis.estimates import exact
from spectrace.analysis.made_of import made_of
from spectrace.analysis.run_report import Gap, report, without_secrets
from spectrace.analysis.speculation import cap, padding_waste
from spectrace.analysis.verdict import Answer, Change
from spectrace.analysis.verify_cost import VerifyPoint, fit
from spectrace.analysis.what_if import Doubt, Known, points
from spectrace.cli.run_sections import sections
from spectrace.cli.run_words import known_from, sentences
from spectrace.measures import NONE, Measures
from spectrace.model import Lane, TimingMode
from tests.helpers.known_look import look
from tests.helpers.recorded import run_of
from tests.helpers.simulated_run import Stretch, Truth, simulated

CHANCES = (0.7, 0.6, 0.6, 0.5, 0.5)
LENGTH = 1 + 0.7 + 0.42 + 0.252 + 0.126 + 0.063  # at five steps
CYCLE_MS = 5 * 0.4 + 22.5 + 6 * 1.03 + 0.5 + 1.0
PLAIN_MS = 10.1 + 1.0
LOSING = (Stretch(2000, 5), Stretch(800, 0))
WINNING = Truth(CHANCES, verify_ms=lambda tokens, batch: 10 + 0.4 * tokens * batch)


def test_a_run_that_loses() -> None:
    """2.56 tokens against a break-even of 2.9: turn it off, for the gain that the truth has."""
    found = report(simulated(LOSING)).verdict
    [main] = found.by_batch
    assert found.answer is Answer.LOSES
    assert main.break_even is not None
    assert main.break_even.value == pytest.approx(CYCLE_MS / PLAIN_MS, rel=0.01)
    assert main.tokens_per_cycle.value == pytest.approx(LENGTH, rel=0.03)
    assert main.plain_source is Source.RUN
    assert found.first is not None
    assert found.first.change is Change.OFF
    assert found.first.setting == PLAIN
    gain = CYCLE_MS / PLAIN_MS / LENGTH - 1
    assert found.first.gain.value == pytest.approx(gain, abs=0.04)


def test_a_run_that_pays() -> None:
    """A verify of 12.4 ms: 1.79 times plain decode."""
    found = report(simulated(LOSING, WINNING)).verdict
    assert found.answer is Answer.PAYS
    assert found.speed_up is not None
    cycle_ms = 5 * 0.4 + 12.4 + 1.5
    assert found.speed_up.value == pytest.approx(LENGTH * PLAIN_MS / cycle_ms, rel=0.03)
    assert found.first is not None
    assert found.first.change is not Change.OFF


def test_the_speed_up_lies_in_its_interval_as_often_as_promised() -> None:
    """Of 100 runs at least 90 %."""
    true = LENGTH * PLAIN_MS / CYCLE_MS
    held = sum(
        not (found.speed_up is None or found.speed_up.excludes(true))
        for found in (report(simulated(LOSING, seed=seed)).verdict for seed in range(100))
    )
    assert held >= 90


def test_speculation_that_changes_nothing_is_seldom_said_to() -> None:
    """A speed-up of exactly 1: pays or loses is said in at most 10 % of 100 runs."""
    plain_ms = CYCLE_MS / LENGTH
    truth = Truth(CHANCES, plain_ms=lambda _: plain_ms - 1.0)
    answers = [report(simulated(LOSING, truth, seed=s)).verdict.answer for s in range(100)]
    assert sum(answer in {Answer.PAYS, Answer.LOSES} for answer in answers) <= 10


SKEWED = Truth(CHANCES, WINNING.verify_ms, slow_speculative=0.3)  # 30 % at 4 times: 1.9 times


def test_slow_cycles_count_with_all_their_time() -> None:
    """The median cycle of 15.9 ms would pay 1.79-fold; the mean of 30.2 ms loses: 0.94."""
    found = report(simulated((Stretch(8000, 5), Stretch(1000, 0)), SKEWED))
    assert found.verdict.answer is Answer.LOSES
    assert found.verdict.speed_up is not None
    mean_ms = 1.9 * (5 * 0.4 + 12.4 + 1.5)
    assert found.verdict.speed_up.value == pytest.approx(LENGTH * PLAIN_MS / mean_ms, rel=0.03)
    assert found.strata[0].cycle is not None
    assert found.strata[0].cycle.p50_ms.value == pytest.approx(mean_ms / 1.9, rel=0.02)
    assert found.strata[0].slowest_share == pytest.approx(0.1 * 4 / 1.9, rel=0.05)


def test_throughput_is_all_tokens_over_all_time() -> None:
    """In the verdict and in the what-if, however skewed the times are."""
    measures = simulated((Stretch(3000, 5, 4),), SKEWED)
    took_s = (measures.cycles["end_ns"] - measures.cycles["start_ns"]).sum() / 1e9
    rate = pytest.approx(measures.rows["delivered"].sum() / took_s, rel=1e-6)
    found = report(measures)
    assert found.verdict.by_batch[0].tokens_per_s.value == rate
    [point] = [one for one in found.what_if.points if one.measured]
    assert point.tokens_per_s.value == rate


def test_a_short_run_with_slow_cycles_has_limits_that_can_be() -> None:
    """Two stretches of 29.9 and 90 ms: a factor e^(t x) around their mean, t = 12.7 at one degree.

    Half of their distance over the mean is the error, x = 30.05 / 59.95, so that neither limit is
    nothing and the throughput's are the inverse of the cycle's.
    """
    slow = Truth(CHANCES, lambda *_: 10.0, noise=0.0)
    measures = simulated([Stretch(100, 5)], slow)
    took_ns = np.repeat([29_900_000, 90_000_000], 50)
    ends = measures.cycles["start_ns"][0] + np.cumsum(took_ns)
    measures.cycles["start_ns"][:], measures.cycles["end_ns"][:] = ends - took_ns, ends
    measures.cycle_counts["total_ns"][:] = took_ns
    [main] = report(measures).verdict.by_batch
    factor = math.exp(12.7062 * 30.05 / 59.95)
    limits = (main.cycle_ms.low, main.cycle_ms.value, main.cycle_ms.high)
    assert limits == pytest.approx((59.95 / factor, 59.95, 59.95 * factor), rel=1e-3)
    assert main.tokens_per_s.high is not None
    assert main.tokens_per_s.high / main.tokens_per_s.value == pytest.approx(factor, rel=0.01)


def test_a_skewed_speed_up_lies_in_its_interval_as_often_as_promised() -> None:
    """Of 100 runs at least 90 %."""
    true = LENGTH * PLAIN_MS / (1.9 * (5 * 0.4 + 12.4 + 1.5))
    held = 0
    for seed in range(100):
        found = report(simulated(LOSING, SKEWED, seed=seed)).verdict.speed_up
        assert found is not None
        assert found.low is not None
        held += not found.excludes(true)
    assert held >= 90


def test_mixed_batch_sizes_are_held_each_against_its_own_baseline() -> None:
    """Speculation pays at batch 1 and loses at batch 8, whose plain decode costs hardly more."""
    truth = Truth(CHANCES, verify_ms=lambda tokens, batch: 10 + 0.5 * tokens * batch)
    stretches = [Stretch(1500, 5, 1), Stretch(500, 0, 1), Stretch(1500, 5, 8), Stretch(500, 0, 8)]
    found = report(simulated(stretches, truth))
    answers = {one.batch: one.answer for one in found.verdict.by_batch}
    assert answers == {1: Answer.PAYS, 8: Answer.LOSES}
    assert found.what_if.crossover_batch == 8
    assert found.what_if.crossover_clear
    assert found.verdict.covered == pytest.approx(1.0)


def test_a_batch_size_that_comes_now_and_then_does_not_take_the_interval_from_all() -> None:
    """2000 cycles of batch 4 and 30 of batch 3, too few for an interval, as where a load ends."""
    stretches = [Stretch(2000, 5, 4), Stretch(30, 5, 3), Stretch(500, 0, 4), Stretch(500, 0, 3)]
    found = report(simulated(stretches)).verdict
    few = next(one for one in found.by_batch if one.batch == 3)
    assert few.speed_up is not None
    assert few.speed_up.low is None
    assert found.answer is Answer.LOSES
    [whole, main] = found.speed_up, found.by_batch[0].speed_up
    assert whole is not None
    assert main is not None
    assert (whole.value, whole.low, whole.high) == pytest.approx((main.value, main.low, main.high))
    assert found.covered == pytest.approx(1 - few.share)
    alone = report(simulated(stretches[1:])).verdict
    assert alone.speed_up is not None
    assert alone.answer is Answer.OPEN


def test_a_batch_size_between_two_baselines_is_told_from_both() -> None:
    """And says so; beyond them nothing is told."""
    base = Baseline(source=Source.RUN, times_ms={1: exact(10.0), 5: exact(14.0)})
    found = base.at(3)
    assert found is not None
    assert found[0].value == pytest.approx(12.0)
    assert found[1] is Source.BETWEEN
    assert base.at(6) is None


def test_adaptive_steps_are_told_apart() -> None:
    """5, 3 and 1 steps by turns: each has its own length, and the best is as good as any."""
    turns = [Stretch(300, steps) for _ in range(4) for steps in (5, 3, 1)]
    found = report(simulated([*turns, Stretch(400, 0)], WINNING))
    lengths = {one.setting.steps: one.tokens_per_cycle.value for one in found.verdict.by_batch}
    assert lengths == {
        5: pytest.approx(LENGTH, rel=0.04),
        3: pytest.approx(1 + 0.7 + 0.42 + 0.252, rel=0.04),
        1: pytest.approx(1.7, rel=0.04),
    }
    measured = {p.setting.steps for p in found.what_if.points if p.measured}
    assert measured == {0, 1, 3, 5}
    rates = {k: sum_to(k) / (0.4 * k + 10 + 0.4 * (k + 1) + 1.5) for k in range(1, 6)}
    assert rates[found.what_if.best[0].setting.steps] >= 0.98 * max(rates.values())


def sum_to(steps: int) -> float:
    """The accept length of the truth."""
    length = chance = 1.0
    for place in range(steps):
        chance *= CHANCES[place]
        length += chance
    return length


def test_a_what_if_predicts_what_another_run_shows() -> None:
    """From 5 and 3 steps to 2: accept length and time of a cycle lie in the interval."""
    first = report(simulated([Stretch(2000, 5), Stretch(2000, 3)]))
    later = report(simulated([Stretch(3000, 2)], seed=1)).verdict.by_batch[0]
    wanted = Setting(steps=2, topk=1, draft_tokens=3)
    [point] = [one for one in first.what_if.points if one.setting == wanted]
    assert not point.measured
    assert point.accept_length.low is not None
    assert point.accept_length.high is not None
    assert (
        point.accept_length.low <= later.tokens_per_cycle.value + later.tokens_per_cycle.half_width
    )
    assert (
        later.tokens_per_cycle.value - later.tokens_per_cycle.half_width <= point.accept_length.high
    )
    assert point.cycle_ms.value == pytest.approx(later.cycle_ms.value, rel=0.01)


CUT = Truth((0.8,) * 7, verify_ms=lambda tokens, _: 20 + 0.5 * (tokens - 1), cut=16)


def cut_length(steps: int, tokens: int = 16) -> float:
    """What requests of so many tokens get per verify: tokens over the verifies that they need.

    A request that still wants n tokens needs one verify, and those for what that one leaves.
    """
    gives = [0.8**got * 0.2 for got in range(steps)] + [0.8**steps]
    needed = [0.0]
    for wanted in range(1, tokens + 1):
        left = [needed[max(0, wanted - got)] for got in range(1, steps + 2)]
        needed.append(1 + sum(chance * more for chance, more in zip(gives, left, strict=True)))
    return tokens / needed[tokens]


def test_short_requests_do_not_make_a_prediction_better_than_what_was_measured() -> None:
    """Requests of 16 tokens, 5 and 3 steps measured, 1 to 7 given: all as the truth has it."""
    found = report(simulated([Stretch(2000, 5), Stretch(2000, 3)] * 4, CUT), plain_ms=19.0)
    points = {point.setting.steps: point for point in found.what_if.points}
    assert [steps for steps, point in points.items() if point.measured] == [3, 5]
    for steps in range(1, 8):
        assert points[steps].accept_length.value == pytest.approx(cut_length(steps), rel=0.015)
        assert (Doubt.CUTS in points[steps].doubts) is not points[steps].measured


def test_what_is_predicted_of_short_requests_lies_in_its_interval() -> None:
    """Four steps between 5 and 3, of 20 runs in at least 17: 95 % are seldom fewer."""
    true = 1000 * cut_length(4) / (4 * 0.4 + 20 + 0.5 * 4 + 1.5)
    held = 0
    for seed in range(20):
        turns = [Stretch(500, 5), Stretch(500, 3)] * 4
        found = report(simulated(turns, CUT, seed=seed), plain_ms=19.0)
        [four] = [point for point in found.what_if.points if point.setting.steps == 4]
        assert four.tokens_per_s.low is not None
        held += not four.tokens_per_s.excludes(true)
    assert held >= 17


LATE = Truth((0.8,) * 7, lambda tokens, _: 20 + 0.5 * (tokens - 1), cut=16, late=True)


def test_cycles_behind_the_ends_of_requests_count_with_their_time() -> None:
    """Requests of 16 tokens in batches of 4, each with a cycle more: all tokens over all time."""
    measures = simulated((Stretch(3000, 5, 4),), LATE)
    took_s = (measures.cycles["end_ns"] - measures.cycles["start_ns"]).sum() / 1e9
    rate = measures.rows["delivered"].sum() / took_s
    found = report(measures, plain_ms=19.0).verdict
    [main] = found.by_batch
    assert main.tokens_per_s.value == pytest.approx(rate, rel=1e-6)
    # Plain decode would run too far as well: 17 cycles of 19 ms for 16 tokens of each of 4.
    assert found.speed_up is not None
    assert found.speed_up.value == pytest.approx(rate / (4 * 16 / (17 * 0.019)), rel=0.005)
    assert main.break_even is not None
    assert found.speed_up.value == pytest.approx(
        main.tokens_per_cycle.value / main.break_even.value
    )


def test_a_prediction_holds_where_ends_are_noticed_late() -> None:
    """5 and 3 steps measured, 1 to 7 given: the verifies of a request, and one more."""
    found = report(simulated([Stretch(2000, 5), Stretch(2000, 3)] * 4, LATE), plain_ms=19.0)
    points = {point.setting.steps: point for point in found.what_if.points}
    for steps in range(1, 8):
        true = 16 / (16 / cut_length(steps) + 1)
        assert points[steps].accept_length.value == pytest.approx(true, rel=0.015)
    assert points[0].tokens_per_s.value == pytest.approx(1000 / 19 * 16 / 17, rel=0.01)


def test_a_what_if_from_one_number_of_tokens_spans_both_extremes() -> None:
    """From all that exceeds plain decode going with the tokens, to none of it."""
    found = report(simulated(LOSING))
    wanted = Setting(steps=2, topk=1, draft_tokens=3)
    [point] = [one for one in found.what_if.points if one.setting == wanted]
    assert Doubt.VERIFY_SPAN in point.doubts
    assert point.verify_ms is not None
    assert point.verify_ms.low is not None
    assert point.verify_ms.high is not None
    verify_ms = 22.5 + 6 * 1.03
    least = verify_ms - 3 * (verify_ms - PLAIN_MS) / 5
    assert point.verify_ms.low == pytest.approx(least, rel=0.01)
    assert point.verify_ms.high == pytest.approx(verify_ms, rel=0.01)
    assert point.verify_ms.low < 22.5 + 3 * 1.03 < point.verify_ms.high


def test_each_setting_names_the_options_that_set_it() -> None:
    """Steps, branches and the tokens that verify looks at; plain decode has none."""
    found = report(simulated([Stretch(2000, 5), Stretch(1000, 0)]))
    flags = {point.setting.steps: point.flags for point in found.what_if.points}
    assert flags[0] == ()
    assert flags[2] == (
        "--speculative-num-steps",
        "2",
        "--speculative-eagle-topk",
        "1",
        "--speculative-num-draft-tokens",
        "3",
    )


def test_steps_that_were_never_made_are_marked() -> None:
    """Six steps from a run of five."""
    found = report(simulated(LOSING))
    deeper = [one for one in found.what_if.points if one.setting.steps > 5]
    assert [one.setting.steps for one in deeper] == [6, 7]
    assert all(Doubt.DEEPER in one.doubts for one in deeper)


def test_positions_that_nothing_reached_were_made_all_the_same() -> None:
    """Every draft refused at five steps: with one to five a cycle gives one token, undoubted."""
    found = report(simulated([Stretch(500, 5), Stretch(300, 0)], Truth((0.0,) * 5)))
    points = {point.setting.steps: point for point in found.what_if.points}
    for steps in range(1, 6):
        assert points[steps].accept_length.value == 1.0
        assert Doubt.DEEPER not in points[steps].doubts
    assert Doubt.DEEPER in points[6].doubts
    assert found.verdict.first is not None
    assert found.verdict.first.change is Change.OFF


def test_without_plain_decode_nothing_is_held_against_it() -> None:
    """And what is missing is said; a person or another run can say it."""
    measures = simulated([Stretch(2000, 5)])
    found = report(measures)
    assert found.verdict.answer is Answer.UNKNOWN
    assert found.verdict.speed_up is None
    assert Gap.NO_BASELINE in found.gaps
    given = report(measures, plain_ms=11.1).verdict
    assert given.by_batch[0].plain_source is Source.GIVEN
    assert given.answer is Answer.LOSES
    other = baseline_of(strata(simulated([Stretch(800, 0)])), Source.RECORDING)
    recorded = report(measures, baseline=other)
    assert recorded.verdict.answer is Answer.LOSES
    assert Gap.NO_BASELINE not in recorded.gaps


def test_without_plain_decode_no_part_that_hardly_matters_is_changed_first() -> None:
    """1.0 of 30.68 ms gains 1 / 29.68 at most: that is said, and that verify is not known."""
    small = Truth(CHANCES, draft_ms=0.1)
    measures = simulated([Stretch(2000, 5)], small)
    first = report(measures).verdict.first
    assert first is not None
    assert first.change is Change.NOTHING
    assert first.at_most
    cycle_ms = 5 * 0.1 + 22.5 + 6 * 1.03 + 0.5 + 1.0
    assert first.gain.value == pytest.approx(1.0 / (cycle_ms - 1.0), rel=0.02)
    said = " ".join(sentences(report(measures)))
    assert "What to change first cannot be said without plain decode" in said
    assert "less overhead between the phases can bring 3.4 %" in said
    assert "Change first" not in said


def test_without_plain_decode_a_part_that_matters_is_changed_first() -> None:
    """A draft of 5 ms in a cycle of 35.18 ms: 5 / 30.18 at most."""
    found = report(simulated([Stretch(2000, 5)], Truth(CHANCES, draft_ms=1.0))).verdict.first
    assert found is not None
    assert found.change is Change.DRAFT
    cycle_ms = 5 * 1.0 + 22.5 + 6 * 1.03 + 0.5 + 1.0
    assert found.gain.value == pytest.approx(5.0 / (cycle_ms - 5.0), rel=0.02)


def test_plain_decode_is_measured_only_where_it_was() -> None:
    """At batch sizes 1 and 3, so that it is between at 2; or a person says it."""
    measures = simulated([Stretch(2000, 5, 2), Stretch(500, 0, 1), Stretch(500, 0, 3)])
    for found, known, measured in (
        (report(measures), "between the batch sizes that were measured", False),
        (report(measures, plain_ms=11.2), "as given", False),
        (report(simulated(LOSING)), "measured in this run", True),
    ):
        [plain] = [point for point in found.what_if.points if point.setting == PLAIN]
        assert known_from(plain) == known
        assert plain.measured is measured


def test_where_verify_can_bring_most_and_nobody_looked_inside_it_is_said_that_one_can() -> None:
    """28.7 ms against a plain decode of 11.1: nothing else brings as much."""
    unseen = report(simulated(LOSING))
    assert Gap.VERIFY_INSIDE in unseen.gaps
    assert "`spectrace kernels PID` shows it" in " ".join(sentences(unseen))
    seen = report(simulated(LOSING), looks=[look()])
    assert Gap.VERIFY_INSIDE not in seen.gaps
    assert seen.made_of == made_of([look()])
    assert "17.2 ms are matrix products" in " ".join(sentences(seen))


def test_a_verify_of_fixed_cost_is_worth_a_look_without_plain_decode_as_well() -> None:
    """22.5 of 28.7 ms are fixed; 2 of 26 ms are not most of it."""
    turns = [Stretch(2000, 5), Stretch(2000, 2)]
    assert Gap.VERIFY_INSIDE in report(simulated(turns)).gaps
    by_token = Truth(CHANCES, verify_ms=lambda tokens, batch: 2 + 4 * tokens * batch)
    assert Gap.VERIFY_INSIDE not in report(simulated(turns, by_token)).gaps


def test_no_look_is_recommended_where_none_can_be_had() -> None:
    """By the host's clock alone there may be no device; of a loop of one's own none is possible."""
    assert Gap.VERIFY_INSIDE not in report(simulated(LOSING, lane=Lane.HOST)).gaps
    own = replace(simulated(LOSING), run=replace(run_of(1), engine="my_loop 1.0"))
    assert Gap.VERIFY_INSIDE not in report(own).gaps


DEEP = Truth((0.97,) * 5, verify_ms=lambda _tokens, _batch: 10.0, draft_ms=0.1)


def test_what_is_extrapolated_is_not_changed_to_first() -> None:
    """Seven steps of which five were made look best: five is what there is, and nothing is said."""
    found = report(simulated([Stretch(2000, 5), Stretch(500, 3), Stretch(800, 0)], DEEP))
    [best] = found.what_if.best
    assert best.setting.steps == 7
    assert not best.clear
    assert found.verdict.first is not None
    assert found.verdict.first.change is not Change.STEPS


def test_the_best_of_what_was_measured_comes_before_what_is_extrapolated() -> None:
    """From three steps to five: (1 - p^6) / (1 - p^4) of the tokens, in 12.0 and not 11.8 ms."""
    found = report(simulated([Stretch(2000, 3), Stretch(500, 5), Stretch(800, 0)], DEEP))
    first = found.verdict.first
    assert first is not None
    assert first.setting == Setting(steps=5, topk=1, draft_tokens=6)
    gain = (1 - 0.97**6) / (1 - 0.97**4) * 11.8 / 12.0 - 1
    assert first.gain.value == pytest.approx(gain, abs=0.03)
    said = " ".join(sentences(found))
    assert "7 steps may bring more, but that lies beyond" in said
    assert "Change first: 5 steps (measured at batch size 1" in said


def test_a_draft_that_falls_with_the_steps_costs_nothing_at_least() -> None:
    """2 ms at two steps and 0.5 at five: the line reaches nothing at six, and stays there."""
    [two] = strata(simulated([Stretch(500, 2)], Truth(draft_ms=1.0)))
    [five] = strata(simulated([Stretch(500, 5)], Truth(draft_ms=0.1)))
    known = Known(
        batch=1,
        current=five.setting,
        strata=(five, two),
        lengths={one.setting: exact(2.0) for one in (five, two)},
        kept={one.setting: exact(1.0) for one in (five, two)},
        conditional=(exact(0.5),) * 5,
        fit=fit([VerifyPoint(tokens=n, batch=1, verify_ms=exact(20.0 + n)) for n in (3, 6)]),
        plain_ms=None,
    )
    drafts = {one.setting.steps: one.draft_ms for one in points(known)}
    for steps, draft_ms in ((4, 1.0), (6, 0.0), (7, 0.0)):
        found = drafts[steps]
        assert found is not None
        assert found.low is not None
        assert found.low >= 0.0
        assert found.value == pytest.approx(draft_ms, abs=0.03)


def test_too_few_cycles_give_no_times() -> None:
    """Fifteen cycles: counts, but no verdict."""
    found = report(simulated([Stretch(15, 5), Stretch(15, 0)]))
    assert found.verdict.answer is Answer.UNKNOWN
    assert not found.verdict.by_batch
    assert {Gap.TOO_FEW, Gap.NO_BASELINE, Gap.FEW_WINDOWS} <= set(found.gaps)
    assert found.acceptance[0].verifies == 15


def test_a_run_that_never_speculated() -> None:
    """There is nothing to judge."""
    found = report(simulated([Stretch(500, 0)]))
    assert Gap.NO_SPECULATION in found.gaps
    assert not found.acceptance
    assert not found.what_if.points
    assert found.verdict.first is None


def test_cycles_in_sync_timing_are_in_no_time() -> None:
    """They are slowed: the report says that it left them out."""
    found = report(simulated(LOSING, mode=TimingMode.SYNC))
    assert not found.strata
    assert Gap.SYNC_LEFT_OUT in found.gaps


def test_without_a_device_lane_the_host_speaks() -> None:
    """And the report says so."""
    found = report(simulated(LOSING, lane=Lane.HOST))
    assert Gap.NO_DEVICE in found.gaps
    assert found.strata[0].parts is not None
    assert found.strata[0].parts.lane is Lane.HOST
    assert Gap.NO_DEVICE not in report(simulated(LOSING)).gaps


def test_a_device_lane_with_holes_is_left_out() -> None:
    """A rank that lost boundaries in half of its cycles does not halve its phases."""
    measures = simulated(LOSING)
    whole = report(measures).strata[0].parts
    holes = np.arange(len(measures.ranks["cycle"])) % 2 == 0
    broken = replace(measures, ranks={**measures.ranks, "device_incomplete": holes})
    found = report(broken).strata[0].parts
    assert whole is not None
    assert found is not None
    assert found.verify_ms.value == pytest.approx(whole.verify_ms.value, rel=0.01)


def test_parts_add_up_to_the_cycle() -> None:
    """Draft, verify, draft extend and the rest, as in the truth."""
    parts = report(simulated(LOSING)).strata[0].parts
    assert parts is not None
    assert parts.draft_ms.value == pytest.approx(2.0, rel=0.01)
    assert parts.verify_ms.value == pytest.approx(22.5 + 6 * 1.03, rel=0.01)
    assert parts.extend_ms.value == pytest.approx(0.5, rel=0.01)
    assert parts.overhead_ms.value == pytest.approx(1.0, rel=0.01)


def test_parts_of_skewed_cycles_add_up_to_their_mean() -> None:
    """Each part of a slow cycle is four times as long here, and so is the rest."""
    found = report(simulated(LOSING, SKEWED)).strata[0]
    assert found.parts is not None
    assert found.mean_ms is not None
    parts = found.parts
    four = (parts.draft_ms, parts.verify_ms, parts.extend_ms, parts.overhead_ms)
    assert sum(part.value for part in four) == pytest.approx(found.mean_ms.value)
    assert parts.verify_ms.value == pytest.approx(1.9 * 12.4, rel=0.06)
    assert parts.verify_p50_ms.value == pytest.approx(12.4, rel=0.02)


def test_what_break_even_would_need_and_what_is_wasted() -> None:
    """Of six verified tokens 2.56 are kept; the acceptance that 2.9 would need is above today's."""
    [main] = report(simulated(LOSING)).verdict.by_batch
    assert main.wasted_verify == pytest.approx(1 - LENGTH / 6, abs=0.02)
    assert main.padding_waste == 0
    assert main.chance is not None
    assert main.needed_chance is not None
    for chance, length in ((main.chance, LENGTH), (main.needed_chance, CYCLE_MS / PLAIN_MS)):
        assert sum(chance**place for place in range(6)) == pytest.approx(length, rel=0.03)
    hopeless = report(simulated(LOSING), plain_ms=4.0).verdict.by_batch[0]
    assert hopeless.needed_chance is None


def test_graph_padding_by_hand() -> None:
    """A graph for 8 that runs 6 requests, and one that fits."""
    assert padding_waste(6, 8) == 0.25
    assert padding_waste(8, 8) == 0


def test_caps_by_hand() -> None:
    """A draft of 2 in a cycle of 20 gains 2 / 18 at most; one that is all of it has no bound."""
    assert cap(20.0, 2.0) == pytest.approx(2 / 18)
    assert cap(20.0, 20.0) is None


def test_a_report_keeps_secrets_of_the_command_line() -> None:
    """It is pasted elsewhere."""
    command = ("python", "--api-key", "abc", "--admin-api-key=def", "--tokenizer-path", "/m")
    shown = without_secrets(replace(run_of(), command=command)).command
    assert shown == ("python", "--api-key", "…", "--admin-api-key=…", "--tokenizer-path", "/m")


def test_drafts_that_are_looked_up_have_no_steps() -> None:
    """As NGRAM's, in one chain: how many drafts there were is not known, the rest is."""
    measures = simulated([Stretch(500, 5), Stretch(200, 0)])
    for columns in (measures.cycles, measures.cycle_counts, measures.row_counts):
        columns["steps"][:] = 0
    found = report(measures)
    assert found.acceptance[0].draft_acceptance_rate is None
    assert found.acceptance[0].setting.draft_tokens == 6
    assert found.verdict.by_batch[0].setting.steps == 0


def unsaid(*names: str) -> Measures:
    """A run of 5 steps and of plain decode that does not say these of its speculation."""
    measures = simulated([Stretch(500, 5), Stretch(200, 0)])
    for columns in (measures.cycles, measures.cycle_counts, measures.row_counts):
        for name in names:
            columns[name][:] = 0
    return measures


def test_drafts_of_which_nothing_is_said_are_no_plain_decode() -> None:
    """A loop of one's own need not say steps: 34.1 ms against 11.1, as with them."""
    found = report(unsaid("steps", "topk", "draft_tokens"))
    [main] = found.verdict.by_batch
    assert main.plain_ms is not None
    assert main.plain_ms.value == pytest.approx(PLAIN_MS, rel=0.01)
    assert main.cycle_ms.value == pytest.approx(CYCLE_MS, rel=0.01)
    assert main.answer is Answer.LOSES
    assert main.wasted_verify is None
    assert "drafts of unknown length" in " ".join(sentences(found))
    assert not found.verify


def test_a_chain_of_drafts_is_verified_with_one_token_more() -> None:
    """Where only its steps are said; without branches either, neither is guessed."""
    [main] = report(unsaid("draft_tokens")).verdict.by_batch
    assert main.setting == Setting(steps=5, topk=1, draft_tokens=6)
    [other] = report(unsaid("draft_tokens", "topk")).verdict.by_batch
    assert (other.setting.steps, other.setting.draft_tokens) == (5, NONE)
    assert other.answer is Answer.LOSES


def test_speculation_without_counts_is_not_called_none() -> None:
    """As in a trace that was imported: it has times, and nothing of what was accepted."""
    measures = simulated([Stretch(500, 5), Stretch(200, 0)])
    measures.row_counts["correct"][:] = NONE
    found = report(measures)
    assert Gap.NO_COUNTS in found.gaps
    assert Gap.NO_SPECULATION not in found.gaps
    said = sentences(found)
    assert said[0] == "Whether speculation pays cannot be said."
    assert "what was accepted is not known" in " ".join(said)


def test_without_phases_nothing_is_said_to_bring_nothing() -> None:
    """A run in mode off that pays: what to change first is not known."""
    measures = simulated(LOSING, WINNING)
    nothing = {name: column[:0] for name, column in measures.phases.items()}
    found = report(replace(measures, phases=nothing))
    assert found.verdict.answer is Answer.PAYS
    assert found.verdict.first is None
    assert "No single change" not in " ".join(sentences(found))


@pytest.mark.parametrize("name", ["NGRAM", "ngram"])
def test_what_a_lookup_calls_steps_makes_no_chain_of_drafts(name: str) -> None:
    """A server with NGRAM says five steps: neither are others predicted, nor shares of drafts."""
    measures = simulated([Stretch(500, 5), Stretch(200, 0)])
    command = ("python", "-m", "sglang.launch_server", "--speculative-algorithm", name)
    found = report(replace(measures, run=replace(measures.run, command=command)))
    looked_up = Setting(steps=0, topk=1, draft_tokens=6)
    assert [one.setting for one in found.verdict.by_batch] == [looked_up]
    assert [point.setting for point in found.what_if.points] == [PLAIN, looked_up]
    assert found.acceptance[0].draft_acceptance_rate is None
    assert len(report(measures).what_if.points) > 2


def test_a_tree_is_judged_and_others_are_not_predicted() -> None:
    """Why is said, and how to find out."""
    measures = simulated([Stretch(500, 3), Stretch(200, 0)])
    for columns in (measures.cycles, measures.cycle_counts, measures.row_counts):
        columns["topk"][columns["steps"] > 0] = 4
        columns["draft_tokens"][columns["steps"] > 0] = 8
    found = report(measures)
    tree = Setting(steps=3, topk=4, draft_tokens=8)
    assert [point.setting for point in found.what_if.points] == [PLAIN, tree]
    assert found.verdict.speed_up is not None
    said = " ".join(sentences(found))
    assert "judged as they ran" in said
    assert "spectrace sweep --topk" in said


def test_a_graph_may_be_said_to_be_of_any_size() -> None:
    """A sender's number takes no memory: most cycles ran in a graph for 2^40 requests."""
    measures = simulated([Stretch(500, 5)])
    measures.cycles["padded_batch"][:300] = 1 << 40
    assert report(measures).strata[0].padded_batch == 1 << 40


def test_throughput_of_several_groups_is_that_of_one() -> None:
    """Two groups of data parallelism: words and tables say so, and how many there are."""
    alone = simulated([Stretch(500, 5), Stretch(200, 0)])
    both = replace(alone, groups=("DP0", "DP1"))
    found = report(both)
    assert found.groups == 2
    assert " per group, of which there are 2." in " ".join(sentences(found))
    assert "tokens/s per group" in sections(found)[0].heads
    assert "per group" not in " ".join(sentences(report(alone)))
    assert "tokens/s" in sections(report(alone))[0].heads
