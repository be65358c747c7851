"""Attaches to a real server under load over and over by each way in that this machine allows.

SPECTRACE_SOAK_ATTACHES says how often; each way's stall in the server is printed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.attach.ways import Method
from tests.helpers.peek import peek
from tests.helpers.plugin_site import plugin_site
from tests.helpers.unnoticed import attach_unnoticed
from tests.integration.test_real_server import LOOK

COUNT = int(os.environ.get("SPECTRACE_SOAK_ATTACHES", "1000"))


@pytest.fixture(scope="module")
def bare() -> Iterator[CpuServer]:
    """A server without the plugin."""
    with CpuServer(ServerOptions()) as server:
        yield server


@pytest.fixture(scope="module")
def with_plugin() -> Iterator[CpuServer]:
    """A server that has the plugin."""
    with plugin_site() as site:
        options = ServerOptions(extra_env={"PYTHONPATH": str(site)})
        with CpuServer(options) as server:
            yield server


def soak(server: CpuServer, method: Method) -> None:
    """Attaches so often, prints the figures, and looks whether all is as before."""
    ranks = server.scheduler_pids()
    before = [peek(pid, LOOK) for pid in ranks]
    rounds = attach_unnoticed(server.url, server.pid, ranks, method, COUNT)
    print(json.dumps({"method": method.value, **rounds.figures()}))
    assert [peek(pid, LOOK) for pid in ranks] == before


@pytest.mark.parametrize("method", [Method.PTRACE, Method.GDB])
def test_a_server_takes_every_attach(bare: CpuServer, method: Method) -> None:
    """No request fails, no token differs, and nothing of the tracer is left or grows."""
    soak(bare, method)


def test_the_plugin_wakes_and_sleeps_every_time(with_plugin: CpuServer) -> None:
    """The same with the plugin, which comes back to what it was asleep."""
    soak(with_plugin, Method.PLUGIN)
