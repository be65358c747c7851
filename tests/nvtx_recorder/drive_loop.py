"""Runs a simulated scheduler with the whole tracer in it, in a process of its own.

Prints, as one JSON object, what the probe told its readers.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from spectrace.collect.ring_view import RingView
from spectrace.probe.engines import sglang_releases, sglang_rows
from spectrace.probe.layout import Command, Mode, Word
from spectrace.probe.tracer import Tracer
from tests.helpers import simulated_scheduler as simulated
from tests.helpers.probe_ring import make_ring
from tests.helpers.simulated_scheduler import Batch, Request, Scheduler

CYCLES = 3
sglang_rows.DIGEST.update(sglang_releases.digest())  # as a probe is given it


def traced_loop(path: Path) -> dict[str, Any]:
    """Arms the tracer, runs cycles, lets it leave: what it told."""
    Tracer(make_ring(path, mode=Mode.HOST), lambda: None).arm()
    view = RingView(path)
    scheduler, batch = Scheduler(), Batch([Request("a")])
    for _ in range(CYCLES):
        scheduler.step(batch)
    view.set_word(Word.COMMAND, Command.DETACH)
    scheduler.on_idle()
    told = view.info()
    view.close()
    return told


if __name__ == "__main__":
    for _ in simulated.installed():
        with TemporaryDirectory() as folder:
            print(json.dumps(traced_loop(Path(folder) / "test.ring")))
