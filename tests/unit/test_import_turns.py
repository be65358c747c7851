"""Traces of the torch profiler become cycles with the host's phases, whatever release made them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectrace.errors import SpectraceError
from spectrace.importing.imported import Imported, import_files
from spectrace.model import Cycle, CycleKind, PhaseName, TimingMode
from tests.helpers.kineto_trace import (
    BASE_NS,
    RESULT,
    RUN,
    TURN_US,
    Release,
    TraceOf,
    newest,
    older,
    turns,
    with_stacks,
    worker_alone,
)

P = PhaseName


def imported(trace: TraceOf, folder: Path, name: str = "1-TP-0.trace.json.gz") -> Imported:
    """What comes of a trace."""
    return import_files([trace.write(folder / name)], lambda _: None)


def host_us(cycle: Cycle) -> list[tuple[PhaseName, float]]:
    """The phases of the first rank on the host, with their lengths in µs."""
    return [(phase.name, phase.duration_ns / 1000) for phase in cycle.ranks[0].phases]


DRAFTED = [
    (P.DRAFT, 200.0),
    (P.DRAFT_STEP, 600.0),
    (P.DRAFT, 200.0),
    (P.DRAFT_STEP, 600.0),
    (P.DRAFT, 200.0),
    (P.DRAFT_STEP, 600.0),
    (P.DRAFT, 600.0),
]
# By release, the phases in µs as the ranges bound them.
EXPECTED: list[tuple[Release, list[tuple[PhaseName, float]]]] = [
    (
        newest,
        [
            (P.RESOLVE, 200.0),
            *DRAFTED,
            (P.VERIFY_PREPARE, 300.0),
            (P.VERIFY_FORWARD, 8000.0),
            (P.VERIFY, 1500.0),
            (P.DRAFT_EXTEND, 3500.0),
            (P.SCHEDULE, 1000.0),
            (P.RESULT, 1500.0),
            (P.SCHEDULE, 1000.0),
        ],
    ),
    (
        with_stacks,
        [
            (P.RESOLVE, 200.0),
            *DRAFTED,
            (P.VERIFY_PREPARE, 300.0),
            (P.VERIFY_FORWARD, 8000.0),
            (P.VERIFY_SAMPLE, 800.0),
            (P.VERIFY_COMMIT, 700.0),
            (P.DRAFT_EXTEND, 3500.0),
            (P.SCHEDULE, 1000.0),
            (P.RESULT, 1500.0),
            (P.SCHEDULE, 1000.0),
        ],
    ),
    (
        older,
        [
            (P.RESOLVE, 200.0),
            *DRAFTED,
            (P.VERIFY_PREPARE, 300.0),
            (P.VERIFY_FORWARD, 8000.0),
            (P.VERIFY, 1500.0),
            (P.DRAFT_EXTEND, 3500.0),
            (P.SCHEDULE, 1000.0),
            (P.RESULT, 1500.0),
            (P.SCHEDULE, 1000.0),
        ],
    ),
    (
        worker_alone,
        [
            *DRAFTED,
            (P.VERIFY_PREPARE, 300.0),
            (P.VERIFY_FORWARD, 8000.0),
            (P.VERIFY, 1500.0),
            (P.DRAFT_EXTEND, 3500.0),
            (P.SCHEDULE, 3700.0),
        ],
    ),
]


@pytest.mark.parametrize(("release", "phases"), EXPECTED)
def test_a_turn_of_each_release_has_the_phases_that_its_ranges_bound(
    release: Release, phases: list[tuple[PhaseName, float]], tmp_path: Path
) -> None:
    """They touch, add up to the turn, and batch size and steps are those of the names."""
    found = imported(turns(release, 3), tmp_path)
    assert len(found.cycles) == 3
    for cycle in found.cycles[:2]:
        assert host_us(cycle) == phases
        assert sum(length for _, length in phases) == TURN_US
        assert (cycle.kind, cycle.batch_size, cycle.steps) == (CycleKind.SPECULATIVE, 4, 4)
        assert cycle.ranks[0].mode is TimingMode.HOST
    assert not found.faults.counts()


def test_times_are_put_on_the_unix_axis(tmp_path: Path) -> None:
    """A turn begins at the trace's base and what its range says, also where the base comes last."""
    trace = turns(newest, 2)
    start_ns = BASE_NS + 1_000_000
    assert imported(trace, tmp_path).cycles[0].start_ns == start_ns
    events = ", ".join(json.dumps(event) for event in trace.events)
    merged = tmp_path / "merged.json"
    merged.write_text(f'{{"traceEvents": [{events}], "baseTimeNanoseconds": {BASE_NS}}}')
    assert import_files([merged], lambda _: None).cycles[0].start_ns == start_ns


