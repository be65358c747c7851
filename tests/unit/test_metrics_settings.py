"""Where metrics are pushed and how often, by the rules of the OpenTelemetry specification."""

from __future__ import annotations

import pytest
from spectrace_exporters._endpoint import GRPC
from spectrace_exporters._endpoint import HTTP_PROTOBUF as HTTP
from spectrace_exporters._metrics_settings import read_settings

from spectrace.errors import SpectraceError

METRICS = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
GENERAL = "OTEL_EXPORTER_OTLP_ENDPOINT"
GRPC_WANTED = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}


@pytest.mark.parametrize(
    ("flag", "environ", "url"),
    [
        (None, {}, "http://localhost:4318/v1/metrics"),
        ("http://h:4318", {}, "http://h:4318/v1/metrics"),
        ("http://h:4318/", {}, "http://h:4318/v1/metrics"),
        ("http://h:4318/v1/traces", {}, "http://h:4318/v1/metrics"),
        ("https://h/otlp/v1/traces", {}, "https://h/otlp/v1/metrics"),
        ("https://h/otlp", {}, "https://h/otlp"),
        (None, {GENERAL: "http://h:1"}, "http://h:1/v1/metrics"),
        (None, {GENERAL: "http://h:1/base/"}, "http://h:1/base/v1/metrics"),
        (None, {METRICS: "http://h:2"}, "http://h:2"),
        (None, {METRICS: "http://h:2/x", GENERAL: "http://h:1"}, "http://h:2/x"),
        ("http://f", {METRICS: "http://h:2/x", GENERAL: "http://h:1"}, "http://f/v1/metrics"),
        (None, {METRICS: "", GENERAL: ""}, "http://localhost:4318/v1/metrics"),
        (None, GRPC_WANTED, "http://localhost:4317"),
        (None, GRPC_WANTED | {GENERAL: "h:1"}, "h:1"),
        (None, GRPC_WANTED | {GENERAL: "http://h:1"}, "http://h:1"),
        ("http://f:4317", GRPC_WANTED, "http://f:4317"),
    ],
)
def test_the_flag_comes_before_the_environment(
    flag: str | None, environ: dict[str, str], url: str
) -> None:
    """Flag, variable of metrics, variable of all signals, default; a base gets the path."""
    assert read_settings(flag, environ).endpoint == url


@pytest.mark.parametrize(
    ("environ", "protocol"),
    [
        ({}, HTTP),
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, GRPC),
        (
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
            },
            HTTP,
        ),
        ({"OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": " GRPC "}, GRPC),
    ],
)
def test_the_protocol_of_metrics_comes_before_that_of_all(
    environ: dict[str, str], protocol: str
) -> None:
    """HTTP where neither is set."""
    assert read_settings(None, environ).protocol == protocol


def test_a_protocol_that_metrics_do_not_speak_is_refused() -> None:
    """With the variable that says so, and the one to set."""
    environ = {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}
    with pytest.raises(SpectraceError, match=r"OTLP_PROTOCOL is 'http/json'.*METRICS_PROTOCOL"):
        read_settings("http://h", environ)


@pytest.mark.parametrize("flag", ["localhost:4318", "ftp://h", "http://", "http://h:x", "http://["])
def test_what_is_no_http_url_is_refused(flag: str) -> None:
    """The message shows what was written and what to write."""
    with pytest.raises(SpectraceError, match="write http://HOST:4318") as caught:
        read_settings(flag, {})
    assert repr(flag) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "seconds", "notices"),
    [("", 60, 0), ("5000", 5, 0), ("250", 0.25, 0), ("0", 60, 1), ("-5", 60, 1), ("1 s", 60, 1)],
)
def test_the_interval_is_in_ms(text: str, seconds: float, notices: int) -> None:
    """A minute where it is not set; what is no interval is passed over, in a sentence."""
    settings = read_settings("http://h", {"OTEL_METRIC_EXPORT_INTERVAL": text})
    assert (settings.interval_s, len(settings.notices)) == (seconds, notices)


@pytest.mark.parametrize(
    ("text", "delta", "notices"),
    [
        ("", False, 0),
        ("Cumulative", False, 0),
        ("delta", True, 0),
        ("lowmemory", True, 0),
        ("sometimes", False, 1),
    ],
)
def test_deltas_are_sent_where_they_are_preferred(text: str, delta: bool, notices: int) -> None:
    """`lowmemory` is the same for what is counted when it happens."""
    name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
    settings = read_settings("http://h", {name: text})
    assert (settings.delta, len(settings.notices)) == (delta, notices)


def test_exponential_histograms_are_declined_in_a_sentence() -> None:
    """Ours have explicit bounds, which Prometheus and OTLP both take."""
    name = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
    [notice] = read_settings("http://h", {name: "base2_exponential_bucket_histogram"}).notices
    assert "explicit buckets" in notice


@pytest.mark.parametrize(
    ("environ", "off"),
    [
        ({}, False),
        ({"OTEL_SDK_DISABLED": "true"}, True),
        ({"OTEL_METRICS_EXPORTER": "none"}, True),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, True),
        ({"OTEL_METRICS_EXPORTER": "prometheus, otlp"}, False),
    ],
)
def test_the_environment_can_switch_pushing_off(environ: dict[str, str], off: bool) -> None:
    """But not against the flag, which goes before it."""
    assert bool(read_settings(None, environ).off) is off
    assert not read_settings("http://h", environ).off


@pytest.mark.parametrize(
    ("text", "seconds", "notices"),
    [("", 10, 0), ("2.5", 2.5, 0), ("0", 10, 1), ("soon", 10, 1), ("nan", 10, 1), ("inf", 10, 1)],
)
def test_the_timeout_is_that_of_metrics_or_of_all(text: str, seconds: float, notices: int) -> None:
    """Ten seconds where neither is set."""
    for name in ("OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"):
        settings = read_settings("http://h", {name: text})
        assert (settings.timeout_s, len(settings.notices)) == (seconds, notices)


@pytest.mark.parametrize(
    ("environ", "compression", "notices"),
    [
        ({}, "none", 0),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "GZIP"}, "gzip", 0),
        (
            {
                "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
                "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "none",
            },
            "none",
            0,
        ),
        ({"OTEL_EXPORTER_OTLP_COMPRESSION": "zip"}, "none", 1),
    ],
)
def test_compression_is_that_of_metrics_or_of_all(
    environ: dict[str, str], compression: str, notices: int
) -> None:
    """What is none is passed over, in a sentence."""
    settings = read_settings("http://h", environ)
    assert (settings.compression, len(settings.notices)) == (compression, notices)
