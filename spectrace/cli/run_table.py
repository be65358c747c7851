"""Lays the report of a run out for a terminal, or as Markdown to paste into an issue."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from spectrace import __version__
from spectrace.analysis.run_report import RunReport
from spectrace.cli.output import harmless
from spectrace.cli.run_sections import Section, definitions, facts, sections


def render(found: RunReport) -> RenderableType:
    """The sentences, then all tables."""
    first, *others = found.sentences
    parts: list[RenderableType] = [Text(first, style="bold"), Text(" ".join(others))]
    for section in sections(found):
        parts += [Text(""), table(section)]
        parts += [Text(section.note, style="dim")] if section.note else []
    parts += [Text(""), *(Text(f"{name}: {what}", style="dim") for name, what in facts(found))]
    return Group(*parts)


def table(section: Section) -> Table:
    """A table whose heads stand one word below the other, which leaves room for the cells."""
    columns = [
        Column(
            head if place == 0 else head.replace(" ", "\n"),
            justify="right" if place else "left",
            overflow="fold",
        )
        for place, head in enumerate(section.heads)
    ]
    drawn = Table(
        *columns,
        title=Text(section.title, style="bold"),
        title_justify="left",
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for row in section.rows:
        drawn.add_row(*map(Text, row))
    return drawn


def markdown(found: RunReport) -> str:
    """The same as Markdown, with what was recorded, by which version, and the definitions."""
    first, *others = found.sentences
    parts = [f"## {plain(first)}", plain(" ".join(others)), _list(facts(found))]
    for section in sections(found):
        parts += [f"### {plain(section.title)}", *([plain(section.note)] if section.note else [])]
        parts.append(grid(section))
    parts += ["### Words", _list(definitions()), f"spectrace {__version__}"]
    return "\n\n".join(parts) + "\n"


def _list(pairs: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- **{name}**: {plain(what)}" for name, what in pairs)


def grid(section: Section) -> str:
    """A table as Markdown."""
    heads, *rows = [section.heads, *section.rows]
    lines = [_line(heads), _line(["---", *["--:"] * (len(heads) - 1)])]
    return "\n".join([*lines, *map(_line, rows)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(map(plain, cells))} |"


def plain(text: str) -> str:
    """Text that Markdown takes as it is: names come from servers, and may hold anything."""
    for mark in "\\|*_`<>[]":
        text = text.replace(mark, f"\\{mark}")
    return " ".join(harmless(text).split())
