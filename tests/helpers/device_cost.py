"""What a cycle costs with the simulated GPU; run by the interpreter that has torch.

`python -m tests.helpers.device_cost CYCLES`: one JSON object with the cost in µs of a cycle in
the modes `device` and `sync`, of its events alone, and how often the device was synchronized.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found]  # not in the environment of the tool

from examples.simulated_gpu.device import NAME, ext
from spectrace.probe.layout import Mode, Word
from spectrace.probe.recorder import Recorder
from spectrace.probe.timers import Counters, DeviceTimer, SyncTimer, supports_events
from tests.helpers.cycle_cost import BOUNDARIES, WARM_UP, Cost, cost_of, mark_cycle
from tests.helpers.probe_ring import make_ring

PAUSE_S = 20e-6  # the device passes an event some microseconds after its record


def cost_in(mode: int, folder: Path, cycles: int) -> tuple[Cost, dict[str, Any]]:
    """Cost and facts of one mode with the probe's own recorder and timers."""
    ring = make_ring(folder / f"{mode}.ring", units=65_536, mode=mode)
    counters = Counters()
    recorder = Recorder(ring)
    assert not supports_events(torch, NAME)
    recorder.boundaries = DeviceTimer(torch, NAME, ring.device, counters)
    recorder.sync = SyncTimer(torch, NAME, counters)
    before = ext.counters()["syncs"]
    cost = cost_of(lambda number: mark_cycle(recorder, number), cycles, pause_s=PAUSE_S)
    facts = {
        "syncs": ext.counters()["syncs"] - before,
        "bytes": ring.words[Word.HEAD] * 32 / (cycles + WARM_UP),
        "no_event": counters.no_event,
        "lost": counters.lost,
    }
    return cost, facts


def events_alone(cycles: int) -> Cost:
    """As many events as a cycle has on the device, recorded, asked after and read."""
    stream = torch.accelerator.current_stream()
    events = [torch.Event(device=NAME, enable_timing=True) for _ in range(BOUNDARIES - 1)]
    old = [torch.Event(device=NAME, enable_timing=True) for _ in range(BOUNDARIES - 1)]
    for event in old:
        event.record(stream)
    time.sleep(0.1)

    def cycle(_: int) -> None:
        for event in events:
            torch.accelerator.current_stream()
            event.record(stream)
        old[-1].query()
        for first, second in zip(old, old[1:]):  # noqa: B905, RUF007 - as the timer does
            first.elapsed_time(second)

    return cost_of(cycle, cycles, pause_s=PAUSE_S)


def main(cycles: int) -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        device, facts = cost_in(Mode.DEVICE, folder, cycles)
        sync, _ = cost_in(Mode.SYNC, folder, cycles)
        others = [cost_in(mode, folder, cycles)[1]["syncs"] for mode in (Mode.OFF, Mode.HOST)]
    found = {
        "device_us": device.median_us,
        "device_p99_us": device.p99_us,
        "device_events_us": events_alone(cycles).median_us,
        "sync_us": sync.median_us,
        "syncs": facts["syncs"] + sum(others),
        "device_bytes_per_cycle": facts["bytes"],
        "no_event": facts["no_event"],
        "lost": facts["lost"],
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]))
