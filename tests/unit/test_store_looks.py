"""Looks at kernels are kept in the store beside their cycles: all of them, and as long as these."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrace.errors import SpectraceError
from spectrace.kernels import KernelLook, Seen
from spectrace.model import Cycle
from spectrace.store import database as database_module
from spectrace.store import look_writing
from spectrace.store import store as store_module
from spectrace.store.extract import Extract
from spectrace.store.look_writing import LookWriting
from spectrace.store.recording import open_recording
from spectrace.store.source import Cut, CycleSource
from tests.helpers.looked import Row, look_of, rows, rows_of, seen_at, seen_of_rows
from tests.helpers.stored import RUN_A, RUN_B, T0_NS, S, cycle_of, open_store, run_of

pytestmark = pytest.mark.beside_others

RANKS = ("TP1", "TP0", "TP2")  # in the order in which they stand in a cycle
GROUPS = ("", "DP1")
NUMBERS = (0, 1, 2)
COLUMNS = (  # of the table, as those of a row
    *("look", "rank", "group_name", "number", "phase", "start_ns", "end_ns", "stream"),
)


def at_once(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """So many kernels are written at a time."""
    for module in (database_module, look_writing):
        monkeypatch.setattr(module, "KERNEL_ROWS", rows)


def start_ns(number: int) -> int:
    """When a cycle begins, 10 ms behind the one before."""
    return T0_NS + number * S // 100


def seen(first: int, last: int, each: int = 4) -> Seen:
    """A look at the cycles from one number to another, both of them included."""
    return seen_at({number: start_ns(number) for number in range(first, last + 1)}, each=each)


def ranked(number: int, group: str = "") -> Cycle:
    """A cycle with several ranks, all of the same time."""
    cycle = cycle_of(number, group=group)
    shares = tuple(msgspec.structs.replace(cycle.ranks[0], rank=rank) for rank in RANKS)
    return msgspec.structs.replace(cycle, ranks=shares)


def of_cycle(source: CycleSource, number: int, run_id: str = RUN_A) -> list[Row]:
    """The kernels of a cycle, as rows."""
    return rows_of(source.kernels(run_id, "", number))


def expected_of(one: Seen, number: int) -> list[Row]:
    """What a look saw of a cycle."""
    return [row for row in rows_of(one.kernels) if row[2] == number]


def check(source: CycleSource, looks: Sequence[KernelLook], added: Sequence[Sequence[Row]]) -> None:
    """Compares all that can be read with what was added, look by look."""
    assert source.looks(RUN_A) == list(looks)
    assert source.looks(RUN_B) == []
    assert source.stats(RUN_A).looks == len(looks)
    for group in GROUPS:
        for number in NUMBERS:
            of_looks = [[row for row in some if row[1:3] == (group, number)] for some in added]
            expected = next((some for some in reversed(of_looks) if some), [])
            kernels = source.kernels(RUN_A, group, number)
            found = rows_of(kernels)
            assert sorted(found) == sorted(expected)
            assert [one.rank for one in kernels] == [
                rank for rank in RANKS if any(row[0] == rank for row in expected)
            ]
            for one in kernels:
                begun = one.start_ns.tolist()
                assert begun == sorted(begun)
                assert set(one.phase.tolist()) == set(range(len(one.phases)))
                assert set(one.name.tolist()) == set(range(len(one.names)))


def table_of(extract: Extract) -> list[tuple[Any, ...]]:
    """The rows of the table of kernels, each with the place of its look before it."""
    named = {
        (row["look"], row["place"]): (row["name"], row["class"])
        for row in extract.table("kernel_names").read_all().to_pylist()
    }
    return [
        (*map(row.get, COLUMNS), *named[row["look"], row["kernel"]], row["graph"])
        for row in extract.table("kernels").read_all().to_pylist()
    ]


@settings(max_examples=15, deadline=None)
@given(st.lists(rows(RANKS, GROUPS, NUMBERS), max_size=3))
def test_whatever_was_seen_is_read_back_live_saved_cut_and_left_behind(
    added: list[list[Row]],
) -> None:
    """Of several looks, groups and ranks: of each cycle what the newest look saw of it."""
    looks = [look_of(start_ns(0) + place, start_ns(3), cycles=place) for place in range(len(added))]
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        with open_store(here / "store") as store:
            store.put_run(run_of())
            store.add(ranked(number, group) for number in NUMBERS for group in GROUPS)
            for look, some in zip(looks, added, strict=True):
                store.add_look(RUN_A, seen_of_rows(look, some))
            check(store, looks, added)
            store.save(here / "saved.spectrace")
            with (
                store.cut(Cut(run_id=RUN_A), "cut", lambda _: None) as path,
                closing(open_recording(path)) as part,
            ):
                check(part, looks, added)
        for path in (here / "saved.spectrace", here / "store"):
            with closing(open_recording(path)) as recording:
                check(recording, looks, added)
            with closing(Extract(path)) as extract:
                every = table_of(extract)
                assert extract.rows("kernels") == len(every)
            assert sorted(every) == sorted(
                (place, *row) for place, some in enumerate(added) for row in some
            )
        with open_store(here / "store") as store:
            check(store, looks, added)


def test_many_kernels_go_in_and_are_cut_out_a_part_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 of 100 cycles, 7 at a time: none is missing, and none is there twice."""
    at_once(monkeypatch, 7)
    every = seen(0, 99)
    with open_store(tmp_path / "store") as store:
        store.put_run(run_of())
        store.add(map(cycle_of, range(100)))
        store.add_look(RUN_A, every)
        store.save(tmp_path / "saved.spectrace")
        with store.cut(Cut(run_id=RUN_A), "cut", lambda _: None) as cut:
            for path in (cut, tmp_path / "saved.spectrace"):
                with duckdb.connect(str(path), read_only=True) as database:
                    begun = database.execute("SELECT start_ns FROM kernels ORDER BY rowid")
                    found = [start for (start,) in begun.fetchall()]
                assert found == [row[4] for row in rows_of(every.kernels)]


