"""Servers of this machine are attached to from the page, and left as they were."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from spectrace.attach import discover
from spectrace.attach.handle import Options
from spectrace.attach.session import TraceSession
from spectrace.errors import SpectraceError
from spectrace.model import Run
from spectrace.server.attacher import Attacher
from spectrace.server.hub import Hub
from tests.helpers.attach_rounds import Belongings, belongings
from tests.helpers.command import TIMEOUT_S, first_line_with, start
from tests.helpers.page import SERVE, Paged, paged, until
from tests.helpers.page_wishes import JSON, ask, attach, has_left, leave, newest, run_of, wait_for
from tests.helpers.simulated_server import SimulatedServer
from tests.helpers.stored import open_store

pytestmark = pytest.mark.beside_others

NOBODY = 65534


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SimulatedServer]:
    """Two ranks that decode."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as it:
        yield it


@pytest.fixture(scope="module")
def page() -> Iterator[Paged]:
    """The page of a command that traces nothing by itself."""
    with paged(*SERVE) as it:
        yield it


def refused(page: Paged, pid: int | str, wish: object) -> str:
    """Why the page does not attach to a process."""
    answer = ask(page, f"servers/{pid}/attach", wish)
    assert answer.status_code == 409, answer.text
    return str(answer.json()["detail"])


def found(page: Paged, server: SimulatedServer) -> dict[str, Any]:
    """What the page says of a server before it attaches."""
    (one,) = [one for one in page.get("/api/servers")["servers"] if one["pid"] == server.pid]
    return dict(one)


def kept(server: SimulatedServer) -> list[tuple[int, int, int]]:
    """Threads, open files and rings in memory of each rank."""

    def of(one: Belongings) -> tuple[int, int, int]:
        return one.threads, one.files, one.mapped

    return [of(belongings(pid)) for pid in server.pids.values()]


def test_a_server_is_attached_to_traced_and_left_as_it_was(
    page: Paged, server: SimulatedServer
) -> None:
    """Twice: cycles of both ranks come, and afterwards nothing of ours is in it."""
    assert server.untouched()
    before = kept(server)
    for _ in range(2):
        seen = found(page, server)
        assert seen["ranks"] == ["TP0", "TP1"]
        assert (seen["reader"], seen["mode"], seen["obstacle"]) == ("", None, "")
        assert seen["way"] in {"ptrace", "remote-exec", "gdb"}
        already = newest(page, seen["run"])
        assert attach(page, server.pid, run=seen["run"], mode="host") == seen["run"]
        assert not server.untouched()
        wait_for(page, seen["run"], already + 20)
        (cycle,) = page.get(f"/api/runs/{seen['run']}/cycles?limit=1")["cycles"]
        assert {(rank["rank"], rank["mode"]) for rank in cycle["ranks"]} == {
            ("TP0", "host"),
            ("TP1", "host"),
        }
        state = run_of(page, seen["run"])
        assert (state["source"], state["steerable"]) == ("attached", True)
        assert [rank["reporting"] for rank in state["ranks"]] == [True, True]
        assert any("Attaching held up TP0 for" in note for note in state["notes"])
        assert found(page, server)["reader"] == f"process {page.process.pid}"

        assert leave(page, seen["run"])["steerable"] is False
        assert has_left(server)
        assert kept(server) == before


