"""Pushes metrics over OTLP, from a thread of its own in spectrace's own process."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import requests
from msgspec.structs import replace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult

from spectrace.errors import SpectraceError
from spectrace.metrics.delta import since
from spectrace.metrics.meter import Snapshot
from spectrace.otlp.silent_grpc import silent
from spectrace.shown import MOST_WORDS, address, words
from spectrace_exporters._answer import MAX_ANSWER_BYTES
from spectrace_exporters._counts import why
from spectrace_exporters._endpoint import GRPC, is_loopback
from spectrace_exporters._metrics_data import MetricsWriter
from spectrace_exporters._metrics_settings import MetricsSettings, read_settings
from spectrace_exporters._patience import Patience
from spectrace_exporters._session import confine

_LOGGER = logging.getLogger("opentelemetry")
_GRACE = 0.1  # this part of the time to close is left for what is under way to notice the end
_STUCK = 0.15  # and no more than this part is waited for an answer, unless the last took longer
_FIRST = 0.2  # nor this part where it is the first: names and connections take their time
_ENDED_S = 0.05
_POLL_S = 0.02
_NO_SUCCESS = 400
_SUCCESS = range(200, 300)
_NO_ANSWER = "no answer"
_NO_PROXY = (("grpc.enable_http_proxy", 0),)


class PushStats(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the pushes.

    Attributes:
        sent: Pushes that the other side took.
        failed: Pushes that it did not take. Nothing is lost by one: the next one has all that
            was counted.
        rejected_points: Values that the other side took and then said it did not store.
        last_error: What last went wrong, empty if nothing did.
        is_current: The last push arrived.
    """

    sent: int = 0
    failed: int = 0
    rejected_points: int = 0
    last_error: str = ""
    is_current: bool = False

    def loss(self) -> str:
        """One sentence on what did not arrive, empty if everything that counts did."""
        error = f" Last error: {self.last_error}" if self.last_error else ""
        if self.rejected_points:
            return f"{self.rejected_points} values of metrics were rejected.{error}"
        if not self.is_current:
            pushes = f"{self.failed} of {self.sent + self.failed} pushes failed"
            return f"the last metrics may not have arrived ({pushes}).{error}"
        return ""


