"""How fast spans go from a sender into the store, on one core, for benchmarks."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

import grpc
import httpx
from opentelemetry.exporter.otlp.json.common._internal.trace_encoder import (
    encode_spans as encode_json,
)
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan

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
from spectrace.otlp.body import JSON, PROTOBUF
from spectrace.otlp.encode import Encoder
from spectrace.server.grpc_receiver import METHOD
from spectrace.server.hub import Hub
from spectrace.server.run import OtlpPorts, PageServer
from spectrace.store.store import CycleStore

RANKS = 8
BATCH_SPANS = 512
"""What an exporter sends at a time if nobody says otherwise."""
T0_NS = 1_700_000_000_000_000_000
CYCLE_NS = 11_000_000
_TIMEOUT_S = 120.0
_POLL_S = 0.005

_HOST = (
    PhaseName.DRAFT,
    PhaseName.VERIFY_PREPARE,
    PhaseName.VERIFY_FORWARD,
    PhaseName.VERIFY_SAMPLE,
    PhaseName.VERIFY_COMMIT,
    PhaseName.DRAFT_EXTEND,
    PhaseName.SCHEDULE,
)
_DEVICE = (
    PhaseName.DRAFT,
    PhaseName.VERIFY_FORWARD,
    PhaseName.VERIFY_SAMPLE,
    PhaseName.DRAFT_EXTEND,
)


@dataclass(frozen=True)
class Arrived:
    """What one measurement found.

    Attributes:
        spans_per_s: Spans per second, from the first request to the last cycle in the store.
        cpu_us_per_span: Time of the receiving process on its core, in µs.
        spans: How many were sent.
    """

    spans_per_s: float
    cpu_us_per_span: float
    spans: int


class _Endpoints(NamedTuple):
    http: str
    grpc: str


_Sender: TypeAlias = Callable[[_Endpoints, Sequence[bytes]], None]


def run_of(run_id: str = "0" * 32, ranks: int = RANKS) -> Run:
    """A server with so many ranks."""
    return Run(
        run_id=run_id,
        host="gpu-07",
        server_pid=10,
        command=("python", "-m", "sglang.launch_server"),
        ranks=tuple(Rank(name=f"TP{place}", pid=100 + place) for place in range(ranks)),
        anchor_unix_ns=T0_NS,
        anchor_monotonic_ns=1,
        engine="sglang 0.5.23",
    )


def cycle_of(run: Run, number: int) -> Cycle:
    """A speculative cycle of four requests on all ranks of a run, both lanes timed."""
    return Cycle(
        run_id=run.run_id,
        group="",
        number=number,
        kind=CycleKind.SPECULATIVE,
        batch_size=4,
        steps=5,
        topk=1,
        draft_tokens=6,
        ranks=tuple(_rank(rank.name, place, number) for place, rank in enumerate(run.ranks)),
        requests=tuple(
            RequestRow(request_id=f"request-{place}", correct_drafts=place, output_tokens=1 + place)
            for place in range(4)
        ),
        padded_batch=4,
        context_tokens_sum=4000 + number,
        context_tokens_max=1500,
        queued=0,
        running=4,
    )


def _rank(name: str, place: int, number: int) -> RankCycle:
    start_ns = T0_NS + number * CYCLE_NS + place * 1003
    host = _phases(_HOST, Lane.HOST, start_ns, CYCLE_NS // len(_HOST), number)
    device = _phases(_DEVICE, Lane.DEVICE, start_ns + 500_001, 2_000_003, number)
    return RankCycle(
        rank=name,
        start_ns=start_ns,
        end_ns=host[-1].end_ns,
        phases=host + device,
        mode=TimingMode.DEVICE,
        probe_ns=41_000 + place,
        clock_error_ns=9_000,
    )


def _phases(
    names: Sequence[PhaseName], lane: Lane, start_ns: int, each_ns: int, number: int
) -> tuple[Phase, ...]:
    return tuple(
        Phase(
            name=name,
            start_ns=start_ns + place * each_ns,
            end_ns=start_ns + (place + 1) * each_ns,
            of_cycle=number,
            lane=lane,
            graph=True if name is PhaseName.VERIFY_FORWARD else None,
        )
        for place, name in enumerate(names)
    )


def bodies_of(
    cycles: int, encode: Callable[[Sequence[ReadableSpan]], bytes], ranks: int = RANKS
) -> tuple[list[bytes], int]:
    """The requests that an exporter would send of so many cycles, and how many spans they hold."""
    run, encoder = run_of(ranks=ranks), Encoder()
    spans = [span for n in range(cycles) for span in encoder.spans(run, cycle_of(run, n))]
    cut = [spans[place : place + BATCH_SPANS] for place in range(0, len(spans), BATCH_SPANS)]
    return [encode(part) for part in cut], len(spans)


def measure(protocol: str = "http", cycles: int = 1500, ranks: int = RANKS) -> Arrived:
    """Sends cycles to a collector that has one core to itself, as fast as it answers.

    Args:
        protocol: `http` (protobuf), `json` or `grpc`.
        cycles: How many to send; their spans are made before the clock starts.
        ranks: Ranks of each cycle, with both lanes.
    """
    bodies, spans = bodies_of(cycles, _ENCODERS[protocol], ranks)
    cores = sorted(os.sched_getaffinity(0))
    context = multiprocessing.get_context("spawn")
    mine, its = context.Pipe()
    collector = context.Process(target=_collect, args=(its, cores[0], cycles), daemon=True)
    collector.start()
    try:
        endpoints = _Endpoints(*_told(mine))
        os.sched_setaffinity(0, set(cores[1:]) or set(cores))
        began_s = time.monotonic()
        _SENDERS[protocol](endpoints, bodies)
        ended_s, cpu_s = _told(mine)
        return Arrived(spans / (ended_s - began_s), cpu_s / spans * 1e6, spans)
    finally:
        os.sched_setaffinity(0, cores)
        mine.close()
        collector.join(_TIMEOUT_S)


def _told(connection: Connection) -> Any:
    if not connection.poll(_TIMEOUT_S):
        raise TimeoutError("the collector says nothing")
    return connection.recv()


def _collect(connection: Connection, core: int, cycles: int) -> None:
    """A collector in a process of its own, until it has stored so many cycles."""
    os.sched_setaffinity(0, {core})
    with tempfile.TemporaryDirectory() as directory:
        store = CycleStore(Path(directory), retain_s=1e12, max_bytes=1 << 40)
        hub = Hub(store, sink=store)
        with PageServer(hub, port=0, otlp=OtlpPorts(0, 0)):
            before_s = time.process_time()
            connection.send((hub.otlp_endpoint, hub.grpc_endpoint))
            while store.stats().cycles < cycles:
                time.sleep(_POLL_S * 10)
            connection.send((time.monotonic(), time.process_time() - before_s))
        store.close()


def _post(kind: str) -> _Sender:
    def send(endpoints: _Endpoints, bodies: Sequence[bytes]) -> None:
        with httpx.Client(timeout=_TIMEOUT_S) as client:
            for body in bodies:
                _until_taken(partial(_posted, client, endpoints.http, kind, body))

    return send


def _posted(client: httpx.Client, url: str, kind: str, body: bytes) -> bool:
    answer = client.post(url, content=body, headers={"content-type": kind})
    if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
        return False
    answer.raise_for_status()
    return True


def _call(endpoints: _Endpoints, bodies: Sequence[bytes]) -> None:
    with grpc.insecure_channel(httpx.URL(endpoints.grpc).netloc.decode()) as channel:
        export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        for body in bodies:
            _until_taken(partial(_called, export, body))


def _called(export: grpc.UnaryUnaryMultiCallable[bytes, bytes], body: bytes) -> bool:
    try:
        export(body, timeout=_TIMEOUT_S)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.UNAVAILABLE:
            return False
        raise
    return True


def _until_taken(send: Callable[[], bool]) -> None:
    """Sends again, as an exporter does, while the collector says that it cannot keep up."""
    while not send():
        time.sleep(_POLL_S)


def encode_protobuf(spans: Sequence[ReadableSpan]) -> bytes:
    """A request as the official exporters write it."""
    return encode_spans(spans).SerializeToString()


def encode_json_spans(spans: Sequence[ReadableSpan]) -> bytes:
    """The same as JSON."""
    return encode_json(spans).to_json().encode()


_ENCODERS = {"http": encode_protobuf, "grpc": encode_protobuf, "json": encode_json_spans}
_SENDERS = {"http": _post(PROTOBUF), "json": _post(JSON), "grpc": _call}


def main() -> None:
    """Measures all protocols; the last line is one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=1500)
    cycles = parser.parse_args().cycles
    found: dict[str, float] = {}
    for name in _ENCODERS:
        arrived = measure(name, cycles)
        found[f"in_{name}_spans_per_s"] = round(arrived.spans_per_s)
        found[f"in_{name}_cpu_us_per_span"] = round(arrived.cpu_us_per_span, 2)
    print(json.dumps({"in_spans_per_s": found["in_http_spans_per_s"], **found}))


if __name__ == "__main__":
    main()
