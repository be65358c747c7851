"""The kernel window: for some cycles CUPTI's records go into a file that was made for them.

Loaded when a window is asked for. Nothing here raises into the server: what CUPTI refuses is
written into the file as a number, with what it said.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from array import array
from contextlib import suppress
from time import monotonic_ns as now
from time import time_ns
from typing import TYPE_CHECKING, Any
from zlib import crc32

from .cupti_edge import BUFFER_BYTES, GRAPHS, SINGLE, Cupti, RefusedError
from .faults import pass_on
from .layout_window import (
    ALIGNED,
    DATA_OFFSET,
    FLUSH_EVERY_NS,
    FLUSHES,
    LONGEST_NS,
    MAGIC,
    PIECE,
    RECORD_BYTES,
    SUFFIX,
    TEXT_BYTES,
    TEXT_OFFSET,
    VERSION,
    Place,
    Refusal,
    Stage,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

_LOW_HALF = 0xFFFFFFFF
_ASKED_FOR_NS = FLUSHES * FLUSH_EVERY_NS  # where nothing moves the window on as often
_OVER = (Stage.DONE, Stage.REFUSED)


def open_window(ring_path: str, first: int, cycles: int) -> KernelWindow | None:
    """The window that was asked for; None where there is no file for it.

    Args:
        ring_path: The ring, as this process names it.
        first: The cycle from which on kernels are wanted; 0 for the next one.
        cycles: Of how many.
    """
    path = ring_path.rpartition(".")[0] + SUFFIX
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        file = mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)
    words = memoryview(file)[:DATA_OFFSET].cast("Q")
    if words[Place.MAGIC] != MAGIC or words[Place.VERSION] != VERSION:
        words.release()
        file.close()
        return None
    return KernelWindow(Store(file, words), first, cycles)


class Store:
    """The file of a window, into which any thread may put what CUPTI hands over.

    Where it is written from and to is kept in a list of one number, that who writes takes out
    and puts back grown: no two write at once, and nobody waits. Who finds it empty has lost.

    Args:
        file: The file.
        words: The words of its header.

    Attributes:
        words: As the argument.
    """

    def __init__(self, file: mmap.mmap, words: memoryview[int]) -> None:
        self._file: mmap.mmap | None = file
        self.words = words
        self._heads = [DATA_OFFSET]
        words[Place.HEAD] = DATA_OFFSET

    def take(self, activities: Sequence[Any]) -> None:
        """Copies the records of a buffer into the file; what finds no room is counted.

        Args:
            activities: As CUPTI's binding hands them over.
        """
        if self._file is None or not activities:  # the window has been closed
            return
        began_ns = now()
        with suppress(Exception):  # CUPTI's own thread must hear of nothing
            self._count(Place.BUFFERS, 1)
            self._count(Place.RECORDS, len(activities))
            if not self._put(activities):
                self._count(Place.LOST, len(activities))
            self._count(Place.TAKING_NS, now() - began_ns)

    def _count(self, place: int, more: int) -> None:
        self.words[place] += more

    def _put(self, activities: Sequence[Any]) -> bool:
        """Whether there was room."""
        first, last = activities[0].ptr, activities[-1]
        length = last.ptr - first + RECORD_BYTES.get(int(last.kind), ALIGNED)
        if not ALIGNED <= length <= BUFFER_BYTES:
            self._count(Place.BROKEN, 1)  # they do not lie in one buffer
            return True
        places = array("I", [activity.ptr - first for activity in activities])
        data = ctypes.string_at(first, length)
        body = places.tobytes() + data
        size = -(-(PIECE.size + len(body)) // ALIGNED) * ALIGNED
        head = PIECE.pack(size, len(places), length, crc32(body))
        try:
            at = self._heads.pop()
        except IndexError:  # another thread writes at this moment
            return False
        end = at
        try:
            file = self._file
            if file is None or at + size > len(file):
                return False
            file[at : at + PIECE.size + len(body)] = head + body
            end = at + size
            self.words[Place.HEAD] = end
        finally:
            self._heads.append(end)
        return True

    def say(self, text: str) -> None:
        """Writes down what CUPTI said."""
        if self._file is not None:
            data = text.encode("utf-8", "replace")[:TEXT_BYTES]
            self._file[TEXT_OFFSET : TEXT_OFFSET + len(data)] = data
            self.words[Place.TEXT_LENGTH] = len(data)

    def close(self) -> None:
        """Lets go of the file; what another thread just writes into it keeps it open so long."""
        file, self._file = self._file, None
        if file is not None:
            self.words.release()
            with suppress(BufferError):
                file.close()


class KernelWindow:
    """One window, moved on at each cycle's begin by the scheduler's own thread.

    Args:
        store: Where records go.
        first: The first cycle, 0 for the next one.
        cycles: How many.
    """

    def __init__(self, store: Store, first: int, cycles: int) -> None:
        self._store = store
        self._words = store.words
        self._first = first
        self._cycles = cycles
        self._longest_ns = max(LONGEST_NS, store.words[Place.LONGEST_NS])
        self._cupti: Cupti | None = None
        self._stage = Stage.ASKED
        self._began_ns = self._ended_ns = self._split_at = self._end_at = 0
        self._flushes = self._flush_at_ns = 0

    def step(self, number: int, *, idle: bool = False) -> bool:
        """Does what is due; never raises but what is the server's.

        Args:
            number: Of the cycle that begins.
            idle: None does: the server has nothing to do.

        Returns:
            Whether the window goes on.
        """
        if self._stage in _OVER:
            return False
        try:
            self._step(number, idle=idle)
        except RefusedError as error:
            self._refuse(error)
        except Exception as error:  # noqa: BLE001 - nothing may reach the server
            pass_on(error)
            self._refuse(RefusedError(Refusal.OTHER, 0, f"{type(error).__name__}: {error}"))
        if self._stage in _OVER:
            self._store.close()
            return False
        return True

    def _step(self, number: int, *, idle: bool) -> None:
        stage = self._stage
        if stage == Stage.ASKED:
            self._load(number)
        elif stage == Stage.FLUSHING:
            self._flush()
        elif stage == Stage.READY:
            if number >= self._first and not idle:
                self._begin(number)
        elif now() - self._began_ns > self._longest_ns:
            self._words[Place.CUT_SHORT] = 1
            self._end(number)
        elif not idle:
            if stage == Stage.GRAPHS and number >= self._split_at:
                self._split(number)
            if number >= self._end_at:
                self._end(number)

    def _enter(self, stage: int) -> None:
        self._stage = self._words[Place.STATE] = stage

    def _load(self, number: int) -> None:
        if self._first and number >= self._first:
            raise RefusedError(Refusal.LATE)
        began_ns = now()
        try:
            self._cupti = Cupti(self._store.take)
        finally:
            self._words[Place.LOADING_NS] = now() - began_ns
        words = self._words
        words[Place.THREAD] = threading.get_ident() & _LOW_HALF
        words[Place.SYSTEM_THREAD] = threading.get_native_id()
        self._enter(Stage.READY)

    def _switch(self, on: tuple[int, ...], off: tuple[int, ...] | None = None) -> None:
        """Asks for some kinds and no more for others; all of them where `off` is empty."""
        assert self._cupti is not None  # noqa: S101 - loaded before
        began_ns = now()
        try:
            if off is not None:
                self._cupti.off(*off)
            self._cupti.on(*on)
        finally:
            self._words[Place.SWITCHING_NS] += now() - began_ns

    def _begin(self, number: int) -> None:
        words = self._words
        graphs = min(words[Place.GRAPH_CYCLES], self._cycles)
        self._split_at, self._end_at = number + graphs, number + self._cycles
        self._switch((*GRAPHS, *SINGLE) if graphs else SINGLE)
        words[Place.BEGAN_CYCLE] = number
        words[Place.BEGAN_REAL_NS] = time_ns()
        self._began_ns = words[Place.BEGAN_NS] = now()
        self._enter(Stage.GRAPHS)
        if not graphs:
            self._split(number)

    def _split(self, number: int) -> None:
        """From now on graphs are seen kernel by kernel."""
        words = self._words
        if words[Place.GRAPH_CYCLES]:
            self._switch((), GRAPHS)
        words[Place.SPLIT_CYCLE] = number
        words[Place.SPLIT_NS] = now()
        self._enter(Stage.KERNELS)

    def _end(self, number: int) -> None:
        words = self._words
        words[Place.ENDED_CYCLE] = number
        words[Place.ENDED_REAL_NS] = time_ns()
        self._ended_ns = words[Place.ENDED_NS] = now()
        self._switch((), ())
        self._enter(Stage.FLUSHING)
        self._flush()

    def _flush(self) -> None:
        """Asks for what is done, until the device must have done all that was launched."""
        began_ns = now()
        if self._cupti is None or began_ns < self._flush_at_ns:
            return
        self._cupti.flush()
        self._words[Place.FLUSHING_NS] += now() - began_ns
        self._flushes += 1
        self._flush_at_ns = began_ns + FLUSH_EVERY_NS
        if self._flushes >= FLUSHES or began_ns >= self._ended_ns + _ASKED_FOR_NS:
            self._enter(Stage.DONE)

    def _refuse(self, error: RefusedError) -> None:
        """Writes down why there is no window, and asks CUPTI for nothing any more."""
        self._switch_off()
        words = self._words
        words[Place.REFUSAL] = error.refusal
        words[Place.STATUS] = error.status
        self._store.say(error.text)
        self._enter(Stage.REFUSED)

    def _switch_off(self) -> None:
        if self._cupti is not None:
            with suppress(RefusedError):
                self._cupti.off()

    def close(self) -> None:
        """Ends the window now: the probe leaves."""
        if self._stage in _OVER:
            return
        self._switch_off()
        if self._stage in {Stage.GRAPHS, Stage.KERNELS}:
            self._words[Place.ENDED_REAL_NS] = time_ns()
            self._words[Place.ENDED_NS] = now()
        if self._stage != Stage.FLUSHING:
            self._words[Place.CUT_SHORT] = 1
        self._enter(Stage.DONE)
        self._store.close()
