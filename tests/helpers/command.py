"""Runs the command `spectrace` as a person would, for tests."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

_started: list[subprocess.Popen[str]] = []  # those that `end_all` has to look after
SPECTRACE = str(Path(sys.executable).with_name("spectrace"))
TIMEOUT_S = 180.0  # of what may itself take a minute, on a machine however busy


def run(*arguments: str, timeout_s: float = TIMEOUT_S) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(
        [SPECTRACE, *arguments], capture_output=True, text=True, check=False, timeout=timeout_s
    )


def start(*arguments: str) -> subprocess.Popen[str]:
    """Starts a command whose output is read meanwhile."""
    process = subprocess.Popen(
        [SPECTRACE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    _started.append(process)
    return process


def end_all() -> None:
    """Ends what `start` began and a test left running, and prints what it had to say.

    A test that fails half-way leaves its commands; the next one must not meet them.
    """
    while _started:
        process = _started.pop()
        if process.returncode is not None or process.stdout is None or process.stdout.closed:
            continue
        process.send_signal(signal.SIGINT)
        try:
            output, errors = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
        print(f"left running: {process.args!r}, ended with {process.returncode}")
        print(output, errors, sep="\n")


def first_line_with(process: subprocess.Popen[str], text: str) -> str:
    """Reads until a line has `text`, which tells that the command has come so far."""
    assert process.stdout is not None
    deadline = time.monotonic() + TIMEOUT_S
    for line in process.stdout:
        if text in line:
            return line
        assert time.monotonic() < deadline
    raise AssertionError(f"the command ended without {text!r}")
