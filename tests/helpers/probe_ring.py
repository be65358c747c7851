"""Makes a ring file for tests of the probe and reads raw records from it."""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING

from spectrace.collect.ring_view import RingView
from spectrace.probe import layout
from spectrace.probe.layout import Word
from spectrace.probe.ring import RingWriter

if TYPE_CHECKING:
    from pathlib import Path


def make_ring(path: Path, *, slots: int = 64, mode: int = layout.Mode.HOST) -> RingWriter:
    """Creates a ring without code at `path` and gives its writer."""
    offset = layout.slots_offset(0)
    header = bytearray(offset)
    words = {
        Word.MAGIC: layout.MAGIC,
        Word.LAYOUT_VERSION: layout.LAYOUT_VERSION,
        Word.SLOTS: slots,
        Word.SLOTS_OFFSET: offset,
        Word.MODE: mode,
    }
    for place, value in words.items():
        struct.pack_into("<Q", header, place * 8, value)
    path.write_bytes(bytes(header) + bytes(slots * layout.SLOT_BYTES))
    path.chmod(0o600)
    descriptor = os.open(path, os.O_RDWR)
    try:
        return RingWriter(mmap.mmap(descriptor, 0))
    finally:
        os.close(descriptor)


def raw_slots(path: Path) -> list[bytes]:
    """All slots written so far, oldest first."""
    view = RingView(path)
    try:
        return [view.slot(sequence) for sequence in range(1, view.word(Word.HEAD) + 1)]
    finally:
        view.close()
