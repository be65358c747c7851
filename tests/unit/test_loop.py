"""A loop that its author traces: what arrives, what costs nothing, and what does no harm."""

from __future__ import annotations

import os
import time

import pytest

from spectrace.attach import discover
from spectrace.attach.discover import _Process, find_by_pid
from spectrace.attach.loops import Loop
from spectrace.attach.session import End
from spectrace.loop import Tracer
from spectrace.model import CycleKind, RequestRow
from spectrace.probe import ring as probe_ring
from spectrace.probe.layout import ABANDONED_NS, State, Word
from tests.helpers.own_loop import all_of, attached, phases, set_word, turn, word


def test_a_cycle_arrives_as_it_was_written(tracer: Tracer) -> None:
    """Kind, sizes, phases and counts of a cycle are those that the loop gave."""
    with attached() as session:
        turn(tracer, "draft", "verify")
        (cycle,) = all_of(session)
    assert (cycle.number, cycle.kind, cycle.batch_size) == (1, CycleKind.SPECULATIVE, 1)
    assert (cycle.steps, cycle.topk, cycle.draft_tokens) == (3, 1, 4)
    assert phases(cycle) == ["resolve", "draft", "schedule", "verify", "schedule"]
    assert cycle.requests == (RequestRow(request_id="a", correct_drafts=2, output_tokens=3),)


def test_plain_decode_has_no_drafts(tracer: Tracer) -> None:
    """A request that verified nothing has no count of drafts, and one token."""
    with attached() as session:
        with tracer.cycle("decode", ["a"]) as cycle:
            cycle.accepted({"a": None})
        (seen,) = all_of(session)
    assert seen.kind is CycleKind.DECODE
    assert seen.requests == (RequestRow(request_id="a", correct_drafts=None, output_tokens=1),)


def test_asleep_nothing_is_written_but_cycles_count(tracer: Tracer) -> None:
    """Before a reader joins the ring stays empty; its first cycle has the loop's number."""
    turn(tracer, "draft")
    turn(tracer, "draft")
    assert word(tracer, Word.HEAD) == 0
    assert not tracer.traced
    with attached() as session:
        turn(tracer, "draft")
        (cycle,) = all_of(session)
    assert cycle.number == 3


def test_the_loop_may_number_its_cycles(tracer: Tracer) -> None:
    """A number that is given is the cycle's, and counting goes on from it."""
    with attached() as session:
        with tracer.cycle("decode", ["a"], number=70) as cycle:
            cycle.accepted({"a": None})
        turn(tracer)
        assert [cycle.number for cycle in all_of(session)] == [70, 71]


def test_counts_may_come_a_cycle_later(tracer: Tracer) -> None:
    """Counts that are handed in while the next cycle runs belong to their own."""
    with attached() as session:
        with tracer.cycle("speculative", ["a"], steps=3, topk=1, draft_tokens=4) as first:
            pass
        with tracer.cycle("speculative", ["a"], steps=3, topk=1, draft_tokens=4) as second:
            first.accepted({"a": 1})
        second.accepted({"a": 0}, output_tokens={"a": 0}, ended={"a"})
        seen = all_of(session)
    assert [cycle.requests for cycle in seen] == [
        (RequestRow(request_id="a", correct_drafts=1, output_tokens=2),),
        (RequestRow(request_id="a", correct_drafts=0, output_tokens=0, overshoot=True),),
    ]


def test_a_phase_within_another_takes_its_time_out_of_it(tracer: Tracer) -> None:
    """When the inner phase ends the outer one goes on."""
    with attached() as session:
        with tracer.cycle("speculative", ["a"], steps=1, topk=1, draft_tokens=2):
            with tracer.phase("draft"):
                time.sleep(1e-5)
                with tracer.phase("verify.prepare"):
                    time.sleep(1e-5)
                time.sleep(1e-5)
            time.sleep(1e-5)
        (cycle,) = all_of(session)
    assert phases(cycle) == ["resolve", "draft", "verify.prepare", "draft", "schedule"]


