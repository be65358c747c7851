"""A recording of traces has the kernels that the traces have, in their cycles and phases."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

import spectrace
from spectrace.cli.main import app
from spectrace.errors import SpectraceError
from spectrace.kernels import KernelLook, LookSource, PhaseWork
from spectrace.store.recording import open_recording
from tests.helpers.kineto_trace import BASE_NS, TURN_US, TraceOf, newest, turns
from tests.helpers.looked import Row, rows_of
from tests.helpers.nsys_export import PROCESS, SESSION_NS, Launch, NvtxRange, write_export

pytestmark = pytest.mark.beside_others

BEGIN_US = 1_000.0  # of the first turn
GEMM = "nvjet_tst_64x8_64x16_2x1_v_bz_TNT"
ATTENTION = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>"
REDUCE = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*)"
COPY = "Memcpy DtoH (Device -> Pinned)"


def imported(folder: Path, *traces: Path, classes: str = "") -> Path:
    """The recording that the command makes."""
    options = ["-o", str(folder / "run.spectrace")]
    if classes:
        (folder / "mine.toml").write_text(classes)
        options += ["--classes", str(folder / "mine.toml")]
    done = CliRunner().invoke(app, ["import", *map(str, traces), *options], catch_exceptions=False)
    if isinstance(done.exception, SpectraceError):
        raise done.exception
    return folder / "run.spectrace"


def read(path: Path) -> tuple[list[KernelLook], dict[int, list[Row]]]:
    """The looks of a recording's run, and the kernels of each cycle."""
    with closing(open_recording(path)) as recording:
        [run] = recording.runs()
        numbers = sorted(cycle.number for cycle in recording.cycles(run.run_id))
        kernels = {number: rows_of(recording.kernels(run.run_id, "", number)) for number in numbers}
        return recording.looks(run.run_id), kernels


def launched(trace: TraceOf, begin_us: float, late_us: float = 0.0) -> None:
    """What a turn launches; it runs when the turn before it is long done, and somewhat later.

    Two steps of a draft, a verify as a graph of three kernels with gaps of 100 and 50 µs, an
    extend, and while verify runs a copy on a stream of its own.
    """
    at_us = begin_us + late_us
    trace.launched(begin_us + 500.0, (GEMM, at_us + 5_000.0, 100.0))
    trace.launched(begin_us + 1_300.0, (GEMM, at_us + 5_100.0, 300.0))
    trace.launched(
        begin_us + 4_000.0,
        (ATTENTION, at_us + 6_000.0, 400.0),
        (REDUCE, at_us + 6_500.0, 250.0),
        (GEMM, at_us + 6_800.0, 1_200.0),
        call="cudaGraphLaunch",
    )
    trace.launched(
        begin_us + 4_100.0, (COPY, at_us + 6_400.0, 5.0), stream=9, category="gpu_memcpy"
    )
    trace.launched(begin_us + 13_600.0, (GEMM, at_us + 19_000.0, 700.0))
    trace.slice(
        "cuda_runtime", "cudaStreamIsCapturing", (begin_us + 4_200.0, 1.0), correlation=9_999
    )


def expected(rank: str, number: int, late_us: float = 0.0) -> list[Row]:
    """The kernels of such a turn, as they are to be in the recording."""
    at_ns = BASE_NS + round((BEGIN_US + (number - 1) * TURN_US + late_us) * 1000)
    return [
        (rank, "", number, phase, at_ns + start, at_ns + start + took, stream, name, kind, graph)
        for phase, start, took, stream, name, kind, graph in (
            ("draft.step", 5_000_000, 100_000, 0, GEMM, "matmul", 0),
            ("draft.step", 5_100_000, 300_000, 0, GEMM, "matmul", 0),
            ("verify.forward", 6_000_000, 400_000, 0, ATTENTION, "attention", 1),
            ("verify.forward", 6_400_000, 5_000, 1, COPY, "copy", 0),
            ("verify.forward", 6_500_000, 250_000, 0, REDUCE, "communication", 1),
            ("verify.forward", 6_800_000, 1_200_000, 0, GEMM, "matmul", 1),
            ("draft_extend", 19_000_000, 700_000, 0, GEMM, "matmul", 0),
        )
    ]


def trace_of(count: int, late_us: float = 0.0) -> TraceOf:
    """So many turns, each of which launches the same."""
    trace = turns(newest, count)
    for place in range(count):
        launched(trace, BEGIN_US + place * TURN_US, late_us)
    return trace


