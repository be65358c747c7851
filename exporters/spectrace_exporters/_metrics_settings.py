"""Where metrics go over OTLP and how often: the flag, then the variables of OpenTelemetry.

The official exporters read headers and certificates by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import urlsplit, urlunsplit

import msgspec

from spectrace.errors import SpectraceError

GRPC, HTTP = "grpc", "http/protobuf"
COMPRESSIONS = ("gzip", "deflate", "none")
PATH = "/v1/metrics"
_TRACES_PATH = "/v1/traces"
_DEFAULTS = {HTTP: "http://localhost:4318", GRPC: "http://localhost:4317"}
_GENERAL, _OF_METRICS = "OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_METRICS_"
_MS_PER_S = 1000
_INTERVAL_S = 60.0
_TIMEOUT_S = 10.0


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How metrics are pushed.

    Attributes:
        endpoint: URL, or `host:port` for gRPC.
        protocol: `http/protobuf` or `grpc`.
        interval_s: From one push to the next, in s.
        timeout_s: So long one push takes at most, with all its tries, in s.
        compression: One of `COMPRESSIONS`.
        delta: Sums and histograms are sent as what has come since the last push that arrived.
        off: Why nothing is pushed, a sentence; empty if it is.
        notices: Sentences on variables that could not be followed.
    """

    endpoint: str
    protocol: str
    interval_s: float
    timeout_s: float
    compression: str
    delta: bool
    off: str
    notices: tuple[str, ...]


def read_settings(
    flag: str | None, environ: Mapping[str, str], protocol: str | None = None
) -> MetricsSettings:
    """What the flag and the environment say.

    Args:
        flag: What the person named, None for what the environment says. `/v1/metrics` is
            appended where it has no path, and takes the place of a `/v1/traces` at its end.
        environ: Environment variables; an empty one is as good as none. To
            OTEL_EXPORTER_OTLP_ENDPOINT `/v1/metrics` is appended,
            OTEL_EXPORTER_OTLP_METRICS_ENDPOINT is used as it is.
        protocol: What is spoken where the flag leads, None for what the environment says.

    Raises:
        SpectraceError: It is no http URL, or another protocol is wanted.
    """
    notices: list[str] = []
    protocol = protocol or _protocol(environ)
    return MetricsSettings(
        endpoint=_of_flag(flag, protocol) if flag else _of_environment(environ, protocol),
        protocol=protocol,
        interval_s=_interval_s(environ, notices),
        timeout_s=_timeout_s(environ, notices),
        compression=_compression(environ, notices),
        delta=_is_delta(environ, notices),
        off="" if flag else _off(environ),
        notices=(*notices, *_unfollowed(environ)),
    )


def _variable(name: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """A variable of the exporter, that of metrics or else that of all signals, and its value."""
    names = (_OF_METRICS + name, _GENERAL + name)
    return next(((one, environ[one]) for one in names if environ.get(one)), (names[1], ""))


def _protocol(environ: Mapping[str, str]) -> str:
    name, wanted = _variable("PROTOCOL", environ)
    protocol = wanted.strip().lower() or HTTP
    if protocol not in _DEFAULTS:
        raise SpectraceError(
            f"{name} is {wanted!r}, metrics are pushed by {HTTP} or {GRPC}: set "
            f"{_OF_METRICS}PROTOCOL to one of them.",
            exit_code=2,
        )
    return protocol


def _of_flag(flag: str, protocol: str) -> str:
    if protocol == GRPC and "://" not in flag:
        return flag
    url = _checked(flag, "--otlp-metrics", protocol)
    path = urlsplit(url).path.rstrip("/")
    if protocol == GRPC or (path and not path.endswith(_TRACES_PATH)):
        return url
    return _with_path(url, path.removesuffix(_TRACES_PATH))


def _of_environment(environ: Mapping[str, str], protocol: str) -> str:
    name, named = _variable("ENDPOINT", environ)
    if not named:
        return _DEFAULTS[protocol] + ("" if protocol == GRPC else PATH)
    if protocol == GRPC and "://" not in named:
        return named
    url = _checked(named, name, protocol)
    if protocol == GRPC or name.startswith(_OF_METRICS):
        return url
    return _with_path(url, urlsplit(url).path.rstrip("/"))


def _with_path(url: str, before: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=before + PATH))


def _checked(url: str, source: str, protocol: str) -> str:
    try:
        parts = urlsplit(url)
        fits = parts.scheme in {"http", "https"} and bool(parts.hostname)
        _ = parts.port  # raises where it is no port
    except ValueError:
        fits = False
    if not fits:
        port = urlsplit(_DEFAULTS[protocol]).port
        raise SpectraceError(f"{source}: {url!r} is no URL, write http://HOST:{port}.", exit_code=2)
    return url


def _interval_s(environ: Mapping[str, str], notices: list[str]) -> float:
    name = "OTEL_METRIC_EXPORT_INTERVAL"
    text = environ.get(name, "").strip()
    if not text:
        return _INTERVAL_S
    if text.isdecimal() and int(text) > 0:
        return int(text) / _MS_PER_S
    notices.append(_passed_over(name, text))
    return _INTERVAL_S


def _timeout_s(environ: Mapping[str, str], notices: list[str]) -> float:
    """What the official Python exporters take as seconds."""
    name, text = _variable("TIMEOUT", environ)
    try:
        seconds = float(text or _TIMEOUT_S)
    except ValueError:
        seconds = 0.0
    if 0 < seconds < math.inf:
        return seconds
    notices.append(_passed_over(name, text))
    return _TIMEOUT_S


def _compression(environ: Mapping[str, str], notices: list[str]) -> str:
    name, text = _variable("COMPRESSION", environ)
    compression = text.strip().lower() or "none"
    if compression in COMPRESSIONS:
        return compression
    notices.append(_passed_over(name, text))
    return "none"


def _passed_over(name: str, text: str) -> str:
    return f"{name} is {text!r}, which it cannot be: it is passed over."


def _is_delta(environ: Mapping[str, str], notices: list[str]) -> bool:
    """`lowmemory` is delta too, for what is counted when it happens, as all is here."""
    name = _OF_METRICS + "TEMPORALITY_PREFERENCE"
    text = environ.get(name, "").strip()
    known = {"": False, "cumulative": False, "delta": True, "lowmemory": True}
    if text.lower() not in known:
        notices.append(_passed_over(name, text))
    return known.get(text.lower(), False)


def _unfollowed(environ: Mapping[str, str]) -> tuple[str, ...]:
    name = _OF_METRICS + "DEFAULT_HISTOGRAM_AGGREGATION"
    text = environ.get(name, "").strip().lower()
    if text in {"", "explicit_bucket_histogram"}:
        return ()
    return (f"{name} is {text!r}: spectrace's histograms have explicit buckets all the same.",)


def _off(environ: Mapping[str, str]) -> str:
    """Why the environment wants nothing pushed, empty if it does not."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED is true: no metrics are pushed."
    exporters = environ.get("OTEL_METRICS_EXPORTER", "")
    wanted = {name.strip().lower() for name in exporters.split(",") if name.strip()}
    if not wanted or "otlp" in wanted:
        return ""
    return f"OTEL_METRICS_EXPORTER is {exporters!r}: no metrics are pushed."
