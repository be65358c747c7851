"""Brings a newer gdb from Debian's stable suite into `.gdb` where this machine's own is too old.

gdb up to 13 cannot write the registers of a processor with AMX. Where no newer one can be had this
says so and ends well; the tests that need it then fail, since without them a way in is untested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from spectrace.attach import gdb
from spectrace.errors import SpectraceError
from tests.debian_suite import unpack, use_own_libraries

ROOT = Path(__file__).parents[1] / ".gdb"
FOLDER = ROOT / "alone"  # the packages hold other programs, which shall not be found


def main() -> int:
    """Bring it unless the one that is there will do; return the exit status."""
    os.environ["PATH"] = with_newest(os.environ["PATH"])
    if not fault():
        return 0
    shutil.rmtree(ROOT, ignore_errors=True)
    try:
        unpack(ROOT, "stable", "gdb-minimal", with_needed=True)
        program = ROOT / "usr" / "bin" / "gdb"
        use_own_libraries(ROOT, program)
        FOLDER.mkdir()
        (FOLDER / "gdb").symlink_to(program)
    except (OSError, subprocess.SubprocessError, LookupError) as error:
        shutil.rmtree(ROOT, ignore_errors=True)
        print(f"No newer gdb can be had here ({error}).")
    os.environ["PATH"] = with_newest(os.environ["PATH"])
    print(fault() or "Brought a newer gdb: this machine's own does not know its processor.")
    return 0


def with_newest(path: str) -> str:
    """The PATH with which that gdb is found if it was brought."""
    return os.pathsep.join([str(FOLDER), path]) if FOLDER.exists() else path


def fault() -> str:
    """Why the gdb that is found cannot be let at a process; empty if it can."""
    try:
        gdb.rehearse()
    except SpectraceError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.exit(main())
