"""Rings of simulated ranks, both lanes of each, written at a pace by a process of their own.

python -m tests.helpers.ring_source FOLDER RANKS CYCLES_PER_S SECONDS
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spectrace.collect.assembler import Assembler
from spectrace.collect.reader import RingReader
from spectrace.collect.ring_view import RingView
from spectrace.model import Cycle, Rank, Run
from spectrace.probe.layout import Graph, Kind, Mode, Ph, RecordType
from spectrace.probe.ring import RingWriter
from tests.helpers.probe_ring import make_ring

ROOT = Path(__file__).parents[2]
UNITS = 1 << 15
_CYCLE_NS = 10_000_000
_HOST = (
    Ph.RESOLVE,
    Ph.DRAFT,
    Ph.VERIFY_PREPARE,
    Ph.VERIFY_FORWARD,
    Ph.VERIFY_SAMPLE,
    Ph.VERIFY_COMMIT,
    Ph.DRAFT_EXTEND,
    Ph.SCHEDULE,
    Ph.WAIT,
    Ph.RESULT,
)
_DEVICE = (Ph.DRAFT, Ph.VERIFY_FORWARD, Ph.VERIFY_SAMPLE, Ph.DRAFT_EXTEND, 0)
SPANS_OF_A_RANK = 1 + 2 + 2 + len(_HOST) + len(_DEVICE) - 1
"""Itself, its lanes, a `verify` on each, and all phases; the last boundary of the device ends."""


def names_of(ranks: int) -> list[str]:
    """Names of so many ranks."""
    return [f"TP{number}" for number in range(ranks)]


def make_rings(folder: Path, ranks: int) -> list[RingWriter]:
    """A ring for each rank, in which the request `r` is known by the number 1."""
    rings = [make_ring(folder / name, units=UNITS) for name in names_of(ranks)]
    for ring in rings:
        ring.text(RecordType.REQUEST, 1, "r")
    return rings


def write_cycle(rings: list[RingWriter], number: int, start_ns: int) -> None:
    """Writes a cycle of one request into every ring, with its results and its device's times."""
    step_ns = _CYCLE_NS // len(_HOST)
    marks = [place * step_ns << 8 | phase for place, phase in enumerate(_HOST)]
    distances_ns = [place * 2 * step_ns for place in range(len(_DEVICE))]
    modes = Mode.DEVICE | Mode.DEVICE << 4
    graphs = Graph.GRAPH << Graph.DRAFT | Graph.GRAPH << Graph.VERIFY
    began = (Kind.SPECULATIVE, modes, 0, number, start_ns)
    sizes = (1, 1, 5, 1, 6, graphs, len(_HOST), 0)
    for ring in rings:
        ring.cycle((*began, _CYCLE_NS, 30_000, *sizes), tuple(marks))
        ring.rows(number, (1, 100, 100, 0, 1), [1, 3, 4, 0])
        ring.device(number, start_ns + step_ns, 900, 0, bytes(_DEVICE), distances_ns)


class RingTracer:
    """Puts the cycles of such rings together, as a session does with those of a server.

    Args:
        folder: Where the rings are.
        ranks: How many there are.
    """

    def __init__(self, folder: Path, ranks: int) -> None:
        names = names_of(ranks)
        self.run = Run(
            run_id="0123456789abcdef" * 2,
            host="node",
            server_pid=10,
            command=("python", "-m", "sglang.launch_server"),
            ranks=tuple(Rank(name=name, pid=100 + place) for place, name in enumerate(names)),
            anchor_unix_ns=time.time_ns(),
            anchor_monotonic_ns=time.monotonic_ns(),
            engine="sglang 0.5.23",
        )
        self._views = [RingView(folder / name) for name in names]
        self._readers = list(zip(names, map(RingReader, self._views), strict=True))
        self._assembler = Assembler(self.run)

    def poll(self) -> list[Cycle]:
        """The cycles that have become ready."""
        cycles: list[Cycle] = []
        for name, reader in self._readers:
            cycles += self._assembler.add(name, reader.poll(), time.monotonic_ns())
        return cycles + self._assembler.flush(time.monotonic_ns())

    def close(self) -> None:
        """Lets go of the rings."""
        for view in self._views:
            view.close()


@contextmanager
def paced(folder: Path, ranks: int, cycles_per_s: float, seconds: float) -> Iterator[None]:
    """A process that writes cycles into rings of `folder`; they are there on entering."""
    arguments = [str(folder), str(ranks), str(cycles_per_s), str(seconds)]
    command = [sys.executable, "-m", "tests.helpers.ring_source", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.kill()


def main() -> None:
    """The process."""
    folder, ranks = Path(sys.argv[1]), int(sys.argv[2])
    every_s, seconds = 1 / float(sys.argv[3]), float(sys.argv[4])
    rings = make_rings(folder, ranks)
    print("ready", flush=True)
    began_s = due_s = time.monotonic()
    number = 0
    while due_s - began_s < seconds:
        number += 1
        due_s += every_s
        time.sleep(max(0.0, due_s - time.monotonic()))
        write_cycle(rings, number, time.monotonic_ns() - _CYCLE_NS)


if __name__ == "__main__":
    main()
