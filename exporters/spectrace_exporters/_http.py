"""Sends spans over OTLP/HTTP through the official exporter's transport, one try at a time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import requests
from opentelemetry.exporter.otlp.common.http import _extract_retry_after
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from spectrace.model import Run
from spectrace.otlp.encode_json import JsonEncoder
from spectrace.otlp.encode_protobuf import ProtobufEncoder
from spectrace.otlp.shape import Trace
from spectrace_exporters._counts import why
from spectrace_exporters._endpoint import HTTP_JSON
from spectrace_exporters._outcome import Outcome, of_http, unanswered
from spectrace_exporters._session import confine
from spectrace_exporters._settings import Settings

_JSON_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}


class HttpSender:
    """Sends requests to one endpoint.

    The official exporter makes the connection (headers, certificates, credentials) as the
    environment says. Its own `export` encodes the SDK's objects, waits out
    a whole outage before it says so, and does not read what the answer says.

    Args:
        endpoint: The URL of the signal.
        protocol: `http/protobuf` or `http/json`.
        settings: Whom the spans speak of, timeout and compression.
    """

    def __init__(self, endpoint: str, protocol: str, settings: Settings) -> None:
        as_json = protocol == HTTP_JSON
        official = OTLPSpanExporter(
            endpoint=endpoint,
            headers=_JSON_HEADERS if as_json else None,
            timeout=settings.timeout_s,
            compression=Compression(settings.compression),
        )
        self._client = official._client  # noqa: SLF001 - see above
        self._timeout_s = settings.timeout_s
        confine(self._session, endpoint)
        self._json = JsonEncoder(settings.service, settings.attributes) if as_json else None
        self._protobuf = ProtobufEncoder(settings.service, settings.attributes)

    @property
    def _session(self) -> requests.Session:
        session: requests.Session = self._client._transport._session  # type: ignore[attr-defined]  # noqa: SLF001  # that of requests
        return session

    def encode(self, run: Run, traces: Sequence[Trace]) -> bytes:
        """The body of a request."""
        if self._json is not None:
            return self._client._compress(msgspec.json.encode(self._json.data(run, traces)))  # noqa: SLF001 - see above
        request = self._protobuf.request(run, traces)
        return self._client._compress(request.SerializeToString())  # noqa: SLF001 - see above

    def send(self, body: bytes) -> Outcome:
        """Tries once, for as long as the settings allow."""
        result = self._client._submit(body, self._timeout_s)  # noqa: SLF001 - see above
        if result.status_code is None:
            return unanswered(why(result.error))
        return of_http(
            result.status_code,
            result.reason or "",
            result.headers().get("content-type", ""),
            result.content(),
            _extract_retry_after(result),
        )

    def close(self) -> None:
        """Lets go of the connection."""
        self._session.close()
