"""Opens a window on the kernels of a traced server, on all ranks of a group at the same cycles."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from types import TracebackType

from spectrace.attach import ptrace, window_file
from spectrace.attach.modes import (
    AHEAD_CYCLES,
    MEASURED_S,
    Ringed,
    groups_of_rings,
    opened_rings,
)
from spectrace.attach.window_file import WindowFile
from spectrace.errors import SpectraceError
from spectrace.kernels import Written
from spectrace.model import Rank, Run
from spectrace.probe.layout import Word, kernels_word
from spectrace.probe.layout_window import LONGEST_NS, Place, Stage

_GRAPHS_OF = 4  # one cycle of so many shows graphs whole
_LONGEST_NAME = 4096  # of a kernel: templates have long ones
_PAGE_BYTES = 4096
_TURNS = 0x10000
_NS_PER_S = 1e9
_SLOWER = 4  # times the cycles of a window may be longer than before


def graph_cycles(cycles: int) -> int:
    """In how many of the cycles of a window, the first ones, graphs are seen whole."""
    return max(1, cycles // _GRAPHS_OF) if cycles > 1 else 0


class KernelWindows:
    """The windows of all ranks of a server; a context manager, which leaves nothing behind.

    Entered, it has no files yet: `make` makes them, and begins to measure how fast the server runs;
    `ask` is to be called `modes.MEASURED_S` later.

    Args:
        run: The server, which is traced.
        cycles: How many cycles are to be seen.

    Attributes:
        longest_s: After so long the probe closes a window that its cycles do not end.
    """

    def __init__(self, run: Run, cycles: int) -> None:
        self._run = run
        self._cycles = cycles
        self.longest_s = LONGEST_NS / _NS_PER_S
        self._files: dict[str, WindowFile] = {}
        self._rings: list[Ringed] = []
        self._before: dict[str, int] = {}
        self._asked: dict[str, int] = {}  # the words, by rank
        self._held = ExitStack()

    def __enter__(self) -> KernelWindows:  # noqa: PYI034 - Self came with Python 3.11
        """Opens the rings.

        Raises:
            SpectraceError: A rank is not traced.
        """
        self._rings = self._held.enter_context(opened_rings(self._run.ranks))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the windows that are open still, and removes the files; none that others opened."""
        for rank, ring in self._rings:
            if ring.word(Word.KERNELS) == self._asked.get(rank.name):
                ring.set_word(Word.KERNELS, 0)
        self._held.close()

    def make(self) -> Iterator[None]:
        """Makes the files, one at a step: to have its memory reserved takes a moment.

        Raises:
            SpectraceError: Shared memory has no room.
        """
        for rank, _ in self._rings:
            file = window_file.create(rank, self._cycles, graph_cycles(self._cycles))
            self._held.callback(file.remove)
            self._files[rank.name] = file
            yield
        self._before = {rank.name: ring.word(Word.CYCLES) for rank, ring in self._rings}

    def ask(self) -> None:
        """Asks all ranks of a group for the same cycles, a second and 50 cycles ahead at least."""
        turn = time.monotonic_ns() % _TURNS
        for members in groups_of_rings(self._run, self._rings).values():
            ran = max(ring.word(Word.CYCLES) - self._before[rank.name] for rank, ring in members)
            newest = max(ring.word(Word.NEWEST_CYCLE) for _, ring in members)
            a_second = math.ceil(ran / MEASURED_S)
            # A server that was idle since it is traced has not told its number.
            first = newest + max(AHEAD_CYCLES, a_second) if newest else 0
            if ran:
                usual_s = self._cycles * MEASURED_S / ran
                self.longest_s = max(self.longest_s, _SLOWER * usual_s)
            for rank, ring in members:
                longest_ns = math.ceil(self.longest_s * _NS_PER_S)
                self._files[rank.name].set_word(Place.LONGEST_NS, longest_ns)
                word = self._asked[rank.name] = kernels_word(first, self._cycles, turn)
                ring.set_word(Word.KERNELS, word)

    def stage(self) -> int:
        """How far the rank is that is furthest behind, see `layout_window.Stage`."""
        return min(file.word(Place.STATE) for file in self._files.values())

    def refused(self) -> Written | None:
        """A rank on which there is no window; None while all are well."""
        for rank, _ in self._rings:
            if self._files[rank.name].word(Place.STATE) == Stage.REFUSED:
                return self.written(rank)
        return None

    @property
    def ranks(self) -> list[Rank]:
        """Those that have a window."""
        return [rank for rank, _ in self._rings]

    def written(self, rank: Rank) -> Written:
        """What the window of one rank left, to be asked when all are done."""
        file = self._files[rank.name]
        places = [value for name, value in vars(Place).items() if name.isupper()]
        return Written(
            rank, {place: file.word(place) for place in places}, file.text(), file.content()
        )


def names_at(pid: int, addresses: Iterable[int]) -> dict[int, str]:
    """The texts that stand at addresses of a process, which end with a 0 byte; as far as we may.

    Args:
        pid: The process.
        addresses: Of the texts.
    """
    names: dict[int, str] = {}
    for address in addresses:
        with suppress(SpectraceError, OSError):
            names[address] = _text_at(pid, address)
    return names


def _text_at(pid: int, address: int) -> str:
    """A text, read page by page: the one behind it may not be there."""
    text = b""
    while len(text) < _LONGEST_NAME:
        at = address + len(text)
        some = ptrace.read_memory(pid, at, _PAGE_BYTES - at % _PAGE_BYTES)
        head, end, _ = some.partition(b"\0")
        text += head
        if end or not some:
            break
    return text.decode("utf-8", "replace")
