"""Kernels go to the phase that launched them: the device's lane, and time by class."""

from __future__ import annotations

from pathlib import Path

from spectrace.analysis.kernel_classes import KernelClasses
from spectrace.importing.class_times import class_times
from spectrace.importing.imported import Imported, import_files
from spectrace.model import Lane, PhaseName, TimingMode
from tests.helpers.kineto_trace import BASE_NS, TURN_US, TraceOf, newest, turns

P = PhaseName
BEGIN_US = 1000.0
GEMM = "nvjet_tst_64x8_64x16_2x1_v_bz_TNT"
ATTENTION = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>"
REDUCE = "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*)"


def imported(trace: TraceOf, folder: Path) -> Imported:
    """What comes of a trace."""
    return import_files([trace.write(folder / "1-TP-0.trace.json")], lambda _: None)


def device_us(found: Imported, place: int = 0) -> list[tuple[PhaseName, float, float]]:
    """The phases of a cycle on the device: name, begin in µs from the trace's base, length."""
    return [
        (phase.name, (phase.start_ns - BASE_NS) / 1000, phase.duration_ns / 1000)
        for phase in found.cycles[place].ranks[0].phases
        if phase.lane is Lane.DEVICE
    ]


def with_kernels() -> TraceOf:
    """Two turns; in the first a draft, a verify as a graph and an extend that run later."""
    trace = turns(newest, 2)
    trace.launched(BEGIN_US + 500.0, (GEMM, 5_000.0, 100.0))
    trace.launched(BEGIN_US + 1_300.0, (GEMM, 5_100.0, 300.0))
    trace.launched(
        BEGIN_US + 4_000.0,
        (ATTENTION, 6_000.0, 400.0),
        (REDUCE, 6_500.0, 250.0),
        (GEMM, 6_800.0, 1_200.0),
        call="cudaGraphLaunch",
    )
    trace.launched(BEGIN_US + 13_600.0, (GEMM, 19_000.0, 700.0))
    return trace


def test_a_phase_on_the_device_is_from_its_first_kernel_to_its_last(tmp_path: Path) -> None:
    """The launch's place on the host decides, however much later the kernel ran."""
    assert device_us(imported(with_kernels(), tmp_path)) == [
        (P.DRAFT_STEP, 5_000.0, 100.0),
        (P.DRAFT_STEP, 5_100.0, 300.0),
        (P.VERIFY_FORWARD, 6_000.0, 2_000.0),
        (P.DRAFT_EXTEND, 19_000.0, 700.0),
    ]


def test_a_phase_says_whether_it_ran_as_a_graph(tmp_path: Path) -> None:
    """A launched graph says yes, launched kernels alone say no."""
    [first, _] = imported(with_kernels(), tmp_path).cycles
    graphs = {p.name: p.graph for p in first.ranks[0].phases if p.lane is Lane.DEVICE}
    assert graphs == {P.DRAFT_STEP: False, P.VERIFY_FORWARD: True, P.DRAFT_EXTEND: False}
    assert first.ranks[0].mode is TimingMode.DEVICE


def test_what_runs_on_a_side_stream_bounds_no_phase(tmp_path: Path) -> None:
    """A copy that waits on a stream of its own is no part of verify's time on the device."""
    trace = with_kernels()
    trace.launched(
        BEGIN_US + 4_100.0,
        ("Memcpy DtoH (Device -> Pinned)", 30_000.0, 5.0),
        stream=9,
        category="gpu_memcpy",
    )
    assert (P.VERIFY_FORWARD, 6_000.0, 2_000.0) in device_us(imported(trace, tmp_path))


def test_time_is_summed_by_phase_and_class(tmp_path: Path) -> None:
    """Each kernel counts once, what no phase launched on its own line."""
    trace = with_kernels()
    trace.launched(200.0, (GEMM, 300.0, 50.0))  # before the first turn
    times = class_times(imported(trace, tmp_path).kernels, KernelClasses().of)
    assert [(t.phase, t.kernel_class, t.time_ms, t.kernels) for t in times] == [
        ("verify.forward", "matmul", 1.2, 1),
        ("verify.forward", "attention", 0.4, 1),
        ("verify.forward", "communication", 0.25, 1),
        ("draft_extend", "matmul", 0.7, 1),
        ("draft.step", "matmul", 0.4, 2),
        ("", "matmul", 0.05, 1),
    ]


def test_without_kernels_the_profilers_own_ranges_on_the_device_are_taken(tmp_path: Path) -> None:
    """They carry the id of the range on the host."""
    trace = TraceOf()
    for place in range(2):
        turn_us = place * TURN_US
        trace.annotation("draft", (turn_us, 1_000.0), **{"External id": 10 + place})
        trace.annotation(
            "step[VERIFY bs=2]", (turn_us + 2_000.0, 3_000.0), **{"External id": 20 + place}
        )
    trace.slice("gpu_user_annotation", "draft", (4_000.0, 800.0), **{"External id": 10})
    trace.slice(
        "gpu_user_annotation", "step[VERIFY bs=2]", (5_000.0, 9_000.0), **{"External id": 20}
    )
    assert device_us(imported(trace, tmp_path)) == [
        (P.DRAFT, 4_000.0, 800.0),
        (P.VERIFY_FORWARD, 5_000.0, 9_000.0),
    ]


def test_phases_that_meet_on_the_device_are_cut_and_counted(tmp_path: Path) -> None:
    """Ranges of a broken trace may overlap, phases of a lane never do."""
    trace = TraceOf()
    trace.annotation("draft", (0.0, 1_000.0), **{"External id": 1})
    trace.annotation("step[VERIFY bs=2]", (2_000.0, 3_000.0), **{"External id": 2})
    trace.slice("gpu_user_annotation", "draft", (4_000.0, 800.0), **{"External id": 1})
    trace.slice("gpu_user_annotation", "step[VERIFY bs=2]", (4_500.0, 900.0), **{"External id": 2})
    found = imported(trace, tmp_path)
    assert device_us(found) == [(P.DRAFT, 4_000.0, 800.0), (P.VERIFY_FORWARD, 4_800.0, 600.0)]
    assert found.faults.counts() == {"overlapping": 1}
