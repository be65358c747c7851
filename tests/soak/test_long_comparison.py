"""A comparison of ways of timing that goes on for many rounds.

SPECTRACE_SOAK_COMPARE_S says for how long, in s. A round takes 4, and
several times that on a machine that is busy otherwise; 600 s are enough there too.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from spectrace.attach import discover, modes
from spectrace.attach.modes import Switch
from spectrace.attach.session import TraceSession
from spectrace.cli.stopping import Stop
from spectrace.cli.timing_run import TimingRun, Wish
from spectrace.model import TimingMode
from tests.helpers.fake_worker import FakeWorker

DURATION_S = float(os.environ.get("SPECTRACE_SOAK_COMPARE_S", "600"))
_SCALE = 0.1  # cycles of 3 ms, which a reader can keep up with on a busy machine
_LEAD = 0.1  # of the second that a switch lies ahead, so that there are more of them
_MANY = 10
_NEVER = 1e-9  # a precision that nothing reaches


class Looks:
    """Counts how often people were told what had come."""

    def __init__(self) -> None:
        self.rounds: list[str] = []

    def note(self, text: str) -> None:
        """Of no interest."""

    at = note

    def round(self, text: str) -> None:
        """Keeps it."""
        self.rounds.append(text)


def test_no_record_is_lost_however_much_is_compared() -> None:
    """The rings are read while all that came is compared, and that is done more and more seldom."""
    with (
        FakeWorker("v2", "--scale", str(_SCALE)) as worker,
        TraceSession(discover.find_by_pid(worker.pid)) as session,
    ):

        def switch(mode: TimingMode, sleep: Callable[[float], None]) -> list[Switch]:
            def shorter(seconds: float) -> None:
                sleep(seconds * _LEAD)

            return modes.switch(session.run, mode, shorter)

        looks = Looks()
        wish = Wish(DURATION_S, None, _NEVER, None, 0)
        timing = TimingRun(session, switch, wish, looks, Stop())
        assert timing.look() is not None
        timing.run(tuple(TimingMode))
        facts, lost = session.facts(), session.lost
    began_s = time.process_time()
    found = timing.result()
    told = {
        "rounds": found.rounds,
        "cycles": sum(figures.cycles for figures in found.modes),
        "looks": len(looks.rounds),
        "last_comparison_cpu_s": round(time.process_time() - began_s, 2),
        "lost": lost,
    }
    print(json.dumps(told))
    assert lost == 0, facts
    assert found.rounds > _MANY
    assert len(looks.rounds) < found.rounds
