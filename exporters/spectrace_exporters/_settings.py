"""What the OTEL_* variables say of sending traces, beside where to; docs/otlp.md has the table.

The official exporters read headers, certificates and the rest of OTEL_EXPORTER_OTLP_* by
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector
from opentelemetry.sdk.trace import SpanLimits

from spectrace.errors import SpectraceError
from spectrace.otlp.limits import Limits
from spectrace.otlp.shape import MAX_LINKS, Value
from spectrace_exporters._endpoint import of_traces
from spectrace_exporters._sampling import Sampling

COMPRESSIONS = ("gzip", "deflate", "none")

_DEFAULT_SERVICE = "spectrace"
_MS_PER_S = 1000
_USUAL_ATTRIBUTES = 128  # OpenTelemetry's own limit; no span of ours has so many
_Parsed = TypeVar("_Parsed")
_SAMPLERS = {
    "always_on": Sampling(),
    "always_off": Sampling(every=0),
}
_RATIO_SAMPLER = "traceidratio"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How cycles are sent.

    Attributes:
        service: What `service.name` begins with.
        attributes: Resource attributes to add.
        batch_spans: So many spans go into one request.
        queue_spans: So many spans wait at most, counted as what their cycles will have.
        interval_s: So long cycles are gathered before a request, in s.
        patience_s: So long a request is tried again, in s.
        timeout_s: So long one try takes at most, in s.
        compression: One of `COMPRESSIONS`.
        limits: What spans may hold.
        sampling: Which cycles are sent.
        notices: Sentences on variables that could not be followed.
    """

    service: str = _DEFAULT_SERVICE
    attributes: dict[str, Value] = {}
    batch_spans: int = 512
    queue_spans: int = 262_144
    interval_s: float = 0.2
    patience_s: float = 30.0
    timeout_s: float = 10.0
    compression: str = "none"
    limits: Limits = Limits()
    sampling: Sampling = Sampling()
    notices: tuple[str, ...] = ()


def read_settings(environ: Mapping[str, str]) -> Settings:
    """What the environment says.

    Args:
        environ: Environment variables; but for resource attributes and limits, which the SDK
            reads from those of this process.
    """
    notices: list[str] = []
    usual = Settings()
    named = OTELResourceDetector().detect().attributes or {}
    attributes: dict[str, Value] = {name: str(value) for name, value in named.items()}
    service = str(attributes.pop(SERVICE_NAME, _DEFAULT_SERVICE))

    def parsed(name: str, text: str, default: _Parsed, parse: Callable[[str], _Parsed]) -> _Parsed:
        try:
            return parse(text.strip()) if text else default
        except ValueError:
            notices.append(f"{name} is {text!r}, which it cannot be: it is passed over.")
            return default

    def number(name: str, default: _Parsed, parse: Callable[[str], _Parsed]) -> _Parsed:
        return parsed(name, environ.get(name, ""), default, parse)

    queue_spans = number("OTEL_BSP_MAX_QUEUE_SIZE", usual.queue_spans, _count)
    batch_spans = number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", usual.batch_spans, _count)
    compression, timeout = of_traces("COMPRESSION", environ), of_traces("TIMEOUT", environ)
    return Settings(
        service=service,
        attributes=attributes,
        batch_spans=min(batch_spans, queue_spans),
        queue_spans=queue_spans,
        interval_s=number("OTEL_BSP_SCHEDULE_DELAY", usual.interval_s, _seconds),
        patience_s=number("OTEL_BSP_EXPORT_TIMEOUT", usual.patience_s, _seconds),
        timeout_s=parsed(*timeout, usual.timeout_s, _some_seconds),
        compression=parsed(*compression, usual.compression, _compression),
        limits=_limits(notices),
        sampling=_sampling(environ, notices, number("OTEL_TRACES_SAMPLER_ARG", 1.0, _share)),
        notices=tuple(notices),
    )


def switched_off(environ: Mapping[str, str]) -> str:
    """Why the environment wants nothing sent, empty if it does not.

    Raises:
        SpectraceError: OTEL_TRACES_EXPORTER wants something else than OTLP.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "OTEL_SDK_DISABLED is true: nothing is sent."
    exporters = environ.get("OTEL_TRACES_EXPORTER", "")
    wanted = {name.strip().lower() for name in exporters.split(",") if name.strip()}
    if not wanted or "otlp" in wanted:
        return ""
    if wanted == {"none"}:
        return "OTEL_TRACES_EXPORTER is none: nothing is sent."
    raise SpectraceError(
        f"OTEL_TRACES_EXPORTER is {exporters!r}, spectrace sends OTLP alone: unset it, or name "
        "the address with --otlp-endpoint.",
        exit_code=2,
    )


def _limits(notices: list[str]) -> Limits:
    try:
        found = SpanLimits()
    except ValueError as error:
        notices.append(f"A limit of OpenTelemetry is passed over: {error}.")
        return Limits()
    attributes = found.max_span_attributes
    if attributes is not None and attributes >= _USUAL_ATTRIBUTES:
        attributes = None
    links = MAX_LINKS if found.max_links is None else min(found.max_links, MAX_LINKS)
    return Limits(attributes=attributes, text=found.max_span_attribute_length, links=links)


def _sampling(environ: Mapping[str, str], notices: list[str], ratio: float) -> Sampling:
    named = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    # Our roots have no parent: such a sampler does what is said of roots.
    sampler = named.removeprefix("parentbased_") or "always_on"
    if sampler == _RATIO_SAMPLER:
        return Sampling(ratio=ratio)
    if sampler not in _SAMPLERS:
        notices.append(f"OTEL_TRACES_SAMPLER is {named!r}, which is not known: it is passed over.")
    return _SAMPLERS.get(sampler, Sampling())


def _count(text: str) -> int:
    count = int(text)
    if count <= 0:
        raise ValueError(text)
    return count


def _seconds(text: str) -> float:
    """Seconds from what OpenTelemetry gives in ms."""
    milliseconds = int(text)
    if milliseconds < 0:
        raise ValueError(text)
    return milliseconds / _MS_PER_S


def _some_seconds(text: str) -> float:
    """What the official Python exporters take as seconds."""
    seconds = float(text)
    if not seconds > 0:
        raise ValueError(text)
    return seconds


def _compression(text: str) -> str:
    if text.lower() not in COMPRESSIONS:
        raise ValueError(text)
    return text.lower()


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share <= 1:
        raise ValueError(text)
    return share
