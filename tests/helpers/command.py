"""Runs the command `spectrace` as a person would, for tests."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

SPECTRACE = str(Path(sys.executable).with_name("spectrace"))
TIMEOUT_S = 60.0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(
        [SPECTRACE, *arguments], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )


def start(*arguments: str) -> subprocess.Popen[str]:
    """Starts a command whose output is read meanwhile."""
    return subprocess.Popen(
        [SPECTRACE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def first_line_with(process: subprocess.Popen[str], text: str) -> str:
    """Reads until a line has `text`, which tells that the command has come so far."""
    assert process.stdout is not None
    deadline = time.monotonic() + TIMEOUT_S
    for line in process.stdout:
        if text in line:
            return line
        assert time.monotonic() < deadline
    raise AssertionError(f"the command ended without {text!r}")
