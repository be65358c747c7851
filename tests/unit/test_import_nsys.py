"""Exports of Nsight Systems, of old and new schemas, become cycles with kernels."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from spectrace.errors import SpectraceError
from spectrace.importing.imported import Imported, import_files
from spectrace.model import CycleKind, Lane, PhaseName
from tests.helpers.nsys_export import PID, SESSION_NS, Launch, NvtxRange, write_export

P = PhaseName
BOTH_SCHEMAS = pytest.mark.parametrize("new", [True, False], ids=["new", "old"])
TURN_NS = 20_000_000

# One cycle as the probe marks it: number, then phases that touch, parts within their group.
OWN: list[tuple[str, int, int]] = [
    ("cycle", 0, 20_000_000),
    ("resolve", 0, 200_000),
    ("draft", 200_000, 3_000_000),
    ("draft.step", 500_000, 1_000_000),
    ("verify", 3_000_000, 13_000_000),
    ("verify.prepare", 3_000_000, 3_500_000),
    ("verify.forward", 3_500_000, 11_500_000),
    ("verify.sample", 11_500_000, 12_500_000),
    ("verify.commit", 12_500_000, 13_000_000),
    ("draft_extend", 13_000_000, 16_500_000),
    ("schedule", 16_500_000, 17_500_000),
    ("result", 17_500_000, 20_000_000),
]
OWN_PHASES = [
    (P.RESOLVE, 200_000),
    (P.DRAFT, 300_000),
    (P.DRAFT_STEP, 500_000),
    (P.DRAFT, 2_000_000),
    (P.VERIFY_PREPARE, 500_000),
    (P.VERIFY_FORWARD, 8_000_000),
    (P.VERIFY_SAMPLE, 1_000_000),
    (P.VERIFY_COMMIT, 500_000),
    (P.DRAFT_EXTEND, 3_500_000),
    (P.SCHEDULE, 1_000_000),
    (P.RESULT, 2_500_000),
]


def imported(path: Path) -> Imported:
    """What comes of one export."""
    return import_files([path], lambda _: None)


def own(count: int, first_number: int) -> list[NvtxRange]:
    """Ranges of spectrace's own with the number of the cycle as payload, as `nvtx` makes them."""
    return [
        (name, place * TURN_NS + start, place * TURN_NS + end, first_number + place)
        for place in range(count)
        for name, start, end in OWN
    ]


def host(found: Imported, place: int = 0) -> list[tuple[PhaseName, int]]:
    """The phases of a cycle on the host, with their lengths in ns."""
    phases = found.cycles[place].ranks[0].phases
    return [(p.name, p.duration_ns) for p in phases if p.lane is Lane.HOST]


@BOTH_SCHEMAS
def test_our_own_ranges_give_back_the_phases_and_the_number(new: bool, tmp_path: Path) -> None:
    """The domain says whose they are, the payload which cycle's."""
    path = write_export(tmp_path / "a.sqlite", own(3, 117), new=new, domain="spectrace")
    found = imported(path)
    assert [cycle.number for cycle in found.cycles] == [117, 118, 119]
    assert host(found) == OWN_PHASES
    assert {cycle.kind for cycle in found.cycles} == {CycleKind.SPECULATIVE}
    assert found.run.engine == "a trace of Nsight Systems"
    assert found.run.ranks[0].pid == PID
    assert found.cycles[0].start_ns == (SESSION_NS if new else 0)


def test_ranges_that_torch_made_have_the_domain_in_their_text(tmp_path: Path) -> None:
    """`torch.cuda.nvtx` knows no domain and no payload: the number is in the cycle's text."""
    ranges: list[NvtxRange] = [
        (f"spectrace {name}" + (f" {number}" if name == "cycle" else ""), start, end, None)
        for name, start, end, number in own(2, 9)
    ]
    found = imported(write_export(tmp_path / "a.sqlite", ranges))
    assert [cycle.number for cycle in found.cycles] == [9, 10]
    assert host(found) == OWN_PHASES


def test_a_result_says_of_which_cycle_it_is(tmp_path: Path) -> None:
    """With the overlap scheduler its range carries the number of the cycle before."""
    ranges = [
        (name, start, end, (number or 0) - (name == "result"))
        for name, start, end, number in own(2, 40)
    ]
    found = imported(write_export(tmp_path / "a.sqlite", ranges, domain="spectrace"))
    result = found.cycles[1].ranks[0].phases[-1]
    assert (result.name, result.of_cycle) == (P.RESULT, 40)


