"""Sends spans over OTLP/gRPC through the official exporter's channel, one try at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo  # type: ignore[import-untyped]  # ships no types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]  # likewise
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from spectrace.errors import SpectraceError
from spectrace.model import Run
from spectrace.otlp.encode_protobuf import ProtobufEncoder
from spectrace.otlp.shape import Trace
from spectrace.shown import words
from spectrace_exporters._endpoint import TRACES, is_loopback
from spectrace_exporters._outcome import Outcome, of_response, unanswered
from spectrace_exporters._settings import Settings
from spectrace_exporters._variables import Variables

_COMPRESSIONS = {
    "gzip": grpc.Compression.Gzip,
    "deflate": grpc.Compression.Deflate,
    "none": grpc.Compression.NoCompression,  # which the official exporter refuses to read
}
# After an outage a channel waits longer and longer; cycles would be lost meanwhile.
_OPTIONS = (("grpc.initial_reconnect_backoff_ms", 500), ("grpc.max_reconnect_backoff_ms", 2000))
_NO_PROXY = (("grpc.enable_http_proxy", 0),)
# What opentelemetry.io/docs/specs/otlp calls retryable; RESOURCE_EXHAUSTED only with a RetryInfo.
_RETRYABLE = {
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
}
_NOBODY = {grpc.StatusCode.CANCELLED, grpc.StatusCode.DEADLINE_EXCEEDED}
_RETRY_INFO = "google.rpc.retryinfo-bin"
_DETAILS = "grpc-status-details-bin"
_NS_PER_S = 1e9


class GrpcSender:
    """Sends requests to one endpoint.

    The official exporter makes the channel (headers, credentials) as the environment says. Its
    own `export` encodes the SDK's objects, waits out a whole outage before it says so, and does
    not read what the answer says.

    Args:
        endpoint: URL, or `host:port`.
        settings: Whom the spans speak of, timeout and compression.

    Raises:
        SpectraceError: A file that the environment names cannot be read.
    """

    def __init__(self, endpoint: str, settings: Settings) -> None:
        self._official = OTLPSpanExporter(
            endpoint=endpoint,
            credentials=_credentials(os.environ),
            timeout=settings.timeout_s,
            compression=_COMPRESSIONS[settings.compression],
            insecure=_insecure(endpoint),
            channel_options=_options(endpoint),
        )
        self._timeout_s = settings.timeout_s
        self._encoder = ProtobufEncoder(settings.service, settings.attributes)

    def encode(self, run: Run, traces: Sequence[Trace]) -> ExportTraceServiceRequest:
        """The message of a request."""
        return self._encoder.request(run, traces)

    def send(self, request: ExportTraceServiceRequest) -> Outcome:
        """Tries once, for as long as the settings allow."""
        official: Any = self._official
        try:
            response = official._client.Export(  # noqa: SLF001 - see above
                request=request,
                metadata=official._headers,  # noqa: SLF001
                timeout=self._timeout_s,
            )
        except grpc.RpcError as error:
            return _failed(error)
        return of_response(response)

    def close(self) -> None:
        """Ends what is under way, and lets go of the connection."""
        self._official.shutdown()


def _insecure(endpoint: str) -> bool | None:
    """What its scheme says; without one OTEL_EXPORTER_OTLP_INSECURE decides."""
    scheme = endpoint.partition("://")[0] if "://" in endpoint else ""
    return {"http": True, "https": False}.get(scheme)


def _credentials(environ: Mapping[str, str]) -> grpc.ChannelCredentials | None:
    """Those of the files that the environment names, None where it names none.

    The official exporter reads the client's own only where there is a CA, and of one kind of
    variables, those of traces or those of all signals.
    """
    names = ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE")
    variables = Variables(TRACES, environ)
    root, key, chain = (_content(*variables.of_exporter(name)) for name in names)
    if root is None and (key is None or chain is None):
        return None
    return grpc.ssl_channel_credentials(root, key, chain)


def _content(name: str, path: str) -> bytes | None:
    try:
        return Path(path).read_bytes() if path else None
    except OSError as error:
        raise SpectraceError(
            f"{name}: {path} cannot be read ({error.strerror}).", exit_code=2
        ) from None


def _options(endpoint: str) -> Any:
    # A proxy of the environment does not get what is meant for this machine.
    return _OPTIONS + (_NO_PROXY if is_loopback(endpoint) else ())


def _failed(error: Any) -> Outcome:
    code, details = error.code(), error.details() or ""
    wait_s = _wait_s(error)
    if code in _NOBODY or (code is grpc.StatusCode.UNAVAILABLE and "connect" in details.lower()):
        return unanswered(words(_short(details)) or code.name.lower())
    exhausted = code is grpc.StatusCode.RESOURCE_EXHAUSTED and wait_s is not None
    return Outcome(
        taken=False,
        reason=f"{code.name}: {words(details)}".removesuffix(": "),
        again=code in _RETRYABLE or exhausted,
        wait_s=wait_s,
    )


def _short(details: str) -> str:
    """The reason at the end of what gRPC says, such as "connection refused"."""
    return details.rpartition(": ")[2].partition(" (")[0].lower()


def _wait_s(error: Any) -> float | None:
    """What the other side says of when to try again, in either form that senders of it use."""
    trailers = dict(error.trailing_metadata() or ())
    with suppress(DecodeError):  # what cannot be read says nothing
        if _RETRY_INFO in trailers:
            return _seconds(RetryInfo.FromString(trailers[_RETRY_INFO]))
        status = Status.FromString(trailers.get(_DETAILS, b""))
        for detail in status.details:
            retry_info = RetryInfo()
            if detail.Unpack(retry_info):
                return _seconds(retry_info)
    return None


def _seconds(retry_info: RetryInfo) -> float:
    delay = retry_info.retry_delay
    return float(delay.seconds + delay.nanos / _NS_PER_S)
