"""The file of a kernel window: private, whole, read as far as it was written, and never left."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from spectrace.attach import ring_file, window_file
from spectrace.attach.window_file import WindowFile
from spectrace.errors import SpectraceError
from spectrace.model import Rank
from spectrace.probe import kernels
from spectrace.probe.layout_window import DATA_OFFSET, Place, Stage
from tests.helpers.cupti_records import Buffer, record

SELF = Rank(name="TP0", pid=os.getpid())


@pytest.fixture
def file() -> Iterator[WindowFile]:
    """One for this very process."""
    made = window_file.create(SELF, 4, 1)
    yield made
    made.remove()


def test_it_is_private_and_takes_its_memory(file: WindowFile) -> None:
    """It stands beside the ring, for the owner of the process alone."""
    assert file.path == ring_file.ring_path(os.getpid()).with_suffix(".kernels")
    status = file.path.stat()
    assert status.st_mode & 0o7777 == 0o600
    assert status.st_blocks * 512 >= status.st_size == file.word(Place.BYTES)


def test_the_probe_finds_it_by_the_rings_name_and_both_see_the_same(file: WindowFile) -> None:
    """What the probe says is read here."""
    window = kernels.open_window(str(ring_file.ring_path(os.getpid())), 9, 4)
    assert window is not None
    assert file.word(Place.GRAPH_CYCLES) == 1
    assert file.word(Place.STATE) == Stage.ASKED
    window.close()
    assert file.word(Place.STATE) == Stage.DONE


def test_what_was_written_is_read_and_no_more(file: WindowFile) -> None:
    """The file is far larger than what CUPTI hands over."""
    piece = Buffer(record("memset5", start=1, end=2)).piece()
    with file.path.open("r+b") as writing:
        writing.seek(DATA_OFFSET)
        writing.write(piece)
        writing.seek(Place.HEAD * 8)
        writing.write(struct.pack("<Q", DATA_OFFSET + len(piece)))
    assert file.content()[DATA_OFFSET:] == piece


def test_one_that_was_left_there_is_replaced(file: WindowFile) -> None:
    """A killed spectrace keeps nobody from looking again."""
    inode = file.path.stat().st_ino
    again = window_file.create(SELF, 4, 0)
    assert again.path.stat().st_ino != inode
    assert again.word(Place.GRAPH_CYCLES) == 0
    again.remove()
    assert not again.path.exists()


def test_one_that_another_spectrace_made_since_is_not_removed(file: WindowFile) -> None:
    """Who had the first one lets go of it alone."""
    again = window_file.create(SELF, 4, 0)
    file.remove()
    assert again.path.exists()
    again.remove()
    assert not again.path.exists()
    again.remove()


def test_one_whose_ring_has_gone_is_swept_away_when_it_is_old(file: WindowFile) -> None:
    """A new one may be that of a spectrace that is just making it."""
    ring_file.sweep()
    assert file.path.exists()
    old_s = time.time() - 3600
    os.utime(file.path, (old_s, old_s))
    assert file.path in ring_file.sweep()
    assert not file.path.exists()


def test_one_beside_a_ring_is_kept(file: WindowFile) -> None:
    """Its server is traced still."""
    ring = ring_file.create(SELF, b"", 64)
    try:
        old_s = time.time() - 3600
        os.utime(file.path, (old_s, old_s))
        assert file.path not in ring_file.sweep()
    finally:
        ring.unlink(missing_ok=True)


def test_without_room_the_size_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """And nothing is left."""
    monkeypatch.setattr(window_file, "_MOST_BYTES", 1 << 50)
    monkeypatch.setattr(window_file, "_BYTES_AT_LEAST", 1 << 49)
    with pytest.raises(SpectraceError, match="no room"):
        window_file.create(SELF, 1, 0)
    assert not Path(ring_file.ring_path(os.getpid()).with_suffix(".kernels")).exists()
