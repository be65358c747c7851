"""The ways into a process: each by name, which is tried first, and what is said of a closed one."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spectrace.attach import elf, handle, inject, leave, ring_file, ways
from spectrace.attach.ways import Method, Way
from spectrace.errors import SpectraceError
from tests import newest_gdb
from tests.helpers.stress import one_of_each_way, stress
from tests.integration.attach_targets import (
    BUSY,
    FLEETING,
    NEWEST_PYTHON,
    rank_of,
    running,
    sleeps_in,
    sources,
    wait_until,
)

COUNT = 20

needs_newest = pytest.mark.skipif(
    not NEWEST_PYTHON.exists(), reason="there is no Python 3.14 here: see tests/newest_python.py"
)


def attach(
    process: subprocess.Popen[str], method: Method, bootstrap: str | None = None
) -> handle.Attached:
    """Puts the stand-in for the probe into a process by a way."""
    options = handle.Options(units=64, method=method)
    code = sources(bootstrap) if bootstrap else sources()
    return inject.put_in(rank_of(process), options=options, sources=code)


@pytest.mark.parametrize(("method", "python"), one_of_each_way(), ids=str)
def test_a_process_that_allocates_in_four_threads_survives(
    method: Method, python: Path, tmp_path: Path
) -> None:
    """By each way in a process goes on after 20 attaches, with nothing new in its __main__."""
    print(stress(method, python, tmp_path / "finish", COUNT))


def test_where_no_way_is_asked_for_ptrace_is_taken(tmp_path: Path) -> None:
    """On x86-64 and an older Python the first open way is ptrace."""
    with running(BUSY, str(tmp_path / "finish"), "0") as process:
        attached = attach(process, Method.AUTO)
        assert attached.way is Way.PTRACE
        assert leave.take_out(attached).removed


@needs_newest
def test_a_new_python_is_asked_to_do_it_itself(tmp_path: Path) -> None:
    """On Python 3.14 the first open way is sys.remote_exec, nothing stands, and no file stays."""
    with running(BUSY, str(tmp_path / "finish"), "0", python=NEWEST_PYTHON) as process:
        attached = attach(process, Method.AUTO)
        assert (attached.way, attached.stop_ns) == (Way.REMOTE_EXEC, 0)
        assert not attached.path.with_suffix(".py").exists()
        assert leave.take_out(attached).removed


@needs_newest
def test_a_python_that_does_not_let_itself_be_told_is_entered_by_ptrace(tmp_path: Path) -> None:
    """Where sys.remote_exec is switched off the next way is taken, and why is reported."""
    code = f"import sys\nsys.argv[1:] = [{str(tmp_path / 'finish')!r}, '0']\n{BUSY}"
    command = [str(NEWEST_PYTHON), "-X", "disable-remote-debug", "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            attached = attach(process, Method.AUTO)
            assert attached.way is Way.PTRACE
            (why,) = attached.closed
            assert "sys.remote_exec was refused" in why
            assert leave.take_out(attached).removed
            with pytest.raises(SpectraceError, match=r"sys\.remote_exec was refused"):
                attach(process, Method.REMOTE_EXEC)
        finally:
            process.kill()


@needs_newest
def test_a_script_that_comes_too_late_finds_nothing_to_do() -> None:
    """A process that was blocked runs nothing once the attach has been given up, and says nothing.

    The interpreter would complain of a file that is not there: one that only removes itself is.
    """
    code = "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\nprint('on', flush=True)"
    with running(code, python=NEWEST_PYTHON) as process:
        wait_until(lambda: sleeps_in(process.pid, "read"))
        options = handle.Options(units=64, method=Method.REMOTE_EXEC)
        with pytest.raises(SpectraceError, match="did not come to a safe point"):
            inject.put_in(rank_of(process), options=options, timeout_s=0.3, sources=sources())
        path = ring_file.ring_path(process.pid)
        assert not path.exists()
        out, complaint = process.communicate("go on\n", timeout=60)
        assert (out, complaint, process.returncode) == ("on\n", "", 0)
        assert not path.with_suffix(".py").exists()


def test_an_older_python_has_no_remote_exec(tmp_path: Path) -> None:
    """Asked for by name it is refused with both versions, and no ring is left."""
    found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    with running(BUSY, str(tmp_path / "finish"), "0") as process:
        with pytest.raises(SpectraceError, match=rf"runs Python {found}, .* came with 3\.14"):
            attach(process, Method.REMOTE_EXEC)
        assert not ring_file.ring_path(process.pid).exists()


def test_without_gdb_its_way_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        running(BUSY, str(tmp_path / "finish"), "0") as process,
        pytest.raises(SpectraceError, match="no gdb on this machine"),
    ):
        attach(process, Method.GDB)


A_GDB = r"""#!{python}
# Does as gdb's machine interface, up to the call of a function in the process that it is given.
import os, signal, sys
pid = 0
for line in sys.stdin:
    answer = "^done"
    if "-target-attach" in line:
        pid = int(line.split()[1])
        print(pid, file=open({seen!r}, "a"))
    if "-data-evaluate-expression" in line:
        {answer}
    print("7" + answer, flush=True)
