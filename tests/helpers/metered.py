"""What metrics have to say of given Cycles, by plain sums, and an OTLP endpoint that keeps them."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import HistogramDataPoint, Metric, NumberDataPoint

from spectrace.model import Cycle, Lane

Key = tuple[str, frozenset[tuple[str, str]]]
"""Name of a metric, and its attributes but for empty ones."""


def key(name: str, **attributes: str) -> Key:
    """A series."""
    return name, frozenset((name, value) for name, value in attributes.items() if value)


class Expected:
    """What the metrics of some Cycles add up to, in each of which no boundary is missing.

    Attributes:
        sums: Counters.
        values: Histograms, as all their values, times in ns.
    """

    def __init__(self, cycles: Iterable[Cycle]) -> None:
        self.sums: Counter[Key] = Counter()
        self.values: defaultdict[Key, list[int]] = defaultdict(list)
        for cycle in cycles:
            self._add_cycle(cycle)
            self._add_rows(cycle)
            for rank in cycle.ranks:
                who = {"group": cycle.group, "rank": rank.rank}
                how = who | {"kind": cycle.kind.value, "mode": rank.mode.value}
                self._put("spectrace.probe.duration", rank.probe_ns, **who)
                self._put("spectrace.cycle.duration", rank.duration_ns, lane="host", **how)
                device = [phase for phase in rank.phases if phase.lane is Lane.DEVICE]
                if device:
                    begin_ns = min(phase.start_ns for phase in device)
                    extent_ns = max(phase.end_ns for phase in device) - begin_ns
                    self._put("spectrace.cycle.duration", extent_ns, lane="device", **how)
                for lane, name in {(phase.lane, phase.name) for phase in rank.phases}:
                    same = [p for p in rank.phases if (p.lane, p.name) == (lane, name)]
                    where = how | {"lane": lane.value, "phase": name.value}
                    total_ns = sum(phase.end_ns - phase.start_ns for phase in same)
                    self._put("spectrace.phase.duration", total_ns, **where)

    def _put(self, name: str, value: int, **attributes: str) -> None:
        self.values[key(name, **attributes)].append(value)

    def _add_cycle(self, cycle: Cycle) -> None:
        what = {"group": cycle.group, "kind": cycle.kind.value}
        self.sums[key("spectrace.cycles", **what)] += 1
        self._put("spectrace.batch.size", cycle.batch_size, **what)

    def _add_rows(self, cycle: Cycle) -> None:
        rows = [row for row in cycle.requests or () if not row.health_check]
        tokens = key("spectrace.output.tokens", group=cycle.group, kind=cycle.kind.value)
        self.sums[tokens] += sum(row.output_tokens for row in rows)
        overshoot = key("spectrace.overshoot.rows", group=cycle.group)
        self.sums[overshoot] += sum(row.overshoot for row in rows)
        for row in rows:
            if row.overshoot or row.correct_drafts is None:
                continue
            self._put("spectrace.accept.length", row.correct_drafts + 1, group=cycle.group)
            for place in range(cycle.steps):
                at = {"group": cycle.group, "position": str(place + 1)}
                self.sums[key("spectrace.drafts.verified", **at)] += 1
                self.sums[key("spectrace.drafts.accepted", **at)] += place < row.correct_drafts


class Endpoint(ThreadingHTTPServer):
    """An OTLP receiver of metrics.

    Attributes:
        requests: What came, decoded.
        paths: Where to.
        headers: With what.
        answers: Status, content type and body of the next answers; then 200 and nothing.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.requests: list[ExportMetricsServiceRequest] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[tuple[int, str, bytes]] = []

    @property
    def url(self) -> str:
        """The base endpoint."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        """Receives metrics; http.server calls it by this name."""
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.paths.append(self.path)
        self.server.headers.append({k.lower(): v for k, v in self.headers.items()})
        self.server.requests.append(ExportMetricsServiceRequest.FromString(body))
        default = (200, "application/x-protobuf", b"")
        status, kind, answer = self.server.answers.pop(0) if self.server.answers else default
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """A running receiver."""
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def metrics_of(request: ExportMetricsServiceRequest) -> dict[str, Metric]:
    """The metrics of a request of one run, by name."""
    [resource] = request.resource_metrics
    [scope] = resource.scope_metrics
    assert scope.scope.name == "spectrace"
    return {metric.name: metric for metric in scope.metrics}


def resource_of(request: ExportMetricsServiceRequest) -> dict[str, str]:
    """The text attributes of its resource."""
    [resource] = request.resource_metrics
    return {pair.key: pair.value.string_value for pair in resource.resource.attributes}


def numbers_of(request: ExportMetricsServiceRequest) -> dict[Key, float]:
    """Counters and gauges of a request."""
    return {
        _key(metric, point): point.as_int
        if point.WhichOneof("value") == "as_int"
        else point.as_double
        for metric in metrics_of(request).values()
        for point in (*metric.sum.data_points, *metric.gauge.data_points)
    }


def histograms_of(request: ExportMetricsServiceRequest) -> dict[Key, HistogramDataPoint]:
    """Histograms of a request."""
    return {
        _key(metric, point): point
        for metric in metrics_of(request).values()
        for point in metric.histogram.data_points
    }


def _key(metric: Metric, point: NumberDataPoint | HistogramDataPoint) -> Key:
    pairs = point.attributes
    return metric.name, frozenset((pair.key, pair.value.string_value) for pair in pairs)


def assert_equal_sums(request: ExportMetricsServiceRequest, expected: Expected) -> None:
    """Every counter and histogram of Cycles has the sums, the counts and the buckets."""
    numbers, histograms = numbers_of(request), histograms_of(request)
    assert {one: numbers[one] for one in expected.sums} == dict(expected.sums)
    assert set(histograms) == set(expected.values)
    for series, values in expected.values.items():
        point = histograms[series]
        scale = 1e9 if series[0].endswith("duration") else 1
        assert point.count == len(values)
        assert abs(point.sum - sum(values) / scale) < 1e-9
        edges = [-1.0, *point.explicit_bounds, float("inf")]
        for below, above, count in zip(edges, edges[1:], point.bucket_counts, strict=False):
            assert count == sum(below < value / scale <= above for value in values)
