"""The comparison on data of known truth: what hides what, what it costs, what stays open."""

from __future__ import annotations

import math
from dataclasses import replace as with_changes
from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console

from spectrace.analysis.samples import Sample
from spectrace.analysis.timing_comparison import compare
from spectrace.analysis.timing_report import Comparison, PhaseDifference, Verdict
from spectrace.cli.timing_page import page
from spectrace.cli.timing_table import lanes, mode_rows, render
from spectrace.cli.timing_words import sentences
from spectrace.model import CycleKind, Lane, PhaseName, TimingMode
from tests.helpers.timing_trials import aa_rate, coverage, drift_coverage
from tests.helpers.timing_truth import MODES, STORY, Server, samples

QUIET = with_changes(STORY, spread_ms=0.02, drift_ms=0.0)


@pytest.fixture(scope="module")
def story() -> Comparison:
    """The founding story's server, two rounds."""
    return compare(samples(QUIET, 2, 1), rounds=2, plain_decode_ms=11.1)


def waiting(one: Sample, wait_ms: float) -> Sample:
    """The same cycle of a host that runs ahead, and then waits for so long."""
    host = {**one.host, PhaseName.WAIT: wait_ms} if one.host else one.host
    return replace(one, host=host, cycle_ms=one.cycle_ms + wait_ms, runs_ahead=True)


def difference(found: Comparison, mode: TimingMode, phase: PhaseName) -> PhaseDifference:
    """The one of this mode and phase."""
    (one,) = (d for d in found.differences if (d.mode, d.phase) == (mode, phase))
    return one


def test_the_host_hides_what_draft_takes_and_charges_verify(story: Comparison) -> None:
    """0.87 - 2.18 = -1.31 in draft, 28.71 - 27.40 = 1.31 in verify, against the device."""
    assert story.reference is not None
    assert story.reference.lane is Lane.DEVICE
    for phase, expected_ms in ((PhaseName.DRAFT, -1.31), (PhaseName.VERIFY, 1.31)):
        found = difference(story, TimingMode.HOST, phase)
        assert found.difference_ms is not None
        assert found.difference_ms.value == pytest.approx(expected_ms, abs=0.02)
        assert found.verdict is Verdict.DIFFERS
    (moved,) = story.moved
    assert (moved.mode, moved.hidden_in, moved.charged_to) == (
        TimingMode.HOST,
        PhaseName.DRAFT,
        PhaseName.VERIFY,
    )
    assert moved.hidden_ms.value == pytest.approx(1.31, abs=0.02)


def test_sync_shows_draft_right_and_slows_the_server(story: Comparison) -> None:
    """Draft as the device has it; a cycle of 30.95 instead of 29.90 is 3.5 % slower."""
    sync = TimingMode.SYNC
    assert difference(story, sync, PhaseName.DRAFT).verdict is Verdict.SAME
    verify = difference(story, sync, PhaseName.VERIFY)
    assert verify.difference_ms is not None
    assert verify.difference_ms.value == pytest.approx(1.05, abs=0.02)
    costs = {cost.mode: cost for cost in story.costs}
    slower = costs[sync].throughput_ratio
    assert slower is not None
    assert slower.value == pytest.approx(30.95 / 29.90, abs=0.001)
    assert costs[sync].verdict is Verdict.DIFFERS
    assert costs[TimingMode.HOST].verdict is Verdict.SAME


def test_each_mode_has_a_break_even_of_its_own(story: Comparison) -> None:
    """29.90 / 11.1 = 2.69 by the host's clock, 30.95 / 11.1 = 2.79 with sync."""
    host, sync = story.of(TimingMode.HOST), story.of(TimingMode.SYNC)
    assert host is not None
    assert sync is not None
    assert host.break_even_accept_length == pytest.approx(2.69, abs=0.01)
    assert sync.break_even_accept_length == pytest.approx(2.79, abs=0.01)
    assert host.accept_length == pytest.approx((4.2 + 2) / 2, rel=0.05)


def test_break_even_goes_by_the_mean_as_throughput_does() -> None:
    """Nine cycles of 20 ms and one of 120 are 30 on average, 3 plain decodes of 10; no 2."""
    taken = [
        replace(one, cycle_ms=120.0 if place % 10 == 0 else 20.0)
        for place, one in enumerate(samples(QUIET, 2, 1))
    ]
    found = compare(taken, plain_decode_ms=10.0)
    for figures in found.modes:
        assert figures.cycle_p50_ms.value == pytest.approx(20.0)
        assert figures.break_even_accept_length == pytest.approx(3.0)
        assert figures.cycles_per_s.value == pytest.approx(1000 / 30)


