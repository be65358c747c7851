"""The file that a command makes of what it traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from spectrace.store.recorded import SUFFIX

OUTPUT: Any = typer.Option(
    "--output",
    "-o",
    metavar="FILE",
    help=f"The file to write; {SUFFIX} is added where it has no ending.",
    show_default=False,
)


def recording_at(output: Path) -> Path:
    """The file that an option names, with its ending.

    Raises:
        BadParameter: It is a directory.
    """
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a directory: name a file in it.", param_hint="-o")
    return output if output.suffix else output.with_suffix(SUFFIX)
