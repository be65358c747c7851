"""Writes records and header words into the ring, without ever waiting for a reader."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Any
from zlib import crc32

from .layout import (
    CYCLE,
    HEADER_BYTES,
    INFO_BYTES,
    INFO_OFFSET,
    PATH_BYTES,
    PATH_OFFSET,
    ROW,
    ROWS_HEAD,
    ROWS_PER_RECORD,
    SEAL,
    SEAL_OFFSET,
    SLOT_BYTES,
    TEXT,
    TEXT_BYTES,
    RecordType,
    Word,
)

if TYPE_CHECKING:
    from mmap import mmap


class RingWriter:
    """The one writer of a ring.

    Args:
        ring: The mapped ring file, with its header filled in.
    """

    __slots__ = ("_base", "_body", "_bytes", "_map", "_scratch", "_sequence", "_slots", "words")

    def __init__(self, ring: mmap) -> None:
        self._map = ring
        self._bytes = memoryview(ring)
        self.words = self._bytes[:HEADER_BYTES].cast("Q")
        self._slots = self.words[Word.SLOTS]
        self._base = self.words[Word.SLOTS_OFFSET]
        self._sequence = self.words[Word.HEAD]
        self._scratch = bytearray(SLOT_BYTES)
        self._body = memoryview(self._scratch)[:SEAL_OFFSET]

    def _publish(self) -> None:
        """Seals what stands in the scratch slot and copies it into the ring."""
        sequence = self._sequence + 1
        scratch = self._scratch
        SEAL.pack_into(scratch, SEAL_OFFSET, crc32(self._body), sequence & 0xFFFFFFFF)
        start = self._base + sequence % self._slots * SLOT_BYTES
        self._bytes[start : start + SLOT_BYTES] = scratch
        self._sequence = sequence
        self.words[Word.HEAD] = sequence

    def cycle(self, *fields: Any) -> None:
        """Writes a cycle record; `fields` as in `layout.CYCLE` behind the type."""
        CYCLE.pack_into(self._scratch, 0, self._sequence + 1, RecordType.CYCLE, *fields)
        self._publish()

    def rows(self, number: int, rows: list[tuple[int, int, int, int]]) -> None:
        """Writes the results of cycle `number`: interned id, correct drafts, tokens, flags."""
        parts = -(-len(rows) // ROWS_PER_RECORD) or 1
        for part in range(parts):
            first = part * ROWS_PER_RECORD
            some = rows[first : first + ROWS_PER_RECORD]
            ROWS_HEAD.pack_into(
                self._scratch,
                0,
                self._sequence + 1,
                RecordType.ROWS,
                part,
                parts,
                len(some),
                number,
                len(rows),
            )
            offset = ROWS_HEAD.size
            for row in some:
                ROW.pack_into(self._scratch, offset, *row)
                offset += ROW.size
            self._publish()

    def text(self, kind: int, interned: int, text: str) -> None:
        """Writes a text record of type `kind`, in as many parts as it takes (255 at most)."""
        data = text.encode("utf-8", "replace")[: 255 * TEXT_BYTES]
        parts = -(-len(data) // TEXT_BYTES) or 1
        for part in range(parts):
            some = data[part * TEXT_BYTES : (part + 1) * TEXT_BYTES]
            TEXT.pack_into(
                self._scratch,
                0,
                self._sequence + 1,
                kind,
                part,
                parts,
                0,
                interned,
                len(some),
                some,
            )
            self._publish()

    def info(self, info: dict[str, Any]) -> None:
        """Replaces the ring's text by `info` as JSON; what does not fit is left out."""
        data = dumps(info).encode()
        for name in ("hooks", "error"):  # the longest ones, and the least needed
            if len(data) > INFO_BYTES:
                data = dumps({**info, name: str(info.get(name))[:500]}).encode()
        if len(data) > INFO_BYTES:
            data = b"{}"
        self.words[Word.INFO_LENGTH] = 0
        self._bytes[INFO_OFFSET : INFO_OFFSET + len(data)] = data
        self.words[Word.INFO_LENGTH] = len(data)

    def path(self) -> str:
        """Where the ring file lies, as this process sees it."""
        text = bytes(self._bytes[PATH_OFFSET : PATH_OFFSET + PATH_BYTES])
        return text.partition(b"\0")[0].decode()

    def close(self) -> None:
        """Lets go of the map; with a view left alive it could not be closed."""
        self.words.release()
        self._bytes.release()
        self._map.close()
