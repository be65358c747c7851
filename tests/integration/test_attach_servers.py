"""Finding a server by its processes or its port, with real processes that carry the titles."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from spectrace.attach import discover, procfs
from spectrace.errors import SpectraceError
from tests.helpers.ports import free_port
from tests.integration.attach_targets import NOBODY, running, wait_until

# Starts a scheduler for every title given and one detokenizer, and listens on a port; then
# one for every line that it reads.
SERVER = """
import socket, subprocess, sys, threading
listening = socket.create_server(("127.0.0.1", 0))
program = "print(flush=True); import sys; sys.stdin.read()"
def start(title):
    child = subprocess.Popen([title, "-I", "-c", program], executable=sys.argv[1],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    children.append(child)
    child.stdout.readline()
    return child.pid
children = []
pids = [start(title) for title in [*sys.argv[2:], "sglang::detokenizer"]]
print(listening.getsockname()[1], *pids, flush=True)
for line in sys.stdin: print(start(line.strip()), flush=True)
"""

PROGRAM = str(Path(sys.executable).resolve())


@contextlib.contextmanager
def server(*titles: str) -> Iterator[tuple[int, int, list[int]]]:
    """A process tree like a server's: process id of the root, port, process ids below."""
    with growing(*titles) as (process, port, children):
        yield process.pid, port, children


@contextlib.contextmanager
def growing(*titles: str) -> Iterator[tuple[subprocess.Popen[str], int, list[int]]]:
    """The same with the root process itself, for `start_in`."""
    with subprocess.Popen(
        [PROGRAM, "-c", SERVER, PROGRAM, *titles],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            port, *children = (int(word) for word in process.stdout.readline().split())
            yield process, port, children
        finally:
            process.kill()


def start_in(process: subprocess.Popen[str], title: str) -> int:
    """Has a growing server start one more process; returns its id."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{title}\n")
    process.stdin.flush()
    return int(process.stdout.readline())


def test_every_process_of_the_server_leads_to_the_same_run() -> None:
    """Root, schedulers and detokenizer give one run with all ranks in order."""
    with server("sglang::scheduler_TP10", "sglang::scheduler_TP2") as (root, _, children):
        runs = [discover.find_by_pid(pid) for pid in (root, *children)]
        assert {run.run_id for run in runs} == {runs[0].run_id}
        assert runs[0].server_pid == root
        assert [(rank.name, rank.pid) for rank in runs[0].ranks] == [
            ("TP2", children[1]),
            ("TP10", children[0]),
        ]
        assert runs[0].command[0] == PROGRAM
        assert runs[0].host == socket.gethostname()
        assert len(runs[0].run_id) == 32
        assert root in [run.server_pid for run in discover.list_runs()]


def test_ranks_that_come_later_are_found_and_the_others_keep_their_names() -> None:
    """New ranks follow those that are known; without any the very run comes back."""
    with growing("sglang::scheduler_TP1", "sglang::scheduler_TP0") as (process, _, pids):
        run = discover.find_by_pid(process.pid)
        assert discover.again(run) is run
        later = [start_in(process, f"sglang::scheduler_TP{rank}") for rank in (10, 2)]
        grown = discover.again(run)
        assert [(rank.name, rank.pid) for rank in grown.ranks] == [
            ("TP0", pids[1]),
            ("TP1", pids[0]),
            ("TP2", later[1]),
            ("TP10", later[0]),
        ]
        assert (grown.run_id, grown.anchor_unix_ns) == (run.run_id, run.anchor_unix_ns)


def test_ranks_of_a_rank_that_ended_stay_known_and_its_successor_is_another() -> None:
    """A scheduler that is started again is a rank of its own beside the one that ended."""
    with growing("sglang::scheduler") as (process, _, pids):
        run = discover.find_by_pid(process.pid)
        os.kill(pids[0], signal.SIGKILL)
        wait_until(lambda: not procfs.is_alive(pids[0]))
        successor = start_in(process, "sglang::scheduler")
        assert [(rank.name, rank.pid) for rank in discover.again(run).ranks] == [
            ("TP0", pids[0]),
            ("ENGINE2 TP0", successor),
        ]


def test_looking_again_at_a_server_that_ended_is_an_error() -> None:
    """Also where another process has its id by now."""
    with server("sglang::scheduler") as (root, *_):
        run = discover.find_by_pid(root)
    with pytest.raises(SpectraceError, match=f"There is no process {root}"):
        discover.again(run)
    other = msgspec.structs.replace(run, server_pid=os.getpid())
    with pytest.raises(SpectraceError, match=f"There is no process {os.getpid()}"):
        discover.again(other)


def test_two_engines_of_one_program_are_told_apart() -> None:
    """The second one's ranks have its number before their names, in the order of the start."""
    titles = [f"sglang::scheduler_TP{rank}" for rank in (0, 1, 1, 0)]
    with server(*titles) as (root, _, pids):
        ranks = discover.find_by_pid(root).ranks
        assert [(rank.name, rank.pid) for rank in ranks] == [
            ("TP0", pids[0]),
            ("TP1", pids[1]),
            ("ENGINE2 TP0", pids[3]),
            ("ENGINE2 TP1", pids[2]),
        ]


def test_port_leads_to_the_server() -> None:
    """The process that listens at the address is taken as by its process id."""
    with server("sglang::scheduler") as (root, port, _):
        run = discover.find_by_url(f"http://localhost:{port}")
        assert run.server_pid == root
        assert [rank.name for rank in run.ranks] == ["TP0"]


def test_two_servers_stay_apart() -> None:
    """Each server has only its own ranks and its own identity."""
    with server("sglang::scheduler") as (one, *_), server("sglang::scheduler") as (other, *_):
        first, second = discover.find_by_pid(one), discover.find_by_pid(other)
        assert first.run_id != second.run_id
        assert len(first.ranks) == len(second.ranks) == 1
        with pytest.raises(SpectraceError, match="2 SGLang servers"):
            discover.find_by_pid(os.getpid())


def test_python_without_sglang_is_told_which_servers_there_are() -> None:
    """For a Python program without a scheduler the error names the servers found."""
    idle = "import sys\nprint('ready', flush=True)\nsys.stdin.read()"
    with (
        server("sglang::scheduler") as (root, *_),
        running(idle) as process,
        pytest.raises(
            SpectraceError, match=rf"is Python, but has no SGLang .* servers here are .*{root}"
        ),
    ):
        discover.find_by_pid(process.pid)


def test_program_that_is_no_python_is_refused() -> None:
    """Another program is refused as what it is."""
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        try:
            with pytest.raises(SpectraceError, match="is no Python process"):
                discover.find_by_pid(process.pid)
        finally:
            process.kill()


def test_missing_process_is_refused() -> None:
    """A number that no process has is refused."""
    with pytest.raises(SpectraceError, match="There is no process 4194305"):
        discover.find_by_pid(4194305)


def test_port_that_nobody_listens_at_is_refused() -> None:
    """Where nobody listens the error asks whether the server is up."""
    port = free_port()
    with pytest.raises(SpectraceError, match="Nobody listens at"):
        discover.find_by_url(f"http://127.0.0.1:{port}")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_server_of_another_user_is_refused_with_its_name() -> None:
    """Without rights over the ranks the error names their user and the way out."""
    with server("sglang::scheduler") as (root, *_):
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            try:
                discover.find_by_pid(root)
            except SpectraceError as error:
                os.write(writer, str(error).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        message = os.read(reader, 4096).decode()
        os.close(reader)
        assert "belongs to user root, and you are nobody: run spectrace as root" in message