def test_break_even_is_of_speculative_cycles() -> None:
    """Cycles of 30 ms are 3 plain decodes; those that are plain decode themselves have none."""
    taken = [
        replace(one, cycle_ms=30.0)
        if place % 2
        else replace(one, cycle_ms=10.0, verifies=0, like=replace(one.like, kind=CycleKind.DECODE))
        for place, one in enumerate(samples(QUIET, 2, 1))
    ]
    both = compare(taken, plain_decode_ms=10.0)
    assert [one.break_even_accept_length for one in both.modes] == pytest.approx([3.0] * 4)
    plain = [one for one in taken if one.like.kind is CycleKind.DECODE]
    alone = compare(plain, plain_decode_ms=10.0)
    assert [one.break_even_accept_length for one in alone.modes] == [None] * 4


def test_accept_lengths_are_of_the_same_mixture() -> None:
    """Of each like mode host has another part, and all modes have the same accept length.

    Cycles of batch 1 get 2 tokens, those of batch 2 get 4. Three modes have as many of both, mode
    host three times as many of the first, so that 9 of all 16 are of batch 1: 2 * 9/16 + 4 * 7/16.
    """
    taken = []
    for place, one in enumerate(samples(QUIET, 2, 1)):
        small = place % 4 > 0 if one.mode is TimingMode.HOST else place % 2 > 0
        like = replace(one.like, batch_size=1 if small else 2)
        taken.append(replace(one, like=like, verifies=1, correct_drafts=1 if small else 3))
    lengths = [figures.accept_length for figures in compare(taken).modes]
    assert lengths == pytest.approx([2.875] * 4)


def test_shares_are_of_the_cycle(story: Comparison) -> None:
    """Draft's 0.87 of 29.90 ms is 2.9 %, verify's 28.71 is 96 %."""
    host = story.of(TimingMode.HOST)
    assert host is not None
    shares = {phase.name: phase.share.value for phase in host.host}
    assert shares[PhaseName.DRAFT] == pytest.approx(0.87 / 29.90, rel=0.05)
    assert shares[PhaseName.VERIFY] == pytest.approx(28.71 / 29.90, rel=0.01)


def test_the_words_name_what_hides_where(story: Comparison) -> None:
    """The first sentence is the story's, the rest says what sync costs and what does not matter."""
    first, *others = sentences(story)
    assert "(draft → verify)" in first
    assert first.startswith("The host's clock hides 1.31 ms (")
    rest = " ".join(others)
    assert "Sync timing makes the server 3.5 % slower" in rest
    assert "Host timing costs nothing that matters" in rest
    assert "tok/s" not in first + rest


def test_nothing_is_claimed_where_nothing_differs() -> None:
    """Of runs in which all modes show the same at most 9 % claim anything: here 4 of 40."""
    assert aa_rate(40, stops=False) <= 0.1


def test_intervals_hold_the_truth() -> None:
    """95 % do: of 15 runs none of these kinds misses more than 4 (once in 100 it would).

    An interval without a limit is none; of so few cycles a p99 has none at all.
    """
    found = coverage(15)
    assert found["p99"].wide == 15
    whole = {kind: tally for kind, tally in found.items() if tally.wide == 0}
    assert len(whole) >= 10
    assert min(tally.held for tally in whole.values()) >= 11


@pytest.mark.parametrize("modes", [2, 3, 4])
@pytest.mark.parametrize("drift", [0.0, 0.03, 0.1])
def test_a_drift_is_no_cost(modes: int, drift: float) -> None:
    """95 % of intervals hold 1 whatever drifts: of 30 at least 24 (fewer come once in 1,700)."""
    found = drift_coverage(30, modes, drift)
    assert found.wide == 0
    assert found.held >= 24


def test_without_device_timing_sync_is_the_reference() -> None:
    """On a CPU the report says that device timing does not exist, and compares the others."""
    modes = {TimingMode.OFF, TimingMode.HOST, TimingMode.SYNC}
    taken = [one for one in samples(QUIET, 2, 1) if one.mode in modes]
    found = compare(taken, device_timing="The server runs on the CPU, which has no timing events.")
    assert found.reference is not None
    assert found.reference.mode is TimingMode.SYNC
    assert {figures.mode for figures in found.modes} == modes
    said = sentences(found)
    assert said[0].startswith("There is no device timing here. The server runs on the CPU")


def test_wide_intervals_allow_no_statement() -> None:
    """Times that vary by 20 ms over two rounds: it says that it cannot be said."""
    found = compare(samples(with_changes(STORY, spread_ms=20.0), 2, 1))
    assert Verdict.OPEN in {one.verdict for one in found.differences}
    assert any("cannot be said" in sentence for sentence in sentences(found))


