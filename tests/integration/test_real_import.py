"""The torch profiler of a real server and spectrace, at one time, tell of the same cycles."""

from __future__ import annotations

import json
import statistics
import urllib.request
from collections import defaultdict
from typing import Any

import pytest

from examples.sglang_cpu.load import Answer
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import TraceSession
from spectrace.importing.imported import Imported, import_files
from spectrace.model import Cycle, CycleKind, PhaseName
from tests.conftest import Served
from tests.helpers.tracing import Collected, requests_of, traced

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_TIMEOUT_S = 300.0  # SGLang writes its trace before it answers
_COMPARED = {PhaseName.DRAFT, PhaseName.VERIFY_FORWARD, PhaseName.DRAFT_EXTEND}
_CLOCKS_NS = 5_000_000  # between the profiler's UNIX times and ours; a cycle takes far longer


def post(url: str, body: dict[str, Any]) -> None:
    """Asks the server for something."""
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    _opener.open(request, timeout=_TIMEOUT_S).close()


@pytest.fixture(scope="module")
def both(served: Served, tmp_path_factory: pytest.TempPathFactory) -> tuple[Collected, Imported]:
    """Eight requests, four at a time, traced by spectrace and by the profiler."""
    folder = tmp_path_factory.mktemp("profile")
    url = served.server.url
    ask = requests_of(url, requests=8, tag="profiled", tokens=16)

    def profiled() -> list[Answer]:
        # Stacks would take most of the time, and a minute to be written.
        options = {"output_dir": str(folder), "activities": ["CPU"], "with_stack": False}
        post(f"{url}/start_profile", options)
        answers = ask()
        post(f"{url}/stop_profile", {})
        return answers

    with TraceSession(find_by_pid(served.server.pid)) as session:
        _, collected = traced(session, profiled)
    return collected, import_files(sorted(folder.iterdir()), lambda _: None)


Both = tuple[Collected, Imported]


def pairs(both: Both) -> list[tuple[Cycle, Cycle]]:
    """Each imported cycle with spectrace's own of that time."""
    collected, found = both
    own = sorted(collected.cycles, key=lambda cycle: cycle.start_ns)
    return [
        (cycle, min(own, key=lambda other: abs(other.start_ns - cycle.start_ns)))
        for cycle in found.cycles
    ]


def test_the_profiler_shows_the_cycles_that_spectrace_shows(both: Both, served: Served) -> None:
    """Each once and none missing between, alike in kind, batch, steps, ranks and begin."""
    matched = pairs(both)
    numbers = [own.number for _, own in matched]
    assert len(matched) > 10
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for cycle, own in matched:
        assert (cycle.kind, cycle.batch_size, cycle.steps) == (own.kind, own.batch_size, own.steps)
        assert [rank.rank for rank in cycle.ranks] == [f"TP{n}" for n in range(served.ranks)]
        assert abs(cycle.start_ns - own.start_ns) < _CLOCKS_NS
    assert not both[1].faults.counts()


def phase_ns(cycle: Cycle) -> dict[PhaseName, int]:
    """The length of each phase that is compared, on the first rank; a draft with its steps."""
    sums: dict[PhaseName, int] = defaultdict(int)
    for phase in cycle.ranks[0].phases:
        name = PhaseName.DRAFT if phase.name is PhaseName.DRAFT_STEP else phase.name
        if name in _COMPARED:
            sums[name] += phase.duration_ns
    return sums


def test_phases_are_as_long_as_spectrace_says(both: Both) -> None:
    """Draft, verify's forward and draft extend lie within 5 % in the median speculative cycle.

    Of one cycle that says nothing: the server may lose its core between the two clocks' readings.
    """
    ratios: dict[PhaseName, list[float]] = defaultdict(list)
    for cycle, own in pairs(both):
        if cycle.kind is CycleKind.SPECULATIVE:
            lengths_ns = phase_ns(own)
            for name, length_ns in phase_ns(cycle).items():
                ratios[name].append(length_ns / lengths_ns[name])
    assert set(ratios) == _COMPARED
    for name, values in ratios.items():
        assert statistics.median(values) == pytest.approx(1.0, abs=0.05), name
