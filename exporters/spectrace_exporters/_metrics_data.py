"""Writes a snapshot of the metrics as OpenTelemetry's own objects, for its official exporters."""

from __future__ import annotations

from collections.abc import Iterator

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from spectrace import __version__
from spectrace.metrics.meter import RunMetrics, Snapshot
from spectrace.metrics.series import Distribution, Point, Reading
from spectrace.metrics.table import Form, Instrument
from spectrace.otlp import names

_SCOPE = InstrumentationScope(names.SCOPE, __version__)
_DEFAULT_SERVICE = "spectrace"


class MetricsWriter:
    """Writes snapshots, each run as a resource of its own.

    OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are read when it is made.
    """

    def __init__(self) -> None:
        self._named = dict(OTELResourceDetector().detect().attributes or {})

    def data(self, snapshot: Snapshot, *, delta: bool = False) -> MetricsData:
        """The objects.

        Args:
            snapshot: What to write.
            delta: It holds what has come since an earlier one (`metrics.delta.since`).
        """
        temporality = AggregationTemporality.DELTA if delta else AggregationTemporality.CUMULATIVE
        resources = []
        for metrics in snapshot.runs:
            written = _RunWriter(metrics, snapshot.unix_ns, temporality).metrics()
            scope = ScopeMetrics(scope=_SCOPE, metrics=written, schema_url="")
            resources.append(
                ResourceMetrics(
                    resource=self._resource(metrics), scope_metrics=[scope], schema_url=""
                )
            )
        return MetricsData(resource_metrics=resources)

    def _resource(self, metrics: RunMetrics) -> Resource:
        run = metrics.run
        return Resource(
            {
                SERVICE_NAME: _DEFAULT_SERVICE,
                **self._named,
                names.SERVICE_INSTANCE_ID: f"{run.host}/{run.run_id}",
                names.HOST_NAME: run.host,
                names.PROCESS_PID: run.server_pid,
                names.RUN_ID: run.run_id,
                names.ENGINE: run.engine,
            }
        )


class _RunWriter:
    """Writes the metrics of one run."""

    def __init__(
        self, metrics: RunMetrics, unix_ns: int, temporality: AggregationTemporality
    ) -> None:
        self._readings = metrics.readings
        self._start_ns = metrics.start_unix_ns
        self._unix_ns = unix_ns
        self._temporality = temporality

    def metrics(self) -> list[Metric]:
        """One for each instrument that has series."""
        return [
            Metric(
                name=reading.instrument.name,
                description=reading.instrument.about,
                unit=reading.instrument.unit,
                data=self._data(reading),
            )
            for reading in self._readings
        ]

    def _data(self, reading: Reading) -> Sum | Gauge | Histogram:
        form = reading.instrument.form
        if form is Form.HISTOGRAM:
            return Histogram(
                data_points=list(self._histograms(reading)),
                aggregation_temporality=self._temporality,
            )
        numbers = list(self._numbers(reading))
        if form is Form.GAUGE:
            return Gauge(data_points=numbers)
        return Sum(
            data_points=numbers, aggregation_temporality=self._temporality, is_monotonic=True
        )

    def _numbers(self, reading: Reading) -> Iterator[NumberDataPoint]:
        for point in reading.points:
            if not isinstance(point.value, Distribution):
                yield NumberDataPoint(
                    attributes=_attributes(reading.instrument, point),
                    start_time_unix_nano=self._start_ns,
                    time_unix_nano=self._unix_ns,
                    value=point.value,
                )

    def _histograms(self, reading: Reading) -> Iterator[HistogramDataPoint]:
        instrument = reading.instrument
        bounds = [bound / instrument.scale for bound in instrument.bounds]
        for point in reading.points:
            if isinstance(point.value, Distribution):
                yield HistogramDataPoint(
                    attributes=_attributes(instrument, point),
                    start_time_unix_nano=self._start_ns,
                    time_unix_nano=self._unix_ns,
                    count=point.value.count,
                    sum=point.value.total,
                    bucket_counts=point.value.counts,
                    explicit_bounds=bounds,
                    min=None,  # type: ignore[arg-type]  # optional in OTLP, and not kept
                    max=None,  # type: ignore[arg-type]  # likewise
                )


def _attributes(instrument: Instrument, point: Point) -> dict[str, str]:
    """Without empty ones: to Prometheus they are the same as none."""
    return {
        name: value.encode(errors="replace").decode()
        for name, value in zip(instrument.attributes, point.values, strict=True)
        if value
    }
