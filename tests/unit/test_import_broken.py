"""Broken traces are mended or left out, and counted; what is no trace gets one sentence."""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectrace.errors import SpectraceError
from spectrace.importing.faults import Faults
from spectrace.importing.imported import Imported, import_files
from spectrace.importing.pieces import EventText
from spectrace.model import Lane
from tests.helpers.kineto_trace import TURN_US, TraceOf, newest, turns, with_stacks

TURNS = 4


def whole() -> TraceOf:
    """A trace in which nothing is wrong."""
    return turns(newest, TURNS)


def read(data: bytes, folder: Path, name: str = "1-TP-0.trace.json") -> Imported:
    """What comes of a file of these bytes."""
    path = folder / name
    path.write_bytes(data)
    return import_files([path], lambda _: None)


def fault(found: Imported) -> dict[str, int]:
    """What was counted."""
    return found.faults.counts()


def _with(event: dict[str, Any]) -> TraceOf:
    trace = whole()
    trace.events.insert(3, event)
    return trace


SLICE = {"ph": "X", "cat": "user_annotation", "name": "draft", "pid": 4242, "tid": 4242}


@pytest.mark.parametrize(
    ("event", "counted"),
    [
        ({**SLICE, "ts": 5.0, "dur": -3.0}, {"negative": 1}),
        ({**SLICE, "ts": float("nan"), "dur": 3.0}, {"not_a_number": 1}),
        ({**SLICE, "ts": 5.0, "dur": float("inf")}, {"not_a_number": 1}),
        ({**SLICE, "ts": 1e300, "dur": 3.0}, {"not_a_number": 1}),
        ({**SLICE, "ts": -4e15, "dur": 3.0}, {"not_a_number": 1}),
        ({**SLICE, "cat": "kernel", "ts": 5.0, "dur": 1e30}, {"not_a_number": 1}),
        ({**SLICE, "cat": "cuda_runtime", "ts": 1e18, "dur": 3.0}, {"not_a_number": 1}),
        ({**SLICE, "ts": 5.0, "dur": 3.0, "pid": 1 << 70}, {"unreadable": 1}),
        ({**SLICE, "ts": 5.0}, {"unreadable": 1}),
        ({**SLICE, "ts": [5.0], "dur": 3.0}, {"unreadable": 1}),
        ({"no": "event"}, {"unreadable": 1}),
        ({**SLICE, "ph": "B", "ts": 5.0}, {"unclosed": 1}),
        ({**SLICE, "ph": "E", "ts": 5.0}, {"unopened": 1}),
    ],
)
def test_a_broken_slice_is_left_out_and_counted(
    event: dict[str, Any], counted: dict[str, int], tmp_path: Path
) -> None:
    """All cycles are there as without it."""
    found = read(_with(event).text().encode(), tmp_path)
    assert fault(found) == counted
    assert found.cycles == read(whole().text().encode(), tmp_path).cycles


def test_a_range_that_crosses_the_one_around_it_is_cut_at_its_end(tmp_path: Path) -> None:
    """`draft_extend` that outlasts `run_batch` by 2 ms ends with it."""
    trace = TraceOf()
    for turn_us in (0.0, TURN_US):
        trace.annotation("scheduler.run_batch", (turn_us, 10_000.0))
        trace.annotation("draft", (turn_us, 1_000.0))
        trace.annotation("draft_extend", (turn_us + 8_000.0, 4_000.0))
    found = read(trace.text().encode(), tmp_path)
    [extend] = [
        phase for phase in found.cycles[0].ranks[0].phases if phase.name.value == "draft_extend"
    ]
    assert extend.duration_ns == 2_000_000
    assert fault(found) == {"crossing": 2}


def test_begins_and_ends_are_slices_too(tmp_path: Path) -> None:
    """A trace of B and E gives the cycles that one of X gives."""
    trace = TraceOf()
    for event in whole().events:
        begin = {key: value for key, value in event.items() if key != "dur"}
        trace.events.append({**begin, "ph": "B", "order": (event["ts"], 1)})
        end = event["ts"] + event["dur"]
        trace.events.append({**begin, "ph": "E", "ts": end, "order": (end, 0)})
    trace.events.sort(key=lambda event: event["order"])
    assert read(trace.text().encode(), tmp_path).cycles == (
        read(whole().text().encode(), tmp_path).cycles
    )


