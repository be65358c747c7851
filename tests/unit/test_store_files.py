"""A store's files belong to one owner, and what is not a recording is refused with a reason."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from spectrace.errors import SpectraceError
from spectrace.store.database import Database
from spectrace.store.recording import open_recording
from spectrace.store.store import CycleStore
from tests.helpers.stored import RUN_A, cycle_of, open_store, run_of

_OPEN = """
import sys
from pathlib import Path
from spectrace.errors import SpectraceError
from spectrace.store.recording import open_recording
try:
    open_recording(Path(sys.argv[1]))
except SpectraceError as error:
    sys.exit(7 if "in use" in str(error) else 1)
"""


def saved(tmp_path: Path) -> Path:
    """A recording of two cycles."""
    path = tmp_path / "saved.spectrace"
    with open_store(tmp_path / "store") as store:
        store.put_run(run_of())
        store.add([cycle_of(1), cycle_of(2)])
        store.save(path)
    return path


def test_a_second_owner_is_refused_and_told_the_first(tmp_path: Path) -> None:
    """The message names the process that holds the store; after its end the store is free."""
    with (
        open_store(tmp_path),
        pytest.raises(SpectraceError, match=f"process id {os.getpid()}"),
        open_store(tmp_path),
    ):
        pass
    with open_store(tmp_path) as store:
        assert store.runs() == []


def test_a_store_is_closed_to_other_users(tmp_path: Path) -> None:
    """The directory has mode 0700, every file in it and a recording 0600."""
    path = tmp_path / "saved.spectrace"
    with open_store(tmp_path / "store") as store:
        store.add([cycle_of(1)])
        store.flush()
        store.save(path)
        files = [*(tmp_path / "store").iterdir(), path]
        modes = {stat.S_IMODE(file.stat().st_mode) for file in files}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    """Somebody's folder does not become a store."""
    (tmp_path / "letter.txt").write_text("Dear")
    with pytest.raises(SpectraceError, match="holds other files"), open_store(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_damaged_slice_is_named(tmp_path: Path) -> None:
    """A store with a broken file does not open, says which it is, and stays free."""
    with open_store(tmp_path) as store:
        store.add([cycle_of(1)])
    broken = tmp_path / "slice-00000000.duckdb"
    broken.write_bytes(b"\0" * broken.stat().st_size)
    for _ in range(2):
        with pytest.raises(SpectraceError, match=r"slice-00000000\.duckdb"), open_store(tmp_path):
            pass


def test_a_recording_is_not_overwritten_unless_forced(tmp_path: Path) -> None:
    """An existing file stays as it is; with force the new recording takes its place."""
    path = tmp_path / "saved.spectrace"
    path.write_text("precious")
    with open_store(tmp_path / "store") as store:
        store.add([cycle_of(1)])
        with pytest.raises(SpectraceError, match="exists"):
            store.save(path)
        assert path.read_text() == "precious"
        store.save(path, force=True)
    recording = open_recording(path)
    assert recording.cycles(RUN_A) == [cycle_of(1)]
    recording.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["saved.spectrace", "store"]


def test_a_recording_knows_its_runs(tmp_path: Path) -> None:
    """Runs are saved with their cycles."""
    recording = open_recording(saved(tmp_path))
    assert recording.runs() == [run_of()]
    assert recording.groups(RUN_A) == [""]
    recording.close()


def test_a_recording_can_be_opened_twice(tmp_path: Path) -> None:
    """Readers do not shut each other out."""
    path = saved(tmp_path)
    one, other = open_recording(path), open_recording(path)
    assert one.cycles(RUN_A) == other.cycles(RUN_A)
    one.close()
    other.close()


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Text, a foreign database, an empty folder and a missing file are no recordings."""
    text = tmp_path / "letter.txt"
    text.write_text("Dear" * 10_000)
    foreign = tmp_path / "foreign.duckdb"
    duckdb.connect(str(foreign)).execute("CREATE TABLE cycles (id BIGINT)").close()
    empty = tmp_path / "empty"
    empty.mkdir()
    reasons = {
        text: "no recording of spectrace",
        foreign: "not those of spectrace",
        empty: "holds no recording",
        tmp_path / "missing": "There is no file",
    }
    for path, reason in reasons.items():
        with pytest.raises(SpectraceError, match=reason):
            open_recording(path)


def test_a_recording_of_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    """The message names the version in the file and ours."""
    path = saved(tmp_path)
    duckdb.connect(str(path)).execute("UPDATE format SET version = 99").close()
    with pytest.raises(SpectraceError, match=r"version 99 .* up to version 5"):
        open_recording(path)


def test_a_recording_cannot_read_other_files_of_its_reader(tmp_path: Path) -> None:
    """A view that an attacker put in the place of a table is refused before it runs."""
    path = saved(tmp_path)
    database = duckdb.connect(str(path))
    database.execute("DROP TABLE cycles")
    database.execute("CREATE VIEW cycles AS SELECT * FROM read_text('/etc/hostname')")
    database.close()
    with pytest.raises(SpectraceError, match="not those of spectrace"):
        open_recording(path)


def test_a_store_that_is_in_use_is_not_opened_as_a_recording(tmp_path: Path) -> None:
    """Another process that opens a live store's files is told that they are in use.

    Within one process DuckDB shares its files, so that the other one has to be real.
    """
    with open_store(tmp_path) as store:
        store.add([cycle_of(1)])
        store.flush()
        other = subprocess.run([sys.executable, "-c", _OPEN, str(tmp_path)], check=False)
    assert other.returncode == 7


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    """Reading after the end is an error with a sentence; closing again is none."""
    with open_store(tmp_path) as store:
        pass
    store.close()
    with pytest.raises(SpectraceError, match="closed"):
        store.cycles(RUN_A)


def test_a_disk_that_is_full_for_a_while_costs_only_the_cycles_of_that_while(
    tmp_path: Path,
) -> None:
    """Files that may not grow stand for the full disk: before and after it all is as ever."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_store(tmp_path) as store:
        store.add(cycle_of(number) for number in range(100))
        store.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            store.add(cycle_of(number) for number in range(100, 2000))
            with pytest.raises(SpectraceError, match="could not be stored"):
                store.flush()
            assert store.stats().problem
            assert store.cycles(RUN_A, limit=1) == [cycle_of(99)]
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        store.add(cycle_of(number) for number in range(2000, 2100))
        store.flush()
        stats = store.stats()
        assert (stats.problem, stats.cycles, stats.lost) == ("", 200, 1900)
    recording = open_recording(tmp_path)
    assert len(recording.cycles(RUN_A, limit=500)) == 200
    recording.close()


@pytest.mark.parametrize("name", ["slice-a.duckdb", "slice-1 2.duckdb", "slice-\udcff.duckdb"])
def test_a_foreign_name_in_a_store_is_named(tmp_path: Path, name: str) -> None:
    """A sentence instead of a traceback; the file stays as it is."""
    (tmp_path / name).touch()
    with pytest.raises(SpectraceError, match="is none of spectrace's files") as refused:
        CycleStore(tmp_path, retain_s=60, max_bytes=1 << 30)
    assert str(refused.value).isascii()
    assert (tmp_path / name).exists()


def test_a_slice_that_cannot_be_written_any_more_can_still_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed write it is opened for reading, and the next cycles get a new one."""
    with open_store(tmp_path) as store:
        store.add([cycle_of(1)])
        store.flush()
        database = store._writer._database
        attach = database.attach

        def attach_for_reading(path: Path, name: str, *, read_only: bool) -> None:
            if not read_only:
                raise SpectraceError("The disk is full.")
            attach(path, name, read_only=True)

        def fail(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(database, "attach", attach_for_reading)
            patch.setattr(database, "insert", fail)
            store.add([cycle_of(2)])
            with pytest.raises(SpectraceError, match="make room"):
                store.flush()
            assert store.cycles(RUN_A) == [cycle_of(1)]
        store.add([cycle_of(3)])
        assert store.cycles(RUN_A) == [cycle_of(3), cycle_of(1)]


_ENDLESS = "SELECT sum(hash(a.range)) AS id FROM range(1000000000) a, range(1000000000) b"


@pytest.mark.parametrize(
    "ask",
    [
        lambda database: database.columns(_ENDLESS, []),
        lambda database: database._rows(_ENDLESS, []),
        lambda database: database.read_newest(["part"], "cycles", 100).read_all(),
    ],
)
def test_ctrl_c_ends_a_query_as_it_ends_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Database], object]
) -> None:
    """DuckDB makes an error of its own of it, which would be a traceback or call a file damaged."""
    monkeypatch.setattr(Database, "_newest_of", lambda *_: _ENDLESS)
    database = Database(tmp_path)
    presses = threading.Timer(0.3, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
    presses.start()
    with pytest.raises(KeyboardInterrupt):
        ask(database)
    presses.join()
    database.close()
