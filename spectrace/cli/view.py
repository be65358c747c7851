"""`spectrace view`: the page of a recording."""

from __future__ import annotations

import typer

from spectrace.cli.page_options import PortOption, RecordingArgument
from spectrace.cli.stopping import stop_on_signals, wait
from spectrace.server.open import open_page_of_recording


def view(file: RecordingArgument, *, port: PortOption = None) -> None:
    """Show the page of a recording, until Ctrl-C."""
    with stop_on_signals() as stop, open_page_of_recording(file, port=port) as server:
        typer.echo(f"The page: {server.url}")
        wait(stop)
