"""Writes metrics for Prometheus, as text or as OpenMetrics, by the package of Prometheus itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from spectrace.metrics.meter import RunMetrics, Snapshot
from spectrace.metrics.series import Distribution, Point
from spectrace.metrics.table import TABLE, Form, Instrument

OPENMETRICS = "application/openmetrics-text"
TEXT = "text/plain"
RUN = "run"
"""The label that every series has: the id of its run."""
INFO = "spectrace_run"
INFO_LABELS = ("host", "pid", "engine", "worker", "algorithm", "device")
"""What `spectrace_run_info` says of a run beside its id."""


def expose(snapshot: Snapshot, accept: str = "") -> tuple[bytes, str]:
    """The metrics as Prometheus reads them.

    Args:
        snapshot: The metrics.
        accept: Header Accept of who asks.

    Returns:
        The text and its content type.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(snapshot))
    if prefers_openmetrics(accept):
        text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]  # it has no types
        return text, openmetrics.CONTENT_TYPE_LATEST
    return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


def prefers_openmetrics(accept: str) -> bool:
    """Whether a header Accept names OpenMetrics, and nothing else before it."""
    weights = {OPENMETRICS: 0.0, TEXT: 0.0}
    for one in accept.split(","):
        kind, *parameters = (part.strip().lower() for part in one.split(";"))
        if kind in weights:
            weights[kind] = max(weights[kind], _weight(parameters))
    return weights[OPENMETRICS] > 0 and weights[OPENMETRICS] >= weights[TEXT]


def _weight(parameters: Iterable[str]) -> float:
    """The q of a media range (RFC 9110, 12.4.2); what is none counts as 0."""
    given = next((one[2:] for one in parameters if one.startswith("q=")), "1")
    try:
        return float(given)
    except ValueError:
        return 0.0


class _Snapshot(Collector):
    """What `prometheus_client` asks for its families."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._runs = snapshot.runs

    def collect(self) -> Iterator[Metric]:
        yield _info(self._runs)
        for instrument in TABLE:
            points = [
                (metrics.run.run_id, point)
                for metrics in self._runs
                for reading in metrics.readings
                if reading.instrument is instrument
                for point in reading.points
            ]
            if points:
                yield _family(instrument, points)


def _info(runs: Iterable[RunMetrics]) -> Metric:
    family = InfoMetricFamily(INFO, "What is known of a run.", labels=(RUN, *INFO_LABELS))
    for metrics in runs:
        run, facts = metrics.run, metrics.facts
        told = (run.host, str(run.server_pid), run.engine)
        labels = (run.run_id, *told, facts.worker, facts.algorithm, facts.device)
        family.add_metric(list(map(_text, labels)), {})
    return family


def _family(instrument: Instrument, points: Iterable[tuple[str, Point]]) -> Metric:
    unit = instrument.prometheus_unit
    labels = (RUN, *instrument.attributes)
    if instrument.form is Form.HISTOGRAM:
        return _histogram(instrument, points)
    kind = CounterMetricFamily if instrument.form is Form.COUNTER else GaugeMetricFamily
    family = kind(instrument.family, instrument.about, labels=labels, unit=unit)
    for run_id, point in points:
        if not isinstance(point.value, Distribution):
            family.add_metric(list(map(_text, (run_id, *point.values))), point.value)
    return family


def _histogram(instrument: Instrument, points: Iterable[tuple[str, Point]]) -> Metric:
    family = HistogramMetricFamily(
        instrument.family,
        instrument.about,
        labels=(RUN, *instrument.attributes),
        unit=instrument.prometheus_unit,
    )
    edges = [*(str(bound / instrument.scale) for bound in instrument.bounds), "+Inf"]
    for run_id, point in points:
        if isinstance(point.value, Distribution):
            buckets = list(zip(edges, accumulate(point.value.counts), strict=True))
            labels = list(map(_text, (run_id, *point.values)))
            family.add_metric(labels, buckets, point.value.total)
    return family


def _text(text: str) -> str:
    """The text as UTF-8 can carry it."""
    return text.encode(errors="replace").decode()