SGLANG: list[NvtxRange] = [
    ("scheduler.run_batch", 0, 17_000_000, None),
    ("draft", 200_000, 3_200_000, None),
    ("step[TARGET_VERIFY bs=3]", 3_500_000, 11_500_000, None),
    ("draft_extend", 13_000_000, 16_500_000, None),
    ("scheduler.process_batch_result", 17_500_000, 19_000_000, None),
    ("scheduler.run_batch", 20_000_000, 37_000_000, None),
]
LAUNCHES: list[Launch] = [
    ("cudaLaunchKernel_v7000", 400_000, "nvjet_tst_64x8_64x16_2x1_v_bz_TNT", 600_000, 900_000),
    ("cudaGraphLaunch_v10000", 4_000_000, "fused_moe_kernel", 5_000_000, 9_000_000),
]


@BOTH_SCHEMAS
def test_sglangs_ranges_and_kernels_give_cycles_with_both_lanes(new: bool, tmp_path: Path) -> None:
    """Kernels find their phase by the correlation id of the call."""
    found = imported(write_export(tmp_path / "a.sqlite", SGLANG, LAUNCHES, new=new))
    first = found.cycles[0]
    assert (first.kind, first.batch_size) == (CycleKind.SPECULATIVE, 3)
    device = [p for p in first.ranks[0].phases if p.lane is Lane.DEVICE]
    assert [(p.name, p.duration_ns, p.graph) for p in device] == [
        (P.DRAFT, 300_000, False),
        (P.VERIFY_FORWARD, 4_000_000, True),
    ]
    assert {key: time.time_ns for key, time in found.kernels.items()} == {
        ("TP0", "draft", "nvjet_tst_64x8_64x16_2x1_v_bz_TNT"): 300_000,
        ("TP0", "verify.forward", "fused_moe_kernel"): 4_000_000,
    }


def test_the_name_of_the_process_says_the_rank(tmp_path: Path) -> None:
    """SGLang sets it; where the export kept it the file's name is not needed."""
    path = tmp_path / "a.sqlite"
    write_export(path, SGLANG, process_name="sglang::scheduler_TP3")
    assert [rank.name for rank in imported(path).run.ranks] == ["TP3"]


def test_ranges_that_nothing_ended_or_that_end_too_early_are_counted(tmp_path: Path) -> None:
    """They are left out, the others stay."""
    broken: list[NvtxRange] = [("draft", 700_000, None, None), ("draft", 800_000, 700_000, None)]
    found = imported(write_export(tmp_path / "a.sqlite", [*SGLANG, *broken]))
    assert len(found.cycles) == 2
    assert found.faults.counts() == {"unclosed": 1, "negative": 1}


def test_rows_without_their_numbers_are_counted(tmp_path: Path) -> None:
    """A damaged export has NULL or texts where times and ids belong."""
    path = write_export(tmp_path / "a.sqlite", SGLANG, LAUNCHES)
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'x' WHERE correlationId = 1")
        file.execute("UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = NULL")
        file.execute("UPDATE NVTX_EVENTS SET globalTid = NULL WHERE start = 200000")
        file.commit()
    found = imported(path)
    assert len(found.cycles) == 2
    assert found.faults.counts() == {"unreadable": 4}  # a kernel, two calls, a range


def test_times_and_ids_beyond_reason_are_counted(tmp_path: Path) -> None:
    """SQLite holds 64 bits, of which none are left for the session's start."""
    most = (1 << 63) - 1
    last: list[NvtxRange] = [("draft", most - 10, most, None)]
    path = write_export(tmp_path / "a.sqlite", [*SGLANG, *last], LAUNCHES)
    with closing(sqlite3.connect(path)) as file:
        which = "SET start = ?, end = ? WHERE correlationId = 1"
        file.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL {which}", (most - 10, most))
        file.execute(f"UPDATE CUPTI_ACTIVITY_KIND_RUNTIME {which}", (most - 10, most))
        file.execute("UPDATE TARGET_INFO_SESSION_START_TIME SET utcEpochNs = ?", (most,))
        file.commit()
    found = imported(path)
    assert [cycle.start_ns for cycle in found.cycles] == [0, 20_000_000]
    assert found.faults.counts() == {"unreadable": 3}


def test_a_database_of_something_else_is_refused(tmp_path: Path) -> None:
    """The sentence says how to trace with ranges."""
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE users (name TEXT)")
        file.commit()
    with pytest.raises(SpectraceError, match="has no NVTX ranges"):
        imported(path)
