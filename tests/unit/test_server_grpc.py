"""What gRPC answers: codes as OTLP wants them, partial success, and a token before anything."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from spectrace.errors import SpectraceError
from spectrace.otlp import body
from spectrace.server import grpc_receiver
from spectrace.server.grpc_receiver import METHOD
from spectrace.server.hub import Hub
from spectrace.server.run import OtlpPorts, PageServer
from spectrace.server.token import Token
from spectrace.store.store import CycleStore
from tests.helpers.bad_otlp import ten_million_attributes
from tests.helpers.collector import Collector, collecting
from tests.helpers.stored import open_store

TOKEN = Token("a-token-for-the-tests")


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    """A collector without a token."""
    with collecting(tmp_path_factory.mktemp("store")) as running:
        yield running


def call(
    to: Collector,
    message: bytes,
    method: str = METHOD,
    token: str | None = None,
    timeout_s: float = 60,
) -> bytes | grpc.RpcError:
    """The answer to a message, or how it failed."""
    metadata = None if token is None else (("authorization", token),)
    with grpc.insecure_channel(to.grpc) as channel:
        export: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        try:
            return export(message, metadata=metadata, timeout=timeout_s)
        except grpc.RpcError as error:
            return error


def code_of(answer: bytes | grpc.RpcError) -> grpc.StatusCode:
    """The code of an answer."""
    return grpc.StatusCode.OK if isinstance(answer, bytes) else answer.code()


def test_nothing_and_no_protobuf(collector: Collector) -> None:
    """An empty request is fine; what is none is never to be sent again."""
    assert call(collector, b"") == b""
    assert code_of(call(collector, b"\xff" * 9)) is grpc.StatusCode.INVALID_ARGUMENT


def test_ten_million_attributes_are_refused_before_they_are_read(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RESOURCE_EXHAUSTED without a time to come again: it is never to be sent again."""
    monkeypatch.setattr(body, "ExportTraceServiceRequest", None)
    refused = call(collector, ten_million_attributes())
    assert isinstance(refused, grpc.RpcError)
    assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "send fewer spans" in (refused.details() or "")


def test_spans_that_are_refused_are_counted_in_the_answer(collector: Collector) -> None:
    """Success in part: one of two spans has no id."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for span_id in (b"\1" * 8, b""):
        spans.add(trace_id=b"\1" * 16, span_id=span_id, start_time_unix_nano=1)
    answer = call(collector, request.SerializeToString())
    assert isinstance(answer, bytes)
    partial = ExportTraceServiceResponse.FromString(answer).partial_success
    assert partial.rejected_spans == 1
    assert "span id" in partial.error_message


def test_other_methods_are_not_there(collector: Collector) -> None:
    """Metrics and logs are nobody's here."""
    method = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    assert code_of(call(collector, b"", method)) is grpc.StatusCode.UNIMPLEMENTED


def test_senders_wait_while_the_store_does_not_keep_up(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UNAVAILABLE, and the details say after which time to try again."""
    monkeypatch.setattr(CycleStore, "is_behind", True)
    refused = call(collector, b"")
    assert isinstance(refused, grpc.RpcError)
    assert refused.code() is grpc.StatusCode.UNAVAILABLE
    [details] = [pair.value for pair in refused.trailing_metadata() if pair.key.endswith("-bin")]
    retry = RetryInfo()
    assert Status.FromString(details).details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1


@pytest.mark.parametrize("shown", [None, "", TOKEN.text, f"Basic {TOKEN.text}", "Bearer "])
def test_without_the_token_nobody_gets_in(tmp_path: Path, shown: str | None) -> None:
    """UNAUTHENTICATED, whatever is sent, to whichever method."""
    with collecting(tmp_path, TOKEN) as collector:
        for method in (METHOD, "/other/Method"):
            refused = call(collector, b"\xff", method, shown)
            assert code_of(refused) is grpc.StatusCode.UNAUTHENTICATED
        for scheme in ("Bearer", "bearer"):
            assert call(collector, b"", token=f"{scheme} {TOKEN.text}") == b""


def test_without_the_token_no_message_is_waited_for(tmp_path: Path) -> None:
    """A call that never sends one is refused: it would hold a place for ever."""
    with collecting(tmp_path, TOKEN) as collector, grpc.insecure_channel(collector.grpc) as channel:
        over = threading.Event()

        def never() -> Iterator[bytes]:
            over.wait(90)
            yield b""

        export: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(METHOD)
        with pytest.raises(grpc.RpcError) as refused:
            export(never(), timeout=60)
        over.set()
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_more_calls_than_there_is_room_for_wait(collector: Collector) -> None:
    """Of 40 at once 8 wait until others have their answers; none is refused."""
    ready = threading.Event()

    def later() -> Iterator[bytes]:
        ready.wait(60)
        yield b""

    with grpc.insecure_channel(collector.grpc) as channel:
        export: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(METHOD)
        calls = [export.future(later(), timeout=60) for _ in range(40)]
        ready.set()
        assert [call.result() for call in calls] == [b""] * 40


def test_a_message_that_never_comes_is_not_waited_for(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hold a place for ever; a call without any message is wrong."""
    monkeypatch.setattr(grpc_receiver, "_PATIENCE_S", 0.1)
    over = threading.Event()

    def never() -> Iterator[bytes]:
        over.wait(90)
        yield b""

    with grpc.insecure_channel(collector.grpc) as channel:
        export: grpc.StreamUnaryMultiCallable[bytes, bytes] = channel.stream_unary(METHOD)
        with pytest.raises(grpc.RpcError) as late:
            export(never(), timeout=60)
        over.set()
        monkeypatch.undo()  # on a busy machine even nothing may come late
        with pytest.raises(grpc.RpcError) as empty:
            export(iter(()), timeout=60)
    assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert empty.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_taken_port_that_was_asked_for_is_an_error(tmp_path: Path) -> None:
    """One that was not asked for gives way to another one."""
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        open_store(tmp_path) as store,
    ):
        port = taken.getsockname()[1]
        server = PageServer(Hub(store, sink=store), port=0, otlp=OtlpPorts(0, port))
        with pytest.raises(SpectraceError, match=f"Port {port} is taken.*--otlp-grpc-port"):
            server.start()
        server.stop()
        with pytest.raises(SpectraceError, match=f"Port {port} is taken.*--otlp-http-port"):
            PageServer(Hub(store, sink=store), port=0, otlp=OtlpPorts(port, 0))


def test_the_known_ports_are_taken_where_they_are_free(tmp_path: Path) -> None:
    """Two collectors on one machine have four ports; whoever comes first may have 4317 and 4318."""
    with open_store(tmp_path / "a") as a, open_store(tmp_path / "b") as b:
        hubs = [Hub(store, sink=store) for store in (a, b)]
        with (
            PageServer(hubs[0], port=0, otlp=OtlpPorts()),
            PageServer(hubs[1], port=0, otlp=OtlpPorts()),
        ):
            endpoints = [hub.otlp_endpoint for hub in hubs] + [hub.grpc_endpoint for hub in hubs]
            assert None not in endpoints
            assert len(set(endpoints)) == 4
