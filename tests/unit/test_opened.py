"""A recorded run opens in Python as Arrow tables, in Parquet, in CSV, and in any DuckDB."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import msgspec
import pytest
from msgspec.structs import asdict
from pyarrow import parquet
from spectrace_exporters.csv import CsvFiles
from spectrace_exporters.parquet import ParquetFiles

import spectrace
from spectrace.errors import SpectraceError
from spectrace.kernels import KernelLook
from spectrace.store import schema
from spectrace.store.extract import Extract
from spectrace.store.recording import open_recording
from tests.helpers.looked import rows_of, seen_at
from tests.helpers.recorded import (
    DEVICE_PARTS,
    PARTS,
    cycle_of,
    other_span,
    record,
    run_of,
)
from tests.helpers.stored import open_store

RANKS = 2
CYCLES = 3
KERNELS = 5  # of each rank, of its second cycle
LOOK = seen_at({1: cycle_of(1).start_ns}, [f"TP{rank}" for rank in range(RANKS)], KERNELS)
SPANS = [other_span(1, request_id="r2"), other_span(2, parent=1, failed=True)]
# What the code of the first version of the format wrote, as SQL; to be left as it is.
FIRST_VERSION = Path(__file__).parents[1] / "data" / "recording-v1.sql"
_LIGHT = """
import sys, spectrace
heavy = {"duckdb", "pyarrow", "numpy", "msgspec"} & set(sys.modules)
sys.exit(f"imported: {heavy}" if heavy else 0)
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three cycles of two ranks, one of which was looked at, and two spans of somebody else.

    One of these came twice.
    """
    path = tmp_path_factory.mktemp("opened") / "run.spectrace"
    cycles = [cycle_of(number, RANKS) for number in range(CYCLES)]
    return record(path, cycles, run_of(RANKS), [*SPANS, SPANS[0]], [LOOK])


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A file of the first version."""
    path = tmp_path / "first.spectrace"
    duckdb.connect(str(path)).execute(FIRST_VERSION.read_text()).close()
    return path


def test_a_recording_opens_as_arrow_tables(file: Path) -> None:
    """Each table has the documented columns and a row per cycle, rank, phase and request."""
    with spectrace.open(file) as run:
        assert run.runs == (run_of(RANKS),)
        tables = {name: getattr(run, name) for name in schema.TABLES}
    for name, columns in schema.TABLES.items():
        assert tables[name].column_names == [column.name for column in columns]
    phases = CYCLES * RANKS * (len(PARTS) + len(DEVICE_PARTS))
    assert {name: table.num_rows for name, table in tables.items()} == {
        "cycles": CYCLES,
        "ranks": CYCLES * RANKS,
        "phases": phases,
        "requests": CYCLES * 2,
        "spans": len(SPANS),
        "looks": 1,
        "kernels": KERNELS * RANKS,
        "kernel_names": 3,
    }
    assert tables["kernels"]["start_ns"].to_pylist() == [row[4] for row in rows_of(LOOK.kernels)]
    assert msgspec.json.decode(tables["looks"]["json"][0].as_py(), type=KernelLook) == LOOK.look
    assert tables["spans"].drop_columns(["place"]).to_pylist() == list(map(asdict, SPANS))
    assert tables["requests"]["correct_drafts"].to_pylist() == [2, 3] * CYCLES
    begun = tables["cycles"]["start_ns"].to_pylist()
    assert begun == [cycle_of(number).start_ns for number in range(CYCLES)]


def test_what_is_no_recording_is_told_in_a_sentence(tmp_path: Path) -> None:
    """As anywhere else."""
    with pytest.raises(SpectraceError, match="There is no file"):
        spectrace.open(tmp_path / "missing.spectrace")


def test_importing_the_package_costs_a_traced_loop_nothing() -> None:
    """What a recording needs is imported when one is opened."""
    assert subprocess.run([sys.executable, "-c", _LIGHT], check=False).returncode == 0


