"""A collector as `spectrace serve` runs it, in this process, and official exporters that send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from grpc import Compression as GrpcCompression
from opentelemetry.exporter.otlp.common.http import Compression as JsonCompression
from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter as JsonExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression as HttpCompression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace.export import SpanExporter

from spectrace.server.hub import Hub
from spectrace.server.run import OtlpPorts, PageServer
from spectrace.server.tls import Certificate
from spectrace.server.token import Token
from spectrace.store.store import CycleStore

ANY_PORTS = OtlpPorts(http=0, grpc=0)
_TIMEOUT_S = 60  # of a sender, and of who looks


@dataclass(frozen=True)
class Collector:
    """A server that receives.

    Attributes:
        server: The server of its page.
        hub: What it serves.
        store: Where the cycles are.
    """

    server: PageServer
    hub: Hub
    store: CycleStore

    @property
    def http(self) -> str:
        """Where spans are posted to."""
        assert self.hub.otlp_endpoint is not None
        return self.hub.otlp_endpoint

    @property
    def grpc(self) -> str:
        """Where gRPC is spoken, as an exporter's target."""
        assert self.hub.grpc_endpoint is not None
        return httpx.URL(self.hub.grpc_endpoint).netloc.decode()

    def requests(self) -> list[dict[str, Any]]:
        """The requests that the page shows."""
        answer = httpx.get(f"{self.server.url}/api/requests", timeout=_TIMEOUT_S)
        found: list[dict[str, Any]] = answer.json()["requests"]
        return found


@contextmanager
def collecting(
    directory: Path, token: Token | None = None, certificate: Certificate | None = None
) -> Iterator[Collector]:
    """A collector on free ports of loopback, with an empty store."""
    store = CycleStore(directory, retain_s=1e12, max_bytes=1 << 30)
    try:
        hub = Hub(store, sink=store)
        with PageServer(
            hub, port=0, otlp=ANY_PORTS, token=token, certificate=certificate
        ) as server:
            yield Collector(server, hub, store)
    finally:
        store.close()


def _grpc(to: Collector, headers: dict[str, str]) -> SpanExporter:
    return GrpcExporter(endpoint=to.grpc, insecure=True, headers=headers, timeout=_TIMEOUT_S)


def _grpc_gzip(to: Collector, headers: dict[str, str]) -> SpanExporter:
    return GrpcExporter(
        endpoint=to.grpc,
        insecure=True,
        headers=headers,
        timeout=_TIMEOUT_S,
        compression=GrpcCompression.Gzip,
    )


def _http(to: Collector, headers: dict[str, str]) -> SpanExporter:
    return HttpExporter(endpoint=to.http, headers=headers, timeout=_TIMEOUT_S)


def _http_gzip(to: Collector, headers: dict[str, str]) -> SpanExporter:
    return HttpExporter(
        endpoint=to.http, headers=headers, timeout=_TIMEOUT_S, compression=HttpCompression.Gzip
    )


def _json(to: Collector, headers: dict[str, str]) -> SpanExporter:
    return JsonExporter(endpoint=to.http, headers=headers, timeout=_TIMEOUT_S)


def _json_gzip(to: Collector, headers: dict[str, str]) -> SpanExporter:
    return JsonExporter(
        endpoint=to.http, headers=headers, timeout=_TIMEOUT_S, compression=JsonCompression.GZIP
    )


OFFICIAL: dict[str, Callable[[Collector, dict[str, str]], SpanExporter]] = {
    "grpc": _grpc,
    "grpc, gzip": _grpc_gzip,
    "http/protobuf": _http,
    "http/protobuf, gzip": _http_gzip,
    "http/json": _json,
    "http/json, gzip": _json_gzip,
}
