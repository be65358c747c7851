"""Spectrace, a rank and the server are killed at random moments, on real servers with two ranks.

SPECTRACE_SOAK_KILLS says how often each; a server takes about 20 s to start again. Servers whose
ranks are to be killed fork them, for 100 starts with all imports in each rank take hours; how
spectrace finds and enters a rank is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pytest

from examples.sglang_cpu.load import LoadLoop, generate
from examples.sglang_cpu.server import CpuServer, ServerOptions
from tests.helpers.deaths import Server, Toll, kill_ranks, kill_servers, kill_spectraces

FORKED = Path(__file__).parents[1] / "helpers" / "forked"
COUNT = int(os.environ.get("SPECTRACE_SOAK_KILLS", "50"))


class Real:
    """A real server under load as one that can be killed."""

    def __init__(self, server: CpuServer) -> None:
        self._server = server
        self.pid = server.pid
        self._tokens: list[list[int]] = self._generate()

    def _generate(self) -> list[list[int]]:
        found = generate(
            self._server.url, requests=2, concurrency=2, max_new_tokens=12, tag="asked"
        )
        return [list(answer.token_ids) for answer in found]

    def ranks(self) -> list[int]:
        """Its schedulers."""
        return self._server.scheduler_pids()

    def answers(self) -> bool:
        """Whether it gives the same tokens as before it was ever traced."""
        return self._generate() == self._tokens


@contextmanager
def real(environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[Server]:
    """A real server that always has requests under way."""
    with CpuServer(ServerOptions(tp=2, extra_env=environment)) as server:
        load = LoadLoop(server.url, concurrency=2)
        load.__enter__()
        try:
            yield Real(server)
        finally:
            load.stop()  # with an error where the server was killed


def test_killing_spectrace_touches_nobody(record_property: Callable[[str, object], None]) -> None:
    """The server gives the same tokens, and the next attach takes the probe out each time."""
    with real() as server:
        toll = kill_spectraces(server, COUNT)
    told(record_property, toll)
    assert (toll.kills, toll.attaches) == (COUNT, COUNT)


@pytest.mark.parametrize("kill", [kill_ranks, kill_servers])
def test_killing_a_rank_or_the_server_ends_spectrace_alone(
    kill: Callable[..., Toll], record_property: Callable[[str, object], None]
) -> None:
    """It says so, and no file stays behind."""
    toll = kill(lambda: real({"PYTHONPATH": str(FORKED)}), COUNT)
    told(record_property, toll)
    assert (toll.kills, sum(toll.exits.values())) == (COUNT, COUNT)


def told(record_property: Callable[[str, object], None], toll: Toll) -> None:
    """Keeps the figures with the result of the test, and prints them."""
    record_property("toll", str(toll))
    print(toll)
