"""Two ranks switch from sampling to sampling while they run, and agree on every single cycle."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrace.attach import modes, ring_file
from spectrace.attach.modes import Switch, Wish
from spectrace.collect.assembler import Assembler
from spectrace.collect.reader import RingReader
from spectrace.collect.ring_view import RingView
from spectrace.probe.layout import Kind, State, Word
from spectrace.probe.recorder import Recorder
from tests.helpers.anything import any_run
from tests.helpers.probe_ring import make_ring

if TYPE_CHECKING:
    from spectrace.model import Cycle

RUN = any_run("TP0", "TP1")
CYCLE_NS = 1000
# Cycles that run, often up to a switch, and by how many of them the second rank is behind.
RUNS = st.tuples(st.integers(0, 120) | st.sampled_from([0, 1, 50, 52, 54]), st.integers(0, 6))
# Another sampling, what runs while the speed is measured, and what runs behind it.
SWITCHES = st.tuples(st.sampled_from([1, 2, 3, 7, 10, 64, 1000]), RUNS, RUNS)


def accepted(number: int) -> int:
    """Drafts that were found correct in a cycle."""
    return number % 4


class Rank:
    """One rank, whose results come a cycle later, as with the overlap scheduler."""

    def __init__(self, path: Path) -> None:
        self._ring = make_ring(path, units=8192)
        self._ring.words[Word.STATE] = State.TRACING
        self._recorder = Recorder(self._ring)
        self._recorder.hold = 32
        self._view = RingView(path)
        self._reader = RingReader(self._view)
        self.number = 0

    def run_to(self, number: int, assembler: Assembler, name: str) -> list[Cycle]:
        """Runs all cycles up to that one; what was held back is written, as after 50 ms."""
        while self.number < number:
            self.number += 1
            self._recorder.begin(CYCLE_NS * self.number, Kind.SPECULATIVE, 1, self.number)
            self._bring(self.number - 1)
        self._recorder.flush()
        return assembler.add(name, self._reader.poll(), 0)

    def _bring(self, number: int) -> None:
        if number:
            correct = accepted(number)
            self._recorder.results(number, [("r", correct, correct + 1, False)])

    def end(self, assembler: Assembler, name: str) -> list[Cycle]:
        """Ends the running cycle and leaves."""
        if self._recorder.open:
            self._recorder.end(CYCLE_NS * (self.number + 1))
        self._bring(self.number)
        self._recorder.flush_skipped()
        self._recorder.flush()
        found = assembler.add(name, self._reader.drain(), 0)
        assert self._reader.lost == 0
        self._view.close()
        self._ring.close()
        return found


class Server:
    """Two ranks that step together, and what is put together of them."""

    def __init__(self, folder: Path) -> None:
        self.assembler = Assembler(RUN)
        self.ranks = {rank.name: Rank(folder / str(rank.pid)) for rank in RUN.ranks}
        self.cycles: dict[int, Cycle] = {}
        self.asked: list[tuple[int, int]] = [(0, 1)]  # from which cycle on every how many

    def run(self, cycles: int, behind: int) -> None:
        """Runs on, the second rank so many cycles behind; who stands still stands together."""
        target = max(rank.number for rank in self.ranks.values()) + cycles
        for place, (name, rank) in enumerate(self.ranks.items()):
            self._take(
                rank.run_to(max(0, target - behind * place * (cycles > 0)), self.assembler, name)
            )

    def switch(self, every: int, meanwhile: tuple[int, int]) -> None:
        """Is asked for another sampling, and runs on while its speed is measured."""
        (switch,) = modes.switch(
            RUN, Wish(every=every), lambda _: self.run(*meanwhile), take_control=True
        )
        self._note(switch, every)

    def _note(self, switch: Switch, every: int) -> None:
        if self.asked[-1][0] > switch.newest_cycle + 1:  # replaced before anybody came to it
            self.asked.pop()
        self.asked.append((switch.from_cycle, every))

    def every_at(self, number: int) -> int:
        """What was asked for of a cycle."""
        return next(every for since, every in reversed(self.asked) if since <= number)

    def end(self) -> int:
        """Both come to the same last cycle, whose number is returned, and end."""
        self.run(2, 0)
        for name, rank in self.ranks.items():
            self._take(rank.end(self.assembler, name))
        self._take(self.assembler.close())
        return max(rank.number for rank in self.ranks.values())

    def _take(self, cycles: list[Cycle]) -> None:
        self.cycles |= {cycle.number: cycle for cycle in cycles}


@given(first=RUNS, switches=st.lists(SWITCHES, max_size=8))
def test_ranks_agree_on_every_cycle_whenever_sampling_is_switched(
    first: tuple[int, int], switches: list[tuple[int, tuple[int, int], tuple[int, int]]]
) -> None:
    """Both record the cycles that were asked for, and the sums of the others are the truth."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring_file, "ring_path", lambda pid: Path(folder) / str(pid))
        server = Server(Path(folder))
        # An idle server's next cycle switches, whichever that is: nothing to hold against.
        server.run(2, 0)
        server.run(*first)
        for every, meanwhile, behind in switches:
            server.switch(every, meanwhile)
            server.run(*behind)
        last = server.end()
    kept = [number for number in range(1, last + 1) if number % server.every_at(number) == 0]
    assert sorted(server.cycles) == kept
    for number, cycle in server.cycles.items():
        assert [rank.rank for rank in cycle.ranks] == ["TP0", "TP1"]
        assert not any(rank.late_switch for rank in cycle.ranks)
        assert cycle.requests is not None
        assert [row.correct_drafts for row in cycle.requests] == [accepted(number)]
    left_out = [number for number in range(1, last + 1) if number not in server.cycles]
    skipped = server.assembler.skipped
    assert (skipped.cycles, skipped.verifies) == (len(left_out), len(left_out))
    assert skipped.total_ns == CYCLE_NS * len(left_out)
    assert skipped.correct_drafts == sum(map(accepted, left_out))
    assert skipped.output_tokens == skipped.correct_drafts + len(left_out)
    assert server.assembler.missing == 0
