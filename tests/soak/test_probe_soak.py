"""A million cycles: memory flat, and no garbage collection of the probe's own making."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from spectrace.probe.layout import Mode
from spectrace.probe.recorder import Recorder
from tests.helpers.cycle_cost import simulate_cycle
from tests.helpers.growth import request_id, watch
from tests.helpers.probe_ring import make_ring

CYCLES = int(os.environ.get("SPECTRACE_SOAK_CYCLES", "1000000"))
_KIB = 1024


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.HOST], ids=["off", "host"])
def test_a_million_cycles_leave_memory_as_it_was(mode: int, tmp_path: Path) -> None:
    """After the first tenth memory does not grow, and the collector has nothing to do."""
    ring = make_ring(tmp_path / "ring", units=65_536, mode=mode)
    recorder = Recorder(ring)
    growth = watch(lambda number: simulate_cycle(recorder, number, request_id(number)), CYCLES)
    sys.stdout.write(
        f"{CYCLES} cycles: {growth.rss_grown / _KIB:.0f} KiB grown, "
        f"{growth.collections} collections, {growth.tracked} objects more\n"
    )
    assert growth.rss_grown <= 512 * _KIB
    assert growth.collections == 0
    ring.close()