@pytest.mark.parametrize(
    ("left_out", "says"),
    [({}, "no cycle came"), ({"warm_up": 30}, "too few cycles")],
)
def test_without_data_nothing_is_said_but_that(left_out: dict[str, int], says: str) -> None:
    """It says what is missing, and why that may be."""
    found = compare([], left_out=left_out)
    said = " ".join(sentences(found))
    assert said.startswith("Nothing can be said:")
    assert says in said
    assert "timing" not in said
    assert found.widest is None


@pytest.mark.parametrize("left_out", [{}, {"warm_up": 30}])
def test_of_what_is_known_to_have_ended_it_nothing_is_guessed(left_out: dict[str, int]) -> None:
    """A server that has ended is not idle, and nothing came that "all this" could be."""
    said = " ".join(sentences(compare([], left_out=left_out), "The server has ended."))
    assert said.startswith("Nothing can be said:")
    assert said.endswith(". The server has ended.")
    assert "idle" not in said
    assert "All this" not in said


def test_who_stops_it_before_a_block_is_told_no_guess() -> None:
    """The server was not idle, as far as anybody knows."""
    assert sentences(compare([]), stopped=True)[1] == "It was stopped before the first one."
    ended = sentences(compare([]), "The server has ended.", stopped=True)
    assert ended[1:] == ("The server has ended.",)


def test_what_was_cut_off_says_of_what_it_is(story: Comparison) -> None:
    """Behind all that can be said of it."""
    *others, last = sentences(story, "The server has ended.")
    assert tuple(others) == sentences(story)
    assert last == "The server has ended. All this is of what came until then."


def test_one_mode_alone_is_not_compared() -> None:
    """As when it was stopped in the second block."""
    alone = [one for one in samples(QUIET, 1, 1) if one.mode is TimingMode.OFF]
    (sentence,) = sentences(compare(alone))
    assert "only mode off" in sentence


def shifted(one: Sample, host: dict[PhaseName, float]) -> Sample:
    """The same cycle, in whose mode host some phases take longer by the host's clock."""
    if one.mode is not TimingMode.HOST:
        return one
    return replace(one, host={name: ms + host.get(name, 0.0) for name, ms in one.host.items()})


@pytest.mark.parametrize(
    ("verify_ms", "charged"), [(0.70, PhaseName.VERIFY), (0.60, None), (0.0, None)]
)
def test_a_phase_is_charged_with_half_of_what_is_hidden_at_least(
    verify_ms: float, charged: PhaseName | None
) -> None:
    """Of draft's 1.31 ms that is 0.66: what verify has too much by less is not draft's."""
    server = with_changes(QUIET, host={**QUIET.host, TimingMode.HOST: (0.87, 27.40)})
    found = compare(
        [shifted(one, {PhaseName.VERIFY: verify_ms}) for one in samples(server, 2, 1)],
        margin=0.001,
    )
    (moved,) = (one for one in found.moved if one.hidden_in is PhaseName.DRAFT)
    assert moved.charged_to is charged
    said = " ".join(sentences(found))
    assert ("(draft → verify)" in said) is (charged is not None)
    assert ("no phase of it is longer by as much" in said) is (charged is None)


def test_what_is_charged_is_charged_once() -> None:
    """Draft hides 1.31 ms and draft extend 1.00: of verify's 1.38 too much 0.07 is left, no half.

    Of 2.40 there are 1.09 left, so that both can have gone there.
    """
    server = with_changes(QUIET, host={**QUIET.host, TimingMode.HOST: (0.87, 27.40)})
    for verify_ms, charged in ((1.38, None), (2.40, PhaseName.VERIFY)):
        taken = [
            extended(shifted(one, {PhaseName.VERIFY: verify_ms})) for one in samples(server, 2, 1)
        ]
        own = [one for one in compare(taken, margin=0.001).moved if one.mode is TimingMode.HOST]
        assert [one.hidden_in for one in own] == [PhaseName.DRAFT, PhaseName.DRAFT_EXTEND]
        assert [one.charged_to for one in own] == [PhaseName.VERIFY, charged]
        total = sum(one.charged_ms.value for one in own if one.charged_ms is not None)
        assert total <= verify_ms + 0.02
        assert total == pytest.approx(1.31 if charged is None else 2.31, abs=0.03)


def extended(one: Sample) -> Sample:
    """The same cycle with a draft extend of 2 ms, of which mode host shows 1 ms."""
    shown_ms = 1.0 if one.mode is TimingMode.HOST else 2.0
    return replace(
        one,
        host={**one.host, PhaseName.DRAFT_EXTEND: shown_ms} if one.host else one.host,
        device={**one.device, PhaseName.DRAFT_EXTEND: 2.0} if one.device else one.device,
    )


