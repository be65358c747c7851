"""docs/otlp.md says what is in the code: every name, and every variable that is read."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

from spectrace.otlp import names

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs/otlp.md").read_text()
_NOT_IN_THE_TABLE = {"SCOPE", "ROOT_SPAN", "RANK_SPAN_PREFIX"}


def described() -> dict[str, str]:
    """Every name of `names` with the sentence below it."""
    body = ast.parse(Path(names.__file__).read_text()).body
    found = {}
    for node, below in pairwise(body):
        if isinstance(node, ast.Assign) and isinstance(below, ast.Expr):
            (target,) = node.targets
            assert isinstance(target, ast.Name)
            if target.id not in _NOT_IN_THE_TABLE:
                assert isinstance(below.value, ast.Constant)
                found[getattr(names, target.id)] = " ".join(str(below.value.value).split())
    return found


def test_the_table_is_that_of_the_code() -> None:
    """Row by row, in the same order."""
    table = DOCUMENT.partition("## The names")[2]
    rows = re.findall(r"^\| `([^`]+)` \| (.*) \|$", table, re.MULTILINE)
    assert rows == list(described().items())


def test_every_variable_that_is_read_is_described() -> None:
    """Those that stand in the exporter's own files; those of metrics are in docs/metrics.md."""
    files = (ROOT / "exporters/spectrace_exporters").glob("*.py")
    texts = [file.read_text() for file in files if "metrics" not in file.name]
    read = {name for text in texts for name in re.findall(r'"(OTEL_\w+[A-Z])"', text)}
    assert read
    shorter = DOCUMENT.replace("[_TRACES]", "")
    assert {name for name in read if f"`{name}`" not in shorter} == set()