class OtlpMetrics:
    """Pushes what a meter has, every so often and at the end.

    Args:
        target: URL, see `_metrics_settings.read_settings`; None leaves it to the environment.
        read: Gives the metrics.
        protocol: `http/protobuf` or `grpc`; None leaves it to the environment.
        interval_s: Another time from one push to the next than the environment says, in s.

    Attributes:
        endpoint: Where they go.
        notices: Sentences on what of the environment could not be followed.

    Raises:
        SpectraceError: The target cannot be one, or the environment wants another protocol.
    """

    def __init__(
        self,
        target: str | None,
        read: Callable[[], Snapshot],
        *,
        protocol: str | None = None,
        interval_s: float | None = None,
    ) -> None:
        _silence_libraries()
        settings = read_settings(target, os.environ, protocol)
        self.endpoint = settings.endpoint
        self.notices = (settings.off,) if settings.off else settings.notices
        self._read = read
        self._delta = settings.delta
        self._interval_s = settings.interval_s if interval_s is None else interval_s
        self._writer = MetricsWriter()
        self._arrived: Snapshot | None = None  # the last that arrived, where deltas are sent
        self._stats = PushStats(is_current=bool(settings.off))
        self._lock = threading.Lock()
        self._is_over = bool(settings.off)
        self._is_pushing = self._is_given_up = False
        self._patience = Patience()
        self._finish_s = 0.0  # when `finish` asked for a push that has not ended, 0 if none has
        self._due = threading.Event()
        self._closing = threading.Event()
        self._troubled = threading.Event()
        self._official = _official(settings, self._reject)
        self._worker = threading.Thread(target=self._work, name="otlp-metrics", daemon=True)
        if not settings.off:
            self._worker.start()

    @property
    def stats(self) -> PushStats:
        """What became of the pushes so far."""
        return self._stats

    def finish(self) -> None:
        """Pushes what there is at once, and does not wait: `close` counts its time from now on.

        So whoever has more to close can do that meanwhile.
        """
        self._finish_s = time.monotonic()
        self._want_push()

    def _want_push(self) -> None:
        with self._lock:
            if not self._is_pushing:  # one under way that has failed before is not waited for
                self._troubled.clear()
        self._due.set()

    def close(self, timeout_s: float = 2.0) -> PushStats:
        """Pushes what has come since, and gives up what is not gone after `timeout_s` seconds.

        Where a try fails meanwhile, or the last one of a push under way did, it is given up at
        once, and where no answer comes as fast as before it is given up in a fraction of a second.
        """
        if not self._is_over:
            since_s = self._finish_s or time.monotonic()
            self._closing.set()
            self._want_push()
            self._await_end(since_s, timeout_s)
            self._is_given_up = True
            self._official.shutdown()  # ends its sleep between two tries
            self._worker.join(min(timeout_s * _GRACE, _ENDED_S))
            self._give_up()
        return self._stats

    def _await_end(self, since_s: float, timeout_s: float) -> None:
        """Lets the worker push what there is, as long as that has any prospect."""
        until_s = since_s + timeout_s * (1 - _GRACE)
        while self._worker.is_alive() and time.monotonic() < until_s:
            stuck = self._patience.is_over(since_s, timeout_s * _STUCK, timeout_s * _FIRST)
            if stuck or self._troubled.is_set():
                return
            self._worker.join(_POLL_S)

    def _give_up(self) -> None:
        with self._lock:
            self._is_over = True
            if self._worker.is_alive():
                error = self._stats.last_error or _NO_ANSWER
                failed = self._stats.failed + 1
                self._stats = replace(
                    self._stats, failed=failed, last_error=error, is_current=False
                )

    def _work(self) -> None:
        errors = _Errors(self._note)
        _LOGGER.addHandler(errors)
        try:
            is_last = False
            while not is_last and not self._is_given_up:
                self._due.wait(self._interval_s)
                self._due.clear()
                is_last = self._closing.is_set()  # what has come since, to the end
                self._push()
        finally:
            _LOGGER.removeHandler(errors)

    def _push(self) -> None:
        with self._lock:
            self._is_pushing = True
            self._troubled.clear()
        began_s = time.monotonic()
        self._patience.begin()
        try:
            sent = self._send(self._read())
        except Exception as error:  # noqa: BLE001  # the worker outlives whatever a library raises
            self._note(f"{type(error).__name__}: {error}")
            sent = False
        self._patience.end(answered=sent)
        with self._lock:
            self._is_pushing = False
            if began_s >= self._finish_s:
                self._finish_s = 0.0
            if not self._is_over:
                self._stats = replace(
                    self._stats,
                    sent=self._stats.sent + sent,
                    failed=self._stats.failed + (not sent),
                    last_error=self._stats.last_error or ("" if sent else _NO_ANSWER),
                    is_current=sent,
                )

    def _send(self, snapshot: Snapshot) -> bool:
        """Sends a snapshot, or what it has beyond the last one that arrived."""
        news = snapshot if self._arrived is None else since(self._arrived, snapshot)
        data = self._writer.data(news, delta=self._delta)
        sent = self._official.export(data) is MetricExportResult.SUCCESS
        if sent and self._delta:
            self._arrived = snapshot
        return sent

    def _note(self, error: str) -> None:
        """Something went wrong, before it was given up: then it may be that we hung up."""
        with self._lock:
            if not self._is_given_up:
                self._stats = replace(self._stats, last_error=words(error, 2 * MOST_WORDS))
        self._troubled.set()

    def _reject(self, points: int, reason: str) -> None:
        """The other side took values and did not store them."""
        with self._lock:
            rejected = self._stats.rejected_points + points
            self._stats = replace(self._stats, rejected_points=rejected, last_error=words(reason))


