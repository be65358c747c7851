"""What the OTEL_* variables say of pushing metrics; docs/metrics.md has the table.

The official exporters read headers and certificates by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spectrace_exporters._endpoint import GRPC, METRICS, endpoint_of, protocol_of
from spectrace_exporters._variables import (
    Variables,
    compression,
    some_seconds,
    some_seconds_of_ms,
)

_INTERVAL_S = 60.0
_TIMEOUT_S = 10.0
_HISTOGRAMS = "explicit_bucket_histogram"


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How metrics are pushed.

    Attributes:
        endpoint: URL, or `host:port` for gRPC.
        protocol: `http/protobuf` or `grpc`.
        interval_s: From one push to the next, in s.
        timeout_s: So long one push takes at most, with all its tries, in s.
        compression: One of `_variables.COMPRESSIONS`.
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
        flag: What the person named, see `_endpoint.endpoint_of`; None for what the environment
            says.
        environ: Environment variables; an empty one is as good as none.
        protocol: What is spoken where the flag leads, which then is an endpoint of traces and
            may have the form `host:4317`; None for what the environment says.

    Raises:
        SpectraceError: It is no http URL, or another protocol is wanted.
    """
    variables = Variables(METRICS, environ)
    is_bare = flag is not None and protocol == GRPC and "://" not in flag
    spoken = protocol or protocol_of(None, variables)
    settings = MetricsSettings(
        endpoint=flag if flag and is_bare else endpoint_of(flag, variables, spoken),
        protocol=spoken,
        interval_s=variables.parsed("OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL_S, some_seconds_of_ms),
        timeout_s=variables.parsed_of_exporter("TIMEOUT", _TIMEOUT_S, some_seconds),
        compression=variables.parsed_of_exporter("COMPRESSION", "none", compression),
        delta=variables.parsed(variables.specific("TEMPORALITY_PREFERENCE"), False, _is_delta),
        off="" if flag else _off(variables),
        notices=(),
    )
    return msgspec.structs.replace(settings, notices=(*variables.notices, *_unfollowed(variables)))


def _off(variables: Variables) -> str:
    why = variables.switched_off()
    return f"{why}: no metrics are pushed." if why else ""


def _is_delta(text: str) -> bool:
    """`lowmemory` is delta too, for what is counted when it happens, as all is here."""
    known = {"cumulative": False, "delta": True, "lowmemory": True}
    if text.lower() not in known:
        raise ValueError(text)
    return known[text.lower()]


def _unfollowed(variables: Variables) -> tuple[str, ...]:
    name = variables.specific("DEFAULT_HISTOGRAM_AGGREGATION")
    text = variables.environ.get(name, "").strip().lower()
    if text in {"", _HISTOGRAMS}:
        return ()
    return (f"{name} is {text!r}: spectrace's histograms have explicit buckets all the same.",)
