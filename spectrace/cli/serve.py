"""`spectrace serve`: the page and the OTLP receiver, for machines that send their cycles here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from spectrace.cli.metering import pushing, target_of
from spectrace.cli.own_page import Target, refuse_own_page
from spectrace.cli.page_options import (
    MAX_SIZE,
    RETAIN,
    MaxSizeOption,
    PortOption,
    RetainOption,
    StoreOption,
)
from spectrace.cli.received import losses, wait_and_tell
from spectrace.cli.stopping import stop_on_signals
from spectrace.server.address import HOST, OTLP_GRPC_PORT, OTLP_HTTP_PORT, resolve
from spectrace.server.hub import Hub
from spectrace.server.open import open_page
from spectrace.server.run import OtlpPorts, PageServer
from spectrace.server.tls import Certificate
from spectrace.server.token import Token

HostOption = Annotated[
    str,
    typer.Option(help="Address to listen on, 0.0.0.0 for all; beyond loopback only with a token."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        envvar="SPECTRACE_TOKEN",
        help="What senders and browsers have to show; beyond loopback one is made if not given.",
        show_default=False,
        show_envvar=True,
    ),
]
HttpPortOption = Annotated[
    int | None,
    typer.Option(
        "--otlp-http-port",
        min=0,
        max=65535,
        help=f"Port for spans over HTTP; {OTLP_HTTP_PORT} if not given, or any if that is taken.",
        show_default=False,
    ),
]
GrpcPortOption = Annotated[
    int | None,
    typer.Option(
        "--otlp-grpc-port",
        min=0,
        max=65535,
        help=f"Port for spans over gRPC; {OTLP_GRPC_PORT} if not given, or any if that is taken.",
        show_default=False,
    ),
]

CertificateOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-cert",
        metavar="FILE",
        help="Speak TLS on all ports, with the certificate in this PEM file.",
        show_default=False,
    ),
]
KeyOption = Annotated[
    Path | None,
    typer.Option(
        "--tls-key",
        metavar="FILE",
        help="The certificate's key, a PEM file without a passphrase.",
        show_default=False,
    ),
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--otlp-metrics",
        metavar="URL",
        help="Push the metrics of what is received there over OTLP, such as http://HOST:4318; "
        "`env` for what OTEL_EXPORTER_OTLP_METRICS_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT says. "
        "The page has them at /metrics in any case.",
        show_default=False,
    ),
]


def serve(  # noqa: PLR0913 - the options of the command
    *,
    host: HostOption = HOST,
    port: PortOption = None,
    otlp_http_port: HttpPortOption = None,
    otlp_grpc_port: GrpcPortOption = None,
    token: TokenOption = None,
    tls_cert: CertificateOption = None,
    tls_key: KeyOption = None,
    retain: RetainOption = RETAIN,
    max_size: MaxSizeOption = MAX_SIZE,
    store: StoreOption = None,
    otlp_metrics: MetricsOption = None,
) -> None:
    """Show the page and receive spans over OTLP, by HTTP and gRPC, until Ctrl-C."""
    certificate = certificate_of(tls_cert, tls_key)
    required = required_token(host, token)
    with (
        stop_on_signals() as stop,
        open_page(
            retain_s=retain,
            max_bytes=max_size,
            directory=store,
            host=host,
            port=port,
            otlp=OtlpPorts(otlp_http_port, otlp_grpc_port),
            token=required,
            certificate=certificate,
            note=_note,
        ) as made,
    ):
        hub, server = made
        with pushing_on(otlp_metrics, hub, server):
            for line in said(hub, server, required, is_known=token is not None):
                typer.echo(line)
            wait_and_tell(hub, stop, _note)
            server.leave_servers()  # what comes last is pushed as well
    for sentence in losses(hub):
        _note(sentence)


def _note(text: str) -> None:
    typer.echo(text, err=True)


@contextmanager
def pushing_on(named: str | None, hub: Hub, server: PageServer) -> Iterator[None]:
    """Pushes the metrics of what arrives until the block ends, where that is wanted.

    Args:
        named: The value of `--otlp-metrics`.
        hub: Has the metrics.
        server: Its page, which is no place for them.

    Raises:
        SpectraceError: It is no place, or this very command.
    """
    if named is None:
        yield
        return
    if named == "same":
        raise typer.BadParameter("name the address of metrics.", param_hint="--otlp-metrics")
    with pushing(target_of(named), hub.meter, _note) as pusher:
        own = [urlsplit(one) for one in (server.url, hub.otlp_endpoint, hub.grpc_endpoint) if one]
        refuse_own_page(
            Target(pusher.endpoint, "--otlp-metrics", "metrics"),
            [one.port for one in own if one.port],
            hosts=[one.hostname for one in own if one.hostname],
        )
        yield


def certificate_of(chain: Path | None, key: Path | None) -> Certificate | None:
    """The certificate to show, where TLS is wanted.

    Raises:
        BadParameter: One of the two files is not named.
        SpectraceError: They are none.
    """
    if chain is None and key is None:
        return None
    if chain is None or key is None:
        raise typer.BadParameter(
            "TLS needs both: --tls-cert CERTIFICATE --tls-key KEY.",
            param_hint="--tls-cert" if chain is None else "--tls-key",
        )
    certificate = Certificate(chain, key)
    certificate.check()
    return certificate


def required_token(host: str, given: str | None) -> Token | None:
    """What has to be shown: what was given, or beyond loopback one that is made.

    Raises:
        SpectraceError: There is no such address, or the token is none.
    """
    if given is not None:
        return Token(given)
    return None if resolve(host).is_loopback else Token.make()


def said(hub: Hub, server: PageServer, token: Token | None, *, is_known: bool) -> Iterator[str]:
    """The lines to print: where everything is, and a token that was made, this once.

    Args:
        hub: Knows the endpoints.
        server: Knows the page.
        token: What has to be shown.
        is_known: It was given, and need not be printed.
    """
    yield f"The page: {server.url if is_known else server.entrance}"
    yield f"Send spans to: {hub.otlp_endpoint}"
    yield f"Over gRPC: {hub.grpc_endpoint}"
    if server.url.startswith("https:"):
        yield (
            "Senders need, where they do not trust the certificate anyway: "
            "OTEL_EXPORTER_OTLP_CERTIFICATE=FILE of who signed it"
        )
    if token is not None:
        shown = "TOKEN" if is_known else token.text
        yield f"Senders need: OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20{shown}"
        if is_known:
            yield "The page needs ?token=TOKEN at the end of its address, once in each browser."
