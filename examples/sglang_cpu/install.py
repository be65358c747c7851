"""Makes `.venv-sglang`, the environment in which the CPU-only SGLang server runs."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENVIRONMENT = HERE.parents[1] / ".venv-sglang"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "spectrace-stamp"
REQUIREMENTS = HERE / "requirements.txt"

OLDEST_PYTHON = (3, 11)
TAIL_LINES = 20


class InstallError(Exception):
    """A step of the installation failed; the message says which, and what to do."""


def fingerprint() -> str:
    """Return the hash of all that decides what the environment contains."""
    digest = hashlib.sha256()
    for source in (REQUIREMENTS, Path(__file__)):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def is_current() -> bool:
    """Return whether a complete environment made by this very script is there and runs.

    The stamp is written last, so that an interrupted installation has none.
    """
    if not STAMP.is_file() or STAMP.read_text() != fingerprint():
        return False
    probe = "from importlib.metadata import version; version('torch'), version('sglang')"
    try:
        done = subprocess.run([PYTHON, "-c", probe], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


def pinned(package: str) -> str:
    """Return the requirement line of a package.

    Args:
        package: The package's name as it is spelled in requirements.txt.

    Raises:
        InstallError: If requirements.txt does not pin it.
    """
    for line in REQUIREMENTS.read_text().splitlines():
        if line.startswith(f"{package}=="):
            return line
    raise InstallError(f"requirements.txt does not pin {package}. Add the line {package}==VERSION.")


def run_step(title: str, command: list[str], advice: str) -> None:
    """Run one command quietly, with one line of progress before and the time after it.

    Args:
        title: What the step does, for the progress line.
        command: The command.
        advice: What to do if it fails, a whole sentence.

    Raises:
        InstallError: If it fails; the message ends with the tail of its output.
    """
    print(f"{title} ... ", end="", flush=True)
    start = time.monotonic()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        print("failed", flush=True)
        tail = "\n".join(done.stdout.splitlines()[-TAIL_LINES:])
        raise InstallError(f"{tail}\n{title}: exit status {done.returncode}. {advice}")
    print(f"{time.monotonic() - start:.0f} s", flush=True)


def install(python: str) -> None:
    """Build the environment from nothing, whatever stands in its place.

    Args:
        python: The interpreter that the environment is made from.

    Raises:
        InstallError: If a step fails; the environment is then without a stamp.
    """
    pip = [str(PYTHON), "-m", "pip", "install", "-q", "--no-input", "--disable-pip-version-check"]
    retry = "Check the network and the free disk space (4 GB), then run this script again."
    contents = fingerprint()
    STAMP.unlink(missing_ok=True)
    run_step(
        f"making {ENVIRONMENT.name}",
        [python, "-m", "venv", "--clear", str(ENVIRONMENT)],
        "Choose an interpreter that has the venv module (on Debian: python3-venv) by --python.",
    )
    run_step("installing torch", [*pip, pinned("torch")], retry)
    run_step("installing SGLang", [*pip, "--no-deps", "-r", str(REQUIREMENTS)], retry)
    STAMP.write_text(contents)


def check_version(python: str) -> None:
    """Refuse an interpreter that the pinned packages do not support.

    Args:
        python: The interpreter to ask.

    Raises:
        InstallError: If it does not run or is too old.
    """
    wanted = ".".join(map(str, OLDEST_PYTHON))
    probe = f"import sys; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    try:
        status = subprocess.run([python, "-c", probe], check=False).returncode
    except OSError as error:
        raise InstallError(
            f"No Python runs at {python}: {error}. Choose one by --python."
        ) from error
    if status != 0:
        raise InstallError(f"{python} is older than {wanted}. Choose a newer one by --python.")


def main() -> int:
    """Install unless the environment is current; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter to make it from")
    parser.add_argument("-f", "--force", action="store_true", help="build it anew in any case")
    options = parser.parse_args()
    with REQUIREMENTS.open() as lock:  # a second installation waits here for the first
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_current() and not options.force:
            print(f"{ENVIRONMENT.name} is up to date")
            return 0
        try:
            check_version(options.python)
            install(options.python)
        except InstallError as error:
            print(error, file=sys.stderr)
            return 1
    print(f"{ENVIRONMENT.name} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
