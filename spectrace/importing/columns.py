"""What a reader of traces fills: ranges of threads, and columns of launches and kernels."""

from __future__ import annotations

from array import array
from collections.abc import Hashable
from enum import Enum
from typing import NamedTuple

import numpy as np

from spectrace.model import CycleKind, PhaseName

FURTHEST_NS = 3 * 10**18
"""No time of a trace is as far from its base, or as long: 95 years, so that sums fit in 64 bits."""

GRAPH = "CUDA graph"
"""What a graph is called that was seen whole, as if it were one kernel."""


class Role(str, Enum):
    """What a range is in the turn of a scheduler.

    `turn`: one turn as spectrace's own ranges number it. `phase`: a phase by its name, likewise.
    `run`: `run_batch`. `result`: `process_batch_result`. `next`: the scheduler looks for a batch.
    `idle`: it has nothing to do. `worker`: the worker's own call. `draft`, `verify`,
    `draft_extend`: its parts. `forward`: the target model. `step`: one forward of the draft
    model. `sample`: tokens are accepted. `copy`: results are on their way to the CPU. `wait`: the
    host waits for the device. `capture`: a graph is made. `overlap`: the loop that processes
    results one turn later.
    """

    TURN = "turn"
    PHASE = "phase"
    RUN = "run"
    RESULT = "result"
    NEXT = "next"
    IDLE = "idle"
    WORKER = "worker"
    DRAFT = "draft"
    STEP = "step"
    VERIFY = "verify"
    FORWARD = "forward"
    SAMPLE = "sample"
    DRAFT_EXTEND = "draft_extend"
    COPY = "copy"
    WAIT = "wait"
    CAPTURE = "capture"
    OVERLAP = "overlap"


class Meaning(NamedTuple):
    """What the name of a range says.

    Attributes:
        role: What it is.
        kind: What the forward did; None where the name does not say.
        batch_size: Requests, likewise.
        draft_tokens: Tokens that verify looks at per request, likewise.
        phase: Of role `phase` alone.
        number: The cycle's number, of roles `turn` and `phase`.
    """

    role: Role
    kind: CycleKind | None = None
    batch_size: int | None = None
    draft_tokens: int | None = None
    phase: PhaseName | None = None
    number: int | None = None


class Span(NamedTuple):
    """One range of a thread.

    Attributes:
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns.
        meaning: What it is.
        link: By which the device's side of it is found, None without one.
    """

    start_ns: int
    end_ns: int
    meaning: Meaning
    link: int | None = None


def _moved(times_ns: array[int], by_ns: int) -> array[int]:
    return array("q", (np.asarray(times_ns, dtype=np.int64) + by_ns).tobytes())


class Launches:
    """Calls that put work on the device, as columns of one length.

    Attributes:
        start_ns: UNIX time in ns of the call.
        correlation: What its kernels carry, too.
        thread: Number of the thread that called, in the order in which threads came.
        graph: 1 where it launched a graph.
    """

    def __init__(self) -> None:
        self.start_ns = array("q")
        self.correlation = array("q")
        self.thread = array("q")
        self.graph = array("b")

    def add(self, start_ns: int, correlation: int, thread: int, *, graph: bool) -> None:
        """Adds a call."""
        self.start_ns.append(start_ns)
        self.correlation.append(correlation)
        self.thread.append(thread)
        self.graph.append(graph)

    def shift(self, by_ns: int) -> None:
        """Moves all times."""
        self.start_ns = _moved(self.start_ns, by_ns)


class Kernels:
    """What ran on the device, as columns of one length.

    Attributes:
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns.
        correlation: That of the call that launched it.
        stream: Number of the stream, in the order in which streams came.
        name: Place of its name in `names`.
        names: Each name once.
    """

    def __init__(self) -> None:
        self.start_ns = array("q")
        self.end_ns = array("q")
        self.correlation = array("q")
        self.stream = array("q")
        self.name = array("q")
        self._names: dict[str, int] = {}
        self._streams: dict[Hashable, int] = {}

    def add(
        self, start_ns: int, end_ns: int, correlation: int, stream: Hashable, name: str
    ) -> None:
        """Adds a kernel, a copy or a fill."""
        self.start_ns.append(start_ns)
        self.end_ns.append(end_ns)
        self.correlation.append(correlation)
        self.stream.append(self._streams.setdefault(stream, len(self._streams)))
        self.name.append(self._names.setdefault(name, len(self._names)))

    def shift(self, by_ns: int) -> None:
        """Moves all times."""
        self.start_ns = _moved(self.start_ns, by_ns)
        self.end_ns = _moved(self.end_ns, by_ns)

    @property
    def names(self) -> list[str]:
        """Each name once."""
        return list(self._names)


class ProcessTrace:
    """What one process did.

    Args:
        rank: Name of its rank, such as `TP0`; empty where nothing says it.
        pid: Process id, 0 where nothing says it.

    Attributes:
        threads: Ranges by thread, in the order in which they were written.
        launches: See there.
        kernels: See there.
        device_ranges: Begin and end on the device by the link of a range.
        end_ns: UNIX time in ns of the last that the trace knows.
    """

    def __init__(self, rank: str, pid: int = 0) -> None:
        self.rank = rank
        self.pid = pid
        self.threads: dict[Hashable, list[Span]] = {}
        self.launches = Launches()
        self.kernels = Kernels()
        self.device_ranges: dict[int, tuple[int, int]] = {}
        self.end_ns = 0
        self._numbers: dict[Hashable, int] = {}

    def thread_number(self, thread: Hashable) -> int:
        """The number of a thread in the column of launches."""
        return self._numbers.setdefault(thread, len(self._numbers))


class TraceFile(NamedTuple):
    """What was read from one file.

    Attributes:
        source: Which tool wrote it.
        host: Name of the machine, empty where nothing says it.
        processes: Those of the file.
    """

    source: str
    host: str
    processes: list[ProcessTrace]
