"""What a session gives goes into one file, whatever happens meanwhile."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from spectrace.attach.session import SessionFacts
from spectrace.cli.record import losses
from spectrace.cli.store_tap import StoreTap
from spectrace.errors import SpectraceError
from spectrace.store.extract import Extract
from spectrace.store.recorded import recorded
from spectrace.store.source import Stats
from tests.helpers.recorded import cycle_of, run_of

FACTS = SessionFacts(
    engine="",
    algorithm="",
    worker="",
    device="",
    overlap=None,
    unhooked=(),
    ranks=(),
    lost_records=0,
    missing_cycles=0,
    errors=(),
)


def collect(path: Path, *, force: bool = False, error: type[BaseException] | None = None) -> None:
    """Records two cycles, and then an error."""
    with recorded(path, force=force, max_bytes=1 << 30) as store:
        tap = StoreTap(store)
        tap.tell(run_of(), FACTS, ())
        tap.feed([cycle_of(1)])
        tap.tell(run_of(), FACTS, ())
        tap.feed([cycle_of(2)])
        assert tap.first_ns == cycle_of(1).start_ns
        if error is not None:
            raise error


def test_a_session_becomes_one_file(tmp_path: Path) -> None:
    """The run and its cycles, with nothing left beside it."""
    collect(tmp_path / "run.spectrace")
    extract = Extract(tmp_path / "run.spectrace")
    assert extract.runs == [run_of()]
    assert list(extract.cycles()) == [cycle_of(1), cycle_of(2)]
    extract.close()
    assert [path.name for path in tmp_path.iterdir()] == ["run.spectrace"]


def test_what_was_collected_before_an_error_is_written(tmp_path: Path) -> None:
    """As when the reader of the output has left."""
    with pytest.raises(BrokenPipeError):
        collect(tmp_path / "run.spectrace", error=BrokenPipeError)
    extract = Extract(tmp_path / "run.spectrace")
    assert extract.count == 2
    extract.close()


def test_a_server_that_was_not_attached_to_leaves_nothing(tmp_path: Path) -> None:
    """No run, no file."""
    with (
        pytest.raises(SpectraceError, match="no"),
        recorded(tmp_path / "run.spectrace", force=False, max_bytes=1 << 30),
    ):
        raise SpectraceError("There is no such server.")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_came_meanwhile_stays_and_the_recording_is_kept(tmp_path: Path) -> None:
    """The message says where, and it opens."""
    path = tmp_path / "run.spectrace"

    def overtaken() -> None:
        with recorded(path, force=False, max_bytes=1 << 30) as store:
            StoreTap(store).tell(run_of(), FACTS, ())
            store.add([cycle_of(1)])
            path.write_text("other")

    with pytest.raises(SpectraceError, match="kept in") as refused:
        overtaken()
    [kept] = [other for other in tmp_path.iterdir() if other != path]
    assert str(kept) in str(refused.value)
    extract = Extract(kept)
    assert list(extract.cycles()) == [cycle_of(1)]
    extract.close()


def test_a_full_disk_at_the_end_keeps_what_was_collected(tmp_path: Path) -> None:
    """The message says what happened and where it is kept, and that opens."""
    path = tmp_path / "run.spectrace"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def on_a_full_disk() -> None:
        with recorded(path, force=False, max_bytes=1 << 30) as store:
            StoreTap(store).tell(run_of(), FACTS, ())
            store.add(cycle_of(number) for number in range(300))
            store.flush()
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # it stands for the disk

    try:
        with pytest.raises(SpectraceError, match=r"cannot be written .* kept in") as refused:
            on_a_full_disk()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    [kept] = tmp_path.iterdir()
    assert str(kept) in str(refused.value)
    extract = Extract(kept)
    assert extract.count == 300
    extract.close()


def test_a_disk_that_was_full_all_the_time_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    """There is no recording to be looked for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def on_a_full_disk() -> None:
        with recorded(tmp_path / "run.spectrace", force=False, max_bytes=1 << 30) as store:
            StoreTap(store).tell(run_of(), FACTS, ())
            store.add([cycle_of(1)])

    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # it stands for the disk
    try:
        with pytest.raises(SpectraceError, match=r"could not be stored \(File too large\): make"):
            on_a_full_disk()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_refused_before_anything_is_traced(tmp_path: Path) -> None:
    """With force it is replaced at the end."""
    path = tmp_path / "run.spectrace"
    path.write_text("old")
    with pytest.raises(SpectraceError, match="exists"):
        collect(path)
    collect(path, force=True)
    assert path.read_bytes() != b"old"


def test_what_is_missing_from_a_recording_is_told() -> None:
    """What could not be stored, and what went for the sake of the size."""
    stats = Stats(cycles=1, bytes=1, first_ns=7, last_ns=8, first_n=1, last_n=1)
    assert list(losses(stats, 7)) == []
    assert list(losses(stats, 6)) == ["The oldest cycles went, to keep below --max-size."]
    lossy = Stats(cycles=0, bytes=1, first_ns=None, last_ns=None, first_n=None, last_n=None, lost=3)
    assert list(losses(lossy, 6)) == ["3 cycles could not be stored."]
