"""The ring file: whole when it appears, private, exclusive, and with all its memory taken."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrace.attach import procfs, ring_file
from spectrace.collect.ring_view import RingView
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe import layout
from spectrace.probe.layout import Word

SELF = Rank(name="TP0", pid=os.getpid())


@pytest.fixture
def path() -> Iterator[Path]:
    """The ring file of this very process, removed at the end."""
    path = ring_file.ring_path(os.getpid())
    yield path
    path.unlink(missing_ok=True)


def test_name_tells_a_reused_process_id_apart(path: Path) -> None:
    """The name carries the process id and when the process began."""
    ticks = procfs.start_ticks(os.getpid())
    assert path == Path(f"/dev/shm/spectrace-{os.getpid()}-{ticks}.ring")  # noqa: S108 - the name


def test_new_ring_is_whole(path: Path) -> None:
    """Header, code and path of a new ring are what was asked for."""
    assert ring_file.create(SELF, b"code", 128, {Word.MODE: 2}) == path
    ring = RingView(path)
    assert ring.units == 128
    assert ring.word(Word.CODE_BYTES) == 4
    assert ring.word(Word.UNITS_OFFSET) == layout.units_offset(4)
    assert ring.word(Word.TARGET_PID) == os.getpid()
    assert ring.word(Word.TARGET_START_TICKS) == procfs.start_ticks(os.getpid())
    assert ring.word(Word.MODE) == 2
    ring.close()
    data = path.read_bytes()
    assert data[layout.CODE_OFFSET :][:4] == b"code"
    assert data[layout.PATH_OFFSET :][: layout.PATH_BYTES].rstrip(b"\0") == str(path).encode()
    assert len(data) == layout.units_offset(4) + 128 * layout.UNIT_BYTES


def test_ring_is_private_and_takes_its_memory(path: Path) -> None:
    """Only the owner may read the ring, and no page of it can be refused later."""
    ring_file.create(SELF, b"", 1024)
    status = path.stat()
    assert status.st_mode & 0o7777 == 0o600
    assert status.st_blocks * 512 >= status.st_size


def test_only_one_can_make_it(path: Path) -> None:
    """A second attempt is refused and leaves the first ring as it is."""
    ring_file.create(SELF, b"", 16)
    inode = path.stat().st_ino
    with pytest.raises(SpectraceError, match="Another spectrace is attaching"):
        ring_file.create(SELF, b"", 16)
    assert path.stat().st_ino == inode
    assert not list(path.parent.glob(f".{path.name}*"))


def test_symbolic_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    """Somebody's link under the ring's name is neither written through nor opened."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    path.symlink_to(victim)
    with pytest.raises(SpectraceError):
        ring_file.create(SELF, b"", 16)
    with pytest.raises(OSError, match="symbolic links"):
        RingView(path)
    assert path not in ring_file.find_rings()
    assert victim.read_bytes() == b"precious"


def test_full_shared_memory_is_named_with_the_size_and_the_mend(path: Path) -> None:
    """A ring that does not fit is refused before the server could trip over it."""
    units = 40_000_000_000
    with pytest.raises(SpectraceError, match=r"no room for a ring of 128000.* MB.*--shm-size"):
        ring_file.create(SELF, b"", units)
    assert not path.exists()
    assert not list(path.parent.glob(f".{path.name}*"))


def test_rings_are_found_once(path: Path) -> None:
    """A ring is listed once, whatever number of processes share its folder."""
    ring_file.create(SELF, b"", 16)
    assert ring_file.find_rings().count(path) == 1


def test_removing_twice_is_no_error(path: Path) -> None:
    """Removing what is gone already does nothing."""
    ring_file.create(SELF, b"", 16)
    ring_file.remove(path)
    ring_file.remove(path)
    assert not path.exists()


def test_missing_process_has_no_ring() -> None:
    """A number that no process has gives a sentence, not a traceback."""
    with pytest.raises(SpectraceError, match="There is no process"):
        ring_file.ring_path(4194305)
