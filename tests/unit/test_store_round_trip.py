"""What is read from a store equals what was added, the newest version of each cycle."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrace.model import Cycle
from spectrace.store.recording import open_recording
from spectrace.store.source import CycleSource
from tests.helpers.stored import CYCLES, RUN_A, RUN_B, T0_NS, S, cycle_of, open_store, run_of


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


@settings(max_examples=15)
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
