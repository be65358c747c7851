"""Where OTLP goes and how: the flag, then the variables of the OpenTelemetry specification."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from spectrace.errors import SpectraceError

GRPC, HTTP_PROTOBUF, HTTP_JSON = "grpc", "http/protobuf", "http/json"
PROTOCOLS = (HTTP_PROTOBUF, GRPC, HTTP_JSON)

_PATH = "v1/traces"
_DEFAULTS = {
    HTTP_PROTOBUF: "http://localhost:4318",
    HTTP_JSON: "http://localhost:4318",
    GRPC: "http://localhost:4317",
}
_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


def of_traces(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """A variable of the exporter: that of traces, or else that of all signals.

    Args:
        name: What follows OTEL_EXPORTER_OTLP_ in its name, such as `PROTOCOL`.
        environ: Environment variables; an empty one is as good as none.

    Returns:
        Its full name and its value; that of all signals and "" where neither is set.
    """
    general = f"OTEL_EXPORTER_OTLP_{name}"
    names = (f"OTEL_EXPORTER_OTLP_TRACES_{name}", general)
    return next(((name, environ[name]) for name in names if environ.get(name)), (general, ""))


def protocol_of(flag: str | None, environ: Mapping[str, str]) -> str:
    """Which of `PROTOCOLS` is spoken.

    Raises:
        SpectraceError: None of them is wanted.
    """
    name, wanted = ("--otlp-protocol", flag) if flag else of_traces("PROTOCOL", environ)
    protocol = wanted.strip().lower() or HTTP_PROTOBUF
    if protocol not in PROTOCOLS:
        raise SpectraceError(
            f"{name} is {wanted!r}: choose one of {', '.join(PROTOCOLS)}.", exit_code=2
        )
    return protocol


def traces_endpoint(
    flag: str | None, environ: Mapping[str, str], protocol: str = HTTP_PROTOBUF
) -> str:
    """The URL to which spans are sent.

    Args:
        flag: What the person named; `/v1/traces` is appended if it has no path.
        environ: Environment variables. OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is,
            to OTEL_EXPORTER_OTLP_ENDPOINT `/v1/traces` is appended.
        protocol: One of `PROTOCOLS`. Nothing is ever appended for gRPC, and in the environment
            it may also have the form `host:4317`.

    Raises:
        SpectraceError: It is no http URL.
    """
    if flag:
        url = _checked(flag, "--otlp-endpoint", protocol)
        return url if urlsplit(url).path.strip("/") else _with_path(url, protocol)
    if exact := environ.get(_TRACES_ENDPOINT):
        return _from_environment(exact, _TRACES_ENDPOINT, protocol)
    if base := environ.get(_ENDPOINT):
        return _with_path(_from_environment(base, _ENDPOINT, protocol), protocol)
    return _with_path(_DEFAULTS[protocol], protocol)


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine itself, by its name or number."""
    host = (urlsplit(url if "//" in url else f"//{url}").hostname or "").removesuffix(".")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _with_path(url: str, protocol: str) -> str:
    if protocol == GRPC:
        return url
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{_PATH}"))


def _from_environment(url: str, source: str, protocol: str) -> str:
    return url if protocol == GRPC and "://" not in url else _checked(url, source, protocol)


def _checked(url: str, source: str, protocol: str) -> str:
    if _is_http(url):
        return url
    port = urlsplit(_DEFAULTS[protocol]).port
    raise SpectraceError(f"{source}: {url!r} is no URL, write http://HOST:{port}.", exit_code=2)


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
