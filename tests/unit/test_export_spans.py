"""Jaeger's JSON and OTLP's keep the published rules, and every nanosecond or microsecond."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from spectrace_exporters.jaeger import JaegerFile
from spectrace_exporters.otlp_file import OtlpLines

from spectrace.model import Lane
from spectrace.otlp import ids
from spectrace.otlp.body import PROTOBUF
from spectrace.otlp.join import CycleCollector
from spectrace.otlp.receive import receive
from spectrace.store.extract import Extract
from tests.helpers.recorded import DEVICE_PARTS, PARTS, cycle_of, record, run_of

RANKS = 8
CYCLES = [cycle_of(number, RANKS) for number in range(1, 4)]
# A root; of each rank itself, two lanes, a `verify` on each, and all phases.
SPANS = 1 + RANKS * (1 + 2 + 2 + len(PARTS) + len(DEVICE_PARTS))


@pytest.fixture(scope="module")
def extract(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Extract]:
    """Three cycles of eight ranks."""
    file = record(tmp_path_factory.mktemp("spans") / "run.spectrace", CYCLES)
    with closing(Extract(file)) as extract:
        yield extract


@pytest.fixture(scope="module")
def jaeger(extract: Extract, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The traces in Jaeger's JSON."""
    path = tmp_path_factory.mktemp("jaeger") / "out.json"
    JaegerFile().write(extract, path)
    traces: list[dict[str, Any]] = json.loads(path.read_text())["data"]
    return traces


@pytest.fixture(scope="module")
def lines(extract: Extract, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The lines of OTLP's JSON."""
    path = tmp_path_factory.mktemp("otlp") / "out.jsonl"
    OtlpLines().write(extract, path)
    return [json.loads(line) for line in path.read_text().splitlines()]


def spans_of(line: dict[str, Any]) -> list[dict[str, Any]]:
    """The spans in a line."""
    return [
        span
        for resource in line["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def test_a_jaeger_trace_holds_both_lanes_of_all_ranks(jaeger: list[dict[str, Any]]) -> None:
    """Each cycle is one trace, with the id that the live exporter gives it."""
    expected = [f"{ids.trace_id(run_of().run_id, '', number):032x}" for number in (1, 2, 3)]
    assert [trace["traceID"] for trace in jaeger] == expected
    assert [len(trace["spans"]) for trace in jaeger] == [SPANS] * 3
    assert all(len(trace["processes"]) == 1 + 2 * RANKS for trace in jaeger)
    services = {process["serviceName"] for process in jaeger[0]["processes"].values()}
    assert services == {"spectrace-host", "spectrace-device"}


def test_a_jaeger_span_has_its_parent_its_process_and_an_id_of_its_own(
    jaeger: list[dict[str, Any]],
) -> None:
    """Ids are lower-case hexadecimal; a reference leads to a span of the same trace."""
    for trace in jaeger:
        known = {span["spanID"] for span in trace["spans"]}
        assert len(known) == SPANS
        roots = [span for span in trace["spans"] if not span["references"]]
        assert [root["operationName"] for root in roots] == ["decode_cycle"]
        for span in trace["spans"]:
            assert re.fullmatch("[0-9a-f]{16}", span["spanID"])
            assert span["traceID"] == trace["traceID"]
            assert span["processID"] in trace["processes"]
            for reference in span["references"]:
                assert reference["refType"] == "CHILD_OF"
                assert (reference["traceID"], reference["spanID"] in known) == (
                    trace["traceID"],
                    True,
                )


def test_jaeger_times_are_whole_microseconds_that_still_touch(
    jaeger: list[dict[str, Any]],
) -> None:
    """Both ends are cut down, so that the phases of a host lane follow each other."""
    resolve = CYCLES[0].ranks[0].phases[0]
    spans = {
        (span["operationName"], span["startTime"], span["duration"]) for span in jaeger[0]["spans"]
    }
    start_us, end_us = resolve.start_ns // 1000, resolve.end_ns // 1000
    assert ("resolve", start_us, end_us - start_us) in spans
    draft = CYCLES[0].ranks[0].phases[1]
    assert ("draft", end_us, draft.end_ns // 1000 - end_us) in spans
    assert all(duration >= 0 for _, _, duration in spans)


def test_jaeger_tags_carry_their_types(jaeger: list[dict[str, Any]]) -> None:
    """Integers, booleans and texts are told apart; arrays are JSON texts, as Jaeger holds them."""
    root = jaeger[0]["spans"][0]
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in root["tags"]}
    assert tags["spectrace.cycle.number"] == ("int64", 1)
    assert tags["spectrace.cycle.kind"] == ("string", "speculative")
    assert tags["spectrace.requests.correct_drafts"] == ("string", "[2,3]")
    assert ("bool", True) in {
        (tag["type"], tag["value"])
        for span in jaeger[0]["spans"]
        for tag in span["tags"]
        if tag["key"] == "spectrace.graph"
    }


def test_otlp_lines_keep_the_rules_of_otlp_in_json(lines: list[dict[str, Any]]) -> None:
    """Hexadecimal ids, integer enums, 64-bit integers as text, whole traces per line."""
    assert len(lines) == 1  # of 512 spans
    spans = spans_of(lines[0])
    known = {(span["traceId"], span["spanId"]) for span in spans}
    assert len(spans) == len(known) == 3 * SPANS
    for span in spans:
        assert re.fullmatch("[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch("[0-9a-f]{16}", span["spanId"])
        assert span["kind"] == 1  # SPAN_KIND_INTERNAL
        assert isinstance(span["startTimeUnixNano"], str)
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        if span["name"] == "decode_cycle":
            assert "parentSpanId" not in span
        else:
            assert (span["traceId"], span["parentSpanId"]) in known


def test_otlp_lines_hold_the_very_cycles(lines: list[dict[str, Any]]) -> None:
    """Read back by protobuf and our own receiver they are equal, to the nanosecond."""
    collector = CycleCollector()
    found = []
    for given in lines:
        line = json.loads(json.dumps(given))  # others read it too
        for span in spans_of(line):
            for name in ("traceId", "spanId", "parentSpanId"):
                if name in span:  # protobuf's own JSON reads bytes in base64
                    span[name] = base64.b64encode(bytes.fromhex(span[name])).decode()
        body = ParseDict(line, TracesData()).SerializeToString()
        answer = receive(body, PROTOBUF, None)
        assert answer.batch is not None
        found += [received.cycle for received in collector.add(answer.batch, 0.0)]
    assert found == CYCLES
    assert sum(len(rank.phases) for rank in found[0].ranks if rank.phases[-1].lane is Lane.DEVICE)