def test_what_the_trace_does_not_say_is_not_guessed(tmp_path: Path) -> None:
    """Cycles are counted from 1; top-k, verified tokens and results stay unknown."""
    cycles = imported(turns(newest, 3), tmp_path).cycles
    assert [cycle.number for cycle in cycles] == [1, 2, 3]
    assert {(cycle.topk, cycle.draft_tokens, cycle.requests) for cycle in cycles} == {(0, 0, None)}


def test_detailed_ranges_say_how_many_tokens_verify_looks_at(tmp_path: Path) -> None:
    """`g_sq` is the sum over the batch: 24 for 4 requests are 6 for each."""
    trace = TraceOf()
    trace.annotation("draft", (0.0, 10.0))
    trace.annotation("step[VERIFY bs=4 g_sq=24 g_sqsq=144 g_sqsk=90 g_sk=30]", (20.0, 10.0))
    [cycle] = imported(trace, tmp_path).cycles
    assert (cycle.batch_size, cycle.draft_tokens) == (4, 6)


def test_the_turn_ends_where_the_scheduler_idles(tmp_path: Path) -> None:
    """Idle time is nobody's; the turn before says that it ended so."""
    trace = turns(newest, 1)
    trace.annotation("scheduler.idle", (1000.0 + 19_500.0, 50.0))
    newest(trace, 5_000_000.0, 4)
    first, second = imported(trace, tmp_path).cycles
    assert (first.ranks[0].duration_ns, first.ranks[0].ended_idle) == (19_500_000, True)
    assert second.start_ns == BASE_NS + 5_000_000_000


def test_a_scheduler_that_looks_for_a_batch_and_runs_none_idles(tmp_path: Path) -> None:
    """Releases without a range for idling show it so; the turn ends where it first found none."""
    trace = turns(older, 1)
    for looked in (19_300.0, 20_300.0, 21_300.0):
        trace.annotation("scheduler.get_next_batch_to_run", (1000.0 + looked, 100.0))
    older(trace, 5_000_000.0, 4)
    first, second = imported(trace, tmp_path).cycles
    assert (first.ranks[0].duration_ns, first.ranks[0].ended_idle) == (19_400_000, True)
    assert second.start_ns == BASE_NS + 5_000_000_000


def test_a_graph_of_a_whole_draft_is_no_step_of_it(tmp_path: Path) -> None:
    """Frozen-KV MTP marks its draft's graph like a step; how many steps it has is not said."""
    trace = TraceOf()
    for turn_us in (0.0, TURN_US):
        trace.annotation("draft", (turn_us, 3_000.0))
        trace.annotation("step[DRAFT_LOOP raw_bs=3 bs=4 topk=1]", (turn_us + 100.0, 2_500.0))
        trace.annotation("step[VERIFY bs=3]", (turn_us + 4_000.0, 9_000.0))
    first, _ = imported(trace, tmp_path).cycles
    assert host_us(first)[0] == (P.DRAFT, 3_000.0)
    assert (first.steps, first.batch_size) == (0, 3)


def test_a_pause_of_a_trace_without_the_schedulers_ranges_is_no_part_of_a_turn(
    tmp_path: Path,
) -> None:
    """What is longer than all ranges of the turn is taken for idling."""
    trace = turns(worker_alone, 1)
    worker_alone(trace, 1000.0 + 100_000.0, 4)
    first, _ = imported(trace, tmp_path).cycles
    assert first.ranks[0].duration_ns == 16_300_000  # from draft's begin to draft_extend's end
    assert first.ranks[0].ended_idle


