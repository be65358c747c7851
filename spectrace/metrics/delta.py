"""What came between two moments, for backends that want sums and histograms that way."""

from __future__ import annotations

from msgspec.structs import replace

from spectrace.metrics.meter import RunMetrics, Snapshot
from spectrace.metrics.series import Distribution, Point, Reading, Value, Values
from spectrace.metrics.table import Form


def since(before: Snapshot, now: Snapshot) -> Snapshot:
    """The metrics as counted since an earlier snapshot of the same meter.

    Gauges stay as they are. A run that began to be counted after `before` keeps all its values.
    """
    known = {metrics.run.run_id: metrics for metrics in before.runs}
    return replace(
        now,
        runs=tuple(
            _of_run(known.get(metrics.run.run_id), metrics, before.unix_ns) for metrics in now.runs
        ),
    )


def _of_run(before: RunMetrics | None, now: RunMetrics, before_unix_ns: int) -> RunMetrics:
    if before is None or before.start_unix_ns != now.start_unix_ns:
        return now
    known = {reading.instrument: reading for reading in before.readings}
    return replace(
        now,
        start_unix_ns=before_unix_ns,
        readings=tuple(
            _of_reading(known.get(reading.instrument), reading) for reading in now.readings
        ),
    )


def _of_reading(before: Reading | None, now: Reading) -> Reading:
    if before is None or now.instrument.form is Form.GAUGE:
        return now
    known: dict[Values, Point] = {point.values: point for point in before.points}
    return replace(
        now, points=tuple(_of_point(known.get(point.values), point) for point in now.points)
    )


def _of_point(before: Point | None, now: Point) -> Point:
    if before is None:
        return now
    return Point(values=now.values, value=_difference(before.value, now.value))


def _difference(before: Value, now: Value) -> Value:
    if isinstance(before, Distribution) and isinstance(now, Distribution):
        counts = zip(before.counts, now.counts, strict=True)
        return Distribution(
            counts=tuple(later - earlier for earlier, later in counts),
            total=now.total - before.total,
        )
    if isinstance(before, Distribution) or isinstance(now, Distribution):
        raise TypeError("A series is a histogram or it is none.")
    return now - before
