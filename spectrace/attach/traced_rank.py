"""One rank with the probe in it, as a session reads it: its ring, our seat there, its pulse."""

from __future__ import annotations

import time
from pathlib import Path

from spectrace.attach import procfs, readers, ring_state, sleepers
from spectrace.attach.handle import Attached
from spectrace.attach.pulse import Pulse
from spectrace.attach.ways import Way
from spectrace.collect.reader import Record, RingReader
from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import QUIET_NS, Word, split_mode, split_sampling


class TracedRank:
    """A rank whose ring is mapped here.

    Args:
        attached: As `put_in` returned it.

    Attributes:
        attached: The same.
        rank: The process.
        view: Its ring.
        reader: Where we are in it.
        pulse: Whether its scheduler comes round.

    Raises:
        SpectraceError: The ring cannot be read.
    """

    def __init__(self, attached: Attached) -> None:
        self.attached = attached
        self.rank = attached.rank
        self.view = RingView(Path(attached.path))
        self.reader = RingReader(self.view, join=attached.joined)
        counts_idle = (
            bool(self.view.word(Word.IDLE_CALLS)) or sleepers.name_of(self.view) != Way.LOOP
        )
        self.pulse = Pulse(time.monotonic_ns(), idle_is_told=counts_idle)
        self._ticks = self.view.word(Word.TARGET_START_TICKS)
        self._lost_before = 0
        self._alive_ns = time.monotonic_ns()  # of our last sign of life
        self._back_ns: int | None = None  # when we had last stood still ourselves
        if attached.joined:  # ids sent since `put_in` asked stand before our first record
            readers.ask_for_ids(self.view)

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return procfs.is_alive(self.rank.pid, self._ticks or None)

    @property
    def controls(self) -> bool:
        """Whether we decide how it is timed."""
        return self.view.word(Word.CONTROLLER) == self.attached.key

    @property
    def asked_mode(self) -> int:
        """The mode that it was last asked for, one of `layout.Mode`."""
        return split_mode(self.view.word(Word.MODE))[0]

    @property
    def asked_every(self) -> int:
        """Of how many cycles one was last asked for in full; 1 for all."""
        return max(1, split_sampling(self.view.word(Word.SAMPLING))[0])

    @property
    def sample_every(self) -> int:
        """Of how many cycles one is recorded in full by now; 1 where all are."""
        return ring_state.sample_every(self.view)

    def take_control(self) -> None:
        """Decides from now on."""
        if not self.controls:
            readers.take_control(self.view, self.attached.key)

    def inherit_control(self) -> None:
        """Decides from now on if whoever did has gone, and nobody was here before us.

        Who stood still itself first gives the others time to give a sign of life: they may have
        been in the same frozen container.
        """
        if self._back_ns is None or self._alive_ns - self._back_ns > QUIET_NS:
            readers.inherit_control(self.view, self.attached.key)

    def trace_like(self, other: TracedRank) -> None:
        """Is timed and sampled as another rank of its server."""
        for word in (Word.MODE, Word.SAMPLING):
            self.view.set_word(word, other.view.word(word))

    def sign_of_life(self) -> None:
        """Tells the probe that somebody reads, and other readers that it is us."""
        now_ns = time.monotonic_ns()
        if now_ns - self._alive_ns > QUIET_NS:
            self._back_ns = now_ns
        self._alive_ns = now_ns
        readers.sign_of_life(self.view, self.attached.key)
        if self.controls:
            self.view.set_word(Word.LOST_RECORDS, self.reader.lost)

    def poll(self) -> list[Record]:
        """The records that have become whole; asks for ids where some may have been lost."""
        view = self.view
        self.pulse.look(view.word(Word.CYCLES), view.word(Word.IDLE_CALLS), time.monotonic_ns())
        records = self.reader.poll()
        if self.reader.lost > self._lost_before:
            self._lost_before = self.reader.lost
            readers.ask_for_ids(view)
        return records
