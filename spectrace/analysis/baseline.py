"""What plain decode takes, against which speculation is held, and where that comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from spectrace.analysis.acceptance import PLAIN
from spectrace.analysis.costs import Stratum
from spectrace.analysis.estimates import total
from spectrace.analysis.intervals import Estimate


class Source(str, Enum):
    """Where the time of plain decode comes from.

    `run`: plain decode cycles of the run itself. `recording`: of another one. `given`: a person
    said it. `between`: from the batch sizes below and above, by a line.
    """

    RUN = "run"
    RECORDING = "recording"
    GIVEN = "given"
    BETWEEN = "between"

    @property
    def measured(self) -> bool:
        """Plain decode of this very batch size was recorded."""
        return self in {Source.RUN, Source.RECORDING}


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    """What plain decode takes.

    Attributes:
        source: Where it comes from.
        times_ms: By batch size.
    """

    source: Source
    times_ms: Mapping[int, Estimate]

    def at(self, batch: int) -> tuple[Estimate, Source] | None:
        """Its time in ms at a batch size, and where that comes from; None where not known."""
        if batch in self.times_ms:
            return self.times_ms[batch], self.source
        below = max((size for size in self.times_ms if size < batch), default=None)
        above = min((size for size in self.times_ms if size > batch), default=None)
        if below is None or above is None:
            return None
        part = (batch - below) / (above - below)
        found = total((1 - part, self.times_ms[below]), (part, self.times_ms[above]))
        return found, Source.BETWEEN


def baseline_of(strata: Sequence[Stratum], source: Source) -> Baseline | None:
    """Plain decode as it was measured; None where it was not."""
    times = {
        one.batch: one.mean_ms
        for one in strata
        if one.setting == PLAIN and one.mean_ms and one.mean_ms.value > 0
    }
    return Baseline(source=source, times_ms=times) if times else None
