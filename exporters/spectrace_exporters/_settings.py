"""What the OTEL_* variables say of sending traces, beside where to; docs/otlp.md has the table.

The official exporters read headers, certificates and the rest of OTEL_EXPORTER_OTLP_* by
themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector
from opentelemetry.sdk.trace import SpanLimits

from spectrace.errors import SpectraceError
from spectrace.otlp.limits import Limits
from spectrace.otlp.shape import MAX_LINKS, Value
from spectrace_exporters._endpoint import TRACES
from spectrace_exporters._sampling import Sampling
from spectrace_exporters._variables import (
    Variables,
    compression,
    count,
    seconds_of_ms,
    share,
    some_seconds,
)

_DEFAULT_SERVICE = "spectrace"
_USUAL_ATTRIBUTES = 128  # OpenTelemetry's own limit; no span of ours has so many
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
        compression: One of `_variables.COMPRESSIONS`.
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
    variables = Variables(TRACES, environ)
    usual = Settings()
    named = OTELResourceDetector().detect().attributes or {}
    attributes: dict[str, Value] = {name: str(value) for name, value in named.items()}
    service = str(attributes.pop(SERVICE_NAME, _DEFAULT_SERVICE))
    queue_spans = variables.parsed("OTEL_BSP_MAX_QUEUE_SIZE", usual.queue_spans, count)
    batch_spans = variables.parsed("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", usual.batch_spans, count)
    settings = Settings(
        service=service,
        attributes=attributes,
        batch_spans=min(batch_spans, queue_spans),
        queue_spans=queue_spans,
        interval_s=variables.parsed("OTEL_BSP_SCHEDULE_DELAY", usual.interval_s, seconds_of_ms),
        patience_s=variables.parsed("OTEL_BSP_EXPORT_TIMEOUT", usual.patience_s, seconds_of_ms),
        timeout_s=variables.parsed_of_exporter("TIMEOUT", usual.timeout_s, some_seconds),
        compression=variables.parsed_of_exporter("COMPRESSION", usual.compression, compression),
        limits=_limits(variables.notices),
        sampling=_sampling(variables),
    )
    return msgspec.structs.replace(settings, notices=tuple(variables.notices))


def switched_off(environ: Mapping[str, str]) -> str:
    """Why the environment wants nothing sent, empty if it does not.

    Raises:
        SpectraceError: OTEL_TRACES_EXPORTER wants something else than OTLP.
    """
    why = Variables(TRACES, environ).switched_off()
    exporters = environ.get("OTEL_TRACES_EXPORTER", "")
    if "OTEL_TRACES_EXPORTER" in why and exporters.strip().lower() != "none":
        raise SpectraceError(
            f"OTEL_TRACES_EXPORTER is {exporters!r}, spectrace sends OTLP alone: unset it, or name "
            "the address with --otlp-endpoint.",
            exit_code=2,
        )
    return f"{why}: nothing is sent." if why else ""


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


def _sampling(variables: Variables) -> Sampling:
    ratio = variables.parsed("OTEL_TRACES_SAMPLER_ARG", 1.0, share)
    named = variables.environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    # Our roots have no parent: such a sampler does what is said of roots.
    sampler = named.removeprefix("parentbased_") or "always_on"
    if sampler == _RATIO_SAMPLER:
        return Sampling(ratio=ratio)
    if sampler not in _SAMPLERS:
        variables.notices.append(
            f"OTEL_TRACES_SAMPLER is {named!r}, which is not known: it is passed over."
        )
    return _SAMPLERS.get(sampler, Sampling())
