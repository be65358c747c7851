"""Spans of other people become requests: once each, in any order, and within bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spectrace.server import requests
from spectrace.server.requests import MAX_REQUESTS, MAX_SPANS, Requests
from tests.helpers.recorded import other_span as span


def decoded(encoded: list[bytes]) -> list[dict[str, Any]]:
    """Requests as the page reads them."""
    return [json.loads(one) for one in encoded]


def test_spans_of_one_trace_are_one_request() -> None:
    """From the first start to the last end; the topmost names it, though it comes last."""
    kept = Requests()
    kept.add([span(3, parent=2, failed=True), span(2, parent=1)])
    [request] = decoded(kept.add([span(1, request_id="rid-1", end_ns=900)]).changed)
    assert request == {
        "trace": f"{1:032x}",
        "ids": ["rid-1"],
        "service": "sglang",
        "name": "span 1",
        "t0": "101",
        "length": 799,
        "failed": True,
        "spans": [
            ["span 1", 0, 0, 799, False],
            ["span 2", 1, 1, 101, False],
            ["span 3", 2, 2, 102, True],
        ],
        "more": 0,
    }


def test_a_span_that_comes_again_counts_once() -> None:
    """And nobody is told anything, nor given it to store."""
    kept = Requests()
    taken = kept.add([span(1), span(1)])
    assert (taken.fresh, len(taken.changed)) == ([span(1)], 1)
    assert kept.add([span(1)]) == ([], [])
    assert [len(one["spans"]) for one in decoded(kept.newest(9))] == [1]


def test_a_request_below_somebody_elses_span_is_named_by_its_own_first() -> None:
    """Its caller's span is not here; what begins first is the topmost."""
    kept = Requests()
    [request] = decoded(
        kept.add([span(8, parent=7), span(7, parent=99), span(9, parent=8)]).changed
    )
    assert request["name"] == "span 7"
    assert [depth for _, depth, *_ in request["spans"]] == [0, 1, 2]


def test_a_circle_of_parents_ends() -> None:
    """Ids are others' to choose."""
    kept = Requests()
    [request] = decoded(kept.add([span(1, parent=2), span(2, parent=1), span(3, parent=3)]).changed)
    assert [depth for _, depth, *_ in request["spans"]] == [1, 1, 0]


def test_what_does_not_fit_is_counted() -> None:
    """Of a long request the first spans are kept, and the topmost whenever it comes."""
    kept = Requests()
    kept.add([span(number, parent=1) for number in range(2, MAX_SPANS + 12)])
    [request] = decoded(kept.add([span(1)]).changed)
    assert request["name"] == "span 1"
    assert len(request["spans"]) == MAX_SPANS + 1
    assert request["more"] == 10


def test_the_request_that_was_quiet_for_longest_goes() -> None:
    """Beyond the bound; one that still changes stays."""
    kept = Requests()
    kept.add([span(1, trace=trace) for trace in range(1, MAX_REQUESTS + 1)])
    kept.add([span(2, trace=1)])
    kept.add([span(1, trace=MAX_REQUESTS + 1)])
    traces = [int(one["trace"], 16) for one in decoded(kept.newest(MAX_REQUESTS))]
    assert traces == [*range(3, MAX_REQUESTS + 1), 1, MAX_REQUESTS + 1]


def test_spans_are_bounded_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten spans at most: the oldest request gives way to the third one of four."""
    monkeypatch.setattr(requests, "_MAX_SEEN", 10)
    kept = Requests()
    for trace in (1, 2, 3):
        kept.add([span(number, trace=trace) for number in range(1, 5)])
    assert [int(one["trace"], 16) for one in decoded(kept.newest(9))] == [2, 3]


def test_what_is_beyond_all_measure_is_stored_and_no_longer_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a trace with three spans at most the fourth is counted, and given to the store."""
    monkeypatch.setattr(requests, "_MAX_SEEN_OF_ONE", 3)
    kept = Requests()
    kept.add([span(1), span(2), span(3)])
    taken = kept.add([span(4)])
    assert taken.fresh == [span(4)]
    [request] = decoded(taken.changed)
    assert (len(request["spans"]), request["more"]) == (3, 1)


def test_a_request_is_forgotten_by_when_something_came_of_it() -> None:
    """The first of two changes again: of what came before 25 only the second goes."""
    now = iter([10, 20, 30])
    kept = Requests(clock_ns=lambda: next(now))
    kept.add([span(1, trace=1)])
    kept.add([span(1, trace=2)])
    kept.add([span(2, trace=1)])
    kept.forget(25)
    assert [int(one["trace"], 16) for one in decoded(kept.newest(9))] == [1]
    assert kept.changed_ns == 30
