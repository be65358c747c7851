"""docs/files.md describes the files as they are."""

from __future__ import annotations

import re
from pathlib import Path

from spectrace.cli.exporting import file_exporter
from spectrace.store import schema
from spectrace.store.formats import file_formats

TEXT = (Path(__file__).parents[2] / "docs" / "files.md").read_text()
_ROW = re.compile(r"^\| `(\w+)` \| ([A-Z]+) \| (\d+) \|", re.MULTILINE)
_FORMAT = re.compile(r"^\| `(\w+)` \| `run([.\w]+)/?` \|", re.MULTILINE)


def test_every_column_is_described_with_its_type_and_version() -> None:
    """In the order of the tables, under the version that is written."""
    assert f"## The schema, version {schema.VERSION}\n" in TEXT
    for table, columns in schema.TABLES.items():
        section = TEXT.split(f"**`{table}`**\n")[1].split("\n**")[0].split("\n## ")[0]
        described = [(name, kind, int(since)) for name, kind, since in _ROW.findall(section)]
        assert described == [(column.name, column.type, column.since) for column in columns]


def test_every_format_is_described_with_its_ending() -> None:
    """The table of formats names what is installed."""
    found = dict(_FORMAT.findall(TEXT))
    assert found == {name: file_exporter(name).suffix for name in file_formats()}
