"""Whatever turns of whatever ranks launch comes back in its cycle and phase, and adds up."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.analysis.made_of import made_of
from spectrace.importing.imported import Imported, import_files
from spectrace.importing.trace_look import look_of_trace
from spectrace.kernels import Seen
from spectrace.model import Cycle
from spectrace.server.kernel_wire import encode_kernels
from spectrace.store.recorded import recorded
from spectrace.store.recording import open_recording
from spectrace.store.source import CycleSource
from tests.helpers.kineto_trace import BASE_NS, TURN_US, TraceOf, newest

pytestmark = pytest.mark.beside_others

CLASSES = {"nvjet_tst_64x8": "matmul", "ncclDevKernel_AllReduce": "communication", "silu": "other"}
STREAMS = (7, 9, 21)
BEGIN_US = 50_000.0
# Of `newest`, in µs from the turn's begin: from when on the host is in which phase.
HOST = (
    (0, "resolve"),
    (200, "draft"),
    (400, "draft.step"),
    (1_000, "draft"),
    (1_200, "draft.step"),
    (1_800, "draft"),
    (2_000, "draft.step"),
    (2_600, "draft"),
    (3_200, "verify.prepare"),
    (3_500, "verify.forward"),
    (11_500, "verify"),
    (13_000, "draft_extend"),
    (16_500, "schedule"),
    (17_500, "result"),
    (19_000, "schedule"),
)


class Ran(NamedTuple):
    """A kernel in µs: when it is launched from the turn's begin, when it begins behind that."""

    call_us: int
    later_us: int
    took_us: int
    stream: int
    name: str
    graph: bool

    @property
    def phase(self) -> str:
        """In which phase its launch lies."""
        return next(name for begin_us, name in reversed(HOST) if begin_us <= self.call_us)


class Share(NamedTuple):
    """A turn of a rank: when it begins, of how many requests, and what it launches."""

    begin_us: int
    batch: int
    ran: list[Ran]


ran = st.builds(
    Ran,
    st.integers(0, 18_999),  # the last turn ends with its last range
    st.integers(0, 40_000),
    st.integers(0, 3_000),
    st.sampled_from(STREAMS),
    st.sampled_from(list(CLASSES)),
    st.booleans(),
)


@st.composite
def turns_of_a_rank(draw: st.DrawFn) -> list[Share]:
    """Some turns of which each begins when the one before is over or later, at any time."""
    shares = []
    begin_us = int(BEGIN_US) + draw(st.integers(-30_000, 30_000))
    for batch in draw(st.lists(st.sampled_from((4, 4, 4, 5)), min_size=1, max_size=5)):
        shares.append(Share(begin_us, batch, draw(st.lists(ran, max_size=6))))
        begin_us += int(TURN_US) + draw(st.sampled_from((0, 0, 300, 25_000)))
    return shares


def written(path: Path, shares: Sequence[Share]) -> Path:
    """The trace of a rank."""
    trace = TraceOf()
    for begin_us, batch, some in shares:
        newest(trace, float(begin_us), batch)
        for one in some:
            call_us = float(begin_us + one.call_us)
            trace.launched(
                call_us,
                (one.name, call_us + one.later_us, float(one.took_us)),
                call="cudaGraphLaunch" if one.graph else "cudaLaunchKernel",
                stream=one.stream,
            )
    return trace.write(path)


def imported(folder: Path, ranks: Sequence[Sequence[Share]]) -> tuple[Imported, Seen | None]:
    """The run of these ranks, and what is seen of its kernels."""
    paths = [
        written(folder / f"1-TP-{rank}.trace.json", shares) for rank, shares in enumerate(ranks)
    ]
    found = import_files(paths, lambda _: None)
    return found, look_of_trace(found, KernelClasses().of)


def kept(path: Path, found: Imported, seen: Seen | None) -> CycleSource:
    """The same as a recording."""
    with recorded(path, force=False, max_bytes=1 << 50, whole=True) as store:
        store.put_run(found.run)
        store.add(found.cycles)
        if seen is not None:
            store.add_look(found.run.run_id, seen)
    return open_recording(path)


Told = tuple[str, str, int, int, str, int]


