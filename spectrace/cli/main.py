"""The command `spectrace`: its commands, its version, and how errors reach the person."""

from __future__ import annotations

import contextlib
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from spectrace import __version__
from spectrace.cli.attach import attach
from spectrace.cli.compare import compare
from spectrace.cli.compare_timing import compare_timing
from spectrace.cli.detach import detach
from spectrace.cli.doctor import doctor
from spectrace.cli.export import export
from spectrace.cli.import_ import import_
from spectrace.cli.launch import launch
from spectrace.cli.mode import mode
from spectrace.cli.output import drop_what_waits, harmless, refused
from spectrace.cli.predict import predict
from spectrace.cli.record import record
from spectrace.cli.run_report import report
from spectrace.cli.serve import serve
from spectrace.cli.status import status
from spectrace.cli.sweep import sweep
from spectrace.cli.view import view
from spectrace.errors import SpectraceError

_INTERRUPTED = 130


class Commands(TyperGroup):
    """The commands, of which a broken output is an error that is said; typer hides it."""

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # a click.Context
        """Runs the command.

        Raises:
            SpectraceError: As the command, and where the system refuses something.
        """
        try:
            return super().invoke(ctx)
        except OSError as error:
            raise refused(error) from error


app = typer.Typer(
    name="spectrace",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(attach)
app.command()(launch)
app.command()(detach)
app.command()(mode)
app.command()(compare_timing)
app.command()(status)
app.command()(doctor)
app.command()(serve)
app.command()(record)
app.command()(view)
app.command()(export)
app.command("import")(import_)
app.command()(report)
app.command()(predict)
app.command()(compare)
app.command()(sweep)


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
        try:
            app()
        finally:
            sys.stdout.flush()  # what cannot be written is to be said here
    except SpectraceError as error:
        _fail(error)
    except OSError as error:
        _fail(refused(error))
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _fail(error: SpectraceError) -> NoReturn:
    drop_what_waits()
    with contextlib.suppress(OSError):
        typer.echo(f"spectrace: {' '.join(harmless(str(error)).split())}", err=True)
    sys.exit(error.exit_code)
