"""The options of commands that end with a result: how it is written, and how much it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

ResultJsonOption = Annotated[
    bool, typer.Option("--json", help="Write the result as one JSON object.")
]
MarkdownOption = Annotated[
    bool, typer.Option("--markdown", help="Write it as Markdown, to paste into an issue.")
]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write the result as a page that needs nothing else.",
        show_default=False,
    ),
]


def count_option(metavar: str, about: str) -> Any:
    """A number of things, at least one, that a command does without if it is not given."""
    return typer.Option(min=1, metavar=metavar, help=about, show_default=False)
