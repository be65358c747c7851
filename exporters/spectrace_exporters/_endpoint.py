"""Where OTLP goes and how: the flag, then the variables of the OpenTelemetry specification."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from spectrace.errors import SpectraceError
from spectrace.shown import address
from spectrace_exporters._variables import Signal, Variables

GRPC, HTTP_PROTOBUF, HTTP_JSON = "grpc", "http/protobuf", "http/json"
PROTOCOLS = (HTTP_PROTOBUF, GRPC, HTTP_JSON)
TRACES = Signal("TRACES", "/v1/traces", "--otlp-endpoint", PROTOCOLS)
METRICS = Signal("METRICS", "/v1/metrics", "--otlp-metrics", (HTTP_PROTOBUF, GRPC))

_PATHS = (TRACES.path, METRICS.path)
_DEFAULTS = {
    HTTP_PROTOBUF: "http://localhost:4318",
    HTTP_JSON: "http://localhost:4318",
    GRPC: "http://localhost:4317",
}


def protocol_of(flag: str | None, variables: Variables) -> str:
    """By which of the signal's protocols it is sent.

    Args:
        flag: What the person named.
        variables: Those of the signal.

    Raises:
        SpectraceError: None of them is wanted.
    """
    name, wanted = ("--otlp-protocol", flag) if flag else variables.of_exporter("PROTOCOL")
    known = variables.signal.protocols
    protocol = wanted.strip().lower() or known[0]
    if protocol not in known:
        where = "" if flag else f" with {variables.specific('PROTOCOL')}"
        raise SpectraceError(
            f"{name} is {wanted!r}: choose one of {', '.join(known)}{where}.", exit_code=2
        )
    return protocol


def endpoint_of(flag: str | None, variables: Variables, protocol: str) -> str:
    """The URL to which a signal is sent.

    Args:
        flag: What the person named. The signal's path is appended if it has no path, and takes
            the place of another signal's at its end.
        variables: Those of the signal: its own endpoint is used as it is, to that of all signals
            its path is appended.
        protocol: One of `PROTOCOLS`. Nothing is ever appended for gRPC, and in the environment
            it may also have the form `host:4317`.

    Raises:
        SpectraceError: It is no http URL.
    """
    signal = variables.signal
    if flag:
        return _of_flag(_checked(flag, signal.option, protocol), signal, protocol)
    name, named = variables.of_exporter("ENDPOINT")
    if not named:
        return _with_path(_DEFAULTS[protocol], signal.path, protocol)
    if protocol == GRPC and "://" not in named:
        return named
    url = _checked(named, name, protocol)
    if name == variables.specific("ENDPOINT"):
        return url
    return _with_path(url, urlsplit(url).path.rstrip("/") + signal.path, protocol)


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine itself, by its name or number."""
    host = (urlsplit(url if "//" in url else f"//{url}").hostname or "").removesuffix(".")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _of_flag(url: str, signal: Signal, protocol: str) -> str:
    path = urlsplit(url).path.rstrip("/")
    for known in _PATHS:
        if path.endswith(known):
            return _with_path(url, path.removesuffix(known) + signal.path, protocol)
    return url if path else _with_path(url, signal.path, protocol)


def _with_path(url: str, path: str, protocol: str) -> str:
    return url if protocol == GRPC else urlunsplit(urlsplit(url)._replace(path=path))


def _checked(url: str, source: str, protocol: str) -> str:
    if _is_http(url):
        return url
    port = urlsplit(_DEFAULTS[protocol]).port
    raise SpectraceError(
        f"{source}: {address(url)!r} is no URL, write http://HOST:{port}.", exit_code=2
    )


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)
