"""Writes the layout's numbers into the probe's texts in place of their names.

The server's main thread stands still while the probe is loaded, with the processor's caches full
of the server's own: there each name and each class costs microseconds. Lines stay where they are,
so that an error in the probe names the line of its file.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TypeGuard

_LAYOUT = "layout"


@dataclass(frozen=True)
class Numbers:
    """What stands for numbers in the layout.

    Attributes:
        plain: Numbers by name.
        classes: The classes of numbers that have no use but their names.
    """

    plain: dict[str, int] = field(default_factory=dict)
    classes: dict[str, dict[str, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, layout: str) -> Numbers:
        """Reads them from the layout's text."""
        found = cls()
        for node in ast.parse(layout).body:
            if isinstance(node, ast.ClassDef):
                found.classes[node.name] = _assigned(node.body)
            else:
                found.plain.update(_assigned([node]))
        return found

    def __contains__(self, name: str) -> bool:
        """Whether a name of the layout is not needed once its numbers are written in."""
        return name in self.plain or name in self.classes


def folded(text: str, numbers: Numbers) -> str:
    """The text of a module with numbers in place of names, on the same lines.

    Args:
        text: Of a module that imports names from the layout, or of the layout itself.
        numbers: Those of the layout.

    Raises:
        ValueError: A class of numbers is used otherwise than for one of its numbers.
    """
    tree = ast.parse(text)
    edits = _Edits(text)
    imports = [node for node in ast.walk(tree) if _is_of_the_layout(node)]
    known = {alias.name for node in imports for alias in node.names}
    for node in imports:
        edits.replace(node, _import_of_the_rest(node, numbers))
    if not imports:  # it is the layout itself, or needs nothing of it
        known = {name for node in tree.body for name in _defined(node, numbers)}
        for statement in tree.body:
            if _defined(statement, numbers):
                edits.replace(statement, "")
    _replace_uses(tree, numbers, known, edits)
    return edits.made()


def _is_of_the_layout(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    return isinstance(node, ast.ImportFrom) and (node.module or "").endswith(_LAYOUT)


def _defined(node: ast.stmt, numbers: Numbers) -> list[str]:
    """The names of numbers that a statement of the layout defines."""
    if isinstance(node, ast.ClassDef):
        return [node.name] if node.name in numbers.classes else []
    return [name for name, value in _assigned([node]).items() if numbers.plain.get(name) == value]


def _replace_uses(tree: ast.Module, numbers: Numbers, known: set[str], edits: _Edits) -> None:
    """Writes the numbers in for the names that are known to be the layout's."""
    done: set[ast.AST] = set()
    for node in ast.walk(tree):  # a whole before its parts
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            number = numbers.classes.get(node.value.id, {}).get(node.attr)
            if number is not None and node.value.id in known:
                edits.replace(node, str(number))
                done.add(node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node not in done:
            if node.id in known & numbers.classes.keys():
                raise ValueError(f"line {node.lineno}: {node.id} is used as a whole")
            if node.id in known & numbers.plain.keys():
                edits.replace(node, str(numbers.plain[node.id]))


def _assigned(body: list[ast.stmt]) -> dict[str, int]:
    """Names that are given a number as it stands there."""
    return {
        target.id: node.value.value
        for node in body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and type(node.value.value) is int
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _import_of_the_rest(node: ast.ImportFrom, numbers: Numbers) -> str:
    """What is left of an import from the layout."""
    rest = [alias.name for alias in node.names if alias.name not in numbers]
    return f"from {'.' * node.level}{node.module} import {', '.join(rest)}" if rest else "pass"


class _Edits:
    """Replacements of pieces of a text that leave every other line where it was."""

    def __init__(self, text: str) -> None:
        self._lines = [line.encode() for line in text.splitlines(keepends=True)]
        self._edits: list[tuple[int, int, int, bytes]] = []

    def replace(self, node: ast.expr | ast.stmt, by: str) -> None:
        """Puts something in the place of a node."""
        assert node.end_lineno is not None  # noqa: S101 - of a tree that was parsed
        assert node.end_col_offset is not None  # noqa: S101 - the same
        first, last = node.lineno - 1, node.end_lineno - 1
        if first == last:
            self._edits.append((first, node.col_offset, node.end_col_offset, by.encode()))
            return
        self._lines[first] = self._lines[first][: node.col_offset] + by.encode() + b"\n"
        for line in range(first + 1, last + 1):
            self._lines[line] = b"\n"

    def made(self) -> str:
        """The text as it is then."""
        lines = self._lines.copy()
        for line, begin, end, by in sorted(self._edits, reverse=True):
            if lines[line] != b"\n":  # it went with what stood around it
                lines[line] = lines[line][:begin] + by + lines[line][end:]
        return b"".join(lines).decode()
