"""Finds or makes an environment with torch for the simulated GPU.

`.venv-sglang`, the environment of the real server, will do where it is there. Otherwise
`.venv-torch` is made, which has torch and little else.
"""

from __future__ import annotations

import fcntl
import hashlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.sglang_cpu import install
from examples.sglang_cpu.install import InstallError, pinned, run_step

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-torch"
PACKAGES = ("torch", "numpy", "setproctitle")
_STAMP = ENVIRONMENT / "spectrace-stamp"
_ADVICE = "Check the network and the free disk space (2 GB), then run this again."


def python() -> Path:
    """The interpreter that has torch; its environment is made where there is none.

    Raises:
        InstallError: It cannot be made.
    """
    if install.is_current():
        return install.PYTHON
    with Path(__file__).open() as lock:  # a second one waits here for the first
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (_STAMP.is_file() and _STAMP.read_text() == _fingerprint()):
            _make()
    return ENVIRONMENT / "bin" / "python"


def _fingerprint() -> str:
    """The hash of all that decides what the environment contains."""
    wanted = "\n".join((sys.version, *map(pinned, PACKAGES)))
    return hashlib.sha256(wanted.encode()).hexdigest()


def _make() -> None:
    """Makes it from nothing; the stamp comes last, so that what was interrupted has none."""
    install.check_version(sys.executable)
    _STAMP.unlink(missing_ok=True)
    run_step(
        f"making {ENVIRONMENT.name}",
        [sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)],
        "Choose an interpreter that has the venv module (on Debian: python3-venv).",
    )
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "-q", "--no-input"]
    run_step("installing torch", [*pip, *map(pinned, PACKAGES)], _ADVICE)
    _STAMP.write_text(_fingerprint())


def main() -> int:
    """Makes it where it is missing, and says where it is; returns the exit status."""
    try:
        print(python())
    except InstallError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
