"""Writes a comparison of timing modes as a page that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def write_page(path: Path, result: Any, *, force: bool) -> None:
    """x."""
    path.write_text(str(result))
