"""The traces of a run's ranks become one recording, each cycle with the ranks that took part."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectrace.errors import SpectraceError
from spectrace.importing.faults import Faults
from spectrace.importing.imported import import_files
from spectrace.importing.kineto import rank_of
from spectrace.importing.ranks import RankTurns, cycles_of
from spectrace.importing.turns import Turn
from spectrace.model import CycleKind
from tests.helpers.kineto_trace import BASE_NS, PID, TURN_US, newest, turns

MS = 1_000_000
NEW = ((1, 0), (2, 10), (1, 500), (2, 510))  # numbers and their begins in ms


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("1796028071.83-TP-0.trace.json.gz", "TP0"),
        ("bench-1796028071.83-TP-3-DP-1-PP-0-EP-3-DECODE.trace.json.gz", "DP1 PP0 TP3"),
        ("TP01-DP00", "DP0 TP1"),
        ("sglang::scheduler_TP5", "TP5"),
        ("trace.json", ""),
        ("HTTP-1.json", ""),
    ],
)
def test_a_name_says_the_rank(name: str, rank: str) -> None:
    """As SGLang names its files, labels and processes."""
    assert rank_of(name) == rank


def test_turns_of_two_ranks_at_one_time_are_one_cycle(tmp_path: Path) -> None:
    """A rank whose trace began a turn later takes part from the second cycle on."""
    first = turns(newest, 4).write(tmp_path / "9-TP-0.trace.json.gz")
    second = turns(newest, 3, begin_us=1000.0 + TURN_US + 300.0).write(
        tmp_path / "9-TP-1.trace.json.gz"
    )
    found = import_files([second, first], lambda _: None)
    assert [[rank.rank for rank in cycle.ranks] for cycle in found.cycles] == [
        ["TP0"],
        ["TP0", "TP1"],
        ["TP0", "TP1"],
        ["TP0", "TP1"],
    ]
    late = found.cycles[1].ranks
    assert late[1].start_ns - late[0].start_ns == 300_000
    assert [rank.name for rank in found.run.ranks] == ["TP0", "TP1"]
    assert not found.faults.counts()


def test_ranks_of_several_machines_are_told_apart(tmp_path: Path) -> None:
    """The run is the first rank's machine's; a rank on another one says so."""
    for place, host in enumerate(("one", "two", "one")):
        trace = turns(newest, 2)
        trace.host = host
        trace.write(tmp_path / f"9-TP-{place}.trace.json")
    found = import_files(sorted(tmp_path.iterdir()), lambda _: None).run
    assert found.host == "one"
    assert [rank.host for rank in found.ranks] == ["", "two", ""]


def test_turns_that_are_unlike_are_not_one_cycle(tmp_path: Path) -> None:
    """Ranks of one group run the same batch; another size is another cycle, and is counted."""
    first = turns(newest, 2).write(tmp_path / "9-TP-0.trace.json")
    second = turns(newest, 2, batch=5).write(tmp_path / "9-TP-1.trace.json")
    found = import_files([first, second], lambda _: None)
    assert [len(cycle.ranks) for cycle in found.cycles] == [1, 1, 1, 1]
    assert found.faults.counts() == {"unmatched": 2}


def numbered(rank: str, *turns: tuple[int, int, CycleKind]) -> RankTurns:
    """Turns of 10 ms that carry a number: the number, the begin in ms, the kind."""
    some = [
        Turn(begin_ms * MS, (begin_ms + 10) * MS, number=number, kind=kind)
        for number, begin_ms, kind in turns
    ]
    return RankTurns(rank, some, [[] for _ in some])


def numbers_of(*ranks: RankTurns) -> list[tuple[int, list[str]]]:
    """Of each cycle the number and the ranks."""
    cycles = cycles_of("r", ranks, Faults())
    return [(cycle.number, [rank.rank for rank in cycle.ranks]) for cycle in cycles]


def test_no_two_cycles_of_a_group_have_one_number() -> None:
    """Of two the store would keep one: where turns of one number are unlike, all are counted."""
    one, other = CycleKind.SPECULATIVE, CycleKind.OTHER
    first = numbered("TP0", (7, 0, one), (8, 10, one), (9, 20, one))
    assert numbers_of(first, numbered("TP1", (7, 1, one), (8, 11, one), (9, 21, one))) == [
        (number, ["TP0", "TP1"]) for number in (7, 8, 9)
    ]
    assert numbers_of(first, numbered("TP1", (7, 1, one), (8, 11, other), (9, 21, one))) == [
        (1, ["TP0", "TP1"]),
        (2, ["TP0"]),
        (3, ["TP1"]),
        (4, ["TP0", "TP1"]),
    ]


def test_ranks_whose_numbers_began_anew_are_put_together_by_their_time() -> None:
    """As where spectrace was attached twice while a trace was written."""
    ranks = [
        numbered(f"TP{late}", *((number, begin + late, CycleKind.DECODE) for number, begin in NEW))
        for late in range(2)
    ]
    both = ["TP0", "TP1"]
    assert numbers_of(*ranks) == [(1, both), (2, both), (3, both), (4, both)]
    cycles = cycles_of("r", ranks, Faults())
    assert {cycle.ranks[1].start_ns - cycle.ranks[0].start_ns for cycle in cycles} == {MS}


def test_replicas_are_groups_of_their_own(tmp_path: Path) -> None:
    """Each counts its own cycles."""
    paths = [
        turns(newest, 2).write(tmp_path / f"9-TP-0-DP-{replica}.trace.json") for replica in (0, 1)
    ]
    found = import_files(paths, lambda _: None)
    assert [(cycle.group, cycle.number) for cycle in found.cycles] == [
        ("DP0", 1),
        ("DP0", 2),
        ("DP1", 1),
        ("DP1", 2),
    ]


def test_a_merged_trace_has_all_its_ranks(tmp_path: Path) -> None:
    """SGLang's merger puts the rank before each process id, and the head behind the events."""
    events = [
        {**event, "pid": f"[TP{rank:02d}] {event['pid']}"}
        for rank in range(2)
        for event in turns(newest, 2).events
    ]
    path = tmp_path / "merged-9.trace.json"
    path.write_text(json.dumps({"traceEvents": events, "baseTimeNanoseconds": BASE_NS}))
    found = import_files([path], lambda _: None)
    assert [[rank.rank for rank in cycle.ranks] for cycle in found.cycles] == [["TP0", "TP1"]] * 2
    assert [(rank.name, rank.pid) for rank in found.run.ranks] == [("TP0", PID), ("TP1", PID)]


