"""Names the formats in which a recording can be written, without loading any of them."""

from __future__ import annotations

from importlib.metadata import entry_points

ENTRY_POINTS = "spectrace.exporters"
"""The group of entry points that name exporters."""
FILE = ".file"
"""What the name of an exporter that writes files ends with."""


def file_formats() -> list[str]:
    """The formats in which a recording can be written, by name."""
    names = entry_points(group=ENTRY_POINTS).names
    return sorted(name.removesuffix(FILE) for name in names if name.endswith(FILE))
