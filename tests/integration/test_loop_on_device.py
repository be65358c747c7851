"""A loop that its author traces on a simulated GPU gets the device's own times."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from statistics import median

import pytest

from examples.sglang_cpu.server import PYTHON
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import TraceSession
from spectrace.model import Cycle, Lane, PhaseName, TimingMode
from tests.helpers.tracing import POLL_S, Collected

ROOT = Path(__file__).parents[2]
CYCLES = 60
TIMEOUT_S = 120.0
SET_MS = {PhaseName.DRAFT: 3.0, PhaseName.VERIFY: 6.0}


def observe(process: subprocess.Popen[str]) -> list[Cycle]:
    """The loop's cycles, with their device times, which come later."""
    collected = Collected()
    deadline = time.monotonic() + TIMEOUT_S
    with TraceSession(find_by_pid(process.pid)) as session:
        while time.monotonic() < deadline:
            collected.add(session.poll())
            timed = [cycle for cycle in collected.cycles if on_device(cycle)]
            if len(timed) == CYCLES:
                break
            time.sleep(POLL_S)
    return collected.cycles


def on_device(cycle: Cycle) -> dict[PhaseName, float]:
    """How long each phase took on the device, in ms."""
    return {
        phase.name: phase.duration_ns / 1e6
        for phase in cycle.ranks[0].phases
        if phase.lane is Lane.DEVICE
    }


@pytest.fixture(scope="module")
def observed() -> tuple[list[Cycle], int]:
    """Cycles of the loop, and how often its device was synchronized."""
    process = subprocess.Popen(
        [PYTHON, "-m", "tests.helpers.device_loop", str(CYCLES)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        cycles = observe(process)
        out, _ = process.communicate(timeout=TIMEOUT_S)
        return cycles, int(out)
    finally:
        process.kill()
        process.communicate()


Observed = tuple[list[Cycle], int]


def test_device_phases_have_the_set_times(observed: Observed) -> None:
    """Draft and verify on the device are within 5 % of what the device was told."""
    cycles, _ = observed
    assert {cycle.ranks[0].mode for cycle in cycles} == {TimingMode.DEVICE}
    for name, set_ms in SET_MS.items():
        times = [on_device(cycle)[name] for cycle in cycles if name in on_device(cycle)]
        assert len(times) == CYCLES
        assert median(times) == pytest.approx(set_ms, rel=0.05)


def test_the_device_is_never_synchronized(observed: Observed) -> None:
    """Tracing adds no wait for the device."""
    assert observed[1] == 0
