"""A Cycle that goes out by the official exporter and comes in by the receiver is the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from spectrace_exporters import ExportStats
from spectrace_exporters.otlp import OtlpExporter

from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    PhaseName,
    Rank,
    RankCycle,
    RequestRow,
    Run,
    TimingMode,
)
from spectrace.otlp.attributes import MAX_DRAFTS, MAX_VALUES
from spectrace.otlp.body import PROTOBUF
from spectrace.otlp.encode import Encoder
from spectrace.otlp.join import CycleCollector, Received
from spectrace.otlp.receive import receive

pytestmark = pytest.mark.beside_others

# What the receiver takes: more than a server has, and less than what would flood a reader.
small = st.integers(0, MAX_VALUES)
drafts = st.integers(0, MAX_DRAFTS)
nanoseconds = st.integers(0, 10**12)
names = st.text(min_size=1, max_size=8)
rows = st.builds(
    RequestRow,
    request_id=st.text(max_size=40),
    correct_drafts=st.none() | drafts,
    output_tokens=small,
    overshoot=st.booleans(),
    health_check=st.booleans(),
)


@st.composite
def lane_phases(draw: st.DrawFn, lane: Lane, start_ns: int, number: int) -> list[Phase]:
    """Phases of one lane: those of the host touch, those of the device have gaps."""
    phases = []
    for name in draw(st.lists(st.sampled_from(PhaseName), max_size=10)):
        start_ns += draw(nanoseconds) if lane is Lane.DEVICE else 0
        end_ns = start_ns + draw(nanoseconds)
        of_cycle = max(0, number - draw(st.integers(0, 2)))
        phases.append(
            Phase(
                name=name,
                start_ns=start_ns,
                end_ns=end_ns,
                of_cycle=of_cycle,
                lane=lane,
                graph=draw(st.none() | st.booleans()),
            )
        )
        start_ns = end_ns
    return phases


@st.composite
def rank_cycles(draw: st.DrawFn, rank: str, number: int) -> RankCycle:
    """One rank; its device phases are missing or stand anywhere among those of the host."""
    start_ns = draw(st.integers(1, 1 << 62))
    host = draw(lane_phases(Lane.HOST, start_ns, number))
    device = draw(st.just([]) | lane_phases(Lane.DEVICE, start_ns, number))
    phases = draw(st.just(host + device) | st.permutations(host + device))
    return RankCycle(
        rank=rank,
        start_ns=start_ns,
        end_ns=max((phase.end_ns for phase in host), default=start_ns),
        phases=tuple(phases),
        mode=draw(st.sampled_from(TimingMode)),
        probe_ns=draw(nanoseconds),
        ended_idle=draw(st.booleans()),
        incomplete=draw(st.booleans()),
        asked_mode=draw(st.none() | st.sampled_from(TimingMode)),
        late_switch=draw(st.booleans()),
        clock_error_ns=draw(st.none() | nanoseconds),
        device_incomplete=draw(st.booleans()),
    )


@st.composite
def cycles(draw: st.DrawFn, run_id: str) -> Cycle:
    """Any cycle of a run: of every kind, with one or more ranks, results known or not."""
    number = draw(st.integers(0, (1 << 63) - 1))
    ranks = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    return Cycle(
        run_id=run_id,
        group=draw(st.text(max_size=8)),
        number=number,
        kind=draw(st.sampled_from(CycleKind)),
        batch_size=draw(small),
        steps=draw(drafts),
        topk=draw(drafts),
        draft_tokens=draw(drafts),
        ranks=tuple(draw(rank_cycles(rank, number)) for rank in ranks),
        requests=draw(st.none() | st.lists(rows, max_size=5).map(tuple)),
        padded_batch=draw(st.none() | small),
        context_tokens_sum=draw(st.none() | nanoseconds),
        context_tokens_max=draw(st.none() | nanoseconds),
        queued=draw(st.none() | small),
        running=draw(st.none() | small),
    )


runs = st.builds(
    Run,
    run_id=st.text("0123456789abcdef", min_size=32, max_size=32),
    host=names,
    server_pid=small,
    command=st.lists(st.text(max_size=20), max_size=4).map(tuple),
    ranks=st.lists(st.builds(Rank, name=names, pid=small), max_size=3).map(tuple),
    anchor_unix_ns=st.integers(0, (1 << 63) - 1),
    anchor_monotonic_ns=st.integers(0, (1 << 63) - 1),
    engine=st.text(max_size=20),
)


def identity(cycle: Cycle) -> tuple[str, int]:
    """What tells the cycles of one run apart."""
    return cycle.group, cycle.number


@st.composite
def traffic(draw: st.DrawFn) -> tuple[Run, list[Cycle]]:
    """A run and some of its cycles."""
    run = draw(runs)
    return run, draw(st.lists(cycles(run.run_id), min_size=1, max_size=3, unique_by=identity))


class Receiver(ThreadingHTTPServer):
    """A real server on loopback that hands each POST to `receive`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.collector = CycleCollector()
        self.received: list[Received] = []

    @property
    def url(self) -> str:
        """The base endpoint."""
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    """Answers as a spectrace server does."""

    server: Receiver

    def do_POST(self) -> None:
        """Receives spans; http.server calls it by this name."""
        body = self.rfile.read(int(self.headers["content-length"]))
        answer = receive(body, self.headers["content-type"], self.headers["content-encoding"])
        if answer.batch is not None:
            self.server.received += self.server.collector.add(answer.batch, time.monotonic())
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    """A running receiver."""
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def send(receiver: Receiver, run: Run, sent: Sequence[Cycle]) -> tuple[ExportStats, list[Received]]:
    """Sends cycles through the exporter, and gives back what the receiver made of them."""
    receiver.collector = CycleCollector()
    receiver.received = []
    exporter = OtlpExporter(receiver.url, run, interval_s=0.0)
    exporter.add(sent)
    return exporter.close(timeout_s=10.0), receiver.received


