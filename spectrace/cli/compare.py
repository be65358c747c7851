"""`spectrace compare A B`: holds two recordings against each other, like with like."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from spectrace.analysis.run_comparison import compare_runs
from spectrace.analysis.run_report import without_secrets
from spectrace.analysis.run_settings import setting_differences
from spectrace.cli.compare_words import Compared, markdown, render, sentences
from spectrace.cli.measuring import RunOption, other_runs
from spectrace.cli.output import OutputConsole
from spectrace.cli.result_options import MarkdownOption, ResultJsonOption
from spectrace.cli.run_words import of_other_runs
from spectrace.errors import SpectraceError
from spectrace.measures import Measures
from spectrace.store.measured import measure_recording

_SHOWN = 8  # digits of a run's id

OtherRunOption = Annotated[
    str,
    typer.Option(
        "--other-run",
        metavar="ID",
        help="The same of the second recording.",
        show_default=False,
    ),
]


def names_of(one: Path, other: Path, run_ids: tuple[str, str] = ("", "")) -> tuple[str, str]:
    """How the two are called: by file names, by paths where these are the same, or by run."""
    if one.resolve() == other.resolve() and run_ids[0] != run_ids[1]:
        first, second = (f"{one.stem} {run_id[:_SHOWN]}".strip() for run_id in run_ids)
        return first, second
    names = one.stem, other.stem
    return names if names[0] != names[1] else (str(one), str(other))


def compared(
    names: tuple[str, str],
    runs: tuple[Measures, Measures],
    others: tuple[Sequence[str], Sequence[str]] = ((), ()),
) -> Compared:
    """Two runs held against each other.

    Args:
        names: How they are called.
        runs: The runs.
        others: The ids of the runs that each recording has beside them, of which nothing is said.
    """
    one, other = (without_secrets(measures.run) for measures in runs)
    found = Compared(
        names=names,
        run_ids=(one.run_id, other.run_id),
        engines=(one.engine, other.engine),
        settings=setting_differences(one, other),
        comparison=compare_runs(*runs),
    )
    left = (
        sentence
        for name, ids, option in zip(names, others, ("--run", "--other-run"), strict=True)
        for sentence in of_other_runs(ids, name, option)
    )
    return msgspec.structs.replace(found, sentences=(*sentences(found), *left))


def compare(  # noqa: PLR0913, PLR0917 - the options of the command
    one: Annotated[
        Path, typer.Argument(help="The first recording, such as before.", show_default=False)
    ],
    other: Annotated[
        Path, typer.Argument(help="The second one, such as after.", show_default=False)
    ],
    run: RunOption = "",
    other_run: OtherRunOption = "",
    json: ResultJsonOption = False,
    as_markdown: MarkdownOption = False,
) -> None:
    """Hold two recordings against each other: which is faster, and which phase makes it so."""
    if json and as_markdown:
        raise SpectraceError("Choose one of --json and --markdown.", exit_code=2)
    asked = ((one, run), (other, other_run))
    first, second = (measure_recording(path, run_id) for path, run_id in asked)
    ids = first.run.run_id, second.run.run_id
    others = tuple(
        () if run_id else tuple(one for one in other_runs(str(path), measured) if one not in ids)
        for (path, run_id), measured in zip(asked, ids, strict=True)
    )
    found = compared(names_of(one, other, ids), (first, second), (others[0], others[1]))
    if json:
        sys.stdout.write(msgspec.json.encode(found).decode() + "\n")
    elif as_markdown:
        sys.stdout.write(markdown(found))
    else:
        OutputConsole().print(render(found), highlight=False)
