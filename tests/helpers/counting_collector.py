"""An OTLP endpoint that only counts spans, as cheaply as it can, so that senders can be measured.

python -m tests.helpers.counting_collector PROTOCOL

says its address in a line, and after the end of its input how many spans came.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.helpers.otlp_endpoint import GRPC, spans_in

_ROOT = Path(__file__).parents[2]
_IN_EACH_SPAN = b'"startTimeUnixNano":'  # and nowhere else
_TIMEOUT_S = 30.0


class Collector:
    """Such an endpoint in a process of its own.

    Attributes:
        url: Its address.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = process
        self.url = process.stdout.readline().strip()

    def counted(self) -> int:
        """Ends it; returns how many spans came."""
        counted, _ = self._process.communicate(timeout=_TIMEOUT_S)
        return int(counted)


@contextmanager
def counting(protocol: str) -> Iterator[Collector]:
    """Runs one until the block ends."""
    command = [sys.executable, "-m", "tests.helpers.counting_collector", protocol]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Collector(process)
        finally:
            process.kill()


class _Handler(BaseHTTPRequestHandler):
    """Counts JSON by a text that each span has, protobuf by its messages, which C code reads."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # the whole answer in one packet: a second one would wait for the first
    spans = 0

    def do_POST(self) -> None:
        """Receives spans; http.server calls it by this name."""
        body = self.rfile.read(int(self.headers["content-length"]))
        kind = self.headers["content-type"]
        as_json = "json" in kind
        _Handler.spans += body.count(_IN_EACH_SPAN) if as_json else _spans_in(body)
        answer = b"{}" if as_json else b""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _spans_in(body: bytes) -> int:
    return spans_in(ExportTraceServiceRequest.FromString(body))


class _Methods(grpc.GenericRpcHandler):
    """Every method is the one that receives spans."""

    def service(self, _: grpc.HandlerCallDetails) -> Any:
        """Its handler, which is given the bytes."""
        return grpc.unary_unary_rpc_method_handler(self._export)

    def _export(self, message: bytes, _: object) -> bytes:
        _Handler.spans += _spans_in(message)
        return b""


def main() -> None:
    """The process."""
    if sys.argv[1] == GRPC:
        server = grpc.server(ThreadPoolExecutor(1), handlers=[_Methods()])
        print(f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}", flush=True)
        server.start()
    else:
        http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        print(f"http://127.0.0.1:{http.server_port}", flush=True)
        Thread(target=http.serve_forever, daemon=True).start()
    sys.stdin.read()
    print(_Handler.spans, flush=True)


if __name__ == "__main__":
    main()
