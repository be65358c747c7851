"""The wheel carries the page, also where it is built on a machine without Node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.beside_others

ROOT = Path(__file__).parents[2]


def checkout(folder: Path) -> Path:
    """A copy of what is under version control, as somebody gets it."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - of the PATH
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, target)
    return folder


def test_a_machine_without_node_builds_a_wheel_with_the_page(tmp_path: Path) -> None:
    """With nothing but Python on the PATH the build brings its own Node."""
    empty = tmp_path / "bin"
    empty.mkdir()
    source = checkout(tmp_path / "source")
    assert not (source / "spectrace" / "server" / "page").exists()
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(tmp_path), str(source)],
        env={**os.environ, "PATH": str(empty)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "spectrace/server/page/index.html" in names
    assert any(n.startswith("spectrace/server/page/assets/") and n.endswith(".js") for n in names)
    assert "spectrace_exporters/otlp.py" in names
    assert not any(n.startswith(("ui/", "tests/", "examples/")) for n in names)