def test_a_phase_may_belong_to_an_earlier_cycle(tracer: Tracer) -> None:
    """A loop that runs ahead says whose results it waits for."""
    with attached() as session:
        turn(tracer)
        with tracer.cycle("speculative", ["a"], steps=1, topk=1, draft_tokens=2) as cycle:
            with tracer.phase("wait", of_cycle=cycle.number - 1):
                time.sleep(1e-5)
            cycle.accepted({"a": 0})
        waited = all_of(session)[1].ranks[0].phases[1]
    assert (waited.name.value, waited.of_cycle) == ("wait", 1)


def test_what_the_loop_raises_goes_on_its_way(tracer: Tracer) -> None:
    """The exception passes, and the cycle is marked as incomplete."""
    with attached() as session:
        with (
            pytest.raises(LookupError, match="of the loop"),
            tracer.cycle("decode", ["a"]),
            tracer.phase("forward"),
        ):
            raise LookupError("of the loop")
        turn(tracer, "draft")
        broken, whole = all_of(session)
    assert broken.ranks[0].incomplete
    assert not whole.ranks[0].incomplete
    assert phases(whole)[:2] == ["resolve", "draft"]


def test_an_error_of_its_own_ends_the_tracer_alone(tracer: Tracer) -> None:
    """The loop does not notice; the reader sees that the probe failed."""
    with attached() as session:
        turn(tracer, "draft")
        tracer._probe.recorder = object()
        turn(tracer, "draft")
        turn(tracer, "draft")
        assert session.end is End.PROBE_FAILED
    assert "AttributeError" in tracer.problem


def test_it_sleeps_when_the_reader_has_left_and_wakes_for_the_next(tracer: Tracer) -> None:
    """After detaching nothing is written; the next reader gets the cycles from then on."""
    with attached():
        turn(tracer, "draft")
        assert tracer.traced
    turn(tracer, "draft")
    assert word(tracer, Word.STATE) == State.DETACHED
    written = word(tracer, Word.HEAD)
    turn(tracer, "draft")
    assert word(tracer, Word.HEAD) == written
    with attached() as session:
        assert session.end is None
        turn(tracer, "draft")
        assert [cycle.number for cycle in all_of(session)] == [4]


def test_idle_notices_that_the_reader_has_left(tracer: Tracer) -> None:
    """A loop that waits for work falls asleep too."""
    with attached():
        tracer.idle()
        assert word(tracer, Word.STATE) == State.TRACING
    tracer.idle()
    assert word(tracer, Word.STATE) == State.DETACHED


def test_it_sleeps_when_its_reader_was_killed(
    tracer: Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a sign of life for 30 s nobody reads any more."""
    monkeypatch.setattr(probe_ring, "QUIET_NS", 0)
    with attached():
        turn(tracer, "draft")
        set_word(tracer, Word.HEARTBEAT_NS, time.monotonic_ns() - ABANDONED_NS - 1)
        for _ in range(2):  # it misses the reader, and falls asleep at its next look
            turn(tracer, "draft")
        assert not tracer.traced


def test_its_run_is_the_process(tracer: Tracer) -> None:
    """Discovery gives one rank, and the session the author's name for the loop."""
    run = find_by_pid(os.getpid())
    assert [(rank.name, rank.pid) for rank in run.ranks] == [("loop", os.getpid())]
    assert run.server_pid == os.getpid()
    assert os.getpid() in [run.server_pid for run in discover.list_runs()]
    with attached() as session:
        tracer.idle()
        assert session.facts().engine == "a loop"
        assert session.facts().algorithm == "EAGLE3"


@pytest.mark.parametrize(
    ("second", "roots"),
    [
        (Loop("one", "TP1"), {11: 10, 12: 10}),
        (Loop("one", "TP0"), {11: 11, 12: 12}),
        (Loop("two", "TP1"), {11: 11, 12: 12}),
    ],
)
def test_processes_with_ranks_step_together(second: Loop, roots: dict[int, int]) -> None:
    """Loops of one parent and name that differ in rank are one run, others each their own."""
    table = {
        10: _Process(10, 1, ("torchrun",)),
        11: _Process(11, 10, ("python",), Loop("one", "TP0")),
        12: _Process(12, 10, ("python",), second),
    }
    assert discover._roots(table) == roots
