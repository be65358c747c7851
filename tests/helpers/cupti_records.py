"""Writes CUPTI's records byte by byte, each in the version of its type that a test wants.

What stands where is recorded from the record types of cupti-python (`tests/data`): what is read
knows nothing of it.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_DATA: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data/cupti-records.json").read_text("utf-8")
)
RECORDED: dict[str, Any] = _DATA["records"]
CALLS: dict[str, list[str]] = _DATA["calls"]  # with the names of their arguments
LETTERS = {"<i4": "<i", "<u4": "<I", "<u8": "<Q", "<i8": "<q", "|u1": "<B"}
KERNELS = ("kernel9", "kernel10", "kernel11", "kernel12", "kernel13")
FILLING = 0xA5  # what stands between the fields: nobody may take it for something


def record(version: str, kind: str = "", **fields: int) -> bytes:
    """One record.

    Args:
        version: Such as `kernel13`.
        kind: Which of the kinds of that type; the first if not given.
        fields: By the names of the record type; others are 0.
    """
    shape = RECORDED[version]
    kinds = shape["kinds"]
    content = bytearray([FILLING]) * shape["bytes"]
    values = dict.fromkeys(shape["fields"], 0)
    values |= fields | {"kind": kinds[kind or next(iter(kinds))]}
    for name, value in values.items():
        form, place = shape["fields"][name]
        struct.pack_into(LETTERS[form], content, place, value)
    return bytes(content)


class Buffer:
    """Records one behind the other, as in a buffer that CUPTI has filled.

    Attributes:
        places: Where each begins.
        data: All of them.
    """

    def __init__(self, *records: bytes) -> None:
        self.places = [sum(map(len, records[:place])) for place in range(len(records))]
        self.data = b"".join(records)

    def piece(self) -> bytes:
        """As a window's file holds it."""
        body = struct.pack(f"<{len(self.places)}I", *self.places) + self.data
        size = -(-(16 + len(body)) // 8) * 8
        head = struct.pack("<IIII", size, len(self.places), len(self.data), zlib.crc32(body))
        return (head + body).ljust(size, b"\0")


def window_file(pieces: Sequence[bytes]) -> tuple[bytes, int]:
    """A window's file without its header's words, and where the next piece would begin."""
    content = bytes(4096) + b"".join(pieces)
    return content, len(content)
