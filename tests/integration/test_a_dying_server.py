"""A real server that dies while it is traced.

The file stands first, so that its servers do not run beside the ones that the others share.
"""

from __future__ import annotations

import json
import os
import signal

import pytest

from examples.sglang_cpu.load import generate
from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.attach import ring_file
from tests.helpers.command import TIMEOUT_S, first_line_with, start
from tests.helpers.page import until


@pytest.mark.parametrize("victim", ["server", "rank"])
def test_a_server_that_dies_ends_the_session_with_what_was_collected(victim: str) -> None:
    """The command says that the server ended, sums up, and gives exit status 3."""
    with CpuServer(ServerOptions()) as server:
        process = start("attach", str(server.pid), "--json")
        first_line_with(process, '"final"')
        generate(server.url, requests=4, concurrency=4, max_new_tokens=16, tag="last")
        until(lambda: json.loads(first_line_with(process, "{"))["summary"]["cycles"])
        (rank,) = server.scheduler_pids()
        path = ring_file.ring_path(rank)
        os.kill(rank if victim == "rank" else server.pid, signal.SIGKILL)
        output, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 3, errors
    last = json.loads(output.splitlines()[-1])
    assert last["final"]
    assert last["summary"]["cycles"] > 0
    assert not path.exists()
