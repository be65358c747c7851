"""Sends cycles as OTLP traces, to Jaeger, to another spectrace or to any other backend."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import requests
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from spectrace.model import Cycle, Run
from spectrace.otlp.encode import Encoder
from spectrace_exporters import ExportStats
from spectrace_exporters._counts import NO_ANSWER, Counts, ErrorsOfThisThread
from spectrace_exporters._endpoint import is_loopback, traces_endpoint
from spectrace_exporters._waiting import WaitingCycles

MAX_BATCH_SPANS = 512
"""So many spans go into one request."""

_DEFAULT_SERVICE = "spectrace"
_GRACE = 0.2  # this part of the time to close is left for the worker to notice that it is over
_REDIRECTS = 300
_NO_SUCCESS = 400
_LOGGER = logging.getLogger("opentelemetry")


class OtlpExporter:
    """Sends the cycles of one run, from a thread of its own in spectrace's own process.

    Args:
        endpoint: URL, see `_endpoint.traces_endpoint`; None leaves it to the environment.
            The official exporter reads the other OTEL_EXPORTER_OTLP_* variables (headers,
            timeout, compression, certificates); OTEL_SERVICE_NAME and
            OTEL_RESOURCE_ATTRIBUTES are read here.
        run: The run; assign `run` anew when more of it is known.
        hold_s: So long a cycle waits for its results, in s.
        interval_s: So long cycles are gathered before a request, in s.
        max_cycles: So many cycles wait at most; then the oldest are dropped and counted.

    Raises:
        SpectraceError: The endpoint is no http URL, or the environment wants another protocol.
    """

    def __init__(
        self,
        endpoint: str | None,
        run: Run,
        *,
        hold_s: float = 2.0,
        interval_s: float = 0.2,
        max_cycles: int = 4096,
    ) -> None:
        self.endpoint = traces_endpoint(endpoint, os.environ)
        self.run = run
        self._counts = Counts()
        self._interval_s = interval_s
        _silence_libraries()
        self._encoder = _encoder()
        self._official = _official_exporter(self.endpoint, self._counts)
        self._waiting = WaitingCycles(hold_s, max_cycles)
        self._in_flight: list[Cycle] = []
        self._news = threading.Condition()
        self._closing = threading.Event()
        self._over = threading.Event()
        self._worker = threading.Thread(target=self._work, name="otlp-exporter", daemon=True)
        self._worker.start()

    def add(self, cycles: Sequence[Cycle]) -> None:
        """Takes cycles, new or amended; returns at once, whatever the other side does.

        After `close` they are neither taken nor counted.
        """
        now_s = time.monotonic()
        with self._news:
            if not self._closing.is_set():
                put = [self._waiting.put(cycle, now_s) for cycle in cycles]
                self._counts.drop([gone for gone in put if gone is not None])
                self._news.notify()

    @property
    def stats(self) -> ExportStats:
        """What became of the cycles so far."""
        return self._counts.stats

    def close(self, timeout_s: float = 1.0) -> ExportStats:
        """Sends what waits and gives up what is not gone after `timeout_s` seconds.

        Returns:
            The final counts: what was given up is among the dropped.
        """
        if not self._over.is_set():
            deadline_s = time.monotonic() + timeout_s
            self._finish(timeout_s * (1 - _GRACE))
            self._over.set()
            # Ends its sleep between two tries.
            self._official.shutdown()  # type: ignore[no-untyped-call]  # it has no types
            self._worker.join(max(0.0, deadline_s - time.monotonic()))
            self._give_up()
        return self.stats

    def _finish(self, timeout_s: float) -> None:
        """Lets the worker send what waits."""
        with self._news:
            self._closing.set()
            self._news.notify()
        self._worker.join(timeout_s)

    def _give_up(self) -> None:
        """Counts as dropped what is not known to have arrived."""
        with self._news:
            if self._in_flight and not self.stats.last_error:
                self._counts.note(NO_ANSWER)
            self._counts.drop(self._in_flight + self._waiting.drain())
            self._counts.freeze()

    def _work(self) -> None:
        errors = ErrorsOfThisThread(self._counts)
        _LOGGER.addHandler(errors)
        try:
            while self._await_cycles():
                while cycles := self._take():
                    self._send(cycles)
        finally:
            _LOGGER.removeHandler(errors)

    def _await_cycles(self) -> bool:
        """Waits until there is something to send; False when there never will be."""
        with self._news:
            self._news.wait_for(lambda: len(self._waiting) or self._closing.is_set())
        self._closing.wait(self._interval_s)
        with self._news:
            done = self._closing.is_set() and not len(self._waiting)
            return not done and not self._over.is_set()

    def _take(self) -> list[Cycle]:
        with self._news:
            if self._over.is_set():
                return []
            self._in_flight = self._waiting.take(
                time.monotonic(), MAX_BATCH_SPANS, everything=self._closing.is_set()
            )
            return self._in_flight

    def _send(self, cycles: list[Cycle]) -> None:
        run = self.run
        spans: list[ReadableSpan] = []
        try:
            spans = [span for cycle in cycles for span in self._encoder.spans(run, cycle)]
            sent = all(self._export(chunk) for chunk in _chunks(spans))
        except Exception as error:  # noqa: BLE001  # the worker outlives whatever a library raises
            self._counts.note(f"{type(error).__name__}: {error}")
            sent = False
        if not sent and not self.stats.last_error:
            self._counts.note(NO_ANSWER)
        with self._news:
            self._counts.settle(len(cycles), len(spans), sent=sent)
            self._in_flight = []

    def _export(self, spans: Sequence[ReadableSpan]) -> bool:
        return self._official.export(spans) is SpanExportResult.SUCCESS


def _chunks(spans: list[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
    for start in range(0, len(spans), MAX_BATCH_SPANS):
        yield spans[start : start + MAX_BATCH_SPANS]


def _silence_libraries() -> None:
    """Keeps what OpenTelemetry logs off the terminal; what matters is in the counts."""
    _LOGGER.propagate = False
    if not _LOGGER.handlers:
        _LOGGER.addHandler(logging.NullHandler())


def _encoder() -> Encoder:
    """An encoder that obeys OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES."""
    attributes = dict(OTELResourceDetector().detect().attributes or {})
    service = str(attributes.pop(SERVICE_NAME, _DEFAULT_SERVICE))
    return Encoder(service, attributes)


def _official_exporter(endpoint: str, counts: Counts) -> OTLPSpanExporter:
    """The official exporter, with an ear on answers: it does not read what they say.

    A proxy of the environment does not get what is meant for this machine.
    """
    session = requests.Session()
    session.trust_env = not is_loopback(endpoint)

    def hear(response: requests.Response, *_: Any, **__: Any) -> None:
        rejected, reason = _rejected(response)
        if rejected:
            counts.reject(rejected, reason)

    session.hooks["response"].append(hear)
    return OTLPSpanExporter(endpoint=endpoint, session=session)


class _NoAnswerError(Exception):
    """Somebody answered that is no OTLP receiver; raised within a request, it fails that."""


def _rejected(response: requests.Response) -> tuple[int, str]:
    """How many spans the other side did not store, and why.

    Raises:
        _NoAnswerError: It is a success, but not that of an OTLP receiver.
    """
    if response.status_code >= _NO_SUCCESS:
        return 0, ""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    answer = ExportTraceServiceResponse()
    try:
        if response.status_code >= _REDIRECTS or kind.startswith("text/"):
            raise DecodeError(kind)  # noqa: TRY301 - it reads as one that is no protobuf
        if kind == "application/json":
            json_format.Parse(response.content or b"{}", answer, ignore_unknown_fields=True)
        else:
            answer.ParseFromString(response.content)
    except (DecodeError, json_format.ParseError):
        raise _NoAnswerError(
            f"the answer ({response.status_code}, {kind or 'no type'}) is not that of an OTLP "
            "receiver: look at the address, and for a proxy"
        ) from None
    return answer.partial_success.rejected_spans, answer.partial_success.error_message
