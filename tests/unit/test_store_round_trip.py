"""What is read from a store equals what was added, the newest version of each cycle."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    PhaseName,
    Rank,
    RankCycle,
    RequestRow,
    Run,
    TimingMode,
)
from spectrace.store.recording import open_recording
from spectrace.store.source import CycleSource
from spectrace.store.store import CycleStore

S = 1_000_000_000
T0_NS = 1_700_000_000 * S
RUN_A = "a" * 32
RUN_B = "b" * 32
LEAVES = (
    PhaseName.RESOLVE,
    PhaseName.DRAFT,
    PhaseName.VERIFY_PREPARE,
    PhaseName.VERIFY_FORWARD,
    PhaseName.VERIFY_SAMPLE,
    PhaseName.VERIFY_COMMIT,
    PhaseName.DRAFT_EXTEND,
    PhaseName.SCHEDULE,
    PhaseName.WAIT,
    PhaseName.RESULT,
    PhaseName.SCHEDULE,
    PhaseName.RESOLVE,
)


def run_of(run_id: str = RUN_A, engine: str = "") -> Run:
    """A run of one rank."""
    return Run(
        run_id=run_id,
        host="host",
        server_pid=10,
        command=("python", "-m", "sglang.launch_server"),
        ranks=(Rank(name="TP0", pid=11),),
        anchor_unix_ns=T0_NS,
        anchor_monotonic_ns=0,
        engine=engine,
    )


def cycle_of(
    number: int,
    *,
    run_id: str = RUN_A,
    group: str = "",
    start_ns: int | None = None,
    requests: int = 4,
) -> Cycle:
    """A cycle of 10 ms with twelve phases; number N begins N * 10 ms after `T0_NS`."""
    start_ns = T0_NS + number * S // 100 if start_ns is None else start_ns
    ends_ns = [start_ns + place * 800_000 for place in range(len(LEAVES))] + [start_ns + S // 100]
    phases = tuple(
        Phase(name=name, start_ns=ends_ns[place], end_ns=ends_ns[place + 1], of_cycle=number)
        for place, name in enumerate(LEAVES)
    )
    rank = RankCycle(
        rank="TP0",
        start_ns=start_ns,
        end_ns=ends_ns[-1],
        phases=phases,
        mode=TimingMode.HOST,
        probe_ns=49_000,
    )
    rows = (
        RequestRow(request_id=f"request-{row}", correct_drafts=row, output_tokens=row + 1)
        for row in range(requests)
    )
    return Cycle(
        run_id=run_id,
        group=group,
        number=number,
        kind=CycleKind.SPECULATIVE,
        batch_size=requests,
        steps=5,
        topk=1,
        draft_tokens=6,
        ranks=(rank,),
        requests=tuple(rows),
    )


@contextmanager
def open_store(
    directory: Path, *, retain_s: float = 1e6, slice_s: float = 100, max_bytes: int = 1 << 30
) -> Iterator[CycleStore]:
    """A store that is closed at the end."""
    store = CycleStore(directory, retain_s=retain_s, slice_s=slice_s, max_bytes=max_bytes)
    try:
        yield store
    finally:
        store.close()


INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TIMES = st.integers(T0_NS, T0_NS + 1000 * S)
PHASES = st.builds(
    Phase,
    name=st.sampled_from(PhaseName),
    start_ns=INT64,
    end_ns=INT64,
    of_cycle=INT64,
    lane=st.sampled_from(Lane),
    graph=st.none() | st.booleans(),
)
RANKS = st.builds(
    RankCycle,
    rank=st.text(max_size=5),
    start_ns=TIMES,
    end_ns=TIMES,
    phases=st.lists(PHASES, max_size=4).map(tuple),
    mode=st.sampled_from(TimingMode),
    probe_ns=INT64,
    ended_idle=st.booleans(),
    incomplete=st.booleans(),
    asked_mode=st.none() | st.sampled_from(TimingMode),
    late_switch=st.booleans(),
    clock_error_ns=st.none() | INT64,
    device_incomplete=st.booleans(),
)
ROWS = st.builds(
    RequestRow,
    request_id=st.text(max_size=5),
    correct_drafts=st.none() | INT64,
    output_tokens=INT64,
    overshoot=st.booleans(),
    health_check=st.booleans(),
)
CYCLES = st.builds(
    Cycle,
    run_id=st.sampled_from([RUN_A, RUN_B]),
    group=st.sampled_from(["", "DP1"]),
    number=st.integers(0, 12),
    kind=st.sampled_from(CycleKind),
    batch_size=INT64,
    steps=INT64,
    topk=INT64,
    draft_tokens=INT64,
    ranks=st.lists(RANKS, min_size=1, max_size=3).map(tuple),
    requests=st.none() | st.lists(ROWS, max_size=3).map(tuple),
    padded_batch=st.none() | INT64,
    context_tokens_sum=st.none() | INT64,
    context_tokens_max=st.none() | INT64,
    queued=st.none() | INT64,
    running=st.none() | INT64,
)


def newest_first(cycles: Sequence[Cycle], run_id: str, group: str) -> list[Cycle]:
    """What a store has to give: the last version of each number, the highest first."""
    newest = {
        cycle.number: cycle for cycle in cycles if (cycle.run_id, cycle.group) == (run_id, group)
    }
    return [newest[number] for number in sorted(newest, reverse=True)]


def check_reads(source: CycleSource, cycles: Sequence[Cycle]) -> None:
    """Compares all that can be read with `cycles` in the order in which they were added."""
    for run_id in (RUN_A, RUN_B):
        everything: list[Cycle] = []
        for group in ("", "DP1"):
            expected = newest_first(cycles, run_id, group)
            everything += expected
            assert source.cycles(run_id, group=group) == expected
            assert (
                source.cycles(run_id, group=group, before=6, limit=2)
                == [cycle for cycle in expected if cycle.number < 6][:2]
            )
            for number in (0, 5, 12):
                found = [cycle for cycle in expected if cycle.number == number]
                assert source.cycle(run_id, group, number) == (found[0] if found else None)
        recent = source.recent(run_id, 1e6)
        assert sorted(map(repr, recent)) == sorted(map(repr, everything))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(CYCLES, max_size=8), max_size=4))
def test_whatever_is_added_is_read_back_live_saved_and_left_behind(
    added: list[list[Cycle]],
) -> None:
    """Amended, of several runs, groups and ranks, across slices: the newest version comes back."""
    everything = [cycle for batch in added for cycle in batch]
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "saved.spectrace"
        with open_store(Path(folder) / "store") as store:
            for batch in added:
                store.add(batch)
                store.flush()
            check_reads(store, everything)
            store.save(saved)
        sources = [open_recording(saved)]
        if everything:
            sources.append(open_recording(Path(folder) / "store"))
        for source in sources:
            check_reads(source, everything)
            source.close()


def test_a_cycle_counts_once_however_often_it_is_amended(tmp_path: Path) -> None:
    """Cycles 0 to 9, of which 5 to 9 come again, are ten cycles in the store and in its file."""
    saved = tmp_path / "saved.spectrace"
    with open_store(tmp_path / "store") as store:
        store.add(cycle_of(number) for number in range(10))
        store.add(cycle_of(number, requests=1) for number in range(5, 10))
        assert store.stats(RUN_A).cycles == 10
        store.save(saved)
    recording = open_recording(saved)
    stats = recording.stats()
    assert (stats.cycles, stats.first_n, stats.last_n) == (10, 0, 9)
    assert (stats.first_ns, stats.last_ns) == (T0_NS, T0_NS + S // 10)
    recording.close()


def test_an_amendment_replaces_a_version_in_an_older_slice(tmp_path: Path) -> None:
    """A cycle that comes again after three slices were opened is read in its newest version."""
    with open_store(tmp_path, slice_s=1) as store:
        store.add(cycle_of(number) for number in range(300))
        late = cycle_of(7, requests=0)
        store.add([late])
        store.flush()
        assert len(list(tmp_path.glob("slice-*.duckdb"))) == 3
        assert store.cycle(RUN_A, "", 7) == late
        assert store.cycles(RUN_A, before=8, limit=2) == [late, cycle_of(6)]


def test_pages_follow_each_other_without_gap_or_repetition(tmp_path: Path) -> None:
    """Reading back in pages of 70 from several slices gives all 500 cycles, the newest first."""
    with open_store(tmp_path, slice_s=1) as store:
        store.add(cycle_of(number) for number in range(500))
        numbers: list[int] = []
        before = None
        while page := store.cycles(RUN_A, before=before, limit=70):
            numbers += [cycle.number for cycle in page]
            before = page[-1].number
    assert numbers == list(range(499, -1, -1))


def test_recent_gives_what_began_in_the_last_seconds_from_memory_and_from_disk(
    tmp_path: Path,
) -> None:
    """Of 30 s of cycles every 10 ms the last 10 s are 1000, the last 25 s 2500."""
    with open_store(tmp_path) as store:
        store.add(cycle_of(number) for number in range(3000))
        in_memory = store.recent(RUN_A, 10)
        on_disk = store.recent(RUN_A, 25)
    assert [cycle.number for cycle in in_memory] == list(range(2000, 3000))
    assert [cycle.number for cycle in on_disk] == list(range(500, 3000))


def test_what_is_known_about_a_run_is_that_of_the_last_time(tmp_path: Path) -> None:
    """A run that learns its engine later is read with it, also after the store was reopened."""
    with open_store(tmp_path) as store:
        store.put_run(run_of())
        store.add([cycle_of(1)])
        store.put_run(run_of(engine="sglang 0.5.23"))
        assert store.runs() == [run_of(engine="sglang 0.5.23")]
    with open_store(tmp_path) as store:
        assert store.runs() == [run_of(engine="sglang 0.5.23")]
        assert store.cycles(RUN_A) == [cycle_of(1)]


def test_a_cycle_that_no_database_holds_does_not_take_others_with_it(tmp_path: Path) -> None:
    """A number beyond 64 bits and a lone surrogate are counted as lost; their neighbours stay."""
    too_large = msgspec.structs.replace(cycle_of(2), steps=1 << 63)
    no_unicode = cycle_of(3, group="\ud800")
    with open_store(tmp_path) as store:
        store.add([cycle_of(1), too_large, no_unicode, cycle_of(4)])
        assert store.cycles(RUN_A) == [cycle_of(4), cycle_of(1)]
        assert store.stats().lost == 2
