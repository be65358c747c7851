"""The command `spectrace`: its commands, its version, and how errors reach the person."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from spectrace import __version__
from spectrace.cli.attach import attach
from spectrace.cli.detach import detach
from spectrace.cli.mode import mode
from spectrace.cli.serve import serve
from spectrace.cli.status import status
from spectrace.errors import SpectraceError

_INTERRUPTED = 130

app = typer.Typer(
    name="spectrace",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(attach)
app.command()(detach)
app.command()(mode)
app.command()(status)
app.command()(serve)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"spectrace {__version__}")
        raise typer.Exit


@app.callback()
def spectrace(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    """See where each speculative decode cycle of a running SGLang server spends its time."""
    del version  # its callback has done it


def main() -> None:
    """Runs a command; what went wrong is said in one line on stderr."""
    try:
        app()
    except SpectraceError as error:
        typer.echo(f"spectrace: {' '.join(str(error).split())}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has left, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
