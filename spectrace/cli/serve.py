"""`spectrace serve`: the page and the OTLP receiver, for machines that send their cycles here."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from spectrace.cli.attach import duration_option
from spectrace.cli.stopping import Stop, stop_on_signals
from spectrace.server.open import open_page
from spectrace.server.run import DEFAULT_PORT, HOST

_POLL_S = 0.1
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?")
_POWERS = {"": 0, "k": 1, "M": 2, "G": 3, "T": 4}


def size_option(text: str) -> int:
    """Bytes of a size on the command line, such as 500MB, 1GB or 1GiB.

    Raises:
        BadParameter: It is no size, or one of nothing.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size: write 500MB, 1GB or 1GiB.")
    number, prefix, binary = match.groups()
    size = int(float(number) * (1024 if binary else 1000) ** _POWERS[prefix])
    if size <= 0:
        raise typer.BadParameter(f"{text!r} leaves no room: write 500MB, 1GB or 1GiB.")
    return size


def wait(stop: Stop) -> None:
    """Waits until somebody asks to stop."""
    while not stop.requested:
        time.sleep(_POLL_S)


def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; only loopback for now.")] = HOST,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help=f"Port to listen on; the next free one from {DEFAULT_PORT} on if not given.",
            show_default=False,
        ),
    ] = None,
    retain: Annotated[
        float,
        typer.Option(parser=duration_option, metavar="TIME", help="Keep cycles for so long."),
    ] = "10m",  # type: ignore[assignment]  # a default goes through the parser as well
    max_size: Annotated[
        int,
        typer.Option(parser=size_option, metavar="SIZE", help="Keep no more than so much."),
    ] = "1GB",  # type: ignore[assignment]  # the same
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep the cycles here beyond the end of this command.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the page and receive cycles over OTLP/HTTP, until Ctrl-C."""
    with (
        stop_on_signals() as stop,
        open_page(
            retain_s=retain, max_bytes=max_size, directory=store, host=host, port=port
        ) as made,
    ):
        hub, server = made
        typer.echo(f"The page: {server.url}")
        typer.echo(f"Send spans to: {hub.otlp_endpoint}")
        wait(stop)
