"""A real server that `spectrace launch` starts, with the plugin installed in its environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from examples.sglang_cpu.load import generate
from examples.sglang_cpu.server import (
    HOST,
    PYTHON,
    START_TIMEOUT_S,
    ServerOptions,
    answers,
    arguments,
    environment,
    free_port,
    prepare_models,
)
from spectrace.attach import ring_file
from spectrace.attach.discover import find_by_pid
from spectrace.attach.ways import Method
from tests.helpers.command import SPECTRACE, run
from tests.helpers.peek import peek
from tests.helpers.plugin_site import plugin_site
from tests.helpers.unnoticed import attach_unnoticed
from tests.integration.test_real_server import LOOK

if TYPE_CHECKING:
    from collections.abc import Iterator

WAKES = 5
END_TIMEOUT_S = 90.0


@dataclass
class LaunchedServer:
    """A server under `spectrace launch`, whose reports go into a file."""

    process: subprocess.Popen[bytes]
    url: str
    reports_path: Path

    def reports(self) -> list[dict[str, Any]]:
        """What the command has reported so far, whole lines alone."""
        text = self.reports_path.read_text()
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def wait_for(self, state: str) -> dict[str, Any]:
        """The first report in which every rank is in that state."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            for report in self.reports():
                ranks = report["session"]["ranks"]
                if ranks and all(rank["state"] == state for rank in ranks):
                    return report
            assert self.process.poll() is None, "the command ended"
            assert time.monotonic() < deadline, f"no report has {state}"
            time.sleep(0.1)

    def rank(self) -> int:
        """Process id of the scheduler."""
        (rank,) = find_by_pid(self.reports()[0]["server_pid"]).ranks
        return rank.pid


@pytest.fixture(scope="module")
def launched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LaunchedServer]:
    """The server, up; `spectrace launch` ends it, and the kill is for where it fails to."""
    folder = tmp_path_factory.mktemp("launch")
    prepare_models()
    port = free_port()
    with plugin_site() as site, (folder / "reports").open("wb") as output:
        options = ServerOptions(extra_env={"PYTHONPATH": str(site)})
        variables = [f"{name}={value}" for name, value in environment(options, os.environ).items()]
        server = ["env", *variables, str(PYTHON), "-m", "sglang.launch_server"]
        command = [*server, *arguments(options, port, free_port())]
        log = ["--server-log", str(folder / "server.log")]
        process = subprocess.Popen(
            [SPECTRACE, "launch", "--json", "--no-page", *log, "--", *command],
            stdout=output,
        )
        it = LaunchedServer(process, f"http://{HOST}:{port}", folder / "reports")
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not answers(it.url):
                assert process.poll() is None, (folder / "server.log").read_text()[-3000:]
                assert time.monotonic() < deadline
                time.sleep(0.2)
            yield it
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(END_TIMEOUT_S)


def test_the_server_is_traced_from_its_first_cycle_on(launched: LaunchedServer) -> None:
    """The rank was found while the server started; it came in by the plugin that slept there."""
    generate(launched.url, requests=4, concurrency=4, max_new_tokens=8, tag="first")
    report = launched.wait_for("tracing")
    (rank,) = report["session"]["ranks"]
    assert rank["way"] == "plugin"
    (stall,) = report["stall"]
    assert stall["stop_ms"] == 0


def test_processes_that_are_no_scheduler_have_nothing(launched: LaunchedServer) -> None:
    """Of all processes of the server, which load the plugin too, the scheduler alone has a ring."""
    root = psutil.Process(launched.reports()[0]["server_pid"])
    pids = [root.pid, *(child.pid for child in root.children(recursive=True))]
    assert len(pids) > 2
    assert [pid for pid in pids if ring_file.ring_path(pid).exists()] == [launched.rank()]


def test_taken_out_from_elsewhere_the_server_runs_on(launched: LaunchedServer) -> None:
    """`spectrace detach` ends the tracing; command and server stay."""
    done = run("detach", str(launched.rank()))
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + END_TIMEOUT_S
    while not launched.reports()[-1]["final"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert launched.reports()[-1]["end"] == "taken_out"
    assert launched.process.poll() is None
    generate(launched.url, requests=4, concurrency=4, max_new_tokens=8, tag="untraced")


def test_woken_and_put_to_sleep_the_plugin_leaves_everything(launched: LaunchedServer) -> None:
    """Under load no request fails, no token differs, and functions and threads are the same."""
    pid = launched.rank()
    before = peek(pid, LOOK)
    rounds = attach_unnoticed(launched.url, pid, [pid], Method.PLUGIN, WAKES)
    assert {(stall.way, stall.stop_ms) for stall in rounds.stalls} == {("plugin", 0.0)}
    assert peek(pid, LOOK) == before


def test_ended_the_command_leaves_no_process_and_no_ring(launched: LaunchedServer) -> None:
    """Ctrl-C ends the server too, and the plugin's file goes with its process."""
    pid = launched.rank()
    path = ring_file.ring_path(pid)
    assert path.exists()
    launched.process.send_signal(signal.SIGINT)
    assert launched.process.wait(END_TIMEOUT_S) == 0
    assert not Path(f"/proc/{pid}").exists()
    ring_file.sweep()  # of a scheduler that was killed
    assert not path.exists()
    assert not answers(launched.url)
