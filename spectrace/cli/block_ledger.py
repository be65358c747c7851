"""Sorts the Cycles of a session into the blocks of a comparison, and keeps what they add to it."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from spectrace.analysis.block_plan import Turn
from spectrace.analysis.samples import Block, Refusal, Sample, sample
from spectrace.attach.modes import Switch
from spectrace.model import Cycle, TimingMode


class BlockLedger:
    """What the cycles of each block were worth.

    A Cycle that is amended takes the place of the one before it: device times and results come
    later than the cycle.

    Attributes:
        sync_is_host: The device has nothing to wait for, so that `sync` is taken as `host`.
    """

    def __init__(self) -> None:
        self.sync_is_host = False
        self._blocks: dict[str, list[Block]] = {}  # of the first rank of each group
        self._newest: dict[str, int] = {}  # likewise: number of its newest cycle
        self._rounds: dict[int, int] = {}  # of each block, by its number
        self._entries: dict[int, dict[tuple[str, int], Sample | Refusal]] = {}  # likewise
        self._counted: Counter[TimingMode] = Counter()

    def begin(self, number: int, turn: Turn, switches: Sequence[Switch]) -> None:
        """Begins a block: from the cycles on that were told to the ranks.

        A group that became idle may be told an earlier cycle than for the block before, which
        it then never comes to.
        """
        self._rounds[number] = turn.round
        self._entries[number] = {}
        for switch in switches:
            block = Block(number=number, round=turn.round, mode=turn.mode, first=switch.from_cycle)
            for rank in switch.ranks:
                blocks = self._blocks.setdefault(rank, [])
                while blocks and blocks[-1].first >= block.first:
                    blocks.pop()
                blocks.append(block)

    def add(self, cycles: Iterable[Cycle]) -> None:
        """Takes in new and amended cycles; those before the first block are of no interest."""
        for cycle in cycles:
            rank = cycle.ranks[0].rank
            self._newest[rank] = max(cycle.number, self._newest.get(rank, 0))
            block = self._block_of(rank, cycle.number)
            if block is not None:
                self._enter(block, (rank, cycle.number), cycle)

    def _enter(self, block: Block, key: tuple[str, int], cycle: Cycle) -> None:
        entries = self._entries[block.number]
        entry = sample(cycle, block, sync_is_host=self.sync_is_host)
        self._counted[block.mode] += isinstance(entry, Sample)
        self._counted[block.mode] -= isinstance(entries.get(key), Sample)
        entries[key] = entry

    def _block_of(self, rank: str, number: int) -> Block | None:
        blocks = self._blocks.get(rank, [])
        place = bisect_right(blocks, number, key=lambda block: block.first)
        return blocks[place - 1] if place else None

    def reached(self, switch: Switch) -> bool:
        """Whether the ranks that step together have come to the cycle at which they switch.

        Those of which no cycle ever came are not waited for.
        """
        seen = [self._newest[rank] for rank in switch.ranks if rank in self._newest]
        return not seen or max(seen) >= switch.from_cycle

    def samples(self, rounds: int | None = None) -> list[Sample]:
        """Those of the first rounds, block by block; all of them if not given."""
        return [entry for entry in self._of(rounds) if isinstance(entry, Sample)]

    def _of(self, rounds: int | None) -> Iterator[Sample | Refusal]:
        for number, entries in self._entries.items():
            if rounds is None or self._rounds[number] < rounds:
                yield from entries.values()

    def counted(self) -> Counter[TimingMode]:
        """How many cycles count, by mode."""
        return +self._counted

    def left_out(self, rounds: int | None = None) -> dict[str, int]:
        """How many cycles of the first rounds do not count, by reason; as `samples`."""
        reasons = Counter(entry for entry in self._of(rounds) if isinstance(entry, Refusal))
        return {reason.value: reasons[reason] for reason in Refusal if reasons[reason]}
