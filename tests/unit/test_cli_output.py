"""What a command writes arrives whole, however little a reader takes at a time."""

from __future__ import annotations

import io

import pytest
from typing_extensions import Buffer

from spectrace.cli.output import write_whole

pytestmark = pytest.mark.beside_others


class SlowPipe(io.RawIOBase):
    """Takes few bytes at a time, as a full pipe does of a write that a signal interrupts.

    Args:
        room: How many it takes in all.
    """

    def __init__(self, room: int) -> None:
        super().__init__()
        self._room = room
        self.taken = b""

    def writable(self) -> bool:
        """It is written to."""
        return True

    def write(self, data: Buffer) -> int | None:
        """Takes some; None where there is no room."""
        some = bytes(data)[: min(10, self._room)]
        self._room -= len(some)
        self.taken += some
        return len(some) or None


def unbuffered(pipe: SlowPipe) -> io.TextIOWrapper:
    """A stream as Python makes stdout with PYTHONUNBUFFERED."""
    return io.TextIOWrapper(pipe, encoding="utf-8", write_through=True)  # type: ignore[arg-type]  # CPython's own stdout is a raw file there


def test_a_text_arrives_whole_in_pieces() -> None:
    """Python's own write would lose all but the first ten bytes."""
    pipe, lost = SlowPipe(1000), SlowPipe(1000)
    write_whole(unbuffered(pipe), "a line of many bytes, é\n")
    assert pipe.taken == "a line of many bytes, é\n".encode()
    unbuffered(lost).write("a line of many bytes\n")
    assert lost.taken == b"a line of "


def test_a_stream_that_does_not_wait_is_an_error() -> None:
    """Nothing is tried for ever."""
    with pytest.raises(BlockingIOError):
        write_whole(unbuffered(SlowPipe(15)), "a line of many bytes\n")
