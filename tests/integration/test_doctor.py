"""`spectrace doctor` on real processes in broken situations: each time the cause is named."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from spectrace.attach import inject, leave, ring_file
from spectrace.attach.check import State
from spectrace.attach.handle import Options
from spectrace.cli.doctor import Section, examined
from spectrace.cli.main import app
from spectrace.errors import SpectraceError
from tests.helpers.command import run
from tests.helpers.container import Container
from tests.integration.attach_targets import (
    BUSY,
    NOBODY,
    SYSTEM_PYTHON,
    rank_of,
    running,
    sleeps_in,
    sources,
    state_of,
    wait_until,
)

RUNNER = CliRunner()
IDLE = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
OLD_PYTHON = next(iter((Path.home() / ".pyenv/versions").glob("3.[89].*/bin/python3")), None)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")


def doctor(pid: int) -> tuple[int, dict[str, dict[str, Any]]]:
    """Its exit code, and the checks of a process or server by name."""
    result = RUNNER.invoke(app, ["doctor", str(pid), "--json"])
    machine, server = msgspec.json.decode(result.output)
    assert machine["of"] == "this machine"
    return result.exit_code, {check["name"]: check for check in server["checks"]}


def test_process_that_is_not_there_is_said_to_be_missing() -> None:
    """As by the command itself, whose exit code tells that something fails."""
    done = run("doctor", "4194305")
    assert done.returncode == 1
    assert not done.stderr
    assert "process 4194305 is not there" in done.stdout


def test_what_is_no_process_id_is_an_error() -> None:
    """It is not looked for."""
    error = RUNNER.invoke(app, ["doctor", "0"]).exception
    assert isinstance(error, SpectraceError)
    assert "0 is no process id" in str(error)


def test_process_that_has_ended_is_told_apart() -> None:
    """Its parent has not asked how it ended."""
    with subprocess.Popen(["/bin/true"]) as process:
        wait_until(lambda: state_of(process.pid) == "Z")
        code, found = doctor(process.pid)
        assert code == 1
        assert "has ended" in found["process"]["found"]


def test_program_that_is_no_python_is_told() -> None:
    """It can be attached to, and there is nothing to attach to."""
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        try:
            code, found = doctor(process.pid)
        finally:
            process.kill()
    assert code == 1
    assert found["rights"]["state"] == "ok"
    assert "is no Python process" in found["Python"]["found"]
    assert "is no Python process" in found["server"]["found"]


def test_python_without_a_server_is_told() -> None:
    """All that concerns Python is fine, and the server is what is missing."""
    with running(IDLE) as process:
        code, found = doctor(process.pid)
    assert code == 1
    assert {name for name, check in found.items() if check["state"] == "fail"} == {"server"}
    assert "has no SGLang scheduler below it" in found["server"]["found"]


@pytest.mark.skipif(OLD_PYTHON is None, reason="there is no Python that is too old here")
def test_python_that_is_too_old_is_told() -> None:
    """With the versions that would do."""
    with running(IDLE, python=OLD_PYTHON or "") as process:
        found = doctor(process.pid)[1]["Python"]
    assert found["state"] == "fail"
    assert found["mend"] == "run the server with Python 3.10 to 3.14"


def test_paused_process_is_told_and_left_paused() -> None:
    """With the command that lets it go on."""
    with running(IDLE) as process:
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: state_of(process.pid) == "T")
        found = doctor(process.pid)[1]["process"]
        assert state_of(process.pid) == "T"
    assert (found["state"], found["mend"]) == ("fail", f"kill -CONT {process.pid}")


SEIZE = """
import ctypes, sys
assert ctypes.CDLL(None).ptrace(0x4206, int(sys.argv[1]), None, None) == 0
print("ready", flush=True)
sys.stdin.readline()
"""


def test_debugger_that_has_it_is_named() -> None:
    """With its process."""
    with running(IDLE) as process, running(SEIZE, str(process.pid)) as debugger:
        found = doctor(process.pid)[1]["ptrace"]
    assert found["state"] == "fail"
    assert f"(process {debugger.pid})" in found["found"]


def test_spectrace_that_is_there_is_named(tmp_path: Path) -> None:
    """With who reads: another one would read along."""
    with running(BUSY, str(tmp_path / "finish"), "1") as process:
        attached = inject.put_in(rank_of(process), options=Options(units=64), sources=sources())
        found = doctor(process.pid)[1]["spectrace"]
        assert (found["state"], found["found"]) == (
            "ok",
            f"armed by process {os.getpid()}: attaching reads along",
        )
        assert leave.take_out(attached).removed
        assert doctor(process.pid)[1]["spectrace"]["found"] == "not in it yet"


def test_shared_memory_that_is_too_small_is_named_with_what_enlarges_it() -> None:
    """Of two ranks in one container, whose shared memory holds one ring; the command mends it."""
    with Container("sglang::scheduler_TP0", "sglang::scheduler_TP1", shared_memory="3m") as server:
        code, found = doctor(server.server_pid)
        memory = found["/dev/shm"]  # noqa: S108 - the name of the check
        assert (code, memory["state"], memory["ranks"]) == (1, "fail", [])
        command = memory["mend"].partition(", or ")[0]
        assert command.startswith(f"sudo nsenter -t {server.server_pid} -m mount -o remount")
        subprocess.run(command.removeprefix("sudo ").split(), check=True)
        code, found = doctor(server.server_pid)
        assert code == 0
        assert {name for name, check in found.items() if check["state"] == "fail"} == set()
        assert "with its own files, process ids" in found["place"]["found"]


def test_nothing_of_a_server_is_changed_by_looking() -> None:
    """Its memory, mappings, descriptors and files are as before, and it was not stopped."""

    def belongings(pid: int) -> tuple[str, list[str], bool, int]:
        process = Path(f"/proc/{pid}")
        status = (process / "status").read_text("ascii").split()
        return (
            (process / "maps").read_text("ascii"),
            sorted(str(link.readlink()) for link in (process / "fd").iterdir()),
            ring_file.ring_path(pid).exists(),
            int(status[status.index("voluntary_ctxt_switches:") + 1]),
        )

    with running(IDLE) as process:
        wait_until(lambda: sleeps_in(process.pid, "read"))
        before = belongings(process.pid)
        doctor(process.pid)
        assert belongings(process.pid) == before


def checks_as_nobody(pid: int) -> list[Section]:
    """What `nobody` is told of a process; asked by a child that becomes nobody for good."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writer, msgspec.json.encode(examined(pid)))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:  # noqa: PTH123 - a descriptor
        answer = pipe.read()
    os.waitpid(child, 0)
    return msgspec.json.decode(answer, type=list[Section])


