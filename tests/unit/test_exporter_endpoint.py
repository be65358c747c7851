"""Where OTLP goes, by the rules of the OpenTelemetry specification."""

from __future__ import annotations

import pytest
from spectrace_exporters._endpoint import GRPC, HTTP_PROTOBUF, TRACES, endpoint_of, protocol_of
from spectrace_exporters._variables import Variables

from spectrace.errors import SpectraceError

OWN = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
GENERAL = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize("url", ["ann:s3cret@host:1", "http://ann:s3cret@host:no?key=s3cret"])
def test_what_is_no_url_is_shown_without_its_secrets(url: str) -> None:
    """The person who mistyped it may show the terminal to somebody."""
    with pytest.raises(SpectraceError, match=r"'host:.*' is no URL") as refused:
        endpoint_of(url, Variables(TRACES, {}), HTTP_PROTOBUF)
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("flag", "environ", "url"),
    [
        (None, {}, "http://localhost:4318/v1/traces"),
        ("http://h:4318", {}, "http://h:4318/v1/traces"),
        ("http://h:4318/", {}, "http://h:4318/v1/traces"),
        ("http://h:4318?x=1", {}, "http://h:4318/v1/traces?x=1"),
        ("https://h/otlp", {}, "https://h/otlp"),
        ("http://[::1]:4318", {}, "http://[::1]:4318/v1/traces"),
        (None, {GENERAL: "http://h:1"}, "http://h:1/v1/traces"),
        (None, {GENERAL: "http://h:1/base/"}, "http://h:1/base/v1/traces"),
        (None, {OWN: "http://h:2"}, "http://h:2"),
        (None, {OWN: "http://h:2/x", GENERAL: "http://h:1"}, "http://h:2/x"),
        ("http://f", {OWN: "http://h:2/x", GENERAL: "http://h:1"}, "http://f/v1/traces"),
        (None, {OWN: "", GENERAL: ""}, "http://localhost:4318/v1/traces"),
        ("http://f", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http://f/v1/traces"),
    ],
)
def test_the_flag_comes_before_the_environment(
    flag: str | None, environ: dict[str, str], url: str
) -> None:
    """Flag, variable for traces, variable for all signals, default; a base gets the path."""
    assert endpoint_of(flag, Variables(TRACES, environ), HTTP_PROTOBUF) == url


@pytest.mark.parametrize("flag", ["localhost:4318", "ftp://h", "http://", "http://h:x", "http://["])
def test_what_is_no_http_url_is_refused(flag: str) -> None:
    """The message shows what was written and what to write."""
    with pytest.raises(SpectraceError, match="write http://HOST:4318") as caught:
        endpoint_of(flag, Variables(TRACES, {}), HTTP_PROTOBUF)
    assert repr(flag) in str(caught.value)


@pytest.mark.parametrize(
    ("flag", "environ", "endpoint"),
    [
        (None, {}, "http://localhost:4317"),
        ("http://h:4317", {}, "http://h:4317"),
        (None, {GENERAL: "http://h:4317/"}, "http://h:4317/"),
        (None, {OWN: "h:4317", GENERAL: "http://g"}, "h:4317"),
        (None, {GENERAL: "https://h"}, "https://h"),
    ],
)
def test_grpc_has_no_path(flag: str | None, environ: dict[str, str], endpoint: str) -> None:
    """Nothing is appended, and the environment may leave the scheme away."""
    assert endpoint_of(flag, Variables(TRACES, environ), GRPC) == endpoint


@pytest.mark.parametrize(
    ("flag", "environ", "protocol"),
    [
        (None, {}, "http/protobuf"),
        (None, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "grpc"),
        (
            None,
            {
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json",
            },
            "http/json",
        ),
        ("http/protobuf", {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf"),
        (None, {"OTEL_EXPORTER_OTLP_PROTOCOL": ""}, "http/protobuf"),
    ],
)
def test_the_protocol_has_the_same_precedence(
    flag: str | None, environ: dict[str, str], protocol: str
) -> None:
    """Flag, variable for traces, variable for all signals, default."""
    assert protocol_of(flag, Variables(TRACES, environ)) == protocol


def test_a_protocol_that_nobody_speaks_is_refused() -> None:
    """By the name of who asked for it, with the ones that there are."""
    with pytest.raises(SpectraceError, match=r"OTEL_EXPORTER_OTLP_PROTOCOL is 'soap'.*http/json"):
        protocol_of(None, Variables(TRACES, {"OTEL_EXPORTER_OTLP_PROTOCOL": "soap"}))
    with pytest.raises(SpectraceError, match="--otlp-protocol is 'http'"):
        protocol_of("http", Variables(TRACES, {}))
