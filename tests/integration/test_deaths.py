"""Spectrace, a rank or the server is killed at a random moment: a few times on simulated servers.

The same code kills real servers 50 times each in `tests/soak/test_deaths.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.helpers.deaths import Server, kill_ranks, kill_servers, kill_spectraces
from tests.helpers.simulated_server import SimulatedServer

pytestmark = pytest.mark.beside_others

COUNT = 2
MakeServer = Callable[[], AbstractContextManager[Server]]


class Simulated:
    """A simulated server as one that can be killed."""

    def __init__(self, server: SimulatedServer) -> None:
        self._server = server
        self.pid = server.pid

    def ranks(self) -> list[int]:
        """TP0 and TP1."""
        return list(self._server.pids.values())

    def answers(self) -> bool:
        """Whether both ranks come round."""
        return all(self._server.says(name) for name in self._server.pids)


@pytest.fixture
def make(tmp_path: Path) -> MakeServer:
    """Starts a server of two ranks, in a folder of its own each time."""
    numbers = itertools.count()

    @contextmanager
    def one() -> Iterator[Server]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        with SimulatedServer(folder, "TP0", "TP1", fall_together=True) as server:
            yield Simulated(server)

    return one


def test_killing_spectrace_touches_nobody(tmp_path: Path) -> None:
    """The server goes on, and the next attach takes over and takes the probe out."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as server:
        toll = kill_spectraces(Simulated(server), COUNT)
        assert (toll.kills, toll.attaches) == (COUNT, COUNT)
        assert server.untouched()


def test_killing_a_rank_ends_spectrace_alone(make: MakeServer) -> None:
    """It says so, and no file stays behind."""
    toll = kill_ranks(make, COUNT)
    assert (toll.kills, toll.attaches, sum(toll.exits.values())) == (COUNT, COUNT, COUNT)


def test_killing_the_server_ends_spectrace_alone(make: MakeServer) -> None:
    """It says so, and no file stays behind."""
    toll = kill_servers(make, COUNT)
    assert (toll.kills, toll.attaches, sum(toll.exits.values())) == (COUNT, COUNT, COUNT)
