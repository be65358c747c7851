"""The options of the commands that send cycles on as OpenTelemetry traces."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from spectrace.cli import numbers

_FROM_ENVIRONMENT = "env"
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


@dataclass(frozen=True)
class Slow:
    """What counts as a slow cycle.

    Attributes:
        seconds: One that takes so long; None for none.
        quantile: One that takes longer than this part, from 0 to 1, of those before; or None.
    """

    seconds: float | None = None
    quantile: float | None = None


def slow_option(text: str) -> Slow:
    """Reads 50ms or p99.

    Raises:
        BadParameter: It is neither a duration nor a percentile.
    """
    percentile = _PERCENTILE.fullmatch(text.strip().lower())
    if percentile is not None:
        return Slow(quantile=float(percentile[1]) / 100)
    try:
        return Slow(seconds=numbers.parse_duration(text))
    except ValueError as error:
        raise typer.BadParameter(f"{error} Or a percentile, such as p99.") from None


OtlpOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Send every cycle there as an OTLP trace, such as http://127.0.0.1:4318; "
        "`env` for what OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT "
        "says. Nothing is sent without this option.",
        show_default=False,
    ),
]
OtlpProtocolOption = Annotated[
    str | None,
    typer.Option(
        metavar="PROTOCOL",
        help="http/protobuf, http/json or grpc; if not given what "
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL or OTEL_EXPORTER_OTLP_PROTOCOL says.",
        show_default=False,
    ),
]
OtlpEveryOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1_000_000,
        metavar="N",
        help="Send every Nth cycle only, by its number.",
        show_default=False,
    ),
]
OtlpSlowOption = Annotated[
    Any,  # Slow | None, which typer does not know
    typer.Option(
        parser=slow_option,
        metavar="TIME",
        help="Send slow cycles: those of 50ms or more, say, or those beyond p99 of their kind. "
        "With --otlp-every these too, without it no others.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Otlp:
    """Where cycles go, and which.

    Attributes:
        endpoint: URL, or `env`.
        protocol: How; None for what the environment says.
        every: Every so many cycles; None for all, or none but the slow ones.
        slow: What counts as slow.
    """

    endpoint: str
    protocol: str | None = None
    every: int | None = None
    slow: Slow | None = None

    @property
    def target(self) -> str | None:
        """The URL, None for what the environment says."""
        return None if self.endpoint == _FROM_ENVIRONMENT else self.endpoint

    @property
    def options(self) -> dict[str, Any]:
        """What the exporter is told beside its target."""
        slow = self.slow or Slow()
        given = {
            "protocol": self.protocol,
            "sample_every": self.every,
            "slow_s": slow.seconds,
            "slow_quantile": slow.quantile,
        }
        return {name: value for name, value in given.items() if value is not None}


def otlp_of(
    endpoint: str | None, protocol: str | None, every: int | None, slow: Slow | None
) -> Otlp | None:
    """What the command line says of sending, None where nothing is sent.

    Raises:
        BadParameter: It says how to send, and not where to.
    """
    if endpoint is not None:
        return Otlp(endpoint, protocol, every, slow)
    if protocol is None and every is None and slow is None:
        return None
    raise typer.BadParameter(
        "say where to send, too: --otlp-endpoint http://HOST:4318, or `env`.",
        param_hint="--otlp-endpoint",
    )
