"""The command `spectrace`: its commands, its version, and how errors reach the person."""

from __future__ import annotations

import contextlib
import sys
from collections import UserDict
from pkgutil import resolve_name
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.main import get_command

from spectrace import __version__
from spectrace.cli.output import drop_what_waits, harmless, refused
from spectrace.cli.stopping import gone_at_ctrl_c
from spectrace.cli.unbegun import INTERRUPTED
from spectrace.errors import SpectraceError

# Where the function of each command stands. It is imported when it is asked for: all of them take
# a second of a processor that a server may need.
_COMMANDS = {
    "attach": "spectrace.cli.attach:attach",
    "launch": "spectrace.cli.launch:launch",
    "detach": "spectrace.cli.detach:detach",
    "mode": "spectrace.cli.mode:mode",
    "sample": "spectrace.cli.sample:sample",
    "compare-timing": "spectrace.cli.compare_timing:compare_timing",
    "kernels": "spectrace.cli.kernels:kernels",
    "status": "spectrace.cli.status:status",
    "doctor": "spectrace.cli.doctor:doctor",
    "serve": "spectrace.cli.serve:serve",
    "record": "spectrace.cli.record:record",
    "view": "spectrace.cli.view:view",
    "export": "spectrace.cli.export:export",
    "import": "spectrace.cli.import_:import_",
    "report": "spectrace.cli.run_report:report",
    "predict": "spectrace.cli.predict:predict",
    "compare": "spectrace.cli.compare:compare",
    "sweep": "spectrace.cli.sweep:sweep",
}


class Imported(UserDict[str, Any]):
    """Commands by name, each imported when it is looked at.

    Args:
        places: Where their functions stand, by name.
    """

    def __getitem__(self, name: str) -> Any:
        """The command as typer makes it of its function."""
        place = super().__getitem__(name)
        with gone_at_ctrl_c():
            function = resolve_name(place)
        alone = typer.Typer(add_completion=False)
        alone.command(name)(function)
        return get_command(alone)


class Commands(TyperGroup):
    """The commands, of which a broken output is an error that is said; typer hides it."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = Imported(_COMMANDS)

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]  # a click.Context
        """Runs the command.

        Raises:
            SpectraceError: As the command, and where the system refuses something.
            KeyboardInterrupt: Somebody pressed Ctrl-C, which has been said.
        """
        try:
            return super().invoke(ctx)
        except OSError as error:
            raise refused(error) from error
        except KeyboardInterrupt:  # of which typer makes an exit code and no word
            _say("Interrupted.")
            raise


app = typer.Typer(
    name="spectrace",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
        _fail(SpectraceError("Interrupted.", exit_code=INTERRUPTED))


def _fail(error: SpectraceError) -> NoReturn:
    drop_what_waits()
    _say(str(error))
    sys.exit(error.exit_code)


def _say(text: str) -> None:
    with contextlib.suppress(OSError):
        typer.echo(f"spectrace: {' '.join(harmless(text).split())}", err=True)
