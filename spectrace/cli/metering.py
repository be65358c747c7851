"""Pushes the metrics of a session over OTLP, where the command line asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Protocol
from urllib.parse import urlsplit, urlunsplit

import typer

from spectrace.attach.session import End, SessionFacts, Stall
from spectrace.cli.exporting import loaded
from spectrace.errors import SpectraceError
from spectrace.metrics.meter import Meter
from spectrace.model import Cycle, Run
from spectrace.shown import address

_FROM_ENVIRONMENT = "env"
_SAME = "same"
_TRACES_PATH = "/v1/traces"
_GRPC, _HTTP = "grpc", "http/protobuf"

OtlpMetricsOption = Annotated[
    str | None,
    typer.Option(
        "--otlp-metrics",
        metavar="URL",
        help="Push metrics there over OTLP, such as http://127.0.0.1:4318; `same` for where "
        "--otlp-endpoint sends, and in the same way; `env` for what "
        "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT says. The page has "
        "them at /metrics in any case.",
        show_default=False,
    ),
]


class PushStats(Protocol):
    """What a pusher says of its work."""

    def loss(self) -> str:
        """One sentence on what did not arrive, empty if everything did."""


class Pusher(Protocol):
    """What the entry point `otlp.metrics` makes."""

    endpoint: str
    notices: Sequence[str]

    def finish(self) -> None:
        """Pushes at once, and returns at once: the time to close counts from now on."""

    def close(self, timeout_s: float = 2.0) -> PushStats:
        """Pushes once more, and gives up what is not gone in time."""


class LastPushTap:
    """A tap on a session (`attach.tapped.Tap`) that has its metrics pushed as soon as it is over.

    It stands before the exporter of cycles, which may wait for its endpoint: so both wait at
    the same time. What that one loses is in the push of closing.

    Args:
        pusher: Pushes the metrics.
        meter: Has them.
    """

    def __init__(self, pusher: Pusher, meter: Meter) -> None:
        self._pusher = pusher
        self._meter = meter

    def tell(self, run: Run, facts: SessionFacts, stalls: Sequence[Stall]) -> None:
        """Needs to know nothing."""

    def feed(self, cycles: Sequence[Cycle]) -> None:
        """The meter has a tap of its own."""

    def end(self, run: Run, end: End | None) -> None:
        """Begins to push."""
        del run, end
        self._meter.settle()
        self._pusher.finish()


@dataclass(frozen=True)
class Target:
    """Where metrics go.

    Attributes:
        url: The URL, None for what the environment says.
        protocol: How, None for what the environment says.
    """

    url: str | None
    protocol: str | None = None


@contextmanager
def pushing(target: Target, meter: Meter, note: Callable[[str], None]) -> Iterator[Pusher]:
    """What pushes the metrics of a meter, until the block ends, and then within two seconds.

    Args:
        target: As `target_of` gives it.
        meter: The meter.
        note: Takes sentences: on what could not be followed, on what did not arrive.

    Raises:
        SpectraceError: It is not installed here, or the target cannot be one.
    """
    pusher: Pusher = loaded("otlp.metrics")(target.url, meter.read, protocol=target.protocol)
    for notice in pusher.notices:
        note(notice)
    try:
        yield pusher
    except SpectraceError:  # nothing was traced, or not to the end: there is enough to say
        pusher.close(0.0)
        raise
    except BaseException:
        pusher.close()
        raise
    loss = pusher.close().loss()
    if loss:
        note(f"To {address(pusher.endpoint)}: {loss}")


def target_of(
    named: str, traces_endpoint: str | None = None, traces_protocol: str | None = None
) -> Target:
    """Where metrics go.

    Args:
        named: The value of `--otlp-metrics`.
        traces_endpoint: Where traces go, None for nowhere.
        traces_protocol: And how.

    Raises:
        SpectraceError: They are to go to the same place as traces, and that is none.
    """
    if named == _FROM_ENVIRONMENT:
        return Target(None)
    if named != _SAME:
        return Target(named)
    if traces_endpoint and traces_protocol == _GRPC:
        return Target(traces_endpoint, _GRPC)
    parts = urlsplit(traces_endpoint or "")
    path = parts.path.rstrip("/")
    if not parts.netloc or (path and not path.endswith(_TRACES_PATH)):
        raise SpectraceError(
            "--otlp-metrics same: "
            + (
                f"{address(traces_endpoint)} does not tell where metrics go: name their address."
                if traces_endpoint
                else "traces are not sent: add --otlp-endpoint, or name the address of metrics."
            ),
            exit_code=2,
        )
    url = urlunsplit(parts._replace(path=path.removesuffix(_TRACES_PATH)))
    return Target(url, traces_protocol and _HTTP)  # as protobuf: there is no other way for metrics