"""


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("answer = '^error,msg=\"Couldn\\'t write extended state\"'", "extended state"),
        ("answer = '^done,value=\"1\"'", "another result"),
        (
            "os.kill(pid, signal.SIGKILL); answer = f'^done,value=\"{pid}\"'",
            "did not survive",
        ),
    ],
    ids=["does not know the processor", "calls wrongly", "kills"],
)
def test_a_gdb_that_does_harm_is_not_let_at_the_server(
    answer: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried on a process of ours, and what it does there is told; the server stays out."""
    seen = tmp_path / "seen"
    program = tmp_path / "gdb"
    text = A_GDB.replace("{python}", sys.executable).replace("{seen!r}", repr(str(seen)))
    program.write_text(text.replace("{answer}", answer))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with running(BUSY, str(tmp_path / "finish"), "0") as process:
        with pytest.raises(SpectraceError, match=f"would harm the server.*{why}"):
            attach(process, Method.GDB)
        (tried,) = map(int, seen.read_text().split())
        assert tried != process.pid
        assert not Path(f"/proc/{tried}").exists()
        assert not ring_file.ring_path(process.pid).exists()
        (tmp_path / "finish").touch()
        assert process.wait(60) == 0


def test_gdb_waits_for_a_blocked_process_no_longer_than_asked() -> None:
    """A main thread that holds the GIL in native code takes nothing in, and goes on unharmed."""
    code = (
        "import ctypes, select, struct, sys\nprint('ready', flush=True)\n"
        "ctypes.PyDLL(None).poll(ctypes.c_char_p(struct.pack('ihh', 0, select.POLLIN, 0)), 1, -1)\n"
        "sys.stdin.readline()\nprint('alive', flush=True)"
    )
    with running(code) as process:
        wait_until(lambda: sleeps_in(process.pid, "poll"))
        options = handle.Options(units=64, method=Method.GDB)
        with pytest.raises(SpectraceError, match="did not come to a safe point"):
            inject.put_in(rank_of(process), options=options, timeout_s=0.3, sources=sources())
        out, complaint = process.communicate("go on\n", timeout=60)
        assert (out, complaint) == ("alive\n", "")


def test_gdb_frees_the_text_where_the_probe_leaves_it(tmp_path: Path) -> None:
    """A loader's text that nobody has freed is freed by gdb as well."""
    with running(BUSY, str(tmp_path / "finish"), "0") as process:
        maps = Path(f"/proc/{process.pid}/maps")
        attached = attach(process, Method.GDB, FLEETING)
        first = maps.read_text().count("\n")
        ring_file.remove(attached.path)
        for _ in range(3):
            ring_file.remove(attach(process, Method.GDB, FLEETING).path)
        assert maps.read_text().count("\n") <= first + 1  # an arena may come; three texts not


INTERPRETER = elf.interpreter(os.getpid())


@pytest.mark.parametrize(
    ("machine", "version", "expected"),
    [
        ("x86_64", (3, 12), (Way.PTRACE,)),
        ("x86_64", (3, 14), (Way.REMOTE_EXEC, Way.PTRACE)),
        ("aarch64", (3, 13), (Way.GDB,)),
        ("aarch64", (3, 14), (Way.REMOTE_EXEC, Way.GDB)),
        ("x86_64", None, (Way.PTRACE,)),
    ],
)
def test_the_best_way_comes_first(
    machine: str,
    version: tuple[int, int] | None,
    expected: tuple[Way, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """sys.remote_exec where there is one, then ptrace on x86-64 and gdb elsewhere."""
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert ways.order(Method.AUTO, version) == expected
    assert ways.order(Method.GDB, version) == (Way.GDB,)


def test_all_tools_are_here() -> None:
    """On a machine that has run `make tools-setup` no way goes untested for want of a good gdb."""
    assert shutil.which("gdb")
    assert not newest_gdb.fault()