def test_each_kernel_of_a_trace_is_in_its_cycle_and_phase(tmp_path: Path) -> None:
    """Of both ranks and of all cycles, the one that the trace cuts off among them."""
    traces = [
        trace_of(3, late_us=30.0 * rank).write(tmp_path / f"1-TP-{rank}.trace.json")
        for rank in range(2)
    ]
    [look], kernels = read(imported(tmp_path, *traces))
    assert kernels == {
        number: [*expected("TP0", number), *expected("TP1", number, 30.0)] for number in (1, 2, 3)
    }
    assert look.source is LookSource.TRACE
    assert (look.cycles, look.cycles_seen) == (0, {"TP0": 2, "TP1": 2})
    assert look.start_ns == BASE_NS + round(BEGIN_US * 1000)


def test_what_launched_nothing_that_runs_is_no_launch(tmp_path: Path) -> None:
    """The figures of phases are per cycle, and those of a kernel window: of whole cycles alone."""
    trace = trace_of(3)
    late_us = BEGIN_US + 2 * TURN_US  # in the last turn, which the trace cuts off
    trace.launched(late_us + 4_500.0, (GEMM, late_us + 9_000.0, 9_000.0))
    [look], _ = read(imported(tmp_path, trace.write(tmp_path / "1-TP-0.trace.json")))
    found = {
        work.phase: (work.cycles, work.kernels, work.launches, work.replays) for work in look.phases
    }
    assert found == {
        "verify.forward": (2, 4.0, 2.0, 1.0),
        "draft_extend": (2, 1.0, 1.0, 0.0),
        "draft.step": (2, 2.0, 2.0, 0.0),
    }
    times = {work.phase: (work.device_ms, work.busy_ms, work.gap_ms) for work in look.phases}
    assert times["verify.forward"] == pytest.approx((2.0, 1.85, 0.15))
    assert times["draft.step"] == pytest.approx((0.4, 0.4, 0.0))
    assert {work.replay_ms for work in look.phases} == {None}
    assert look.communication == {"TP0": pytest.approx(0.25 / 2.955)}
    sums = {(one.phase, one.kernel_class): one.time_ms for one in look.kernels if one.phase}
    assert sums == {
        ("verify.forward", "matmul"): pytest.approx(2.4),
        ("verify.forward", "attention"): pytest.approx(0.8),
        ("verify.forward", "communication"): pytest.approx(0.5),
        ("verify.forward", "copy"): pytest.approx(0.01),
        ("draft_extend", "matmul"): pytest.approx(1.4),
        ("draft.step", "matmul"): pytest.approx(0.8),
    }


def test_a_drivers_call_within_one_of_the_runtime_is_no_second_launch(tmp_path: Path) -> None:
    """Both carry the correlation id of the kernel."""
    trace = trace_of(2)
    for event in [one for one in trace.events if one["cat"] == "cuda_runtime"]:
        inner = (event["ts"] + 1.0, 2.0)
        trace.slice("cuda_driver", "cuLaunchKernelEx", inner, **event["args"])
    [look], kernels = read(imported(tmp_path, trace.write(tmp_path / "1-TP-0.trace.json")))
    assert {work.phase: work.launches for work in look.phases} == {
        "verify.forward": 2.0,
        "draft_extend": 1.0,
        "draft.step": 2.0,
    }
    assert kernels[1] == expected("TP0", 1)


def test_users_classes_are_in_the_recording(tmp_path: Path) -> None:
    """In the figures and on each kernel."""
    trace = trace_of(2).write(tmp_path / "1-TP-0.trace.json")
    path = imported(tmp_path, trace, classes='[classes]\nlm_head = ["^nvjet_tst_64x8"]\n')
    [look], kernels = read(path)
    assert {row[8] for row in kernels[1] if row[7] == GEMM} == {"lm_head"}
    assert "lm_head" in {one.kernel_class for one in look.kernels}
    with spectrace.open(path) as recorded:
        assert set(recorded.kernel_names["class"].to_pylist()) == {
            *("lm_head", "attention", "communication", "copy")
        }


def test_a_trace_without_kernels_makes_no_look(tmp_path: Path) -> None:
    """There is nothing to be seen in it."""
    trace = turns(newest, 3).write(tmp_path / "1-TP-0.trace.json")
    looks, kernels = read(imported(tmp_path, trace))
    assert (looks, kernels) == ([], {1: [], 2: [], 3: []})


