"""docs/import.md names what the code knows."""

from __future__ import annotations

import re
from pathlib import Path

from spectrace.analysis.kernel_classes import parse_classes
from spectrace.kernels import KernelClass

DOCUMENT = (Path(__file__).parents[2] / "docs/import.md").read_text()


def test_every_class_of_kernels_is_named() -> None:
    """All that the command can print, without a user's own."""
    assert {f"`{kind.value}`" for kind in KernelClass} <= set(re.findall(r"`\w+`", DOCUMENT))


def test_the_example_of_a_users_table_is_one() -> None:
    """It is read as it stands there."""
    [example] = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)
    assert set(parse_classes(example, "mine.toml")) == {"lm_head", "moe"}
