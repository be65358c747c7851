"""A loop on the simulated GPU, traced by its author; run where torch is, for tests.

`python -m tests.helpers.device_loop CYCLES`: waits until somebody reads, runs so many cycles
and writes how often the device was synchronized.
"""

from __future__ import annotations

import sys
import time

from examples.simulated_gpu.device import NAME, ext
from spectrace.loop import Tracer

DRAFT_MS, VERIFY_MS = 3.0, 6.0
POLL_S = 0.002


def cycle(tracer: Tracer) -> None:
    """Launches a draft and a verify, and waits for the device as the loop itself does."""
    with tracer.cycle("speculative", ["a"], steps=3, topk=1, draft_tokens=4) as running:
        with tracer.phase("draft"):
            ext.launch("draft", DRAFT_MS * 1e3)
        with tracer.phase("verify"):
            ext.launch("verify", VERIFY_MS * 1e3)
        with tracer.phase("wait"):
            ext.wait_until(ext.done_ns())
        running.accepted({"a": 1})


def idle(tracer: Tracer, *, until_traced: bool) -> None:
    """Waits for work, until somebody reads, or until nobody does any more."""
    while tracer.traced is not until_traced:
        tracer.idle()
        time.sleep(POLL_S)


def main(cycles: int) -> None:
    """Runs the loop."""
    tracer = Tracer("device loop", device=NAME)
    print("ready", flush=True)
    idle(tracer, until_traced=True)
    for _ in range(cycles):
        cycle(tracer)
    idle(tracer, until_traced=False)
    print(ext.counters()["syncs"], flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
