"""Cycles out of spans that come late, twice, in parts or from several machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

from spectrace.model import (
    Cycle,
    Phase,
    PhaseName,
    RequestRow,
    Run,
)
from spectrace.otlp.decode import SpanBatch, read_spans
from spectrace.otlp.encode import Encoder
from spectrace.otlp.join import MEMORY_S, PATIENCE_S, CycleCollector, JoinStats, Received
from tests.helpers.anything import any_cycle, any_rank, any_run

RUN = any_run("TP0", "TP1")
ROW = RequestRow(request_id="a", correct_drafts=2, output_tokens=3)


def make_cycle(*ranks: str, number: int = 7, requests: tuple[RequestRow, ...] | None = ()) -> Cycle:
    """A cycle whose ranks have a draft and a wait of 10 ns each."""
    phases = tuple(
        Phase(name=name, start_ns=start_ns, end_ns=start_ns + 10, of_cycle=number)
        for name, start_ns in ((PhaseName.DRAFT, 100), (PhaseName.WAIT, 110))
    )
    shares = (any_rank(rank, phases=phases) for rank in ranks)
    return any_cycle(number, *shares, requests=requests)


def batch(
    cycle: Cycle, keep: Callable[[ReadableSpan], bool] = lambda _: True, run: Run = RUN
) -> SpanBatch:
    """The spans of a cycle as a receiver reads them, those that `keep` lets through."""
    spans = [span for span in Encoder().spans(run, cycle) if keep(span)]
    return read_spans(encode_spans(spans))


def named(*names: str) -> Callable[[ReadableSpan], bool]:
    """Keeps the spans of these names."""
    return lambda span: span.name in names


def not_named(*names: str) -> Callable[[ReadableSpan], bool]:
    """Keeps all but the spans of these names."""
    return lambda span: span.name not in names


@pytest.fixture
def collector() -> CycleCollector:
    """A collector that has seen nothing."""
    return CycleCollector()


def test_a_whole_cycle_goes_out_at_once(collector: CycleCollector) -> None:
    """Nothing waits for the clock when everything is there."""
    cycle = make_cycle("TP0", "TP1", requests=(ROW,))

    assert collector.add(batch(cycle), 0.0) == [Received(RUN, cycle)]


def test_ranks_of_other_machines_come_with_their_names(collector: CycleCollector) -> None:
    """The run is what it was, and the ranks on its own machine say nothing."""
    ranks = (RUN.ranks[0], replace(RUN.ranks[1], host="other"))
    run = replace(RUN, ranks=ranks)
    cycle = make_cycle("TP0", "TP1")

    assert collector.add(batch(cycle, run=run), 0.0) == [Received(run, cycle)]


def test_spans_that_only_hold_others_are_not_waited_for(collector: CycleCollector) -> None:
    """Lanes and what is drawn around phases carry nothing."""
    cycle = make_cycle("TP0")

    assert collector.add(batch(cycle, not_named("host")), 0.0) == [Received(RUN, cycle)]


@pytest.mark.parametrize("first", ["decode_cycle", "rank TP0", "draft"])
def test_a_cycle_waits_for_its_last_span(collector: CycleCollector, first: str) -> None:
    """Whichever span comes in another request, the cycle goes out with the last of them."""
    cycle = make_cycle("TP0")

    assert collector.add(batch(cycle, named(first)), 0.0) == []
    assert collector.add(batch(cycle, not_named(first)), 1.0) == [Received(RUN, cycle)]


def test_a_span_that_comes_twice_counts_once(collector: CycleCollector) -> None:
    """A sender that repeats a request changes nothing."""
    cycle = make_cycle("TP0")
    collector.add(batch(cycle), 0.0)

    assert collector.add(batch(cycle), 0.1) == []
    assert collector.add(batch(cycle, named("draft")), 0.2) == []
    assert collector.tick(PATIENCE_S) == []
    assert collector.stats == JoinStats(cycles=1)


def test_a_cycle_with_a_hole_goes_out_late_and_says_so(collector: CycleCollector) -> None:
    """After 2 s the rank goes out without its draft, marked incomplete."""
    cycle = make_cycle("TP0")
    collector.add(batch(cycle, not_named("draft")), 5.0)

    assert collector.tick(5.0 + PATIENCE_S - 0.1) == []
    (received,) = collector.tick(5.0 + PATIENCE_S)
    (rank,) = received.cycle.ranks
    assert rank == replace(cycle.ranks[0], phases=cycle.ranks[0].phases[1:], incomplete=True)
    assert collector.tick(5.0 + PATIENCE_S + 1) == []


def test_a_late_span_amends_the_cycle(collector: CycleCollector) -> None:
    """What was given out with a hole is given out again without it."""
    cycle = make_cycle("TP0")
    collector.add(batch(cycle, not_named("draft")), 0.0)
    collector.tick(PATIENCE_S)

    assert collector.add(batch(cycle, named("draft")), 3.0) == [Received(RUN, cycle)]
    assert collector.stats == JoinStats(cycles=1, amended=1, partial=1)


def test_a_rank_of_which_only_phases_came_is_left_out(collector: CycleCollector) -> None:
    """Without the rank's own span its bounds and mode are not known."""
    cycle = make_cycle("TP0", "TP1")
    collector.add(batch(cycle, not_named("rank TP1")), 0.0)

    (received,) = collector.tick(PATIENCE_S)
    assert received.cycle == replace(cycle, ranks=cycle.ranks[:1])


