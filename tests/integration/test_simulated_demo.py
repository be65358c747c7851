"""The simulated server as a person starts it: found, attached to, right, and gone at Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spectrace.attach.discover import find_by_pid

EXAMPLE = Path(__file__).parents[2] / "examples" / "simulated_gpu"
TIMEOUT_S = 120.0


@pytest.mark.parametrize(
    "arguments",
    [("v1", "--ranks", "2"), ("v2", "--figures", "sglang-29960"), ("plain", "--scale", "0.5")],
    ids=lambda arguments: arguments[0],
)
def test_the_demo_checks_itself(arguments: tuple[str, ...]) -> None:
    """Device times, accept length and counts are right, and the last line says so as JSON."""
    done = subprocess.run(
        [sys.executable, EXAMPLE / "demo.py", "--check", *arguments],
        stdout=subprocess.PIPE,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["ok"], found
    assert done.returncode == 0
    assert found["cycles"] >= 300
    assert found["ranks"] == (2 if "--ranks" in arguments else 1)


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_server_says_how_to_attach_and_ends_when_told(stop: signal.Signals) -> None:
    """Its process id is that of a server with all ranks, none of which outlives it."""
    server = subprocess.Popen(
        [sys.executable, EXAMPLE / "server.py", "v2", "--ranks", "2"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        said = next(line for line in server.stdout if line.startswith("$ spectrace attach"))
        assert said.split()[-1] == str(server.pid)
        run = find_by_pid(server.pid)
        assert [rank.name for rank in run.ranks] == ["TP0", "TP1"]
        server.send_signal(stop)
        assert server.wait(TIMEOUT_S) == 0
        assert not any(Path(f"/proc/{rank.pid}").exists() for rank in run.ranks)
    finally:
        server.kill()
        server.communicate()
