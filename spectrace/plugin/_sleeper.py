"""The probe asleep in a scheduler's process: one word is looked at per cycle, until it wakes."""

from __future__ import annotations

import atexit
import mmap
import os
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic_ns as now
from typing import Any

from spectrace.probe import own_ring
from spectrace.probe.engines import sglang as engine
from spectrace.probe.engines import sglang_releases, sglang_rows
from spectrace.probe.hooks import Patches, holder_of
from spectrace.probe.layout import (
    ABANDONED_NS,
    DEFAULT_UNITS,
    HEADER_BYTES,
    Command,
    Origin,
    RecordType,
    State,
    Word,
)
from spectrace.probe.ring import RingWriter
from spectrace.probe.tracer import Tracer

Function = Any
_JOINS = Word.JOINS
_BYTES_PER_BLOCK = 512  # of st_blocks, whatever the file system's own


def settle() -> None:
    """Makes this process's ring and hooks `run_batch`; once in a process.

    Raises:
        LookupError: There is no scheduler of a known engine here.
        OSError: No ring can be made, or this process has one.
    """
    scheduler = getattr(sys.modules.get(engine.SCHEDULER_MODULE), engine.SCHEDULER_CLASS, None)
    holder = scheduler and holder_of(scheduler, engine.RUN_BATCH)
    if holder is None:
        raise LookupError("this process has no scheduler")
    own_ring.sweep()
    path = own_ring.own_path()
    ring = own_ring.create(path, Origin.PLUGIN, DEFAULT_UNITS, reserved=False)
    atexit.register(own_ring.remove, path, os.getpid())
    Sleeper(path, ring).hook(holder)


class Sleeper:
    """What wakes the probe when a reader joins.

    Nothing here raises into the server, but what a signal handler of its own raises meanwhile.

    Args:
        path: The ring of this process.
        ring: Its header, mapped for as long as the process lives.

    Attributes:
        joins: What the word JOINS was when it was last looked at.
    """

    def __init__(self, path: Path, ring: mmap.mmap) -> None:
        self.joins = 0
        self._path = path
        self._pid = os.getpid()
        self._words = memoryview(ring)[:HEADER_BYTES].cast("Q")
        self._awake = False

    def hook(self, holder: type) -> None:
        """Puts the look at the word before `run_batch` of a class, for good."""
        name = engine.RUN_BATCH

        def make(original: Function) -> Function:
            words = self._words

            def run_batch(*args: Any, **kwargs: Any) -> Any:
                if words[_JOINS] != self.joins:
                    outermost = vars(holder).get(name) is run_batch
                    self._look()
                    if outermost:  # the cycle that wakes the probe is its first one
                        return vars(holder)[name](*args, **kwargs)
                return original(*args, **kwargs)

            return run_batch

        Patches().put(holder, name, make)

    def _look(self) -> None:
        """A reader has joined, or asks for ids again."""
        words = self._words
        self.joins = words[_JOINS]
        if self._awake or os.getpid() != self._pid:  # in a forked child the ring is the parent's
            return
        quiet_ns = now() - words[Word.HEARTBEAT_NS]
        if words[Word.COMMAND] == Command.DETACH or quiet_ns > ABANDONED_NS:
            words[Word.STATE] = State.DETACHED
        else:
            self._wake()

    def _wake(self) -> None:
        writer: RingWriter | None = None
        words = self._words
        began_ns = now()
        self._awake = True
        try:
            sglang_rows.DIGEST.update(sglang_releases.digest())
            writer = RingWriter(_whole(self._path))
            loaded_ns = now()
            words[Word.LOAD_NS] = loaded_ns - began_ns
            Tracer(writer, self._fall_asleep).arm()
            words[Word.ARM_NS] = now() - loaded_ns
            words[Word.STATE] = State.ARMED
        except BaseException as error:
            self._awake = False
            words[Word.STATE] = State.FAILED
            if writer is not None:
                with suppress(Exception):
                    writer.text(RecordType.ERROR, 0, f"{type(error).__name__}: {error}")
                writer.close()
            if not isinstance(error, Exception):  # a signal handler's: it is the server's
                raise

    def _fall_asleep(self) -> None:
        """The tracer has put everything back."""
        self._awake = False


def _whole(path: Path) -> mmap.mmap:
    """Maps a ring, of which all memory must have been taken: a missing page kills the process.

    Raises:
        OSError: It has not been, or the file is gone.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        if status.st_blocks * _BYTES_PER_BLOCK < status.st_size:
            raise OSError("the reader has not taken the ring's memory")
        return mmap.mmap(descriptor, 0)
    finally:
        os.close(descriptor)
