"""`spectrace serve`: the page and the OTLP receiver, for machines that send their cycles here."""

from __future__ import annotations

from typing import Annotated

import typer

from spectrace.cli.page_options import (
    MAX_SIZE,
    RETAIN,
    MaxSizeOption,
    PortOption,
    RetainOption,
    StoreOption,
)
from spectrace.cli.stopping import stop_on_signals, wait
from spectrace.server.open import open_page
from spectrace.server.run import HOST


def serve(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on; only loopback for now.")] = HOST,
    port: PortOption = None,
    retain: RetainOption = RETAIN,
    max_size: MaxSizeOption = MAX_SIZE,
    store: StoreOption = None,
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
