"""What times a loop's boundaries beside the host's clock, for as long as somebody reads."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from spectrace.probe.layout import Word
from spectrace.probe.ranges import make_ranges
from spectrace.probe.recorder import Recorder
from spectrace.probe.ring import RingWriter
from spectrace.probe.timers import Counters, make_timers


class Timing:
    """Timers and NVTX ranges of a loop's recorder.

    Args:
        recorder: Whom they serve.
        ring: Where device times go.
        device: Where the loop's work runs, as torch names it.
    """

    def __init__(self, recorder: Recorder, ring: RingWriter, device: str) -> None:
        self._recorder = recorder
        self._ring = ring
        self._kind = device.partition(":")[0]
        self._counters = Counters()

    def start(self) -> dict[str, str]:
        """Makes them; gives what readers are told: why there are none, and who hears ranges."""
        recorder = self._recorder
        recorder.ranges, ranges = make_ranges(sys.modules)
        return {"no_device_timing": self._start_timers(), "ranges": ranges}

    def _start_timers(self) -> str:
        torch: Any = sys.modules.get("torch")
        if torch is None or not self._kind:
            return "The loop has no torch, or names no device."
        recorder = self._recorder
        recorder.sync, recorder.boundaries, reason = make_timers(
            torch, self._kind, self._ring.device, self._counters
        )
        return reason

    def drain(self, time_ns: int) -> None:
        """Takes in device times that have come, without waiting; `time_ns`: CLOCK_MONOTONIC."""
        self._recorder.drain(time_ns)
        words, counters = self._ring.words, self._counters
        words[Word.NO_EVENT] = counters.no_event
        words[Word.EVENT_LOST] = counters.lost
        words[Word.EVENT_CAPTURING] = counters.capturing
        words[Word.EVENT_OTHER_STREAM] = counters.other_stream

    def stop(self) -> None:
        """Gives back what they hold; the recorder goes on with the host's clock."""
        recorder = self._recorder
        ranges: Any = recorder.ranges
        recorder.ranges = None
        boundaries, recorder.boundaries = recorder.boundaries, None
        for each in (ranges, boundaries):
            with suppress(Exception):
                if each is not None:
                    each.close()
