"""Servers that spectrace starts itself: their ranks as they come, their exit code, their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spectrace.attach.launched import Launched
from spectrace.errors import SpectraceError
from tests.helpers.command import SPECTRACE, run
from tests.integration.attach_targets import wait_until

pytestmark = pytest.mark.beside_others

PROGRAM = str(Path(sys.executable).resolve())

# Starts a scheduler with each title, so many seconds after the one before; told to end, it ends
# them.
SERVER = """
import signal, subprocess, sys, time
children = []
def end(*_):
    for child in children: child.kill()
    sys.exit()
signal.signal(signal.SIGTERM, end)
for title in sys.argv[3:]:
    command = [title, "-I", "-c", "import signal; signal.pause()"]
    children.append(subprocess.Popen(command, executable=sys.argv[1]))
    time.sleep(float(sys.argv[2]))
while True: signal.pause()
"""


def server_of(*titles: str, apart_s: float = 0.0) -> list[str]:
    """The command of a server whose schedulers have these titles."""
    return [PROGRAM, "-c", SERVER, PROGRAM, str(apart_s), *titles]


def never() -> bool:
    """Nobody stops the wait."""
    return False


def test_all_ranks_are_waited_for_that_come_one_after_the_other() -> None:
    """A rank that comes a moment after the first is among those that are found."""
    server = Launched(
        server_of("sglang::scheduler_TP0", "sglang::scheduler_TP1", apart_s=0.3), subprocess.DEVNULL
    )
    try:
        run = server.wait_for_ranks(never)
        assert run is not None
        assert [rank.name for rank in run.ranks] == ["TP0", "TP1"]
        assert run.server_pid == server.pid
    finally:
        server.stop(1.0)


def test_a_server_behind_a_shell_is_found() -> None:
    """What is started may be a script that starts the server."""
    command = ["sh", "-c", '"$@"; exit 0', "sh", *server_of("sglang::scheduler")]
    server = Launched(command, subprocess.DEVNULL)
    try:
        run = server.wait_for_ranks(never)
        assert run is not None
        assert [rank.name for rank in run.ranks] == ["TP0"]
    finally:
        server.stop(1.0)


def test_its_end_is_the_end_of_its_whole_group() -> None:
    """Stopped, no process of it is left, also none that pays no heed to a wish."""
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True)"
    code = f"{stubborn}\nsignal.pause()"
    reader, writer = os.pipe()
    server = Launched([PROGRAM, "-c", code], writer)
    assert os.read(reader, 1) == b"\n"
    began_s = time.monotonic()
    server.stop(0.3)
    assert time.monotonic() - began_s >= 0.3
    assert server.exit_code == 128 + signal.SIGKILL
    for descriptor in (reader, writer):
        os.close(descriptor)


@pytest.mark.parametrize(("code", "expected"), [("exit 5", 5), ("kill -TERM $$", 143)])
def test_a_server_that_ends_before_it_has_a_rank_passes_its_status(
    code: str, expected: int
) -> None:
    """The command ends with the server's own status, and its output is where it was."""
    done = run("launch", "--no-page", "--", "sh", "-c", f"echo what it says; {code}")
    assert done.returncode == expected
    assert "what it says" in done.stderr
    assert f"The server ended with status {expected} before it had a rank" in done.stderr


def test_a_command_that_is_not_there_is_named() -> None:
    """Nothing is started, and the error says what to give."""
    with pytest.raises(SpectraceError, match=r"no-such-server cannot be started .*after `--`"):
        Launched(["no-such-server"], subprocess.DEVNULL)


def test_a_server_that_cannot_be_traced_runs_on_until_it_is_stopped(tmp_path: Path) -> None:
    """The reason is said, the server stays, and Ctrl-C ends it; the status says that it failed."""
    log = tmp_path / "log"
    command = [SPECTRACE, "launch", "--no-page", "--server-log", str(log)]
    with subprocess.Popen(
        [*command, "--method", "plugin", "--", *server_of("sglang::scheduler")],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if "without being traced" in line)
        assert "has no plugin" in line
        (server,) = children(process.pid)
        (rank,) = children(server)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 1
        wait_until(lambda: not Path(f"/proc/{rank}").exists())


def children(pid: int) -> list[int]:
    """Process ids of the children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
