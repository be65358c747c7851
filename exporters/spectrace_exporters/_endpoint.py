"""Where OTLP goes: the flag, then the variables of the OpenTelemetry specification."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from spectrace.errors import SpectraceError

_PATH = "v1/traces"
_DEFAULT = "http://localhost:4318"
_PROTOCOL = "http/protobuf"
_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def traces_endpoint(flag: str | None, environ: Mapping[str, str]) -> str:
    """The URL to which spans are posted.

    Args:
        flag: What the person named; `/v1/traces` is appended if it has no path.
        environ: Environment variables. OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is used as it is,
            to OTEL_EXPORTER_OTLP_ENDPOINT `/v1/traces` is appended.

    Raises:
        SpectraceError: It is no http URL, or the environment wants another protocol.
    """
    if flag:
        url = _checked(flag, "--otlp-endpoint")
        return url if urlsplit(url).path.strip("/") else _with_path(url)
    _check_protocol(environ)
    if exact := environ.get(_TRACES_ENDPOINT):
        return _checked(exact, _TRACES_ENDPOINT)
    return _with_path(_checked(environ.get(_ENDPOINT) or _DEFAULT, _ENDPOINT))


def is_loopback(url: str) -> bool:
    """Whether a URL leads to this machine itself, by its name or number."""
    host = (urlsplit(url).hostname or "").removesuffix(".")
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _with_path(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{_PATH}"))


def _checked(url: str, source: str) -> str:
    if _is_http(url):
        return url
    raise SpectraceError(f"{source}: {url!r} is no URL, write http://HOST:4318.", exit_code=2)


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no port
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _check_protocol(environ: Mapping[str, str]) -> None:
    name = next((name for name in _PROTOCOLS if environ.get(name)), None)
    if name is not None and environ[name] != _PROTOCOL:
        raise SpectraceError(
            f"{name} is {environ[name]!r}, spectrace speaks {_PROTOCOL}: name its port (often "
            "4318) with --otlp-endpoint.",
            exit_code=2,
        )