def told(recording: CycleSource, cycle: Cycle) -> dict[str, list[Told]]:
    """By rank the kernels of a cycle as the page is told: phase, name, begin, end, class, graph."""
    seen = recording.kernels(cycle.run_id, cycle.group, cycle.number)
    answer = json.loads(encode_kernels(cycle, seen))
    t0 = int(answer["t0"])
    return {
        rank["rank"]: [
            (
                rank["phases"][phase],
                rank["names"][name],
                t0 + start,
                t0 + end,
                rank["classes"][name],
                graph,
            )
            for phase, name, start, end, graph in zip(
                *(rank[column] for column in ("phase", "name", "start", "end", "graph")),
                strict=True,
            )
        ]
        for rank in answer["ranks"]
    }


def launched(share: Share) -> list[Told]:
    """The kernels of a turn, as they are to be told."""
    found = []
    for one in share.ran:
        start_us = share.begin_us + one.call_us + one.later_us
        start_ns = BASE_NS + start_us * 1000
        end_ns = start_ns + one.took_us * 1000
        found.append((one.phase, one.name, start_ns, end_ns, CLASSES[one.name], int(one.graph)))
    return found


@settings(max_examples=12)
@given(st.lists(turns_of_a_rank(), min_size=1, max_size=3))
def test_each_kernel_is_in_the_cycle_of_its_turn(ranks: list[list[Share]]) -> None:
    """Also where turns of ranks fit together badly, or not at all."""
    with tempfile.TemporaryDirectory() as name:
        found, all_seen = imported(Path(name), ranks)
        with closing(kept(Path(name) / "run.spectrace", found, all_seen)) as recording:
            for rank, shares in enumerate(ranks):
                of_turn = {share.begin_us: share for share in shares}
                seen = 0
                for cycle in found.cycles:
                    kernels = told(recording, cycle)
                    for one in cycle.ranks:
                        if one.rank == f"TP{rank}":
                            share = of_turn[(one.start_ns - BASE_NS) // 1000]
                            assert sorted(kernels.get(one.rank, [])) == sorted(launched(share))
                            seen += len(share.ran)
                    strangers = kernels.keys() - {one.rank for one in cycle.ranks}
                    assert not strangers
                assert seen == sum(len(share.ran) for share in shares)


@settings(max_examples=12)
@given(st.lists(turns_of_a_rank(), min_size=1, max_size=3))
def test_figures_of_phases_add_up_to_their_kernels(ranks: list[list[Share]]) -> None:
    """In the look and in the report, over all turns but the last, which the trace cuts off."""
    with tempfile.TemporaryDirectory() as name:
        _, seen = imported(Path(name), ranks)
    if seen is None:
        assert not any(share.ran for shares in ranks for share in shares)
        return
    look = seen.look
    for rank, shares in enumerate(ranks):
        whole = [one for share in shares[:-1] for one in share.ran]
        times: defaultdict[tuple[str, str], float] = defaultdict(float)
        for one in whole:
            times[one.phase, CLASSES[one.name]] += one.took_us / 1000
        own = [one for one in look.kernels if one.rank == f"TP{rank}" and one.phase]
        assert {(one.phase, one.kernel_class): one.time_ms for one in own} == {
            key: pytest.approx(time_ms) for key, time_ms in times.items()
        }
        works = {one.phase: one for one in look.phases if one.rank == f"TP{rank}"}
        assert works.keys() == {one.phase for one in whole}
        for phase, work in works.items():
            count = sum(one.phase == phase for one in whole)
            assert work.kernels * work.cycles == pytest.approx(count)
            assert work.launches * work.cycles == pytest.approx(count)
            assert work.busy_ms + work.gap_ms == pytest.approx(work.device_ms)
            assert min(work.busy_ms, work.gap_ms) >= 0
            all_ms = sum(time_ms for key, time_ms in times.items() if key[0] == phase)
            assert work.busy_ms * work.cycles <= all_ms + 1e-9
    report = made_of([look])
    if report is not None:
        for part in report.phases:
            own = [
                one for one in look.kernels if (one.rank, one.phase) == (report.rank, part.phase)
            ]
            assert sum(one.time_ms for one in part.parts) * part.cycles == pytest.approx(
                sum(one.time_ms for one in own)
            )
