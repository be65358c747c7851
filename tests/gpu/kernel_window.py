"""Checks the kernel window on a real CUDA device with cupti-python; prints one JSON object.

    python tests/gpu/kernel_window.py

Exits with 0 if every check passed or there is no device or package (then the object says so under
`skipped`), with 1 otherwise. What is right is known by construction: so many kernels are launched,
and a graph of so many is replayed.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections import Counter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.attach import ring_file, window_file
from spectrace.attach.kernel_windows import graph_cycles, names_at
from spectrace.importing.look import look_of, with_names
from spectrace.kernels import Seen, SeenKernels, Written
from spectrace.model import (
    Cycle,
    CycleKind,
    Phase,
    PhaseName,
    Rank,
    RankCycle,
    Run,
    TimingMode,
)
from spectrace.probe import cupti_edge, kernels
from spectrace.probe.layout_window import FLUSHES, Place, Stage
from tests.gpu import check

EAGER, IN_GRAPH = 3, 7  # kernels of a draft, and of the graph of a verify
ELEMENTS = 1 << 22
BEFORE, WINDOW, AFTER = 200, 40, 200  # cycles
TOLERANCE = 0.05
CLOSING_S = 0.12  # between two calls for what is done lie 100 ms
RANK = Rank(name="TP0", pid=os.getpid())


def why_not() -> str:
    """Why nothing can be checked here; empty where it can."""
    if find_spec("cupti") is None:
        return "cupti-python is not installed"
    return check.why_not()


class Loop:
    """Cycles of a draft and a verify, each waited for, whose times on the host are known.

    Args:
        torch: The module.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._values = torch.zeros(ELEMENTS, device="cuda")
        self._graph = torch.cuda.CUDAGraph()
        self._draft()  # what is made at the first call is not for the graph
        with torch.cuda.graph(self._graph):
            for _ in range(IN_GRAPH):
                self._values.add_(1.0)
        self.run = Run(
            run_id="0" * 32,
            host="",
            server_pid=RANK.pid,
            command=(),
            ranks=(RANK,),
            anchor_unix_ns=time.time_ns(),
            anchor_monotonic_ns=time.monotonic_ns(),
        )
        self.cycles: list[Cycle] = []

    def _draft(self) -> None:
        for _ in range(EAGER):
            self._values.mul_(1.0)

    def replay(self) -> None:
        """One verify."""
        self._graph.replay()

    def step(self, window: kernels.KernelWindow | None = None) -> None:
        """One cycle; the window is moved on before it begins, as the probe does."""
        number = len(self.cycles) + 1
        if window is not None:
            window.step(number)
        times = [time.monotonic_ns()]
        for work in (self._draft, self.replay, self._torch.cuda.synchronize):
            work()
            times.append(time.monotonic_ns())
        names = (PhaseName.DRAFT, PhaseName.VERIFY_FORWARD, PhaseName.SCHEDULE)
        unix_ns = [self.run.unix_ns(at) for at in times]
        share = RankCycle(
            rank=RANK.name,
            start_ns=unix_ns[0],
            end_ns=unix_ns[-1],
            phases=tuple(
                Phase(name=name, start_ns=start, end_ns=end, of_cycle=number)
                for name, start, end in zip(names, unix_ns[:-1], unix_ns[1:], strict=True)
            ),
            mode=TimingMode.HOST,
            probe_ns=0,
        )
        self.cycles.append(
            Cycle(
                run_id=self.run.run_id,
                group="",
                number=number,
                kind=CycleKind.SPECULATIVE,
                batch_size=1,
                steps=EAGER,
                topk=1,
                draft_tokens=EAGER + 1,
                ranks=(share,),
                requests=None,
            )
        )

    def look(self) -> tuple[Seen, Written]:
        """A window over the next cycles."""
        file = window_file.create(RANK, WINDOW, graph_cycles(WINDOW))
        try:
            ring = str(ring_file.ring_path(RANK.pid))
            window = kernels.open_window(ring, len(self.cycles) + 2, WINDOW)
            for _ in range(WINDOW + 2):
                self.step(window)
            for _ in range(FLUSHES):
                time.sleep(CLOSING_S)
                self.step(window)
            places = [value for name, value in vars(Place).items() if name.isupper()]
            words = {place: file.word(place) for place in places}
            written = with_names(Written(RANK, words, file.text(), file.content()), names_at)
        finally:
            file.remove()
        return look_of(self.run, self.cycles, [written], KernelClasses().of, WINDOW), written

    def median_ms(self, count: int) -> float:
        """How long a cycle takes, over so many new ones."""
        for _ in range(count):
            self.step()
        return statistics.median(one.ranks[0].duration_ns for one in self.cycles[-count:]) / 1e6