def test_an_amended_cycle_is_read_once_across_slices(tmp_path: Path) -> None:
    """Of a store that was left behind, in the order of starts, the newest version counts."""
    amended = cycle_of(1, 1)
    with open_store(tmp_path, slice_s=0.02) as store:
        store.add(cycle_of(number, RANKS) for number in range(5))
        store.flush()
        store.add([amended])
    assert len(list(tmp_path.glob("slice-*"))) > 1
    with closing(Extract(tmp_path)) as extract:
        cycles = list(extract.cycles())
        assert extract.count == extract.rows("cycles") == 5
        assert extract.table("ranks").read_all().num_rows == 4 * RANKS + 1
    assert cycles == [amended if n == 1 else cycle_of(n, RANKS) for n in range(5)]


def test_parquet_holds_the_tables(file: Path, tmp_path: Path) -> None:
    """Read back by pyarrow they are those of the recording."""
    with closing(Extract(file)) as extract:
        ParquetFiles().write(extract, tmp_path / "out")
    with spectrace.open(file) as run:
        for name in schema.TABLES:
            found = parquet.read_table(tmp_path / "out" / f"{name}.parquet")
            assert found.equals(getattr(run, name))


def test_csv_holds_the_tables(file: Path, tmp_path: Path) -> None:
    """Read back by DuckDB every value is the same."""
    with closing(Extract(file)) as extract:
        CsvFiles().write(extract, tmp_path / "out")
    with spectrace.open(file) as run, duckdb.connect() as database:
        for name, columns in schema.TABLES.items():
            rows = database.execute(
                "SELECT * FROM read_csv(?, header = true, columns = ?, force_not_null = ?)",
                [
                    str(tmp_path / "out" / f"{name}.csv"),
                    {column.name: column.type for column in columns},
                    [column.name for column in columns if column.type == "VARCHAR"],
                ],
            ).fetchall()
            assert rows == [tuple(row.values()) for row in getattr(run, name).to_pylist()]


def test_any_duckdb_opens_a_recording(file: Path) -> None:
    """The file is written for DuckDB 1.0 and later, and answers plain SQL."""
    with duckdb.connect() as database:
        database.execute(f"ATTACH '{file}' AS run (READ_ONLY)")
        [(tags,)] = database.execute(
            "SELECT tags FROM duckdb_databases() WHERE database_name = 'run'"
        ).fetchall()
        assert tags["storage_version"] == "v1.0.0+"
        [(share,)] = database.execute(
            "SELECT sum(end_ns - start_ns) FILTER (name LIKE 'verify%') / sum(end_ns - start_ns) "
            "FROM run.phases WHERE lane = 'host'"
        ).fetchall()
    assert share == pytest.approx(4 / len(PARTS), abs=1e-6)


def test_a_file_of_the_first_version_still_opens(first: Path) -> None:
    """What came later is as if it had not been known: the page, the stream and the tables."""
    recording = open_recording(first)
    [run] = recording.runs()
    [newest, oldest] = recording.cycles(run.run_id)
    recording.close()
    assert (run.host, oldest.number, newest.number) == ("old", 1, 2)
    assert [phase.name.value for phase in oldest.ranks[0].phases] == ["draft", "verify.forward"]
    assert (newest.queued, newest.ranks[0].late_switch, newest.ranks[0].asked_mode) == (
        None,
        False,
        None,
    )
    with closing(Extract(first)) as extract:
        assert list(extract.cycles()) == [oldest, newest]
    with spectrace.open(first) as opened:
        assert opened.phases["graph"].to_pylist() == [None, None]
        assert opened.requests["correct_drafts"].to_pylist() == [2]
        assert opened.spans.num_rows == 0
        assert opened.spans.column_names == [column.name for column in schema.TABLES["spans"]]
        assert (opened.looks.num_rows, opened.kernels.num_rows) == (0, 0)


def test_a_store_of_the_first_version_goes_on_in_this_one(first: Path, tmp_path: Path) -> None:
    """Its slices are read, new cycles go into slices of ours, and all into one file."""
    store_path = tmp_path / "store"
    store_path.mkdir()
    first.rename(store_path / "slice-00000000.duckdb")
    with open_store(store_path) as store:
        [run] = store.runs()
        old = store.cycles(run.run_id)
        store.put_run(run_of())
        store.add([cycle_of(7)])
        store.add_spans(SPANS)
        store.save(tmp_path / "both.spectrace")
    recording = open_recording(tmp_path / "both.spectrace")
    assert recording.cycles(run.run_id) == old
    assert recording.cycles(run_of().run_id) == [cycle_of(7)]
    assert recording.other_spans(9) == SPANS
    recording.close()
