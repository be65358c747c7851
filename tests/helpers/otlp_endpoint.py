"""An OTLP endpoint of every protocol that behaves as it is told, and counts what it stored."""

from __future__ import annotations

import base64
import gzip
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict, ParseDict
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # likewise
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from spectrace.server.tls import Certificate

GRPC, PROTOBUF, JSON = "grpc", "http/protobuf", "http/json"
PROTOCOLS = (GRPC, PROTOBUF, JSON)
_OK = 200
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
}


class Answer(NamedTuple):
    """What the endpoint does with one request.

    Attributes:
        status: As of HTTP; gRPC has a code for each.
        retry_after: After so many seconds it may be tried again.
        rejected: Spans of the request that it says it does not store.
        message: And why.
        delay_s: Before it answers, in s.
        hang_up: It closes the connection in the place of an answer.
    """

    status: int = _OK
    retry_after: int | None = None
    rejected: int = 0
    message: str = ""
    delay_s: float = 0.0
    hang_up: bool = False


Behaviour = Callable[[int], Answer]


class Endpoint:
    """What came, and what is answered.

    Args:
        behaviour: What to do with the request of a number, counted from 0.

    Attributes:
        url: The base endpoint.
        requests: All that came.
        headers: Those of each, or its metadata.
        arrivals_s: Monotonic time of each, in s.
        accepted: Spans of the requests that were answered with success.
        rejected: How many of them it said it did not store.
    """

    def __init__(self, behaviour: Behaviour = lambda _: Answer()) -> None:
        self.behaviour = behaviour
        self.url = ""
        self.requests: list[ExportTraceServiceRequest] = []
        self.headers: list[dict[str, str]] = []
        self.arrivals_s: list[float] = []
        self.accepted = 0
        self.rejected = 0
        self._lock = threading.Lock()

    def take(self, request: ExportTraceServiceRequest, headers: dict[str, str]) -> Answer:
        """Notes a request and decides."""
        with self._lock:
            answer = self.behaviour(len(self.requests))
            self.requests.append(request)
            self.headers.append(headers)
            self.arrivals_s.append(time.monotonic())
            if answer.status == _OK and not answer.hang_up:
                self.accepted += spans_in(request)
                self.rejected += answer.rejected
        time.sleep(answer.delay_s)
        return answer


def spans_in(request: ExportTraceServiceRequest) -> int:
    """How many spans a request has."""
    return sum(
        len(scoped.spans) for group in request.resource_spans for scoped in group.scope_spans
    )


def response(answer: Answer) -> ExportTraceServiceResponse:
    """What it says where it took the request."""
    if not answer.rejected and not answer.message:
        return ExportTraceServiceResponse()
    return ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(
            rejected_spans=answer.rejected, error_message=answer.message
        )
    )


@contextmanager
def serving(
    protocol: str,
    behaviour: Behaviour = lambda _: Answer(),
    port: int = 0,
    certificate: Certificate | None = None,
) -> Iterator[Endpoint]:
    """An endpoint that runs.

    Args:
        protocol: One of `PROTOCOLS`.
        behaviour: What it does.
        port: Where it listens, 0 for anywhere.
        certificate: It speaks TLS, and asks its clients for this very certificate.
    """
    endpoint = Endpoint(behaviour)
    serve = _serving_grpc if protocol == GRPC else _serving_http
    with serve(endpoint, port, certificate):
        yield endpoint


@contextmanager
def _serving_http(endpoint: Endpoint, port: int, certificate: Certificate | None) -> Iterator[None]:
    with _Http(("127.0.0.1", port), _Handler) as server:
        server.endpoint = endpoint
        endpoint.url = _url(server.server_port, certificate)
        if certificate is not None:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificate.chain)
            context.load_cert_chain(certificate.chain, certificate.key)
            context.verify_mode = ssl.CERT_REQUIRED
            context.sslsocket_class = _Accepted
            server.tls = context
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def _url(port: int, certificate: Certificate | None) -> str:
    return f"http://127.0.0.1:{port}" if certificate is None else f"https://localhost:{port}"


