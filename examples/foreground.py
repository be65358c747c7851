"""Runs the command that a demo shows, until a person ends it by Ctrl-C."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from contextlib import suppress


def in_foreground(command: Sequence[str]) -> int:
    """Runs a command on our terminal; returns its exit status.

    Ctrl-C there goes to the command too, which then takes its leave of a server: it is waited for,
    where `subprocess.run` would kill it a quarter of a second later.

    Args:
        command: The program and its arguments.
    """
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            with suppress(KeyboardInterrupt):
                process.wait()
        return process.returncode