def test_several_traces_of_one_rank_are_one_look(tmp_path: Path) -> None:
    """SGLang writes one of each stage if asked to: phases are told once, per cycle of all."""
    early, late = trace_of(2), TraceOf()
    begin_us = BEGIN_US + 10 * TURN_US
    for place in range(3):
        newest(late, begin_us + place * TURN_US, 4)
        for each in range(2):  # twice as much as in the early one
            launched(late, begin_us + place * TURN_US, 2_000.0 * each)
    paths = [
        trace.write(tmp_path / f"1-TP-0-{stage}.trace.json")
        for trace, stage in ((early, "EXTEND"), (late, "DECODE"))
    ]
    [look], kernels = read(imported(tmp_path, *paths))
    assert {number: len(some) for number, some in kernels.items()} == {
        **dict.fromkeys((1, 2), 7),
        **dict.fromkeys((3, 4, 5), 14),
    }
    assert look.cycles_seen == {"TP0": 3}
    [verifying] = [work for work in look.phases if work.phase == "verify.forward"]
    assert verifying.cycles == 3
    assert verifying.kernels == pytest.approx((4 + 8 + 8) / 3)
    assert verifying.replays == pytest.approx((1 + 2 + 2) / 3)


SGLANG: list[NvtxRange] = [
    ("scheduler.run_batch", 0, 17_000_000, None),
    ("draft", 200_000, 3_200_000, None),
    ("step[VERIFY bs=3]", 3_500_000, 11_500_000, None),
    ("draft_extend", 13_000_000, 16_500_000, None),
    ("scheduler.process_batch_result", 17_500_000, 19_000_000, None),
    ("scheduler.run_batch", 20_000_000, 37_000_000, None),
]
LAUNCHES: list[Launch] = [
    ("cudaLaunchKernel_v7000", 400_000, GEMM, 600_000, 900_000),
    ("cudaLaunchKernel_v7000", 500_000, ATTENTION, 950_000, 980_000),
    ("cudaGraphLaunch_v10000", 4_000_000, "fused_moe_kernel", 5_000_000, 9_000_000),
]


@pytest.mark.parametrize("new", [True, False], ids=["new", "old"])
def test_an_export_of_nsight_systems_has_its_kernels(new: bool, tmp_path: Path) -> None:
    """Of both schemas, on the UNIX axis where the session's start is known."""
    export = write_export(tmp_path / "a.sqlite", SGLANG, LAUNCHES, new=new)
    base_ns = SESSION_NS if new else 0
    [look], kernels = read(imported(tmp_path, export))
    assert kernels == {
        1: [
            ("TP0", "", 1, phase, base_ns + begin, base_ns + end, 0, name, kind, graph)
            for phase, begin, end, name, kind, graph in (
                ("draft", 600_000, 900_000, GEMM, "matmul", 0),
                ("draft", 950_000, 980_000, ATTENTION, "attention", 0),
                ("verify.forward", 5_000_000, 9_000_000, "fused_moe_kernel", "moe", 1),
            )
        ],
        2: [],
    }
    drafting = next(work for work in look.phases if work.phase == "draft")
    assert msgspec.structs.replace(drafting, device_ms=0.0, busy_ms=0.0, gap_ms=0.0) == PhaseWork(
        rank="TP0",
        phase="draft",
        cycles=1,
        device_ms=0.0,
        busy_ms=0.0,
        gap_ms=0.0,
        kernels=2.0,
        launches=2.0,
        replays=0.0,
    )
    assert (drafting.device_ms, drafting.gap_ms) == pytest.approx((0.38, 0.05))


def test_a_graph_that_nsight_systems_saw_whole_is_a_replay(tmp_path: Path) -> None:
    """As `--cuda-graph-trace=graph` has it; what the host waited for is no work of the device."""
    export = write_export(tmp_path / "a.sqlite", SGLANG, LAUNCHES)
    with closing(sqlite3.connect(export)) as file:
        for table in ("GRAPH_TRACE", "SYNCHRONIZATION"):
            file.execute(
                f"CREATE TABLE CUPTI_ACTIVITY_KIND_{table} (start INTEGER, end INTEGER, "
                "deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER)"
            )
        file.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId = 3")
        row = (5_000_000, 8_500_000, 0, 7, 3, PROCESS)
        file.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (?, ?, ?, ?, ?, ?)", row)
        row = (100_000, 9_900_000, 0, 7, 1, PROCESS)
        file.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (?, ?, ?, ?, ?, ?)", row
        )
        file.commit()
    [look], kernels = read(imported(tmp_path, export))
    assert [row[7] for row in kernels[1]] == [GEMM, ATTENTION, "CUDA graph"]
    [verifying] = [work for work in look.phases if work.phase == "verify.forward"]
    assert (verifying.replays, verifying.replays_seen) == (1.0, 1)
    assert verifying.replay_ms == pytest.approx(3.5)
