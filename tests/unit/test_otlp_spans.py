"""The shape of a cycle's trace: ids, parents, names, resources."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from opentelemetry.sdk.trace import ReadableSpan

from spectrace.model import (
    Cycle,
    Lane,
    Phase,
    PhaseName,
    RankCycle,
    RequestRow,
)
from spectrace.otlp import ids, names
from spectrace.otlp.encode import Encoder
from spectrace.otlp.shape import span_count
from tests.helpers.anything import any_cycle, any_rank, any_run

RUN = any_run("TP0", "TP1", engine="sglang 0.5.23")
HOST = (PhaseName.DRAFT, PhaseName.VERIFY_PREPARE, PhaseName.VERIFY_FORWARD, PhaseName.WAIT)


def phase(name: PhaseName, start_ns: int, *, lane: Lane = Lane.HOST, of_cycle: int = 7) -> Phase:
    """A phase of 10 ns."""
    return Phase(name=name, start_ns=start_ns, end_ns=start_ns + 10, of_cycle=of_cycle, lane=lane)


def rank_cycle(rank: str, *more: Phase) -> RankCycle:
    """A rank with four host phases from 100 ns to 140 ns, and more."""
    host = tuple(phase(name, 100 + 10 * i) for i, name in enumerate(HOST))
    return any_rank(rank, end_ns=140, phases=host + more)


def cycle(*ranks: RankCycle, requests: tuple[RequestRow, ...] | None = ()) -> Cycle:
    """Cycle 7 with the given ranks."""
    return any_cycle(7, *ranks, requests=requests)


def tree(spans: list[ReadableSpan]) -> list[tuple[str, str]]:
    """The spans as (name of the parent, name)."""
    by_id = {span.context.span_id: span.name for span in spans if span.context}
    return [(by_id[s.parent.span_id] if s.parent else "", s.name) for s in spans]


def attributes(span: ReadableSpan) -> dict[str, object]:
    """The attributes of a span."""
    return dict(span.attributes or {})


def test_a_cycle_is_one_tree_with_a_verify_around_its_parts() -> None:
    """Root, rank, lane, phases; the parts of verify hang below one span that holds them."""
    spans = Encoder().spans(RUN, cycle(rank_cycle("TP0")))

    assert tree(spans) == [
        ("", "decode_cycle"),
        ("decode_cycle", "rank TP0"),
        ("rank TP0", "host"),
        ("host", "draft"),
        ("host", "verify"),
        ("verify", "verify.prepare"),
        ("verify", "verify.forward"),
        ("host", "wait"),
    ]
    verify = spans[4]
    assert (verify.start_time, verify.end_time) == (110, 130)


def test_a_rank_with_device_phases_has_a_device_lane_in_a_service_of_its_own() -> None:
    """The device lane spans its own phases, gaps included, and is coloured by its service."""
    device = (
        phase(PhaseName.DRAFT, 120, lane=Lane.DEVICE),
        phase(PhaseName.VERIFY_FORWARD, 150, lane=Lane.DEVICE),
    )
    spans = Encoder("sglang").spans(RUN, cycle(rank_cycle("TP0", *device)))

    lanes = {span.name: span for span in spans if span.name in {"host", "device"}}
    assert (lanes["device"].start_time, lanes["device"].end_time) == (120, 160)
    assert lanes["device"].resource.attributes["service.name"] == "sglang-device"
    assert lanes["host"].resource.attributes["service.name"] == "sglang-host"


def test_a_resource_names_the_process_it_speaks_of() -> None:
    """The root's resource is the server's root process, a rank's is the rank's process."""
    root, rank, *_ = Encoder().spans(RUN, cycle(rank_cycle("TP1")))

    assert root.resource.attributes["process.pid"] == 70
    assert rank.resource.attributes["process.pid"] == 72
    assert root.resource.attributes["service.instance.id"] == f"node/{RUN.run_id}"
    assert rank.resource.attributes["service.instance.id"] == f"node/{RUN.run_id}/TP1"


def test_resources_are_made_once_for_a_run() -> None:
    """Spans of different cycles share the same resource objects."""
    encoder = Encoder()
    first, second = (encoder.spans(RUN, cycle(rank_cycle("TP0"))) for _ in range(2))

    assert [id(span.resource) for span in first] == [id(span.resource) for span in second]


def test_a_run_that_is_known_better_gets_new_resources() -> None:
    """When the engine becomes known the root's resource says so."""
    encoder = Encoder()
    encoder.spans(replace(RUN, engine=""), cycle(rank_cycle("TP0")))
    root = encoder.spans(RUN, cycle(rank_cycle("TP0")))[0]

    assert root.resource.attributes[names.ENGINE] == "sglang 0.5.23"


def test_own_resource_attributes_win_over_those_of_the_environment() -> None:
    """What the person adds is there, but cannot disguise the host."""
    encoder = Encoder(attributes={"deployment.environment": "test", "host.name": "other"})
    root = encoder.spans(RUN, cycle(rank_cycle("TP0")))[0]

    assert root.resource.attributes["deployment.environment"] == "test"
    assert root.resource.attributes["host.name"] == "node"


def test_only_a_phase_of_another_cycle_says_so() -> None:
    """With the overlap scheduler `wait` worked on the cycle before."""
    late = phase(PhaseName.RESULT, 140, of_cycle=6)
    spans = Encoder().spans(RUN, cycle(rank_cycle("TP0", late)))

    of_cycle = {span.name: attributes(span).get(names.OF_CYCLE) for span in spans}
    assert of_cycle["result"] == 6
    assert of_cycle["draft"] is None