def example(number: int, ranks: int) -> tuple[Run, Cycle]:
    """A run with many ranks and one of its cycles, each rank with eight phases of 1 ns."""
    run = Run(
        run_id="0123456789abcdef" * 2,
        host="node",
        server_pid=10,
        command=("python", "-m", "sglang.launch_server"),
        ranks=tuple(Rank(name=f"TP{i}", pid=100 + i) for i in range(ranks)),
        anchor_unix_ns=2,
        anchor_monotonic_ns=1,
    )
    phases = tuple(
        Phase(name=PhaseName.DRAFT, start_ns=100 + i, end_ns=101 + i, of_cycle=number)
        for i in range(8)
    )
    rank_cycle = RankCycle(
        rank="", start_ns=100, end_ns=108, phases=phases, mode=TimingMode.HOST, probe_ns=1
    )
    return run, Cycle(
        run_id=run.run_id,
        group="",
        number=number,
        kind=CycleKind.SPECULATIVE,
        batch_size=1,
        steps=1,
        topk=1,
        draft_tokens=2,
        ranks=tuple(replace(rank_cycle, rank=rank.name) for rank in run.ranks),
        requests=(),
    )


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(traffic=traffic())
def test_a_cycle_comes_back_the_same(receiver: Receiver, traffic: tuple[Run, list[Cycle]]) -> None:
    """Through the official exporter, HTTP and the receiver, to the last ns and id."""
    run, sent = traffic
    stats, received = send(receiver, run, sent)

    assert sorted((r.cycle for r in received), key=identity) == sorted(sent, key=identity)
    assert {received.run for received in received} == {run}
    assert (stats.sent_cycles, stats.lost_cycles, stats.rejected_spans) == (len(sent), 0, 0)


def test_a_cycle_of_more_spans_than_a_request_comes_back_the_same(receiver: Receiver) -> None:
    """64 ranks of 10 spans do not fit into 512: two requests, one cycle."""
    run, cycle = example(7, ranks=64)
    stats, received = send(receiver, run, [cycle])

    assert received == [Received(run, cycle)]
    assert (stats.sent_cycles, stats.sent_spans) == (1, 1 + 64 * 10)


def test_a_compressed_cycle_comes_back_the_same(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With gzip, as a person may ask for in the environment."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    run, cycle = example(7, ranks=2)

    assert send(receiver, run, [cycle])[1] == [Received(run, cycle)]


def test_a_cycle_whose_results_come_late_is_sent_once(receiver: Receiver) -> None:
    """The exporter holds it back until they are known."""
    run, cycle = example(7, ranks=1)
    stats, received = send(receiver, run, [replace(cycle, requests=None), cycle])

    assert received == [Received(run, cycle)]
    assert stats.sent_cycles == 1


def chunks(data: st.DataObject, spans: Sequence[ReadableSpan]) -> Iterator[Sequence[ReadableSpan]]:
    """The spans in any order, some of them twice, cut into any number of requests."""
    twice = data.draw(st.lists(st.sampled_from(spans), max_size=10))
    mixed = data.draw(st.permutations([*spans, *twice]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(mixed)), max_size=4)))
    for start, end in zip([0, *cuts], [*cuts, len(mixed)], strict=True):
        yield mixed[start:end]


def deliver(
    collector: CycleCollector, requests: Iterator[Sequence[ReadableSpan]]
) -> Iterator[Received]:
    """Delivers requests one after the other."""
    for spans in requests:
        answer = receive(encode_spans(spans).SerializeToString(), PROTOBUF, None)
        assert answer.batch is not None
        assert answer.batch.refused.total() == 0
        yield from collector.add(answer.batch, 0.0)


@settings(max_examples=100)
@given(traffic=traffic(), data=st.data())
def test_order_and_repetition_of_spans_mean_nothing(
    traffic: tuple[Run, list[Cycle]], data: st.DataObject
) -> None:
    """Each cycle goes out exactly once and is the same, however its spans arrive."""
    run, sent = traffic
    spans = [span for cycle in sent for span in Encoder().spans(run, cycle)]
    received = list(deliver(CycleCollector(), chunks(data, spans)))

    assert sorted((r.cycle for r in received), key=identity) == sorted(sent, key=identity)
    assert {received.run for received in received} == {run}
