"""A server that gets ranks while it is traced, and one that loses one."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spectrace.attach import discover, ring_file
from spectrace.attach.session import End, TraceSession
from spectrace.model import Cycle
from tests.helpers.command import TIMEOUT_S, first_line_with, start
from tests.helpers.simulated_server import SimulatedServer

pytestmark = pytest.mark.beside_others


def poll_until(session: TraceSession, condition: Callable[[list[Cycle]], bool]) -> list[Cycle]:
    """Polls until the cycles that came so far meet the condition."""
    cycles: list[Cycle] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not condition(cycles):
        assert time.monotonic() < deadline
        cycles += session.poll()
        time.sleep(0.01)
    return cycles


def test_a_replica_that_comes_later_is_traced_too(tmp_path: Path) -> None:
    """Its cycles come as well, nothing is missing, and both are left as they were."""
    with SimulatedServer(tmp_path, "DP0") as server:
        with TraceSession(discover.find_by_pid(server.pid)) as session:
            poll_until(session, lambda cycles: len(cycles) > 10)
            pid = server.add("DP1")
            poll_until(session, lambda cycles: {cycle.group for cycle in cycles} >= {"DP0", "DP1"})
            assert [rank.name for rank in session.run.ranks] == ["DP0", "DP1"]
            assert session.news() == [f"DP1 (process {pid}) is new, and is traced too."]
            assert session.lost == 0
            assert len(session.detach()) == 2
        assert server.untouched()
        assert not any(ring_file.ring_path(pid).exists() for pid in server.pids.values())


def test_a_rank_that_comes_later_belongs_to_its_group(tmp_path: Path) -> None:
    """Cycles before it are whole with one rank. It steps for itself here, and behind."""
    with SimulatedServer(tmp_path, "TP0") as server:
        with TraceSession(discover.find_by_pid(server.pid)) as session:
            alone = poll_until(session, lambda cycles: len(cycles) > 10)
            assert {len(cycle.ranks) for cycle in alone} == {1}
            server.add("TP1")
            poll_until(session, lambda _: len(session.run.ranks) == 2)
            poll_until(session, lambda cycles: len(cycles) > 10)
            facts = session.facts()
            assert [rank.state for rank in facts.ranks] == ["tracing", "tracing"]
            assert facts.missing_cycles == 0
        assert server.untouched()


def test_a_rank_that_dies_is_named_and_the_others_are_left_as_they_were(tmp_path: Path) -> None:
    """The command ends with 3, and says which one it was."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as server:
        process = start("attach", str(server.pid), "--no-page")
        first_line_with(process, "TP1 was held up")
        pid = server.pids.pop("TP1")
        os.kill(pid, signal.SIGKILL)
        output, errors = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 3, errors
        assert f"TP1 (process {pid}) of the server has ended" in output
        assert "The probe is out of TP0" in output
        assert not ring_file.ring_path(server.pids["TP0"]).exists()
        assert server.untouched()


def test_a_server_that_dies_is_no_rank_that_dies(tmp_path: Path) -> None:
    """With all of its processes the server has ended; what was collected is summed up."""
    with SimulatedServer(tmp_path, "TP0", "TP1") as server:
        process = start("attach", str(server.pid), "--no-page", "--json")
        first_line_with(process, '"decoding"')
        for pid in server.pids.values():
            os.kill(pid, signal.SIGKILL)
        output, errors = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 3, errors
        last = json.loads(output.splitlines()[-1])
        assert last["end"] == End.SERVER_DIED.value
        assert last["summary"]["cycles"] > 0
