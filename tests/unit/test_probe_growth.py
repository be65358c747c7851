"""Nothing in the probe grows, and it makes no work for the garbage collector."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectrace.loop import Tracer
from spectrace.probe.layout import Mode
from spectrace.probe.recorder import Recorder
from tests.helpers.cycle_cost import simulate_cycle
from tests.helpers.growth import Growth, request_id, watch
from tests.helpers.probe_ring import make_ring

CYCLES = 20_000
ENOUGH_FOR_ALL_NAMES = 100  # objects; the thousand requests alone would be more


def check(growth: Growth) -> None:
    """No collection, and nothing of the cycles left."""
    assert growth.collections == 0
    assert abs(growth.tracked) < ENOUGH_FOR_ALL_NAMES


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.HOST])
def test_cycles_leave_nothing_behind(mode: int, tmp_path: Path) -> None:
    """Many cycles with requests that come and go cause no collection and leave no object."""
    ring = make_ring(tmp_path / "ring", mode=mode)
    recorder = Recorder(ring)
    check(watch(lambda number: simulate_cycle(recorder, number, request_id(number)), CYCLES))
    ring.close()


def test_a_loop_that_nobody_reads_leaves_nothing_behind() -> None:
    """Its author's tracer makes an object for each cycle, which is gone with the cycle."""
    tracer = Tracer("a loop")

    def turn(number: int) -> None:
        with tracer.cycle("speculative", [request_id(number)], steps=3) as cycle:
            with tracer.phase("draft"):
                pass
            cycle.accepted({request_id(number): 2})

    check(watch(turn, CYCLES))
    tracer.close()
