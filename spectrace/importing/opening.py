"""Gives the bytes of a file piece by piece, decompressed where it is compressed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from spectrace.importing.faults import Fault, Faults

_READ_BYTES = 1 << 20
_MOST_BYTES = 4 << 20  # that a piece of compressed data may become at once
_GZIP = b"\x1f\x8b"
_GZIP_BITS = 31  # zlib's word for gzip's header and trailer


def pieces_of(path: Path, faults: Faults, progress: Callable[[int], None]) -> Iterator[bytes]:
    """The content of a file, a few MB at a time.

    Args:
        path: The file, compressed by gzip or not.
        faults: Where it is counted that compressed data are damaged.
        progress: Is told the bytes of the file that were read since it was told last.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        raw = _told(iter(lambda: file.read(_READ_BYTES), b""), progress)
        yield from _unpacked(raw, faults) if packed else raw


def _told(pieces: Iterator[bytes], progress: Callable[[int], None]) -> Iterator[bytes]:
    for piece in pieces:
        progress(len(piece))
        yield piece


def _unpacked(pieces: Iterator[bytes], faults: Faults) -> Iterator[bytes]:
    """Decompresses; several compressed files behind each other are one."""
    unpacker = zlib.decompressobj(_GZIP_BITS)
    try:
        for piece in pieces:
            left = piece
            while left:
                if unpacker.eof:
                    if not left.strip(b"\0"):
                        break  # padding behind the end, as tapes have it
                    unpacker = zlib.decompressobj(_GZIP_BITS)
                yield unpacker.decompress(left, _MOST_BYTES)
                left = unpacker.unconsumed_tail or unpacker.unused_data
        if not unpacker.eof:
            yield unpacker.flush()  # that the text ends too early is seen where it is read
    except zlib.error:
        faults.add(Fault.CORRUPT)