def test_the_end_of_the_command_leaves_every_server(
    server: SimulatedServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Ctrl-C takes the probe out of both that its page attached to, and says so."""
    with SimulatedServer(tmp_path_factory.mktemp("other"), "TP0") as other, paged(*SERVE) as page:
        runs = [attach(page, server.pid), attach(page, other.pid)]
        for run in runs:
            wait_for(page, run, 20)
        page.process.send_signal(signal.SIGINT)
        said = page.process.communicate(timeout=TIMEOUT_S)[0]
        assert page.process.returncode == 0, said
        for one in (server, other):
            assert has_left(one)
            assert f"Server {one.pid}: Tracing was ended." in said


def test_the_page_of_attach_takes_in_a_second_server(
    server: SimulatedServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """It is a run of its own; the one that the command traces can be left and attached to again."""
    with SimulatedServer(tmp_path_factory.mktemp("other"), "TP0") as other:
        with paged("attach", str(other.pid), "--port", "0") as page:
            (own,) = until(page.runs)
            wait_for(page, own["run"], 5)
            assert "traced on this page already" in refused(page, other.pid, {})
            second = attach(page, server.pid)
            wait_for(page, second, 20)
            leave(page, own["run"])
            assert has_left(other)
            assert run_of(page, second)["state"] in {"tracing", "idle"}
            last = newest(page, own["run"])
            assert attach(page, other.pid) == own["run"]
            wait_for(page, own["run"], last + 20)
        assert has_left(server)
        assert has_left(other)


def test_a_server_that_ends_is_said_to_have_ended(page: Paged, tmp_path: Path) -> None:
    """The run stays on the page with what was collected, and can be asked for nothing."""
    with SimulatedServer(tmp_path, "TP0") as server:
        run = attach(page, server.pid)
        wait_for(page, run, 5)
    until(lambda: run_of(page, run)["state"] == "server_gone")
    assert run_of(page, run)["steerable"] is False
    assert newest(page, run) >= 5


@pytest.mark.parametrize(
    ("wish", "headers", "status", "why"),
    [
        ({"mode": "fast"}, JSON, 400, "device"),
        ({"more": 1}, JSON, 400, "more"),
        ({"mode": "h" * 2000}, JSON, 413, "too long"),
        ({}, {"content-type": "text/plain"}, 415, "application/json"),
        ({}, JSON | {"origin": "http://evil.example"}, 403, "own page"),
        ({}, JSON | {"host": "evil.example"}, 403, "127.0.0.1"),
    ],
)
def test_what_is_no_wish_of_the_page_touches_no_server(  # noqa: PLR0913, PLR0917 - parameters
    page: Paged,
    server: SimulatedServer,
    wish: object,
    headers: dict[str, str],
    status: int,
    why: str,
) -> None:
    """It is answered with a sentence, and nothing is put in."""
    answer = ask(page, f"servers/{server.pid}/attach", wish, headers)
    assert (answer.status_code, why in answer.text) == (status, True)
    assert has_left(server)


def test_what_cannot_be_attached_to_is_a_sentence(page: Paged, server: SimulatedServer) -> None:
    """No such process, no server, another server than was meant, one that is traced here."""
    assert "no process 4194305" in refused(page, 4194305, {}).lower()
    assert "0 is no process id" in refused(page, 0, {})
    assert "no SGLang scheduler below it" in refused(page, page.process.pid, {})
    assert "of another server by now" in refused(page, server.pid, {"run": "0" * 32})
    assert ask(page, "servers/me/attach", {}).status_code == 400
    assert has_left(server)
    run = attach(page, server.pid)
    assert "traced on this page already" in refused(page, server.pid, {})
    leave(page, run)


def test_what_stands_in_the_way_is_said_before(page: Paged, server: SimulatedServer) -> None:
    """A rank that a signal paused: the list has doctor's sentence, a wish the command's own."""
    pid = server.pids["TP1"]
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: "process of TP1: paused by a signal" in found(page, server)["obstacle"])
        assert found(page, server)["mend"] == f"kill -CONT {pid}"
        assert "paused" in refused(page, server.pid, {})
    finally:
        os.kill(pid, signal.SIGCONT)
    assert has_left(server)
    assert found(page, server)["obstacle"] == ""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can start a process of somebody else")
def test_somebody_else_on_this_machine_neither_looks_for_servers_nor_attaches(
    page: Paged, server: SimulatedServer
) -> None:
    """Everybody reaches loopback: the kernel is asked whose connection it is."""
    host, port = page.url.removeprefix("http://").split(":")
    head = f"HTTP/1.1\\r\\nhost: {host}:{port}\\r\\nconnection: close\\r\\n"
    body = "content-type: application/json\\r\\ncontent-length: 2\\r\\n\\r\\n{}"
    # The user changes within: it may have no access to this interpreter, nor to its library.
    code = (
        "import os, socket\n"
        f"os.setuid({NOBODY})\n"
        f"for asked in ('GET /api/servers', 'POST /api/servers/{server.pid}/attach'):\n"
        "    to = socket.socket()\n"
        f"    to.connect(({host!r}, {port}))\n"
        f"    to.sendall((asked + ' {head}{body}').encode())\n"
        "    found = b''\n"
        "    while chunk := to.recv(65536): found += chunk\n"
        "    print(found.decode().split(' ', 1)[1].splitlines()[0], found[-200:])\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
    said = done.stdout.splitlines()
    assert [line[:3] for line in said] == ["403", "403"]
    assert all("Only the account that runs spectrace" in line for line in said)
    assert has_left(server)


def test_a_page_that_is_shared_attaches_to_nothing(server: SimulatedServer) -> None:
    """Whoever has shown the token looks; also the account itself is sent to the command line."""
    word = "0123456789abcdef"
    shown = JSON | {"authorization": f"Bearer {word}"}
    with paged(*SERVE, "--token", word) as page:
        answer = httpx.get(f"{page.url}/api/state", headers=shown, timeout=TIMEOUT_S)
        assert answer.json()["attaches"] is False
        asked = [
            httpx.get(f"{page.url}/api/servers", headers=shown, timeout=TIMEOUT_S),
            ask(page, f"servers/{server.pid}/attach", {}, shown),
        ]
        assert [one.status_code for one in asked] == [403, 403]
        assert all("spectrace attach PID" in one.json()["detail"] for one in asked)
    assert has_left(server)


def test_where_another_spectrace_traces_the_page_reads_along(
    page: Paged, server: SimulatedServer
) -> None:
    """It says who decides, and leaves without taking the probe from the other one."""
    first = start("attach", str(server.pid), "--no-page")
    first_line_with(first, "cycles/s")
    seen = found(page, server)
    assert (seen["way"], seen["reader"]) == ("joined", f"process {first.pid}")
    assert f"process {first.pid} decides" in refused(page, server.pid, {"mode": "off"})
    run = attach(page, server.pid)
    wait_for(page, run, 20)
    until(lambda: f"Reading along: process {first.pid}" in run_of(page, run)["message"])
    assert ask(page, f"runs/{run}/timing", {"mode": "off"}).status_code == 409
    assert f"left to process {first.pid}" in leave(page, run)["message"]
    assert not server.untouched()
    first.send_signal(signal.SIGINT)
    output, errors = first.communicate(timeout=TIMEOUT_S)
    assert first.returncode == 0, output + errors
    assert has_left(server)


class HeldBack:
    """Makes real sessions, and lets the first one begin only when it is told to."""

    def __init__(self) -> None:
        self.asked, self.go = threading.Event(), threading.Event()

    def session(self, run: Run, options: Options) -> TraceSession:
        """As `Attacher` makes one."""
        self.asked.set()
        assert self.go.wait(TIMEOUT_S)
        return TraceSession(run, options=options)


def test_one_at_a_time_is_attached_to_and_the_end_waits_for_it(
    server: SimulatedServer, tmp_path: Path
) -> None:
    """A second wish is refused with the first one's process; who ends meanwhile leaves it too."""
    held = HeldBack()
    with open_store(tmp_path / "store") as store, ThreadPoolExecutor(2) as pool:
        attacher = Attacher(Hub(store, sink=store), session=held.session)
        first = pool.submit(attacher.attach, server.pid)
        assert held.asked.wait(TIMEOUT_S)
        with pytest.raises(SpectraceError, match=f"process {server.pid} is under way"):
            attacher.attach(server.pid)
        ending = pool.submit(attacher.close)
        assert not ending.done()
        held.go.set()
        assert first.result(TIMEOUT_S).run_id == discover.find_by_pid(server.pid).run_id
        ending.result(TIMEOUT_S)
        assert has_left(server)
        with pytest.raises(SpectraceError, match="just ending"):
            attacher.attach(server.pid)


def test_a_session_that_breaks_leaves_the_server(server: SimulatedServer, tmp_path: Path) -> None:
    """Whatever goes wrong while it is followed, the probe is out and the page knows the end."""

    class Breaking(TraceSession):
        def news(self) -> list[str]:
            raise RuntimeError("broken")

    with open_store(tmp_path / "store") as store:
        hub = Hub(store, sink=store)
        attacher = Attacher(hub, session=lambda run, options: Breaking(run, options=options))
        run = attacher.attach(server.pid)
        until(lambda: not hub.is_traced_here(run.run_id))
        assert has_left(server)
        attacher.close()


def test_the_look_for_servers_leaves_no_process(page: Paged) -> None:
    """What it starts to see whether ptrace is allowed here is gone again."""
    page.get("/api/servers")
    assert psutil.Process(page.process.pid).children(recursive=True) == []
