"""Unpacks older releases of SGLang beside `.venv-sglang`, in whose environment they run.

`python examples/sglang_cpu/install_old.py` makes `.venv-sglang-old/RELEASE` for each release of
`PACKAGES`: SGLang itself and what must be of its time. All else is the newer environment's.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.sglang_cpu.install import PYTHON, InstallError, run_step

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / ".venv-sglang-old"
STAMP = "spectrace-stamp"

PACKAGES = {
    "0.5.12": ("sglang==0.5.12", "transformers==5.6.0", "tokenizers==0.22.2"),
    "0.5.9": (
        "sglang==0.5.9",
        "transformers==4.57.1",
        "tokenizers==0.22.2",
        "huggingface_hub==0.36.0",
    ),
}


def overlay(release: str) -> Path:
    """Return the folder of a release, whether it is there or not."""
    return FOLDER / release


def fingerprint(release: str) -> str:
    """Return the hash of what decides what a folder contains."""
    text = "\n".join((*PACKAGES[release], Path(__file__).read_text()))
    return hashlib.sha256(text.encode()).hexdigest()


def is_current(release: str) -> bool:
    """Return whether the folder was made whole by this very script.

    The stamp is written last, so that an interrupted installation has none.
    """
    stamp = overlay(release) / STAMP
    return stamp.is_file() and stamp.read_text() == fingerprint(release)


def install(release: str) -> None:
    """Make the folder of a release from nothing.

    Args:
        release: One of `PACKAGES`.

    Raises:
        InstallError: If it cannot be made; the folder is then without a stamp.
    """
    target = overlay(release)
    shutil.rmtree(target, ignore_errors=True)
    run_step(
        f"unpacking SGLang {release}",
        [
            *(str(PYTHON), "-m", "pip", "install", "-q", "--no-input", "--no-deps"),
            *("--disable-pip-version-check", "--no-warn-script-location", "--no-compile"),
            *("--target", str(target), *PACKAGES[release]),
        ],
        f"Run {HERE / 'install.py'} first; then check the network, and run this script again.",
    )
    (target / STAMP).write_text(fingerprint(release))


def make_current(release: str) -> None:
    """Install a release unless it is there; a second installation waits for the first.

    Args:
        release: One of `PACKAGES`.

    Raises:
        InstallError: If it cannot be installed.
    """
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_current(release):
            install(release)


def main() -> int:
    """Install what is missing; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", default=list(PACKAGES), help="default: all")
    for release in parser.parse_args().releases:
        if release not in PACKAGES:
            print(f"No old release {release}: {', '.join(PACKAGES)} are known.", file=sys.stderr)
            return 1
        try:
            make_current(release)
        except (InstallError, subprocess.SubprocessError, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{FOLDER.name}/{release} is up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
