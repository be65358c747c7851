"""Where the ranks of a simulated server wait for each other before each cycle."""

from __future__ import annotations

import mmap
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY = "ready"  # what a rank says when it is about to decode
_WORD_BYTES = 8
_LOOK_S = 20e-6


@contextmanager
def place_for(ranks: int) -> Iterator[Path]:
    """Makes a file by which so many ranks can meet, and removes it again."""
    with tempfile.NamedTemporaryFile(prefix="spectrace-ranks-") as file:
        file.truncate(_WORD_BYTES * ranks)
        yield Path(file.name)


class Meeting:
    """One rank's seat.

    Args:
        place: The file.
        rank: Of this process, from 0.
    """

    def __init__(self, place: Path, rank: int) -> None:
        with place.open("r+b") as file:
            shared = mmap.mmap(file.fileno(), 0)
        self._turns = memoryview(shared).cast("Q")  # the turn that each rank has come to
        self._rank = rank

    def wait(self) -> None:
        """Comes to the next turn, and returns when all have."""
        turn = self._turns[self._rank] + 1
        self._turns[self._rank] = turn
        while min(self._turns) < turn:
            time.sleep(_LOOK_S)