def test_names_of_any_length_go_in(tmp_path: Path) -> None:
    """More than a thousand of them, the longest of 100,000 characters."""
    texts = ["void " + "cutlass::" * (11_111 // (n + 1)) + f"<{n}>" for n in range(1_234)]
    some: list[Row] = [
        ("TP0", "", 0, "draft", start_ns(0) + n, start_ns(0) + n + 1, 7, text, "matmul", 0)
        for n, text in enumerate([*texts, *texts])
    ]
    with open_store(tmp_path / "store") as store:
        store.put_run(run_of())
        store.add([cycle_of(0)])
        store.add_look(RUN_A, seen_of_rows(look_of(start_ns(0), start_ns(1)), some))
        assert of_cycle(store, 0) == some
        store.save(tmp_path / "saved.spectrace")
    with closing(open_recording(tmp_path / "saved.spectrace")) as recording:
        assert of_cycle(recording, 0) == some


def test_a_name_that_is_no_unicode_is_kept_as_far_as_it_is(tmp_path: Path) -> None:
    """It may come out of a server's memory; a lone surrogate becomes a question mark."""
    row: Row = ("TP0", "", 0, "draft", start_ns(0), start_ns(0) + 1, 7, "a\ud800b", "other", 0)
    with open_store(tmp_path) as store:
        store.add([cycle_of(0)])
        store.add_look(RUN_A, seen_of_rows(look_of(start_ns(0), start_ns(1)), [row]))
        assert [one[7] for one in of_cycle(store, 0)] == ["a?b"]


def test_the_newer_of_two_looks_counts_where_both_saw_a_cycle(tmp_path: Path) -> None:
    """Of cycles 0 to 3 and 2 to 5: the older look has the first two alone."""
    older, newer = seen(0, 3, each=4), seen(2, 5, each=6)
    with open_store(tmp_path) as store:
        store.add(map(cycle_of, range(6)))
        store.add_look(RUN_A, older)
        store.add_look(RUN_A, newer)
        assert [len(of_cycle(store, number)) for number in range(6)] == [4, 4, 6, 6, 6, 6]
        assert of_cycle(store, 3) == expected_of(newer, 3)


def test_kernels_whose_cycle_is_not_here_are_not_given(tmp_path: Path) -> None:
    """Nor are those of another run."""
    with open_store(tmp_path) as store:
        store.add(map(cycle_of, range(3)))
        store.add_look(RUN_A, seen(0, 5))
        assert of_cycle(store, 2)
        assert of_cycle(store, 4) == []
        assert of_cycle(store, 2, run_id=RUN_B) == []


def test_looks_go_with_their_cycles(tmp_path: Path) -> None:
    """With 1 s kept, of 5 s of cycles one look of the first second goes, one of the last stays."""
    with open_store(tmp_path, retain_s=1, slice_s=0.5) as store:
        store.put_run(run_of())
        store.add(map(cycle_of, range(100)))
        store.add_look(RUN_A, seen(10, 19))
        assert store.stats().looks == 1
        store.add(map(cycle_of, range(100, 500)))
        store.add_look(RUN_A, seen(450, 459))
        store.flush()
        assert store.looks(RUN_A) == [seen(450, 459).look]
        assert store.stats(RUN_A).looks == 1
        assert of_cycle(store, 15) == []
        assert of_cycle(store, 455) == expected_of(seen(450, 459), 455)
    names = sorted(tmp_path.glob("slice-*.duckdb"))
    with closing(Extract(tmp_path)) as extract:
        assert (extract.rows("looks"), extract.rows("kernels")) == (1, 40)
    assert all(path.name > "slice-00000006" for path in names)


def test_a_look_stays_while_any_of_its_cycles_is_kept(tmp_path: Path) -> None:
    """A look from cycle 0 to cycle 499 of 5 s, of which the last second at most is kept."""
    with open_store(tmp_path, retain_s=1, slice_s=0.5) as store:
        store.put_run(run_of())
        store.add(map(cycle_of, range(500)))
        store.add_look(RUN_A, seen(0, 499))
        first = store.cycles(RUN_A, limit=500)[-1].number
        assert first > 0
        assert store.stats(RUN_A).looks == 1
        assert of_cycle(store, first - 1) == []
        assert of_cycle(store, first) == expected_of(seen(0, 499), first)
        store.save(tmp_path / "saved.spectrace")
    with closing(Extract(tmp_path / "saved.spectrace")) as extract:
        assert (extract.count, extract.rows("looks")) == (500 - first, 1)
        assert extract.rows("kernels") == 4 * (500 - first)


@pytest.mark.parametrize(
    ("first", "last", "numbers"),
    [(25, 50, range(25, 30)), (0, 22, range(20, 22)), (40, 50, ()), (None, None, range(20, 30))],
)
def test_a_cut_has_the_kernels_of_its_cycles(
    tmp_path: Path, first: int | None, last: int | None, numbers: Sequence[int]
) -> None:
    """Of a look at cycles 20 to 29; the look itself is there where any of these is."""
    whole = seen(20, 29)
    cut = Cut(
        run_id=RUN_A,
        first_ns=None if first is None else start_ns(first),
        last_ns=None if last is None else start_ns(last),
    )
    with open_store(tmp_path, slice_s=0.25) as store:
        store.put_run(run_of())
        store.put_run(run_of(RUN_B))
        store.add(map(cycle_of, range(60)))
        store.add(cycle_of(number, run_id=RUN_B) for number in range(60))
        store.add_look(RUN_A, whole)
        store.add_look(RUN_B, whole)
        with store.cut(cut, "cut", lambda _: None) as path, closing(open_recording(path)) as part:
            assert part.looks(RUN_A) == ([whole.look] if numbers else [])
            found = {number: of_cycle(part, number) for number in range(60)}
            with closing(Extract(path)) as extract:
                assert extract.rows("kernels") == 4 * len(numbers)
    assert found == {
        number: expected_of(whole, number) if number in numbers else [] for number in range(60)
    }


def test_a_sample_of_a_recording_has_the_kernels_of_its_cycles(tmp_path: Path) -> None:
    """Of the first 10 of 60 cycles, with looks at 5 to 14 and 30 to 39: five cycles' kernels."""
    with open_store(tmp_path) as store:
        store.add(map(cycle_of, range(60)))
        store.add_look(RUN_A, seen(5, 14))
        store.add_look(RUN_A, seen(30, 39))
    with closing(Extract(tmp_path, limit=10)) as extract:
        assert (extract.rows("looks"), extract.rows("kernels")) == (1, 20)


def test_the_store_writes_cycles_while_kernels_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cycle that is added while one part is written is stored before the next part is."""
    at_once(monkeypatch, 10)
    monkeypatch.setattr(store_module, "_FLUSH_CYCLES", 1)
    stored: list[int] = []
    with open_store(tmp_path) as store:
        write = store._writer.write_look

        def adding(*arguments: Any) -> None:
            stored.append(store._shelf.stats().cycles)
            store.add([cycle_of(100 + len(stored))], wait=False)
            write(*arguments)

        monkeypatch.setattr(store._writer, "write_look", adding)
        store.add(map(cycle_of, range(10)))
        store.add_look(RUN_A, seen(0, 9))
    assert stored == list(range(10, 16))  # before names, four parts of ten kernels, and the look


def test_a_look_that_cannot_be_written_is_told_and_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though some of its kernels were; the next one is, and cycles are as ever."""
    at_once(monkeypatch, 10)
    written: list[int] = []
    with open_store(tmp_path / "store") as store:
        store.put_run(run_of())
        store.add(map(cycle_of, range(20)))
        insert = store._writer._database.insert_told

        def fails_later(*arguments: Any) -> None:
            written.append(1)
            if len(written) == 3:
                raise OSError(28, "No space left on device")
            insert(*arguments)

        monkeypatch.setattr(store._writer._database, "insert_told", fails_later)
        with pytest.raises(SpectraceError, match=r"\(No space left on device\): make room where"):
            store.add_look(RUN_A, seen(0, 9, each=8))
        assert (store.looks(RUN_A), of_cycle(store, 0)) == ([], [])
        store.add([cycle_of(20)])
        store.add_look(RUN_A, seen(5, 14))
        store.flush()
        store.save(tmp_path / "saved.spectrace")
    for path in (tmp_path / "store", tmp_path / "saved.spectrace"):
        with closing(open_recording(path)) as recording:
            assert recording.looks(RUN_A) == [seen(5, 14).look]
            found = [len(of_cycle(recording, number)) for number in range(21)]
            assert found == [0] * 5 + [4] * 10 + [0] * 6
        with closing(Extract(path)) as extract:
            assert (extract.count, extract.rows("kernels")) == (21, 40)


def test_kernels_that_a_failed_write_left_never_come_to_another_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor after the store has been opened again."""

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with open_store(tmp_path) as store:
        store.put_run(run_of())
        store.add(map(cycle_of, range(10)))
        with monkeypatch.context() as patch:
            patch.setattr(LookWriting, "write_look", fail)
            with pytest.raises(SpectraceError, match="make room"):
                store.add_look(RUN_A, seen(0, 9, each=8))
    with open_store(tmp_path) as store:
        store.add_look(RUN_A, seen(0, 4))
        assert [len(of_cycle(store, number)) for number in (4, 5)] == [4, 0]


def test_a_full_disk_costs_the_look_alone(tmp_path: Path) -> None:
    """Files that may not grow stand for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_store(tmp_path) as store:
        store.put_run(run_of())
        store.add(map(cycle_of, range(100)))
        store.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(SpectraceError, match="make room where"):
                store.add_look(RUN_A, seen(0, 99, each=500))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (store.stats().cycles, store.stats().looks) == (100, 0)
        store.add([cycle_of(100)])
        store.add_look(RUN_A, seen(0, 99))
        assert (store.stats().cycles, store.stats().looks) == (101, 1)
        assert of_cycle(store, 99) == expected_of(seen(0, 99), 99)


def test_a_closed_store_takes_no_look(tmp_path: Path) -> None:
    """It says so."""
    with open_store(tmp_path) as store:
        pass
    with pytest.raises(SpectraceError, match="closed"):
        store.add_look(RUN_A, seen(0, 1))


def with_look(tmp_path: Path) -> Path:
    """A recording of ten cycles, all of which were looked at."""
    path = tmp_path / "run.spectrace"
    with open_store(tmp_path / "of") as store:
        store.put_run(run_of())
        store.add(map(cycle_of, range(10)))
        store.add_look(RUN_A, seen(0, 9, each=400))
        store.save(path)
    return path


def test_an_older_file_is_read_and_has_no_looks(tmp_path: Path) -> None:
    """One of version 4 lacks the tables; a file of this version without them is none of ours."""
    path = with_look(tmp_path)
    for table in ("kernel_names", "kernels", "looks"):
        duckdb.connect(str(path)).execute(f"DROP TABLE {table}").close()
        with pytest.raises(SpectraceError, match="not those of spectrace"):
            open_recording(path)
    duckdb.connect(str(path)).execute("UPDATE format SET version = 4").close()
    with closing(open_recording(path)) as recording:
        assert recording.cycle(RUN_A, "", 3) == cycle_of(3)
        assert (recording.looks(RUN_A), of_cycle(recording, 3)) == ([], [])
        assert recording.stats().looks == 0
    with closing(Extract(path)) as extract:
        assert (extract.count, extract.rows("looks"), extract.rows("kernels")) == (10, 0, 0)


def test_a_look_at_cycles_of_an_older_slice_is_kept(tmp_path: Path) -> None:
    """A store of version 4 goes on in this one."""
    old = with_look(tmp_path)
    with duckdb.connect(str(old)) as database:
        database.execute(
            "DROP TABLE kernel_names; DROP TABLE kernels; DROP TABLE looks; "
            "UPDATE format SET version = 4"
        )
    (tmp_path / "store").mkdir()
    old.rename(tmp_path / "store" / "slice-00000000.duckdb")
    with open_store(tmp_path / "store") as store:
        store.add_look(RUN_A, seen(3, 5))
        assert of_cycle(store, 4) == expected_of(seen(3, 5), 4)
        store.save(tmp_path / "saved.spectrace")
    with closing(open_recording(tmp_path / "saved.spectrace")) as recording:
        assert of_cycle(recording, 4) == expected_of(seen(3, 5), 4)


def read_all(path: Path) -> None:
    """Reads every look and every kernel of a recording of ten cycles."""
    with closing(open_recording(path)) as recording:
        recording.looks(RUN_A)
        for number in range(10):
            of_cycle(recording, number)


DAMAGED = {
    "a look that is no JSON": "UPDATE looks SET json = '{'",
    "a look without fields": "UPDATE looks SET json = '{}'",
    "a look from nowhere": "UPDATE looks SET json = replace(json, 'window', 'dream')",
    "a look that nests too deep": "UPDATE looks SET json = repeat('[', 100000)",
    "a look without a time": "UPDATE looks SET start_ns = NULL",
    "a kernel without a begin": "UPDATE kernels SET start_ns = NULL WHERE number = 5",
    "a name that is NULL": "UPDATE kernel_names SET name = NULL WHERE place = 1",
    "a kernel without a name": "DELETE FROM kernel_names WHERE place = 1",
    "a text for a stream": "ALTER TABLE kernels ALTER stream TYPE VARCHAR",
    "kernels without a column": "ALTER TABLE kernels DROP COLUMN graph",
    "a view for a table": "DROP TABLE kernels; CREATE VIEW kernels AS SELECT 1 AS look",
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_looks_are_told_in_a_sentence(tmp_path: Path, kind: str) -> None:
    """When the file is opened, or where they are asked for."""
    path = with_look(tmp_path)
    with duckdb.connect(str(path)) as database:
        database.execute(DAMAGED[kind])
    with pytest.raises(SpectraceError, match=r"run\.spectrace .*damaged") as refused:
        read_all(path)
    assert "\n" not in str(refused.value)


def test_flipped_bytes_among_kernels_are_damage_or_do_not_matter(tmp_path: Path) -> None:
    """A byte in each block, one after the other: it is told, and nothing else is raised."""
    path = with_look(tmp_path)
    sound = path.read_bytes()
    refused = 0
    for at in range(3 * 4096 + 8_000, len(sound), 16_384):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0xFF]) + sound[at + 1 :])
        try:
            read_all(path)
        except SpectraceError as error:
            assert "damaged" in str(error) or "does not fit" in str(error), str(error)  # noqa: PT017
            refused += 1
    assert refused
