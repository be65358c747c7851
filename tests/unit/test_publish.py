"""A file or folder appears whole or not at all, and replaces nothing without a word."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

import pytest

from spectrace.errors import SpectraceError
from spectrace.store.publish import published


def write(path: Path, text: str = "new", *, force: bool = False) -> None:
    """Publishes a file with this text."""
    with published(path, force=force) as fresh:
        fresh.write_text(text)


def write_folder(path: Path, *names: str, force: bool = False) -> None:
    """Publishes a folder with files of these names."""
    with published(path, force=force) as fresh:
        fresh.mkdir()
        for name in names:
            (fresh / name).write_text("new")


def test_a_file_appears_for_its_owner_alone(tmp_path: Path) -> None:
    """Mode 0600, with nothing else beside it."""
    write(tmp_path / "a")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_is_broken_off_leaves_nothing(tmp_path: Path, error: type[BaseException]) -> None:
    """Ctrl-C or an error amid the work: no half file, and what was there stays."""
    (tmp_path / "b").write_text("old")

    def broken_off(path: Path) -> None:
        with published(path, force=True) as fresh:
            fresh.write_text("half")
            raise error

    for name in ("a", "b"):
        with pytest.raises(error):
            broken_off(tmp_path / name)
    assert [file.name for file in tmp_path.iterdir()] == ["b"]
    assert (tmp_path / "b").read_text() == "old"


def test_what_came_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    """Without force a file that appears during the work wins."""
    path = tmp_path / "a"

    def overtaken() -> None:
        with published(path, force=False) as fresh:
            fresh.write_text("new")
            path.write_text("other")

    with pytest.raises(SpectraceError, match="exists"):
        overtaken()
    assert path.read_text() == "other"


def test_force_replaces_a_file(tmp_path: Path) -> None:
    """And only force does."""
    write(tmp_path / "a", "old")
    with pytest.raises(SpectraceError, match="-f"):
        write(tmp_path / "a")
    write(tmp_path / "a", force=True)
    assert (tmp_path / "a").read_text() == "new"


def test_force_replaces_only_a_folder_of_the_same_names(tmp_path: Path) -> None:
    """A folder that holds something else is not ours to remove."""
    folder = tmp_path / "out"
    write_folder(folder, "a", "b")
    (folder / "a").write_text("old")
    with pytest.raises(SpectraceError, match="exists"):
        write_folder(folder, "a", "b")
    write_folder(folder, "a", "b", force=True)
    assert (folder / "a").read_text() == "new"
    (folder / "letter").write_text("Dear")
    with pytest.raises(SpectraceError, match="letter"):
        write_folder(folder, "a", "b", force=True)
    assert (folder / "letter").read_text() == "Dear"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("force", [False, True])
def test_a_device_is_never_replaced(force: bool) -> None:
    """Whoever may write anywhere would have no /dev/null any more."""
    with pytest.raises(SpectraceError, match="/dev/null is no file"):
        write(Path("/dev/null"), force=force)
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("code", "way"),
    [
        (errno.ENOSPC, "No space left on device. Make room in {0}, or name a file on another disk"),
        (errno.EDQUOT, "Disk quota exceeded. Make room in {0}, or name a file on another disk"),
        (errno.EFBIG, "File too large. Raise the limit of a file's size (ulimit -f), or name"),
        (errno.EROFS, "Read-only file system. Name a file in another folder"),
    ],
)
def test_what_the_system_refuses_is_said_with_a_way_out(
    tmp_path: Path, code: int, way: str
) -> None:
    """What happened, to what, and what to do now; and nothing is left."""

    def refused() -> None:
        with published(tmp_path / "a", force=False) as fresh:
            fresh.write_text("half")
            raise OSError(code, "as a library calls it")

    with pytest.raises(SpectraceError) as found:
        refused()
    assert str(found.value).startswith(f"{tmp_path / 'a'} cannot be written: ")
    assert way.format(tmp_path) in str(found.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A sentence instead of a traceback."""
    with pytest.raises(SpectraceError, match="cannot be written: No such file"):
        write(tmp_path / "missing" / "a")