def each_cycle(kernels: SeenKernels) -> dict[str, int]:
    """In how many cycles a phase has so many kernels, and so many of them by a graph's launch."""
    found: Counter[str] = Counter()
    for number in np.unique(kernels.number):
        for place in np.unique(kernels.phase):
            own = (kernels.number == number) & (kernels.phase == place)
            found[f"{kernels.phases[place]} {own.sum()} {kernels.graph[own].sum()}"] += 1
    return dict(found)


def counts(loop: Loop) -> dict[str, Any]:
    """A window finds each kernel in its cycle and phase, every replay, and names."""
    (report, kernels), written = loop.look()
    found = {phase.phase: [phase.kernels, phase.launches, phase.replays] for phase in report.phases}
    expected = {"draft": [EAGER, EAGER, 0], "verify.forward": [IN_GRAPH, 1, 1]}
    cycles = report.cycles_seen[RANK.name]
    single = WINDOW - graph_cycles(WINDOW)
    whole_cycles = {
        f"draft {EAGER} 0": cycles,
        f"verify.forward {IN_GRAPH} {IN_GRAPH}": cycles,
    }
    each = [each_cycle(one) for one in kernels]
    seen = [phase.replays_seen for phase in report.phases if phase.phase == "verify.forward"]
    loss = report.losses[0]
    whole = not (loss.no_room or loss.torn or loss.unnamed or loss.cut_short)
    done = written.words[Place.STATE] == Stage.DONE
    return {
        "passed": found == expected
        and each == [whole_cycles]
        and single - 1 <= cycles <= single
        and seen == [graph_cycles(WINDOW)]
        and whole
        and done,
        "found": found,
        "each_cycle": each,
        "replays_seen": seen,
        "refusal": [written.words[Place.REFUSAL], written.text],
        "loss": repr(loss),
        "cost": repr(report.costs[0]),
    }


def same_time(loop: Loop) -> dict[str, Any]:
    """Cycles take as long after a window as before the first one, when CUPTI was not loaded."""
    fresh = sys.modules.get(cupti_edge.MODULE) is None
    before_ms = loop.median_ms(BEFORE)
    (report, _), _ = loop.look()
    after_ms = loop.median_ms(AFTER)
    return {
        "passed": fresh and abs(after_ms / before_ms - 1) <= TOLERANCE,
        "fresh": fresh,
        "before_ms": before_ms,
        "after_ms": after_ms,
        "cost": repr(report.costs[0]),
    }


def profiler(loop: Loop) -> dict[str, Any]:
    """The torch profiler sees kernels after a window, and a window after it does as well."""
    profiler_of_torch = import_module("torch.profiler")
    loop.look()
    activities = [profiler_of_torch.ProfilerActivity.CPU, profiler_of_torch.ProfilerActivity.CUDA]
    with profiler_of_torch.profile(activities=activities) as profile:
        loop.step()
    on_device = [event for event in profile.events() if "CUDA" in str(event.device_type)]
    kernel_events = [event for event in on_device if "elementwise" in event.name]
    again = counts(loop)
    return {
        "passed": len(kernel_events) == EAGER + IN_GRAPH and again["passed"],
        "events": len(kernel_events),
        "again": again,
    }


CHECKS = {"same_time": same_time, "counts": counts, "profiler": profiler}  # in this order


def main() -> int:
    """Prints what every check found."""
    reason = why_not()
    if reason:
        print(json.dumps({"skipped": reason}))
        return 0
    loop = Loop(import_module("torch"))
    found = {name: one(loop) for name, one in CHECKS.items()}
    print(json.dumps(found, indent=1))
    return 0 if all(one["passed"] for one in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
