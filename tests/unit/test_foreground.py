"""A demo waits for the command that it shows, also when that takes its time to leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 60.0
# A command that takes a second to begin, for whoever started it is still about to wait, and one to
# leave; and a program that shows it.
LEAVING = """
import time
time.sleep(1)
try:
    print("at work", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    print("has left", flush=True)
    raise SystemExit(3)
"""
SHOWING = """
import sys
from examples.foreground import in_foreground
sys.exit(in_foreground([sys.executable, "-c", sys.argv[1]]))
"""


def test_ctrl_c_is_for_the_command_which_is_waited_for() -> None:
    """It gets to its end, and its exit status is that of the demo."""
    process = subprocess.Popen(
        [sys.executable, "-c", SHOWING, LEAVING],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "at work\n"
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, output) == (3, "has left\n")
