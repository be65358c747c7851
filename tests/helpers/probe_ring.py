"""Makes a ring file for tests of the probe and reads raw records from it."""

from __future__ import annotations

import mmap
import os
import struct
from typing import TYPE_CHECKING

from spectrace.collect.reader import CycleRecord, Record, RingReader
from spectrace.collect.ring_view import RingView
from spectrace.probe import layout
from spectrace.probe.layout import Word
from spectrace.probe.ring import RingWriter

if TYPE_CHECKING:
    from pathlib import Path


def make_ring(path: Path, *, units: int = 512, mode: int = layout.Mode.HOST) -> RingWriter:
    """Creates a ring without code at `path` and gives its writer."""
    offset = layout.units_offset(0)
    header = bytearray(offset)
    words = {
        Word.MAGIC: layout.MAGIC,
        Word.LAYOUT_VERSION: layout.LAYOUT_VERSION,
        Word.UNITS: units,
        Word.UNITS_OFFSET: offset,
        Word.MODE: layout.mode_word(mode),
    }
    for place, value in words.items():
        struct.pack_into("<Q", header, place * 8, value)
    path.write_bytes(bytes(header) + bytes(units * layout.UNIT_BYTES))
    path.chmod(0o600)
    descriptor = os.open(path, os.O_RDWR)
    try:
        return RingWriter(mmap.mmap(descriptor, 0))
    finally:
        os.close(descriptor)


def raw_records(path: Path, kind: int | None = None) -> list[bytes]:
    """All records written so far, oldest first, of a ring that has not been lapped.

    Args:
        path: The ring.
        kind: Only those of this type.
    """
    view = RingView(path)
    records = []
    try:
        position = 1
        while position <= view.word(Word.HEAD):
            units = layout.HEAD.unpack_from(view.read(position))[3]
            records.append(view.read(position, units))
            position += units
    finally:
        view.close()
    return [record for record in records if kind is None or record[12] == kind]


def decoded(path: Path) -> list[Record]:
    """All records written so far as the reader sees them."""
    view = RingView(path)
    try:
        return RingReader(view).drain()
    finally:
        view.close()


def cycles_in(path: Path) -> list[CycleRecord]:
    """The cycle records written so far."""
    return [record for record in decoded(path) if isinstance(record, CycleRecord)]