def _official(settings: MetricsSettings, reject: Callable[[int, str], None]) -> MetricExporter:
    """The official exporter of the protocol; that of gRPC is imported by those who want it.

    Raises:
        SpectraceError: It cannot be made of what the environment says.
    """
    try:
        if settings.protocol != GRPC:
            return _official_http(settings, reject)
        with silent():
            return _official_grpc(settings, reject)
    except (ValueError, RuntimeError, OSError) as error:  # what it makes of a variable
        raise SpectraceError(
            f"Metrics cannot be pushed to {address(settings.endpoint)}: {words(str(error))}",
            exit_code=2,
        ) from error


def _official_grpc(settings: MetricsSettings, reject: Callable[[int, str], None]) -> MetricExporter:
    """That of gRPC, to which nobody can listen."""
    import grpc  # noqa: PLC0415 - see above
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import (  # noqa: PLC0415 - likewise
        OTLPMetricExporter,
    )

    del reject
    endpoint = settings.endpoint
    compressions = {
        "gzip": grpc.Compression.Gzip,
        "deflate": grpc.Compression.Deflate,
        "none": grpc.Compression.NoCompression,
    }
    return OTLPMetricExporter(
        endpoint=endpoint,
        insecure={"http": True, "https": False}.get(endpoint.partition("://")[0]),
        timeout=settings.timeout_s,
        compression=compressions[settings.compression],
        channel_options=_NO_PROXY if is_loopback(endpoint) else (),  # type: ignore[arg-type]  # grpc takes numbers too
    )


def _official_http(settings: MetricsSettings, reject: Callable[[int, str], None]) -> MetricExporter:
    """That of HTTP, with an ear on answers: it does not read what they say."""
    from opentelemetry.exporter.otlp.proto.http import Compression  # noqa: PLC0415 - as gRPC's
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import (  # noqa: PLC0415 - likewise
        OTLPMetricExporter,
    )

    session = requests.Session()

    def hear(response: requests.Response, *_: Any, **__: Any) -> None:
        if response.status_code < _NO_SUCCESS:
            _hear(response, reject)

    session.hooks["response"].append(hear)
    official = OTLPMetricExporter(
        endpoint=settings.endpoint,
        timeout=settings.timeout_s,
        compression=Compression(settings.compression),
        session=session,
    )
    confine(session, settings.endpoint)
    return official


class _NoReceiverError(Exception):
    """Somebody answered that is no OTLP receiver; raised within a request, it fails that."""


def _hear(response: requests.Response, reject: Callable[[int, str], None]) -> None:
    """Reads how many values were rejected.

    Raises:
        _NoReceiverError: The answer is not that of an OTLP receiver.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    too_long = len(response.content) > MAX_ANSWER_BYTES
    if response.status_code not in _SUCCESS or kind.startswith("text/") or too_long:
        response.close()
        raise _NoReceiverError(
            f"the answer ({response.status_code}, {words(kind) or 'no type'}) is not that of an "
            "OTLP receiver: look at the address, and for a proxy"
        )
    if kind == "application/x-protobuf":
        partial = ExportMetricsServiceResponse.FromString(response.content).partial_success
        if partial.rejected_data_points:
            reject(partial.rejected_data_points, partial.error_message)


class _Errors(logging.Handler):
    """Hears what a library logs on the thread that made this, instead of showing it."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Passes on why a try failed; that the end has come is no reason."""
        if record.thread == self._thread and "hutdown" not in record.msg:
            arguments = record.args if isinstance(record.args, tuple) else ()
            errors = [one for one in arguments if isinstance(one, Exception)]
            self._note(why(errors[0]) if errors else record.getMessage())


def _silence_libraries() -> None:
    """Keeps what OpenTelemetry logs off the terminal; what matters is in the counts."""
    _LOGGER.propagate = False
    if not _LOGGER.handlers:
        _LOGGER.addHandler(logging.NullHandler())
