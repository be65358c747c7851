"""Brings a Python 3.14 from Debian's testing suite into `.python3.14`, to test `sys.remote_exec`.

Older Debians have none. Where none can be had this says so and ends well, and the tests that need
it are skipped.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.debian_suite import unpack, use_own_libraries

ROOT = Path(__file__).parents[1] / ".python3.14"
PYTHON = ROOT / "usr" / "bin" / "python3.14"
PACKAGES = (
    "python3.14-minimal",
    "libpython3.14-minimal",
    "libpython3.14-stdlib",
    "libc6",
    "libexpat1",
    "libffi8",
    "zlib1g",
)
WORKS = "import ctypes, hashlib, json, marshal, mmap, sys; sys.remote_exec"


def main() -> int:
    """Bring it unless it is there; return the exit status."""
    if works():
        return 0
    shutil.rmtree(ROOT, ignore_errors=True)
    try:
        unpack(ROOT, "testing", *PACKAGES)
        use_own_libraries(ROOT, PYTHON)
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


if __name__ == "__main__":
    sys.exit(main())