def test_the_last_turn_of_a_trace_is_incomplete(tmp_path: Path) -> None:
    """Nobody saw its end, so that its length is no figure."""
    cycles = imported(turns(newest, 3), tmp_path).cycles
    assert [cycle.ranks[0].incomplete for cycle in cycles] == [False, False, True]


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        ("step[DECODE bs=7]", CycleKind.DECODE),
        ("step[EXTEND bs=7 toks=512]", CycleKind.EXTEND),
        ("step[MIXED bs=7]", CycleKind.MIXED),
        ("step[IDLE bs=7]", CycleKind.IDLE),
        ("step[DLLM_EXTEND bs=7]", CycleKind.OTHER),
    ],
)
def test_a_turn_without_speculation_is_of_the_kind_of_its_forward(
    step: str, kind: CycleKind, tmp_path: Path
) -> None:
    """The rest of `run_batch` after the forward, with the sampling, counts to it."""
    trace = TraceOf()
    for turn_us in (0.0, TURN_US):
        trace.annotation("scheduler.run_batch", (turn_us, RUN[1]))
        trace.annotation(step, (turn_us + 500.0, 9000.0))
        trace.annotation("scheduler.process_batch_result", (turn_us + RESULT[0], RESULT[1]))
    first, _ = imported(trace, tmp_path).cycles
    assert (first.kind, first.batch_size) == (kind, 7)
    assert host_us(first)[:2] == [(P.RESOLVE, 500.0), (P.FORWARD, 16_500.0)]


def test_results_of_the_overlap_scheduler_are_those_of_the_turn_before(tmp_path: Path) -> None:
    """Two runs before the first result show it; a result then belongs to the older one."""
    trace = TraceOf()
    trace.annotation("scheduler.idle", (0.0, 10.0))
    for place in range(4):
        turn_us = 100.0 + place * TURN_US
        trace.annotation("scheduler.run_batch", (turn_us, RUN[1]))
        trace.annotation("step[DECODE bs=1]", (turn_us + 500.0, 9000.0))
        if place:
            trace.annotation("scheduler.process_batch_result", (turn_us + RESULT[0], RESULT[1]))
    cycles = imported(trace, tmp_path).cycles
    results = [p for c in cycles for p in c.ranks[0].phases if p.name is P.RESULT]
    assert [phase.of_cycle for phase in results] == [1, 2, 3]


def test_waiting_for_the_device_within_the_result_is_a_phase(tmp_path: Path) -> None:
    """`wait` lasts until the host's synchronize call has returned."""
    trace = turns(newest, 2)
    trace.slice("cuda_runtime", "cudaEventSynchronize", (1000.0 + 17_600.0, 900.0), correlation=1)
    phases = host_us(imported(trace, tmp_path).cycles[0])
    assert (P.WAIT, 1000.0) in phases
    assert (P.RESULT, 500.0) in phases


def test_turns_in_which_a_graph_was_captured_are_no_cycles(tmp_path: Path) -> None:
    """They are left out and counted; so is a file that SGLang wrote of captures alone."""
    trace = turns(newest, 3)
    trace.slice("cuda_runtime", "cudaStreamBeginCapture_v10000", (1000.0 + TURN_US + 500.0, 5.0))
    trace.slice("cuda_runtime", "cudaStreamEndCapture", (1000.0 + TURN_US + 900.0, 5.0))
    found = imported(trace, tmp_path)
    assert len(found.cycles) == 2
    assert found.faults.counts() == {"captured": 1}
    with pytest.raises(SpectraceError, match="graphs were captured at the server's start"):
        imported(trace, tmp_path, "cuda_graph_capture-EagleDraft-TP-0.json.gz")


def test_a_trace_without_cycles_is_refused(tmp_path: Path) -> None:
    """The sentence says what was looked for."""
    trace = TraceOf()
    trace.slice("cpu_op", "aten::mm", (0.0, 5.0))
    with pytest.raises(SpectraceError, match="shows no cycle: none of SGLang's ranges"):
        imported(trace, tmp_path)