def test_the_root_sums_up_only_the_rows_that_count() -> None:
    """Overshoot rows and health checks are left out of the accepted tokens: 2 + 3."""
    rows = tuple(
        RequestRow(
            request_id=str(i),
            correct_drafts=drafts,
            output_tokens=1,
            overshoot=i == 2,
            health_check=i == 3,
        )
        for i, drafts in enumerate((2, 3, 5, 7))
    )
    root = Encoder().spans(RUN, cycle(rank_cycle("TP0"), requests=rows))[0]

    assert attributes(root)[names.ACCEPTED_TOKENS] == 5
    assert attributes(root)[names.OVERSHOOT] == [False, False, True, False]


def test_results_that_are_not_known_yet_leave_no_trace_on_the_root() -> None:
    """None and an empty batch are told apart by the attribute's being there."""
    unknown, empty = (
        attributes(Encoder().spans(RUN, cycle(rank_cycle("TP0"), requests=requests))[0])
        for requests in (None, ())
    )

    assert names.REQUEST_IDS not in unknown
    assert empty[names.REQUEST_IDS] == []


def test_an_amended_cycle_has_the_ids_of_the_first() -> None:
    """What is sent again is recognised: more results and device phases change no id."""
    device = phase(PhaseName.DRAFT, 120, lane=Lane.DEVICE)
    before = Encoder().spans(RUN, cycle(rank_cycle("TP0"), requests=None))
    after = Encoder().spans(RUN, cycle(rank_cycle("TP0", device)))

    def by_place(spans: list[ReadableSpan]) -> set[tuple[int, str]]:
        return {(span.context.span_id, span.name) for span in spans if span.context}

    assert by_place(before) < by_place(after)


def test_all_span_ids_of_a_trace_differ() -> None:
    """No two spans of a cycle share an id, on any rank or lane."""
    device = phase(PhaseName.VERIFY_FORWARD, 120, lane=Lane.DEVICE)
    spans = Encoder().spans(RUN, cycle(rank_cycle("TP0", device), rank_cycle("TP1", device)))

    assert len({span.context.span_id for span in spans if span.context}) == len(spans)


def test_bytes_that_are_no_text_do_not_stop_a_span() -> None:
    """A command line may hold undecodable bytes; UTF-8 gets a question mark for each."""
    root = Encoder().spans(replace(RUN, command=("a\udcff",)), cycle(rank_cycle("TP0")))[0]

    assert root.resource.attributes[names.PROCESS_COMMAND_ARGS] == ("a?",)


def test_a_cycle_without_ranks_has_no_spans() -> None:
    """It has no time, so that it cannot be drawn."""
    with pytest.raises(ValueError, match="no rank"):
        Encoder().spans(RUN, cycle())


def test_more_phases_than_there_are_places_are_refused() -> None:
    """One phase more than `MAX_PHASES` would take the id of another span."""
    more = (phase(PhaseName.DRAFT, 140),) * (ids.MAX_PHASES - 3)
    with pytest.raises(ValueError, match="phases in one cycle"):
        Encoder().spans(RUN, cycle(rank_cycle("TP0", *more)))


def test_spans_are_counted_without_being_made() -> None:
    """Batches are cut and losses told by it: both lanes with a verify each make 1 + (5 + 5)."""
    device = phase(PhaseName.VERIFY_FORWARD, 120, lane=Lane.DEVICE)
    both = cycle(rank_cycle("TP0", device))

    assert span_count(both) == len(Encoder().spans(RUN, both)) == 11


def test_ids_depend_on_every_part_and_on_where_it_ends() -> None:
    """Parts that join to the same text give different traces."""
    traces = {
        ids.trace_id("a", "b", 1),
        ids.trace_id("ab", "", 1),
        ids.trace_id("", "ab", 1),
        ids.trace_id("a", "b", 2),
    }

    assert len(traces) == 4
    assert len({ids.root_span_id(trace) for trace in traces}) == 4


def test_the_place_of_a_span_tells_phases_from_the_spans_around_them() -> None:
    """Only a phase has an index, and every id leads back to its rank."""
    rank = ids.rank_span_id(1, "TP0")
    last = ids.MAX_PHASES - 1

    assert ids.phase_index_of(ids.phase_span_id(rank, 0)) == 0
    assert ids.phase_index_of(ids.phase_span_id(rank, last)) == last
    around = [
        rank,
        ids.lane_span_id(rank, Lane.HOST),
        ids.lane_span_id(rank, Lane.DEVICE),
        ids.parent_span_id(rank, 0),
        ids.parent_span_id(rank, last),
    ]
    assert [ids.phase_index_of(span) for span in around] == [None] * 5
    assert len(set(around)) == 5
    assert {ids.rank_span_of(span) for span in around} == {rank}


def test_the_environment_cannot_speak_for_spectrace() -> None:
    """A resource attribute that begins with `spectrace.` is ours alone."""
    spans = Encoder(attributes={"spectrace.rank": "TP7", "team": "a"}).spans(
        RUN, cycle(rank_cycle("TP0"))
    )
    assert spans[0].resource.attributes["team"] == "a"
    assert "spectrace.rank" not in spans[0].resource.attributes
