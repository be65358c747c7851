"""Imports run downwards only: which room may use which."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "spectrace"

# A room may import itself, what stands below it here, and errors. Rooms of one row must not
# import each other.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "shown": set(),
    "__init__": {"store"},  # the public face, which imports it when it is called
    "model": set(),
    "measures": {"model"},
    "chosen": {"model"},
    "hidden": set(),
    "kernels": {"model"},
    "probe": set(),
    "loop": {"probe"},
    "plugin": {"probe"},
    "collect": {"model", "probe.layout"},
    "analysis": {"model", "measures", "chosen", "kernels", "hidden"},
    "attach": {"model", "kernels", "collect", "probe.layout", "probe.engines"},
    "otlp": {"model"},
    "store": {"model", "measures", "chosen", "kernels"},
    "metrics": {"model"},
    "importing": {"model", "kernels", "collect", "probe.layout"},
    "server": {
        *("model", "measures", "chosen", "otlp", "store", "analysis", "attach", "metrics"),
        *("kernels", "importing"),
    },
    "cli": {
        *("model", "measures", "collect", "analysis", "attach", "store", "server", "metrics"),
        "hidden",
        *("kernels", "importing"),
        "shown",
        "probe.layout",
    },
}
FREE = {"errors"}


def room_of(module: str) -> str:
    """The room of a dotted module below `spectrace`; "" for the package itself."""
    return module.partition(".")[0]


def imports_of(path: Path) -> set[str]:
    """Dotted names below `spectrace` that a file imports, relative ones resolved."""
    module = path.relative_to(ROOT).with_suffix("").parts
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = list(module[: -node.level]) if node.level else []
            base += (node.module or "").split(".") if node.module else []
            found.update(".".join([*base, alias.name]) for alias in node.names)
    return {name.partition(".")[2] for name in found if name.split(".")[0] == "spectrace"}


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_imports_only_from_rooms_below_its_own(path: Path) -> None:
    """Every import of a file leads into its own room or one that its room may use."""
    own = room_of(".".join(path.relative_to(PACKAGE).with_suffix("").parts))
    for imported in imports_of(path) - {"", "__version__"}:
        room = room_of(imported)
        allowed = MAY_IMPORT[own] | FREE
        fits = room == own or room in allowed or any(imported.startswith(a) for a in allowed)
        assert fits, f"{path.relative_to(ROOT)} imports spectrace.{imported}"


def test_every_room_has_its_rule() -> None:
    """A new room cannot appear without saying what it may import."""
    rooms = {p.stem for p in PACKAGE.iterdir() if p.is_dir() or p.suffix == ".py"}
    assert rooms - {"__init__", "__pycache__", "py"} <= set(MAY_IMPORT) | {"py"}


# The probe runs under another package name in a server; a loop and the plugin import it under ours.
INSIDE = [(path, set[str]()) for path in sorted((PACKAGE / "probe").rglob("*.py"))]
for room in ("loop", "plugin"):
    INSIDE += [(path, {"spectrace"}) for path in sorted((PACKAGE / room).rglob("*.py"))]


@pytest.mark.parametrize(("path", "own"), INSIDE, ids=str)
def test_the_probe_uses_the_standard_library_alone(path: Path, own: set[str]) -> None:
    """What runs inside the server imports nothing that would have to be installed there."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            found = name.split(".")[0]
            assert found in sys.stdlib_module_names | own, f"{path}: {name}"