def test_host_phases_of_mode_device_are_never_called_the_device() -> None:
    """Where no cycle has a whole device lane sync is the reference, and the host lane says so."""
    taken = [replace(one, device=None) for one in samples(QUIET, 2, 1)]
    found = compare(taken)
    assert found.reference is not None
    assert found.reference.mode is TimingMode.SYNC
    names = [name for name, _ in lanes(found)]
    assert names == ["host", "host, in mode device", "sync"]
    said = " ".join(sentences(found))
    assert "The host's clock in mode device hides 1.31 ms" in said
    assert "time by sync timing" in said
    assert "on the device" not in said
    shown = page(replace(found, sentences=sentences(found)), "a server", b"{}")
    assert "<b>host, in mode device</b>" in shown
    assert 'class="stack device"' not in shown


def test_the_terminal_says_why_it_ended_early(story: Comparison) -> None:
    """What the result says in words is what is shown, the last sentence too."""
    console = Console(record=True, width=200, file=StringIO())
    console.print(render(replace(story, sentences=("It pays.", "The server ended early."))))
    assert console.export_text().startswith("It pays. The server ended early.")


def test_what_cannot_be_computed_is_no_figure() -> None:
    """Modes that never share a round: no difference and no cost, a dash, and no 0.0 or 1.0."""
    taken = [replace(one, round=one.block) for one in samples(QUIET, 2, 1)]
    bare = compare(taken)
    assert {one.difference_ms for one in bare.differences} == {None}
    assert {one.throughput_ratio for one in bare.costs} == {None}
    assert {one.verdict for one in bare.differences} == {Verdict.OPEN}
    assert {one.verdict for one in bare.costs} == {Verdict.OPEN}
    assert bare.widest == math.inf
    found = replace(bare, sentences=sentences(bare))
    said = " ".join(found.sentences)
    assert "draft (too few blocks)" in said
    assert "What host timing costs cannot be said: there are too few blocks." in said
    rows = dict(mode_rows(found))
    assert {rows["throughput off / on"](figures) for figures in found.modes} == {"\u2013"}
    shown = page(found, "a server", b"{}")
    assert '<span class="figure">\u2013 · not known</span>' in shown
    assert '<span class="figure">\u2013</span>' in shown
    assert "1.000" not in shown


def test_sync_hides_nothing() -> None:
    """A phase that it shows shorter than the device is told as that, and nobody is charged."""
    server = with_changes(QUIET, host={**QUIET.host, TimingMode.SYNC: (1.18, 29.45)})
    found = compare(samples(server, 2, 1))
    assert {one.mode for one in found.moved} == {TimingMode.HOST}
    said = " ".join(sentences(found))
    assert "Sync timing shows draft shorter than the device, by 1.00 ms" in said


def test_a_mode_of_which_nothing_counts_is_named() -> None:
    """Once with its reason, where that is known; it is not simply absent."""
    taken = [one for one in samples(QUIET, 2, 1) if one.mode is not TimingMode.DEVICE]
    found = compare(taken, asked=MODES)
    assert found.without_data == (TimingMode.DEVICE,)
    assert "Of mode device nothing can be said" in sentences(found)[0]
    explained = compare(taken, asked=MODES, device_timing="Its events fail.")
    assert sentences(explained)[0] == "There is no device timing here. Its events fail."
    assert not any("nothing can be said" in sentence for sentence in sentences(explained))


def test_device_timing_that_ended_in_the_midst_is_told() -> None:
    """What came before is compared, and the reader hears that it is not all."""
    found = compare(samples(QUIET, 2, 1), asked=MODES, device_timing="Its events fail.")
    assert found.without_data == ()
    assert sentences(found)[0] == (
        "Device timing has ended before the comparison did. Its events fail."
    )


def test_a_host_that_runs_ahead_shows_launches_and_waits() -> None:
    """V2's shape: verify's launch of 1.05 ms hides 26.35 ms, which its host waits for by name."""
    server = Server(host=dict.fromkeys(MODES, (0.87, 1.05)), spread_ms=0.02, drift_ms=0.0)
    ahead = [waiting(one, 26.35) for one in samples(server, 2, 1)]
    found = compare(ahead)
    assert found.runs_ahead
    moved = {one.hidden_in: one for one in found.moved if one.mode is TimingMode.HOST}
    assert moved[PhaseName.VERIFY].hidden_ms.value == pytest.approx(26.35, abs=0.05)
    assert moved[PhaseName.VERIFY].charged_to is PhaseName.WAIT
    said = " ".join(sentences(found))
    assert "launches and of waits with a name" in said
    assert "(verify → wait)" in said
