"""The simulated server without its device: its figures, its requests, its command line."""

from __future__ import annotations

import argparse
from dataclasses import replace

import pytest

from examples.simulated_gpu.demo import device_ms
from examples.simulated_gpu.figures import FIGURES, Times
from examples.simulated_gpu.load import (
    ForwardMode,
    Request,
    Residents,
    Visitors,
    acceptance,
    cards,
)
from examples.simulated_gpu.options import SHAPES, Options, add_options, options_of
from examples.simulated_gpu.server import arguments, description


def cycle_ms(times: Times) -> float:
    """A cycle of a host that waits in verify for the device."""
    launched = times.launch_draft + times.launch_verify
    return max(times.draft, launched) + times.verify + times.extend + times.rest


def test_the_founding_story_fits_together() -> None:
    """A cycle takes 29.90 ms, plain decode 11.1: drafts pay from an accept length of 2.69 on."""
    times = FIGURES["founding-story"].times
    plain_ms = times.launch_verify + times.decode + times.rest
    assert cycle_ms(times) == pytest.approx(29.90)
    assert plain_ms == pytest.approx(11.1)
    assert cycle_ms(times) / plain_ms == pytest.approx(2.69, abs=0.005)


def test_a_host_that_runs_ahead_has_the_published_cycle() -> None:
    """The device's three parts make 13.72 ms, to 2 %, and the host is done before: 7.294."""
    times = FIGURES["sglang-29960"].times
    assert times.draft + times.verify + times.extend == pytest.approx(13.72, rel=0.02)
    assert times.launch_draft + times.launch_verify + times.rest == pytest.approx(7.294)


def test_plain_decode_of_the_benchmark_is_its_formula() -> None:
    """5.886 + 0.0210 a token + 3.93e-5 a token of context, and 1.207 beside the models."""
    times = FIGURES["specdecode-bench"].times
    plain_ms = times.launch_verify + times.decode + times.rest
    assert plain_ms == pytest.approx(5.886 + 0.021 + 0.0393 + 1.207)


@pytest.mark.parametrize("name", FIGURES)
def test_a_deck_has_the_published_accept_length(name: str) -> None:
    """The mean of a deck is the accept length, and no card says more than there are drafts."""
    story = FIGURES[name]
    deck = cards(story.accept_length, story.steps)
    assert 1 + sum(deck) / len(deck) == pytest.approx(story.accept_length)
    assert set(deck) <= set(range(story.steps + 1))


def test_drafts_are_accepted_by_the_prefix_form() -> None:
    """2.1 at five steps takes a probability of 0.535 of each."""
    assert acceptance(2.1, 5) == pytest.approx(0.535, abs=0.0005)


@pytest.mark.parametrize(("accept_length", "deck"), [(1.0, {0}), (4.0, {3})])
def test_none_or_all_may_be_right(accept_length: float, deck: set[int]) -> None:
    """At the ends all cards are the same."""
    assert set(cards(accept_length, 3)) == deck


@pytest.mark.parametrize("accept_length", [0.9, 4.1])
def test_an_accept_length_that_cannot_be_is_refused(accept_length: float) -> None:
    """Three drafts give from 1 to 4 tokens."""
    with pytest.raises(ValueError, match="3 steps cannot"):
        cards(accept_length, 3)


def served(visitors: Visitors, cycles: int) -> list[tuple[int, tuple[str, ...]]]:
    """Runs so many batches, two tokens each; which requests were in them, and how."""
    seen = []
    for _ in range(cycles):
        batch = visitors.batch()
        for request in batch.reqs:
            request.take(2)
        seen.append((int(batch.forward_mode), tuple(request.rid for request in batch.reqs)))
    return seen


def test_requests_come_and_go() -> None:
    """Each is prefilled alone, decoded with others, and gone when it has its tokens."""
    visitors = Visitors(4, seed=7)
    left: list[Request] = []
    visitors.on_leaving = left.append
    seen = served(visitors, 2000)
    prefilled = [rids for mode, rids in seen if mode == ForwardMode.EXTEND]
    decoded = [rids for mode, rids in seen if mode == ForwardMode.DECODE]
    assert all(len(rids) == 1 for rids in prefilled)
    assert {len(rids) for rids in decoded} == {1, 2, 3, 4}
    assert len(left) == visitors.gone
    assert len(left) > 50
    assert all(len(request.output_ids) == request.limit for request in left)


def test_a_seed_says_who_comes_when() -> None:
    """The same seed brings the same requests at the same cycles, another one others."""
    first, same, other = (served(Visitors(3, seed), 300) for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_residents_never_leave() -> None:
    """All cycles are alike, and their outputs do not grow without end."""
    residents = Residents(2)
    for _ in range(2000):
        batch = residents.batch()
        assert [request.rid for request in batch.reqs] == ["request-0", "request-1"]
        for request in batch.reqs:
            request.take(3)
    assert all(len(request.output_ids) < 1010 for request in residents.running)


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options("v2", "sglang-29960", 0.5, 0.0, 4, 2, eager=True, drift_ppm=-3.0, seed=9),
        Options("plain", blocking_launches=True),
    ],
)
def test_a_rank_is_started_with_the_options_of_its_server(options: Options) -> None:
    """What is written as arguments is read as the same options."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert options_of(parser.parse_args(arguments(options))) == options


def test_what_is_not_published_is_said() -> None:
    """A server says whose times it has, and what in them is a guess."""
    for shape in SHAPES:
        assert "Kimi-K2.5" in description(Options(shape))
        assert "Not published" not in description(Options(shape))
    assert "Not published: the accept length" in description(Options(figures="sglang-29960"))


def test_the_check_knows_what_the_device_must_show() -> None:
    """Blocking launches add to a phase; a device that waits for the host shows that, too."""
    story = Options(jitter=0.0)
    assert device_ms(story) == {"draft": 2.18, "verify.forward": 27.40}
    blocking = device_ms(replace(story, blocking_launches=True))
    assert blocking == {"draft": 3.05, "verify.forward": 28.45}
    assert device_ms(replace(story, shape="plain")) == {"forward": pytest.approx(10.78)}
    waiting = device_ms(replace(story, figures="sglang-29960"))
    assert waiting == {"draft": 0.691, "verify.forward": pytest.approx(12.049 + 2.826 - 0.691)}