def test_numbers_that_are_none_in_the_arguments_do_no_harm(tmp_path: Path) -> None:
    """Kineto writes bandwidths that are infinite; the slice itself is sound."""
    trace = whole()
    trace.events[0]["args"] = {"bw": float("inf"), "External id": 3}
    trace.events[1]["args"] = {"correlation": 1 << 70, "External id": -(1 << 64)}
    found = read(trace.text().encode(), tmp_path)
    assert (len(found.cycles), fault(found)) == (TURNS, {})


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_of_a_file_that_is_cut_off_what_is_there_is_taken(
    pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """Half of the bytes give some of the cycles, and one sentence."""
    data = pack(turns(newest, 400).text().encode())
    found = read(data[: len(data) // 2], tmp_path)
    assert 0 < len(found.cycles) < 400
    assert fault(found)["cut_off"] == 1


def test_of_damaged_compressed_data_what_lies_before_is_taken(tmp_path: Path) -> None:
    """The damage is named, and that something is missing."""
    data = bytearray(gzip.compress(turns(newest, 3000).text().encode(), mtime=0))
    middle = len(data) // 2
    data[middle : middle + 64] = bytes(range(64))
    found = read(bytes(data), tmp_path, "1-TP-0.trace.json.gz")
    assert 0 < len(found.cycles) < 3000
    assert fault(found)["corrupt"] == 1


def test_an_event_that_lost_a_bracket_costs_no_other(tmp_path: Path) -> None:
    """Reading goes on at the next event."""
    lines = whole().text()
    broken = lines.replace('"name": "step[DRAFT bs=4]",', '"name": {"step[DRAFT bs=4]",', 1)
    found = read(broken.encode(), tmp_path)
    assert len(found.cycles) == TURNS
    assert fault(found) == {"unreadable": 1}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "no traceEvents"),
        (b"import os\n", "no traceEvents"),
        (b'{"data": [{"traceID": "1"}]}', "no traceEvents"),
        (b"\x1f\x8b\x08\x00broken", "no traceEvents"),
        (b'{"traceEvents": []}', "shows no cycle"),
        (b"[]", "shows no cycle"),
        (b"SQLite format 3\0 and then nothing", "cannot be read as an export of Nsight"),
    ],
)
def test_what_is_no_trace_is_refused(data: bytes, sentence: str, tmp_path: Path) -> None:
    """One sentence says so."""
    with pytest.raises(SpectraceError, match=sentence):
        read(data, tmp_path)


def assert_sound(found: Imported) -> None:
    """The host's phases touch from begin to end of each cycle; those of the device do not meet."""
    for cycle in found.cycles:
        for rank in cycle.ranks:
            host = [phase for phase in rank.phases if phase.lane is Lane.HOST]
            device = [phase for phase in rank.phases if phase.lane is Lane.DEVICE]
            edges = [rank.start_ns, *(phase.end_ns for phase in host)]
            assert [phase.start_ns for phase in host] == edges[:-1]
            assert edges[-1] == rank.end_ns
            assert all(a.end_ns <= b.start_ns for a, b in itertools.pairwise(device))


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    place=st.floats(0, 1),
    length=st.integers(0, 400),
    put=st.binary(max_size=12) | st.sampled_from([b"NaN", b"}", b"]", b'"', b"-1e999", b"{"]),
)
def test_whatever_stands_in_a_trace_it_gives_sound_cycles_or_one_sentence(
    place: float, length: int, put: bytes, tmp_path: Path
) -> None:
    """Bytes anywhere are replaced by others; nothing but `SpectraceError` comes out."""
    data = turns(with_stacks, 3).text().encode()
    at = int(place * len(data))
    try:
        assert_sound(read(data[:at] + put + data[at + length :], tmp_path))
    except SpectraceError:
        return


NAMES = [
    "scheduler.run_batch",
    "scheduler.process_batch_result",
    "scheduler.idle",
    "draft",
    "draft_extend",
    "verify",
    "copy_result_to_cpu",
    "step[VERIFY bs=2]",
    "step[DRAFT bs=2]",
    "step[DECODE bs=2]",
    "step[EXTEND bs=2 toks=9]",
]


@settings(
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    slices=st.lists(
        st.tuples(st.sampled_from(NAMES), st.integers(0, 60), st.integers(0, 30)),
        max_size=25,
    ),
    kernels=st.lists(st.tuples(*[st.integers(0, 60)] * 4), max_size=12),
)
def test_ranges_and_kernels_in_any_disorder_give_sound_cycles(
    slices: list[tuple[str, int, int]], kernels: list[tuple[int, ...]], tmp_path: Path
) -> None:
    """They may cross, repeat and be empty, and kernels may run before they are launched."""
    trace = TraceOf()
    for call, start, length, stream in kernels:
        kernel = ("gemm", float(start * 100), float(length * 10))
        trace.launched(float(call * 100), kernel, stream=stream % 2)
    for name, start, length in slices:
        trace.annotation(name, (float(start * 100), float(length * 100)))
    try:
        assert_sound(read(trace.text().encode(), tmp_path))
    except SpectraceError as error:
        assert "shows no cycle" in str(error)  # noqa: PT017 - it may come, and then says this


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=60),
    nested=st.booleans(),
)
def test_events_are_the_same_however_the_text_comes(sizes: list[int], nested: bool) -> None:
    """Pieces of any length give the events that the whole gives."""
    events = [
        {"ph": "X", "name": f"}}, {{{place}\\", "args": {"list": [{"a": 1}, {"b": 2}]}}
        if nested
        else {"ph": "i", "name": str(place)}
        for place in range(20)
    ]
    data = json.dumps({"traceEvents": events, "after": [{"ph": "no"}, {}]}).encode()
    ends = [0, *itertools.accumulate(sizes), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(ends)]
    found = [
        event.name
        for batch in EventText(iter(pieces), "trace", Faults()).batches()
        for event in batch
    ]
    assert found == [event["name"] for event in events]