def test_at_the_end_all_that_waits_goes_out(collector: CycleCollector) -> None:
    """What was given out whole does not come again, and nothing is remembered."""
    whole, holed, lost = (make_cycle("TP0", number=number) for number in (1, 2, 3))
    collector.add(batch(whole), 0.0)
    collector.add(batch(holed, not_named("draft")), 0.0)
    collector.add(batch(lost, not_named("decode_cycle")), 0.0)

    (received,) = collector.finish()
    assert (received.cycle.number, received.cycle.ranks[0].incomplete) == (2, True)
    assert collector.stats == JoinStats(cycles=2, partial=1, lost=1)
    assert collector.finish() == []


def test_spans_without_a_root_give_no_cycle(collector: CycleCollector) -> None:
    """They are forgotten and counted, as nobody knows what they are of."""
    collector.add(batch(make_cycle("TP0"), not_named("decode_cycle")), 0.0)

    assert collector.tick(MEMORY_S) == []
    assert collector.stats == JoinStats(lost=1)


def test_a_root_without_any_rank_gives_no_cycle(collector: CycleCollector) -> None:
    """A cycle without a rank has no time."""
    collector.add(batch(make_cycle("TP0"), named("decode_cycle")), 0.0)

    assert collector.tick(MEMORY_S) == []
    assert collector.stats == JoinStats(lost=1)


def test_results_that_come_later_amend_the_cycle(collector: CycleCollector) -> None:
    """The overlap scheduler knows the results one cycle later."""
    early = make_cycle("TP0", requests=None)
    late = make_cycle("TP0", requests=(ROW,))

    assert collector.add(batch(early), 0.0) == [Received(RUN, early)]
    assert collector.add(batch(late), 0.1) == [Received(RUN, late)]
    assert collector.add(batch(early), 0.2) == []


def test_a_root_alone_can_bring_the_results(collector: CycleCollector) -> None:
    """The ranks are remembered, they need not be sent again."""
    late = make_cycle("TP0", requests=(ROW,))
    collector.add(batch(make_cycle("TP0", requests=None)), 0.0)

    assert collector.add(batch(late, named("decode_cycle")), 0.1) == [Received(RUN, late)]


def test_ranks_of_two_machines_meet_in_one_cycle(collector: CycleCollector) -> None:
    """Each machine sends the root and its own ranks; together they are one cycle and one run."""
    first = replace(RUN, ranks=RUN.ranks[:1])
    second = replace(RUN, host="other", ranks=RUN.ranks[1:])

    collector.add(batch(make_cycle("TP1"), run=second), 0.0)
    received = collector.add(batch(make_cycle("TP0"), run=first), 0.1)

    assert received == [Received(RUN, make_cycle("TP0", "TP1"))]


def test_ranks_of_several_machines_are_ordered_by_their_numbers(collector: CycleCollector) -> None:
    """TP2 stands before TP10."""
    collector.add(batch(make_cycle("TP10")), 0.0)
    (received,) = collector.add(batch(make_cycle("TP2")), 0.1)

    assert received.cycle == make_cycle("TP2", "TP10")


def test_a_known_engine_replaces_an_unknown_one(collector: CycleCollector) -> None:
    """The newer facts of the same ranks win."""
    named_run = replace(RUN, engine="sglang 0.5.23")
    collector.add(batch(make_cycle("TP0", requests=None)), 0.0)

    (received,) = collector.add(batch(make_cycle("TP0"), run=named_run), 0.1)
    assert received.run == named_run


def test_the_oldest_trace_goes_when_there_are_too_many_spans() -> None:
    """Three unfinished traces of 1 + (1 + 1 phase) do not fit into 7, two do."""
    collector = CycleCollector(max_spans=7)
    cycles = [make_cycle("TP0", number=number) for number in (1, 2, 3)]
    for cycle in cycles:
        collector.add(batch(cycle, named("draft")), 0.0)
    assert collector.stats == JoinStats(evicted=1, lost=1)

    received = [collector.add(batch(cycle, not_named("draft")), 0.1) for cycle in cycles[1:]]
    assert received == [[Received(RUN, cycles[1])], [Received(RUN, cycles[2])]]


def test_a_trace_is_forgotten_in_time() -> None:
    """After 15 s its place is free again and a late span starts anew."""
    collector = CycleCollector()
    cycle = make_cycle("TP0")
    collector.add(batch(cycle), 0.0)
    collector.tick(MEMORY_S)

    assert collector.stats == JoinStats(cycles=1)
    assert collector.add(batch(cycle), MEMORY_S) == [Received(RUN, cycle)]


def test_cycles_of_one_request_go_out_by_their_start(collector: CycleCollector) -> None:
    """Whatever order the spans stand in."""
    early = make_cycle("TP0", number=2)
    late = replace(
        make_cycle("TP0", number=1),
        ranks=tuple(replace(rank, start_ns=105) for rank in make_cycle("TP0").ranks),
    )
    spans = [span for cycle in (late, early) for span in Encoder().spans(RUN, cycle)]

    received = collector.add(read_spans(encode_spans(spans)), 0.0)
    assert [one.cycle.number for one in received] == [2, 1]