def test_a_run_has_the_same_id_whoever_imports_it(tmp_path: Path) -> None:
    """It comes of what the traces hold, not of their names' order."""
    one = turns(newest, 2).write(tmp_path / "9-TP-0.trace.json")
    two = turns(newest, 2).write(tmp_path / "9-TP-1.trace.json")
    ids = {import_files(paths, lambda _: None).run.run_id for paths in ([one, two], [two, one])}
    assert len(ids) == 1


def test_two_files_of_one_rank_at_one_time_are_refused(tmp_path: Path) -> None:
    """They would be two runs."""
    paths = [turns(newest, 2).write(tmp_path / f"{n}-TP-0.trace.json") for n in (1, 2)]
    with pytest.raises(SpectraceError, match="Two of the traces are of rank TP0"):
        import_files(paths, lambda _: None)


def test_the_traces_of_a_ranks_stages_follow_each_other(tmp_path: Path) -> None:
    """SGLang writes prefill and decode apart where it is asked to profile by stage."""
    decode = turns(newest, 3, begin_us=900_000.0).write(tmp_path / "9-TP-0-DECODE.trace.json.gz")
    extend = turns(newest, 2).write(tmp_path / "9-TP-0-EXTEND.trace.json.gz")
    cycles = import_files([decode, extend], lambda _: None).cycles
    assert [cycle.number for cycle in cycles] == [1, 2, 3, 4, 5]
    begins = [(cycle.start_ns - BASE_NS) / 1000 for cycle in cycles]
    assert begins == [1_000.0, 21_000.0, 900_000.0, 920_000.0, 940_000.0]
