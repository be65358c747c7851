"""A real collector between our exporter and our receiver: the same Cycles, to the nanosecond."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from spectrace_exporters.otlp import OtlpExporter

from spectrace.otlp.body import PROTOBUF as PROTOBUF_TYPE
from spectrace.otlp.join import CycleCollector, Received
from spectrace.otlp.receive import receive
from tests.helpers.otlp_endpoint import GRPC, JSON, PROTOBUF, Endpoint, serving
from tests.helpers.ports import free_port
from tests.helpers.recorded import cycle_of, run_of

pytestmark = pytest.mark.beside_others

CYCLES = [cycle_of(number, 8) for number in range(1, 21)]
TIMEOUT_S = 60.0


class Rotel:
    """The collector, which takes OTLP by gRPC and HTTP and hands it on.

    Args:
        target: Where to.
        protocol: How, `grpc` or `http`.
        folder: Where its files go.
    """

    def __init__(self, target: str, protocol: str, folder: Path) -> None:
        self._ports = [free_port(), free_port()]
        grpc_port, http_port = self._ports
        listen = ["--otlp-grpc-endpoint", f"127.0.0.1:{grpc_port}"]
        listen += ["--otlp-http-endpoint", f"127.0.0.1:{http_port}"]
        send = ["--exporter", "otlp", "--otlp-exporter-endpoint", target]
        send += ["--otlp-exporter-protocol", protocol, "--otlp-exporter-compression", "gzip"]
        files = ["--pid-file", str(folder / "rotel.pid"), "--batch-timeout", "100ms"]
        self._log = (folder / "rotel.log").open("wb")
        self._process = subprocess.Popen(
            [agent(), "start", *listen, *send, *files], stdout=self._log, stderr=self._log
        )

    def url(self, protocol: str) -> str:
        """Where it takes a protocol."""
        return f"http://127.0.0.1:{self._ports[0 if protocol == GRPC else 1]}"

    def __enter__(self) -> Rotel:  # noqa: PYI034 - Self came with Python 3.11
        """Waits until it listens."""
        deadline_s = time.monotonic() + TIMEOUT_S
        for port in self._ports:
            while not listens(port):
                assert self._process.poll() is None, "the collector ended"
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        self._log.close()


def agent() -> str:
    """The collector's program, which lies in its package."""
    found = find_spec("rotel")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).with_name("rotel-agent"))


def listens(port: int) -> bool:
    """Whether somebody does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def collectors(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, tuple[Rotel, Endpoint]]]:
    """One that hands on by HTTP and one by gRPC, each with the endpoint behind it."""
    with ExitStack() as stack:
        found = {}
        for protocol, behind in (("http", PROTOBUF), ("grpc", GRPC)):
            endpoint = stack.enter_context(serving(behind))
            folder = tmp_path_factory.mktemp(f"rotel-{protocol}")
            rotel = stack.enter_context(Rotel(endpoint.url, protocol, folder))
            found[protocol] = (rotel, endpoint)
        yield found


def joined(requests: list[ExportTraceServiceRequest]) -> list[Received]:
    """What our receiver makes of requests."""
    collector = CycleCollector()
    received = []
    for request in requests:
        answer = receive(request.SerializeToString(), PROTOBUF_TYPE, None)
        assert answer.batch is not None
        assert not answer.batch.refused
        assert not answer.batch.others
        received += collector.add(answer.batch, 0.0)
    return received


@pytest.mark.parametrize("behind", ["http", "grpc"])
@pytest.mark.parametrize("protocol", [GRPC, PROTOBUF, JSON])
def test_cycles_pass_a_real_collector_unchanged(
    collectors: dict[str, tuple[Rotel, Endpoint]], protocol: str, behind: str
) -> None:
    """In by each protocol and out by both, compressed: every field of every cycle is the same."""
    rotel, endpoint = collectors[behind]
    endpoint.requests.clear()
    exporter = OtlpExporter(rotel.url(protocol), run_of(), protocol=protocol, interval_s=0.0)
    exporter.add(CYCLES)
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(received := joined(list(endpoint.requests))) < len(CYCLES):
        assert time.monotonic() < deadline_s, exporter.stats
        time.sleep(0.1)

    assert exporter.close(TIMEOUT_S).lost_spans == 0
    assert sorted((one.cycle for one in received), key=lambda cycle: cycle.number) == CYCLES
    assert {one.run for one in received} == {run_of()}