@needs_root
def test_another_user_is_named_with_the_way_in() -> None:
    """What cannot be seen without rights is not guessed."""
    with running(IDLE) as process:
        _, server = checks_as_nobody(process.pid)
    found = {check.name: check for check in server.checks}
    assert found["rights"].state is State.FAIL
    assert found["rights"].found == "it belongs to user root, and you are nobody"
    assert "Python" not in found
    assert "run spectrace as root or with sudo" in found["server"].found


@needs_root
@pytest.mark.skipif(not SYSTEM_PYTHON.exists(), reason="needs an interpreter open to all users")
def test_own_processes_need_no_more_rights() -> None:
    """A user may attach to what is theirs, where no Yama forbids it."""
    with subprocess.Popen(
        [SYSTEM_PYTHON, "-c", IDLE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        machine, server = checks_as_nobody(process.pid)
        process.kill()
    rights = {check.name: check.state for check in (*machine.checks, *server.checks)}["rights"]
    yama = Path("/proc/sys/kernel/yama/ptrace_scope")
    restricted = yama.exists() and yama.read_text("ascii").strip() != "0"
    assert rights is (State.FAIL if restricted else State.OK)


# A filter by which the kernel refuses ptrace with EPERM, as in a container's profile.
FILTERED = """
import ctypes, struct, sys
from spectrace.cli.main import main
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, 101)]
steps += [(RETURN, 0, 0, 0x00050001), (RETURN, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
program = struct.pack("<HxxxxxxQ", len(steps), ctypes.addressof(code))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_char_p(program)) == 0
main()
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter has x86-64's numbers")
def test_filter_of_system_calls_is_named() -> None:
    """As a container's profile forbids ptrace, with the option that allows it."""
    done = subprocess.run(
        [sys.executable, "-c", FILTERED, "doctor", str(os.getpid()), "--json"],
        stdout=subprocess.PIPE,
        check=False,
    )
    machine, process = msgspec.json.decode(done.stdout, type=list[Section])
    assert done.returncode == 1
    rights = next(check for check in machine.checks if check.name == "rights")
    assert rights.state is State.FAIL
    assert "ptrace is forbidden here" in rights.found
    assert "--security-opt seccomp=unconfined" in rights.mend
    assert process.of == f"process {os.getpid()}"


def test_without_a_process_every_server_is_looked_at() -> None:
    """Beside the machine, each under its own title."""
    with Container() as one, Container() as other:
        result = RUNNER.invoke(app, ["doctor"])
        titles = [line for line in result.output.splitlines() if line.startswith("server ")]
        for server in (one, other):
            assert any(title.startswith(f"server {server.server_pid} (") for title in titles)
    assert result.output.startswith("this machine\n")
