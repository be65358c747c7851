"""The process of a command: Ctrl-C at its beginning and end, and output that cannot be written."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spectrace.cli.output import refused

TIMEOUT_S = 30.0
# Stands for the import of a module, which takes its time; then come the arguments.
SLOW_IMPORT = """
import sys, time
slow = sys.argv.pop(1)
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == slow:
            print("importing", flush=True)
            time.sleep(30)
sys.meta_path.insert(0, Slow())
from spectrace.cli.entry import main
main()
"""
# Stands for a server that is looked for, which takes its time.
SLOW_COMMAND = """
import time
from spectrace.attach import discover
from spectrace.cli.entry import main
def find_by_pid(_pid):
    print("at work", flush=True)
    time.sleep(30)
discover.find_by_pid = find_by_pid
main()
"""
# Stands for a command that waits for Ctrl-C, and for an interpreter that is slow to end.
SLOW_END = """
import atexit, sys, time, types
from spectrace.cli.entry import main
from spectrace.cli.stopping import stop_on_signals, wait
def end():
    print("ending", flush=True)
    time.sleep(0.5)
def command():
    with stop_on_signals() as stop:
        print("waiting", flush=True)
        wait(stop)
    sys.exit(0)
atexit.register(end)
sys.modules["spectrace.cli.main"] = types.SimpleNamespace(main=command)
main()
"""
# Says of what was imported what takes long to import.
IMPORTED = """
import sys
from spectrace.cli.entry import main
try:
    main()
finally:
    heavy = {"duckdb", "fastapi", "grpc", "numpy", "pyarrow", "requests"}
    print(*sorted(heavy & set(sys.modules)), file=sys.stderr)
"""
# A session that traces nothing; it says on stderr when it is left.
TRACED = """
import os, sys
from contextlib import contextmanager
from spectrace.attach import discover
from spectrace.cli import attach, entry
from tests.unit.test_cli_follow import RUN, FakeSession
@contextmanager
def session(_session, _taps):
    try:
        yield FakeSession()
    finally:
        print("detached", file=sys.stderr)
discover.find_by_pid = lambda _pid: RUN
attach.TappedSession = session
entry.main()
"""


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """A process of its own that runs `code`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line of its output."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize(
    "module", ["spectrace.cli.stopping", "typer", "spectrace.cli.main", "spectrace.cli.detach"]
)
def test_ctrl_c_amid_the_imports_is_said_in_a_line(module: str) -> None:
    """There is no traceback, and the exit code is the shell's for Ctrl-C."""
    with start(SLOW_IMPORT, module, "detach", "70") as process:
        assert read_line(process) == "importing"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    said = "spectrace: Interrupted before it began: nothing was done.\n"
    assert (process.returncode, errors) == (130, said)


def test_ctrl_c_amid_a_command_is_said_in_a_line() -> None:
    """Where the command itself does not hear it: no traceback either."""
    with start(SLOW_COMMAND, "detach", "70") as process:
        assert read_line(process) == "at work"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (130, "spectrace: Interrupted.\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("detach", "--help"),
        ("status",),
        ("doctor", "--help"),
        ("attach", "0", "--no-page"),
    ],
)
def test_a_command_imports_what_it_needs_and_no_more(arguments: tuple[str, ...]) -> None:
    """Beside a server that decodes no time goes into the page, the store and the tables."""
    with start(IMPORTED, *arguments) as process:
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert errors.splitlines()[-1] == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_at_the_very_end_changes_nothing(number: signal.Signals) -> None:
    """The process goes on to its end, with the exit code of success."""
    with start(SLOW_END) as process:
        assert read_line(process) == "waiting"
        process.send_signal(number)
        assert read_line(process) == "ending"
        process.send_signal(number)
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, errors) == (0, "")


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def environment(request: pytest.FixtureRequest) -> dict[str, str]:
    """Python keeps output back until it is flushed, or does not."""
    return {**os.environ, "PYTHONUNBUFFERED": request.param}


def run_into(
    output: int | Path, environment: dict[str, str], code: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Runs `code` with its output going there."""
    with open(output, "w") as stdout:  # noqa: PTH123 - it may be a descriptor
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
            env=environment,
            cwd=Path(__file__).parents[2],
        )


ATTACH = ("attach", "70", "--no-page", "--duration", "1s")
ARGUMENTS = [ATTACH, (*ATTACH, "--json")]


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_full_disk_ends_the_command_with_a_sentence(
    environment: dict[str, str], arguments: tuple[str, ...]
) -> None:
    """The probe is taken out, and the exit code says that something went wrong."""
    done = run_into(Path("/dev/full"), environment, TRACED, *arguments)
    lines = done.stderr.splitlines()
    assert lines[-1] == (
        "spectrace: The output cannot be written (No space left on device): send it elsewhere."
    )
    assert set(lines[:-1]) <= {"detached"}
    assert ("detached" in lines) is ("--json" in arguments)  # else it was not yet attached
    assert done.returncode == 1


@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_a_reader_that_left_ends_the_command_with_a_sentence(
    environment: dict[str, str], arguments: tuple[str, ...]
) -> None:
    """As a full disk does."""
    reading, writing = os.pipe()
    os.close(reading)
    done = run_into(writing, environment, TRACED, *arguments)
    lines = done.stderr.splitlines()
    assert lines[-1] == "spectrace: The output cannot be written (Broken pipe): send it elsewhere."
    assert set(lines[:-1]) <= {"detached"}
    assert done.returncode == 1


def test_what_is_still_to_be_written_at_the_end_counts_as_output(
    environment: dict[str, str],
) -> None:
    """`--version` into a full disk is no success."""
    code = "from spectrace.cli.entry import main; main()"
    done = run_into(Path("/dev/full"), environment, code, "--version")
    assert done.returncode == 1
    assert done.stderr == (
        "spectrace: The output cannot be written (No space left on device): send it elsewhere.\n"
    )


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EIO, "I/O error"), "The output cannot be written (I/O error): send"),
        (OSError(errno.ENOSPC, "Full", "/data/x"), "The system refuses /data/x: Full."),
        (OSError(errno.EPERM, "Not you"), "The system refuses an operation: Not you."),
    ],
)
def test_only_errors_of_writing_are_blamed_on_the_output(error: OSError, said: str) -> None:
    """Any other names what was refused, as far as it is known."""
    assert str(refused(error)).startswith(said)
