"""`spectrace compare A B`: holds two recordings against each other, like with like."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from spectrace.analysis.run_comparison import compare_runs
from spectrace.analysis.run_report import without_secrets
from spectrace.analysis.run_settings import setting_differences
from spectrace.cli.compare_words import Compared, markdown, render, sentences
from spectrace.cli.output import OutputConsole
from spectrace.errors import SpectraceError
from spectrace.measures import Measures
from spectrace.store.measured import measure_recording


def names_of(one: Path, other: Path) -> tuple[str, str]:
    """How the two are called: by their file names, or by their paths where these are the same."""
    names = one.stem, other.stem
    return names if names[0] != names[1] else (str(one), str(other))


def compared(names: tuple[str, str], runs: tuple[Measures, Measures]) -> Compared:
    """Two runs held against each other."""
    one, other = (without_secrets(measures.run) for measures in runs)
    found = Compared(
        names=names,
        run_ids=(one.run_id, other.run_id),
        engines=(one.engine, other.engine),
        settings=setting_differences(one, other),
        comparison=compare_runs(*runs),
    )
    return msgspec.structs.replace(found, sentences=sentences(found))


def compare(
    one: Annotated[
        Path, typer.Argument(help="The first recording, such as before.", show_default=False)
    ],
    other: Annotated[
        Path, typer.Argument(help="The second one, such as after.", show_default=False)
    ],
    json: Annotated[
        bool, typer.Option("--json", help="Write the result as one JSON object.")
    ] = False,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Write it as Markdown, to paste into an issue.")
    ] = False,
) -> None:
    """Hold two recordings against each other: which is faster, and which phase makes it so."""
    if json and as_markdown:
        raise SpectraceError("Choose one of --json and --markdown.", exit_code=2)
    found = compared(names_of(one, other), (measure_recording(one), measure_recording(other)))
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    elif as_markdown:
        sys.stdout.write(markdown(found))
    else:
        OutputConsole().print(render(found), highlight=False)