class _Accepted(ssl.SSLSocket):
    """A connection that was accepted, whose other side may have gone again at any moment.

    Where `ssl` finds that out while it wraps one, it raises, and leaves an open socket behind.
    """

    def getpeername(self) -> Any:
        """Somebody, of whom the first reading will tell that he is gone."""
        try:
            return super().getpeername()
        except OSError:
            return "", 0


class _Http(ThreadingHTTPServer):
    """The server over HTTP."""

    daemon_threads = True
    endpoint: Endpoint
    tls: ssl.SSLContext | None = None

    def get_request(self) -> tuple[socket.socket, Any]:
        """Takes a connection; hands are shaken when it is first read, in a thread of its own."""
        connection, address = super().get_request()
        if self.tls is None:
            return connection, address
        tls = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        return tls, address

    def handle_error(self, *_: object) -> None:
        """Says nothing: a client may go while it is being answered."""


class _Handler(BaseHTTPRequestHandler):
    """Answers in the type of the request."""

    server: _Http
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Receives spans; http.server calls it by this name."""
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["content-encoding"] == "gzip":
            body = gzip.decompress(body)
        kind = self.headers["content-type"]
        request = from_json(body) if "json" in kind else ExportTraceServiceRequest.FromString(body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.server.endpoint.take(request, headers)
        if answer.hang_up:
            self.close_connection = True
            return
        self._answer(answer, kind)

    def _answer(self, answer: Answer, kind: str) -> None:
        says = response(answer)
        text = (
            json.dumps(MessageToDict(says)).encode() if "json" in kind else says.SerializeToString()
        )
        body = text if answer.status == _OK else b"no"
        self.send_response(answer.status)
        if answer.retry_after is not None:
            self.send_header("retry-after", str(answer.retry_after))
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def from_json(body: bytes) -> ExportTraceServiceRequest:
    """A request out of OTLP's JSON, whose ids protobuf's own JSON would write in base64."""
    data = json.loads(body)
    for group in data["resourceSpans"]:
        for scoped in group["scopeSpans"]:
            for span in scoped["spans"]:
                for holder in (span, *span.get("links", ())):
                    for name in ("traceId", "spanId", "parentSpanId"):
                        if name in holder:
                            holder[name] = base64.b64encode(bytes.fromhex(holder[name])).decode()
    return ParseDict(data, ExportTraceServiceRequest())


@contextmanager
def _serving_grpc(endpoint: Endpoint, port: int, certificate: Certificate | None) -> Iterator[None]:
    server = grpc.server(ThreadPoolExecutor(4))
    service.add_TraceServiceServicer_to_server(_Servicer(endpoint), server)  # type: ignore[no-untyped-call]  # generated
    address = f"127.0.0.1:{port}"
    if certificate is None:
        port = server.add_insecure_port(address)
    else:
        chain, key = certificate.chain.read_bytes(), certificate.key.read_bytes()
        credentials = grpc.ssl_server_credentials([(key, chain)], chain, require_client_auth=True)
        port = server.add_secure_port(address, credentials)
    endpoint.url = _url(port, certificate)
    server.start()
    try:
        yield
    finally:
        server.stop(None).wait()


class _Servicer(service.TraceServiceServicer):
    """The service over gRPC."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def Export(self, request: ExportTraceServiceRequest, context: Any) -> Any:  # noqa: N802 - gRPC's name
        """Receives spans."""
        metadata = {name: str(value) for name, value in context.invocation_metadata()}
        answer = self._endpoint.take(request, metadata)
        if answer.hang_up:
            context.abort(grpc.StatusCode.CANCELLED, "hung up")
        if answer.status != _OK:
            code = _CODES[answer.status]
            if answer.retry_after is not None:
                context.set_trailing_metadata([("grpc-status-details-bin", _details(answer))])
            context.abort(code, "no")
        return response(answer)


def _details(answer: Answer) -> bytes:
    status = Status(code=_CODES[answer.status].value[0], message="no")
    status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=answer.retry_after or 0)))
    packed: bytes = status.SerializeToString()
    return packed
