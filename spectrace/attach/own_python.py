"""Runs the very interpreter that a process runs, beside it, for what only that one may do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from spectrace.attach import procfs

_TIMEOUT_S = 10.0


def executable(pid: int) -> str:
    """The file that the process runs if it is there for us under the same name, else ""."""
    if not procfs.shares_files(pid):
        return ""
    link = Path(f"/proc/{pid}/exe")
    try:
        path = link.readlink()
        return str(path) if path.samefile(link) else ""
    except OSError:
        return ""


def run(
    executable: str, owner: tuple[int, int], code: str, *arguments: str, given: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Runs a few lines in an interpreter of its own.

    Never with more rights than the traced process has: its executable is its owner's.

    Args:
        executable: As `executable` gives it.
        owner: User and group of the process.
        code: What to run.
        arguments: What it finds in `sys.argv`.
        given: What it reads.

    Raises:
        OSError: It cannot be run.
        subprocess.SubprocessError: It does not end within 10 s.
    """
    user, group = owner if os.geteuid() == 0 else (None, None)
    return subprocess.run(
        [executable, "-I", "-S", "-c", code, *arguments],
        input=given,
        capture_output=True,
        check=False,
        env={},
        cwd="/",
        timeout=_TIMEOUT_S,
        user=user,
        group=group,
        extra_groups=[] if user is not None else None,
    )
