"""What a look has seen is stored behind its cycles, and read by the page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from spectrace.kernels import (
    ClassTime,
    KernelLook,
    LookSource,
    PhaseWork,
    Seen,
    SeenKernels,
    WindowLoss,
)
from spectrace.server.hub import Hub
from spectrace.server.run import PageServer
from spectrace.server.state import Source
from spectrace.store.recording import open_recording
from tests.helpers.page import until
from tests.helpers.stored import RUN_A, T0_NS, cycle_of, open_store, run_of

FIRST, LAST = 3, 4  # cycles that are seen
MS = 1_000_000
PHASES = ("draft", "verify.forward")
NAMES = ("gemm", "ncclAllReduce")


def start_of(number: int) -> int:
    """When a cycle of `cycle_of` begins, UNIX ns."""
    return T0_NS + number * 10 * MS


def kernels_of(number: int) -> list[tuple[int, int, int, int, int]]:
    """Of a cycle: phase, begin and end in ns from its start, name, of a graph."""
    return [(0, 800_000, 900_000 + number, 0, 0), (1, 2_400_000, 3_000_000, 1, 1)]


def seen_of(first: int = FIRST, last: int = LAST) -> Seen:
    """A look over some cycles of the rank TP0."""
    rows = [(number, *row) for number in range(first, last + 1) for row in kernels_of(number)]
    number, phase, start, end, name, graph = np.array(rows, np.int64).T
    begins = np.array([start_of(one) for one in number.tolist()], np.int64)
    kernels = SeenKernels(
        rank="TP0",
        group="",
        number=number,
        phase=phase,
        start_ns=begins + start,
        end_ns=begins + end,
        stream=np.full(len(rows), 7, np.int64),
        name=name,
        graph=graph,
        phases=PHASES,
        names=NAMES,
        classes=("matmul", "communication"),
    )
    return Seen(look_of(first, last), [kernels])


def look_of(first: int, last: int) -> KernelLook:
    """What is said of it."""
    work = PhaseWork(
        rank="TP0",
        phase="draft",
        cycles=last + 1 - first,
        device_ms=0.1,
        busy_ms=0.1,
        gap_ms=0.0,
        kernels=1.0,
        launches=1.0,
        replays=0.0,
    )
    time = ClassTime(rank="TP0", phase="draft", kernel_class="matmul", time_ms=0.2, kernels=2)
    return KernelLook(
        source=LookSource.WINDOW,
        start_ns=start_of(first),
        end_ns=start_of(last + 1),
        cycles=last + 1 - first,
        cycles_seen={"TP0": last + 1 - first},
        phases=(work,),
        kernels=(time,),
        communication={"TP0": 0.25},
        losses=(WindowLoss(rank="TP0", records=12),),
    )


@contextmanager
def serve(folder: Path) -> Iterator[tuple[PageServer, Hub]]:
    """A page with the cycles 1 to 5 of an attached run."""
    with open_store(folder / "store") as store:
        hub = Hub(store, sink=store)
        hub.put_run(run_of(), Source.ATTACHED)
        hub.feed(cycle_of(number) for number in range(1, 6))
        with PageServer(hub, port=0) as server, closing(hub.recorder):
            yield server, hub


def looks_in(server: PageServer) -> int:
    """How many looks the state says that there are."""
    [run] = httpx.get(f"{server.url}/api/state").json()["runs"]
    return int(run["looks"])


def test_a_look_is_read_as_it_was_with_times_in_digits(tmp_path: Path) -> None:
    """JavaScript would round UNIX times in ns; the state says that there is one to be read."""
    with serve(tmp_path) as (server, hub):
        url = f"{server.url}/api/runs/{RUN_A}/looks"
        assert httpx.get(url).json() == {"looks": []}
        assert looks_in(server) == 0
        hub.add_look(RUN_A, seen_of())
        [look] = httpx.get(url).json()["looks"]
        until(lambda: looks_in(server) == 1)
    assert (look["start_ns"], look["end_ns"]) == (str(start_of(FIRST)), str(start_of(LAST + 1)))
    times = {name: int(look[name]) for name in ("start_ns", "end_ns")}
    assert msgspec.convert(look | times, KernelLook) == look_of(FIRST, LAST)


@pytest.mark.parametrize("number", [FIRST, LAST])
def test_kernels_of_a_cycle_have_times_from_its_start(tmp_path: Path, number: int) -> None:
    """Columns of the same length, with names and classes beside."""
    with serve(tmp_path) as (server, hub):
        hub.add_look(RUN_A, seen_of())
        found = httpx.get(f"{server.url}/api/runs/{RUN_A}/cycles/{number}/kernels").json()
    assert found["t0"] == str(start_of(number))
    [rank] = found["ranks"]
    assert rank["rank"] == "TP0"
    classes = dict(zip(rank["names"], rank["classes"], strict=True))
    assert classes == {"gemm": "matmul", "ncclAllReduce": "communication"}
    assert [rank["phases"][place] for place in rank["phase"]] == list(PHASES)
    assert [rank["names"][place] for place in rank["name"]] == list(NAMES)
    assert rank["start"] == [800_000, 2_400_000]
    assert rank["end"] == [900_000 + number, 3_000_000]
    assert (rank["stream"], rank["graph"]) == ([7, 7], [0, 1])


def test_a_cycle_without_kernels_has_none_and_one_that_is_not_there_is_said_so(
    tmp_path: Path,
) -> None:
    """Also one of another group."""
    with serve(tmp_path) as (server, hub):
        hub.add_look(RUN_A, seen_of())
        url = f"{server.url}/api/runs/{RUN_A}/cycles"
        none = httpx.get(f"{url}/{LAST + 1}/kernels").json()
        missing = [
            httpx.get(f"{url}/{where}")
            for where in ("99/kernels", f"{FIRST}/kernels?group=DP7", "-1/kernels", "x/kernels")
        ]
    assert none == {"t0": str(start_of(LAST + 1)), "ranks": []}
    assert [answer.status_code for answer in missing] == [404, 404, 422, 422]
    assert missing[0].json()["detail"] == "Cycle 99 is not here, or not any more."


def test_a_look_comes_behind_cycles_that_were_fed_just_before(tmp_path: Path) -> None:
    """They are in the store when it is, although nothing was passed on meanwhile."""
    with serve(tmp_path) as (server, hub):
        hub.feed(cycle_of(number) for number in range(6, 9))
        hub.add_look(RUN_A, seen_of(6, 8))
        url = f"{server.url}/api/runs/{RUN_A}/cycles"
        counts = [
            len(httpx.get(f"{url}/{number}/kernels").json()["ranks"][0]["start"])
            for number in range(6, 9)
        ]
    assert counts == [2, 2, 2]


def test_a_recording_that_goes_on_has_the_look_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the kernels of the cycles that came since it began."""
    monkeypatch.chdir(tmp_path)
    with serve(tmp_path) as (_, hub):
        hub.record(RUN_A, "kept", 10_000_000)
        hub.feed(cycle_of(number) for number in range(6, 9))
        hub.add_look(RUN_A, seen_of(6, 8))
        hub.recorder.stop(RUN_A)
    with closing(open_recording(tmp_path / "kept.spectrace")) as recording:
        assert recording.looks(RUN_A) == [look_of(6, 8)]
        [kernels] = recording.kernels(RUN_A, "", 7)
    assert kernels.start_ns.tolist() == [start_of(7) + 800_000, start_of(7) + 2_400_000]
