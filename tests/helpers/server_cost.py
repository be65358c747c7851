"""What tracing costs a real server under load: by the probe's own counter, and by comparison."""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

from examples.sglang_cpu.load import LoadLoop, generate
from examples.sglang_cpu.server import descendants
from spectrace.analysis.summary import percentile
from spectrace.attach import ring_file
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import TraceSession
from spectrace.collect.ring_view import RingView
from spectrace.model import CycleKind, TimingMode
from spectrace.probe.layout import Mode, Word, mode_word
from tests.helpers.bootstrap import Interval, interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from examples.sglang_cpu.server import CpuServer
    from spectrace.model import Cycle

POLL_S = 0.05
BLOCK_CYCLES = 50
LEAST_PAIRS = 8
# Neighbours of a virtual machine slow all phases of some cycles in a row alike, by half or more:
# then the tail of the times is theirs. A block is disturbed if more cycles than this took longer.
DISTURBED_CYCLES = 2
LONGER = 1.15  # times what is usual for the batch size
LEAST_WORK_PAIRS = 4
WORK_REQUESTS = 32
# Long answers: each request that comes or goes has other processes work, which makes the tail of
# the cycle's times and hides what tracing adds to it.
TOKENS = 128

_NUMBERS = {TimingMode.HOST: Mode.HOST, TimingMode.DEVICE: Mode.DEVICE}

# Of one block of cycles in one mode: the times in ns of its speculative cycles by batch size.
Block = dict[int, list[int]]


@dataclass(frozen=True)
class Limits:
    """When to stop measuring: once an interval is narrow enough, or after so long.

    Attributes:
        half_width: Of the interval.
        seconds: At most for each comparison.
    """

    half_width: float
    seconds: float


@dataclass(frozen=True)
class Alternation:
    """`off` and another mode compared on the same server, in alternating blocks of 50 cycles.

    Attributes:
        throughput: Of the other mode, relative to `off`, like batch sizes compared.
        p99: Of the cycle's time, relative to `off`, of pairs in which no block was disturbed; None
            where there are too few of them.
        p99_of_all: The same of all pairs.
        median: The same of the median, which tells before the others can.
        cycles: How many were compared.
        calm_cycles: How many of them for `p99`.
        disturbed: How many blocks were disturbed of `off`, and of the other mode: were it the
            tracer that disturbs, it would be more of the other.
        blocks: How many there were of each.
    """

    throughput: Interval
    p99: Interval | None
    p99_of_all: Interval
    median: Interval
    cycles: int
    calm_cycles: int
    disturbed: tuple[int, int]
    blocks: int


@contextlib.contextmanager
def apart(server: CpuServer) -> Iterator[None]:
    """Meanwhile the schedulers have one core, and all others that take part have the rest.

    A decode loop on a machine with few cores is else pushed aside at random by whoever reads,
    sends requests and answers them, by far more than tracing adds. With one core it changes
    nothing.
    """
    cores = sorted(os.sched_getaffinity(0))
    first, rest = set(cores[:1]), set(cores[1:])
    if not rest:
        yield
        return
    schedulers = set(server.scheduler_pids())
    family = {server.pid, *(process.pid for process in descendants(server.pid))}
    others = family - schedulers | {os.getpid()}
    _move(schedulers, first)
    _move(others, rest)
    try:
        yield
    finally:
        _move(schedulers | others, set(cores))


def _move(pids: Iterable[int], cores: set[int]) -> None:
    """Lets every thread of these processes run on these cores alone."""
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended
            for thread in Path(f"/proc/{pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), cores)


def probe_us(server: CpuServer, concurrency: int, seconds: float) -> tuple[float, float]:
    """The probe's own time in a cycle of that batch size in mode `host`, median and mean in µs.

    Few cycles write what several have held back: the mean has these in it, the median not.
    """
    cycles: dict[int, Cycle] = {}
    load = LoadLoop(server.url, concurrency=concurrency, max_new_tokens=TOKENS)
    with load, TraceSession(find_by_pid(server.pid)) as session:
        set_mode(server, Mode.HOST)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            cycles.update((cycle.number, cycle) for cycle in session.poll())
            time.sleep(POLL_S)
    own = [
        cycle.ranks[0].probe_ns / 1e3
        for cycle in cycles.values()
        if cycle.kind is CycleKind.SPECULATIVE
        and cycle.batch_size == concurrency
        and cycle.ranks[0].mode is TimingMode.HOST
    ]
    return median(own), fmean(own)


def set_mode(server: CpuServer, mode: int, from_cycle: int = 0) -> int:
    """Writes the control word of every rank; gives the newest cycle of the first one."""
    newest = []
    for pid in server.scheduler_pids():
        view = RingView(ring_file.ring_path(pid))
        view.set_word(Word.MODE, mode_word(mode, from_cycle))
        newest.append(view.word(Word.NEWEST_CYCLE))
        view.close()
    return newest[0]


class _Switch:
    """Switches between `off` and another mode every 50 cycles, by cycle number.

    Args:
        pid: The scheduler.
        mode: The other mode, one of `Mode`.
    """

    def __init__(self, pid: int, mode: int) -> None:
        self._view = RingView(ring_file.ring_path(pid))
        self._next = self._view.word(Word.NEWEST_CYCLE) + BLOCK_CYCLES
        self.first = self._next
        self._other = mode
        self._mode = Mode.OFF
        self._write()

    def _write(self) -> None:
        self._view.set_word(Word.MODE, mode_word(self._mode, self._next))

    def follow(self) -> None:
        """Asks for the next switch once the last one has been made."""
        if self._view.word(Word.NEWEST_CYCLE) >= self._next:
            self._next += BLOCK_CYCLES
            self._mode = self._other if self._mode == Mode.OFF else Mode.OFF
            self._write()

    def close(self) -> None:
        """Lets go of the ring."""
        self._view.close()


def alternate_under_load(
    server: CpuServer, limits: Limits, say: Callable[[str], None]
) -> Alternation:
    """Compares `off` and `host` under a load of four requests at a time.

    Raises:
        TimeoutError: There were not enough cycles in the time allowed.
    """
    with LoadLoop(server.url, max_new_tokens=TOKENS):
        return alternate(server.pid, TimingMode.HOST, limits, say)


def alternate(
    pid: int, mode: TimingMode, limits: Limits, say: Callable[[str], None]
) -> Alternation:
    """Compares `off` and another mode on a server that decodes, and has one rank.

    Args:
        pid: The server.
        mode: The other mode.
        limits: When to stop.
        say: Is told how far it is.

    Raises:
        TimeoutError: There were not enough cycles in the time allowed.
    """
    with TraceSession(find_by_pid(pid)) as session:
        [rank] = session.run.ranks
        switch = _Switch(rank.pid, _NUMBERS[mode])
        try:
            return _alternate(session, switch, mode, limits, say)
        finally:
            switch.close()


def _alternate(
    session: TraceSession,
    switch: _Switch,
    mode: TimingMode,
    limits: Limits,
    say: Callable[[str], None],
) -> Alternation:
    cycles: dict[int, Cycle] = {}
    deadline = time.monotonic() + limits.seconds
    next_look = LEAST_PAIRS * 2 * BLOCK_CYCLES
    while True:
        cycles.update((cycle.number, cycle) for cycle in session.poll())
        switch.follow()
        late = time.monotonic() > deadline
        if late or len(cycles) >= next_look:
            next_look = len(cycles) * 4 // 3  # looking takes the CPU from the server
            pairs = pairs_of(cycles.values(), switch.first, mode)
            if not pairs:
                raise TimeoutError(f"only {len(cycles)} cycles in {limits.seconds:g} s")
            found = compare(pairs)
            say(
                f"{len(cycles)} cycles: throughput {found.throughput}, p99 {found.p99} of "
                f"{found.calm_cycles}, {found.p99_of_all} of all; disturbed {found.disturbed} of "
                f"{found.blocks} each"
            )
            if late or _can_tell(found, limits.half_width):
                return found
        time.sleep(POLL_S)


def pairs_of(cycles: Iterable[Cycle], first: int, mode: TimingMode) -> list[tuple[Block, Block]]:
    """Neighbouring blocks, `off` and then the other mode, of the cycles from number `first` on."""
    blocks: dict[int, Block] = defaultdict(lambda: defaultdict(list))
    for cycle in cycles:
        block = (cycle.number - first) // BLOCK_CYCLES
        wanted = mode if block % 2 else TimingMode.OFF
        rank = cycle.ranks[0]
        decodes = cycle.kind in (CycleKind.SPECULATIVE, CycleKind.DECODE)  # in `off` no verify
        if block >= 0 and rank.mode is wanted and decodes and not rank.ended_idle:
            blocks[block][cycle.batch_size].append(rank.duration_ns)
    return [
        (dict(blocks[even]), dict(blocks[even + 1]))
        for even in sorted(blocks)
        if not even % 2 and even + 1 in blocks and even + 3 in blocks
    ]


def _can_tell(found: Alternation, half_width: float) -> bool:
    return (
        found.p99 is not None
        and max(found.throughput.half_width, found.p99.half_width) <= half_width
    )


def compare(pairs: Sequence[tuple[Block, Block]]) -> Alternation:
    """The figures of so many pairs of blocks, with their intervals."""
    usual = {batch_size: median(off + other) for batch_size, (off, other) in _times(pairs).items()}
    off, other = ([_is_disturbed(pair[side], usual) for pair in pairs] for side in (0, 1))
    calm = [pair for pair, *ill in zip(pairs, off, other, strict=True) if not any(ill)]
    return Alternation(
        throughput=interval(pairs, _throughput_ratio, resamples=500),
        p99=interval(calm, _p99_ratio, resamples=200) if len(calm) >= LEAST_PAIRS else None,
        p99_of_all=interval(pairs, _p99_ratio, resamples=200),
        median=interval(pairs, partial(_weighted, figure=median), resamples=200),
        cycles=_count(pairs),
        calm_cycles=_count(calm),
        disturbed=(sum(off), sum(other)),
        blocks=len(pairs),
    )


def _count(pairs: Sequence[tuple[Block, Block]]) -> int:
    return sum(len(times) for pair in pairs for block in pair for times in block.values())


def _is_disturbed(block: Block, usual: Mapping[int, float]) -> bool:
    """Whether so many cycles took so much longer than usual that it was not one of them alone."""
    slow = sum(
        time_ns > LONGER * usual[batch_size]
        for batch_size, times in block.items()
        for time_ns in times
    )
    return slow > DISTURBED_CYCLES


def _times(pairs: Sequence[tuple[Block, Block]]) -> dict[int, tuple[list[int], list[int]]]:
    """The times of `off` and of the other mode by batch size."""
    times: dict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for pair in pairs:
        for side, block in enumerate(pair):
            for batch_size, some in block.items():
                times[batch_size][side].extend(some)
    return times


def _weighted(pairs: Sequence[tuple[Block, Block]], figure: Callable[[list[int]], float]) -> float:
    """`figure` of the other mode relative to `off`, weighted by the cycles of each batch size."""
    alike = [both for both in _times(pairs).values() if all(both)]
    weights = [len(off) + len(other) for off, other in alike]
    ratios = [figure(other) / figure(off) for off, other in alike]
    return sum(w * r for w, r in zip(weights, ratios, strict=True)) / sum(weights)


def _throughput_ratio(pairs: Sequence[tuple[Block, Block]]) -> float:
    return 1 / _weighted(pairs, lambda times: sum(times) / len(times))


def _p99_ratio(pairs: Sequence[tuple[Block, Block]]) -> float:
    return _weighted(pairs, lambda times: percentile(sorted(times), 99))


def against_no_tracer(
    server: CpuServer, limits: Limits, say: Callable[[str], None]
) -> tuple[Interval, int]:
    """Throughput with the tracer in mode `host` relative to none, the same work in turn.

    Returns:
        The ratio, and how many pairs of blocks were compared.
    """
    pairs: list[tuple[float, float]] = []
    deadline = time.monotonic() + limits.seconds
    _work(server)
    while True:
        pairs.append(_pair(server, traced_first=bool(len(pairs) % 2)))
        if len(pairs) < LEAST_WORK_PAIRS:
            continue
        found = interval(pairs, _work_ratio)
        say(f"{len(pairs)} pairs of blocks: throughput against no tracer {found}")
        if found.half_width <= limits.half_width or time.monotonic() > deadline:
            return found, len(pairs)


def _pair(server: CpuServer, *, traced_first: bool) -> tuple[float, float]:
    """Seconds for the same work without and with the tracer."""
    if traced_first:
        traced = _traced_work(server)
        return _work(server), traced
    return _work(server), _traced_work(server)


def _work_ratio(pairs: Sequence[tuple[float, float]]) -> float:
    return sum(without for without, _ in pairs) / sum(traced for _, traced in pairs)


def _work(server: CpuServer) -> float:
    """Seconds for a fixed number of requests, four at a time."""
    began = time.monotonic()
    generate(server.url, requests=WORK_REQUESTS, concurrency=4, max_new_tokens=TOKENS, tag="work")
    return time.monotonic() - began


def _traced_work(server: CpuServer) -> float:
    """As `_work`, while the rings are read as `spectrace attach` reads them."""
    with TraceSession(find_by_pid(server.pid)) as session, ThreadPoolExecutor(1) as pool:
        set_mode(server, Mode.HOST)
        seconds = pool.submit(_work, server)
        while not seconds.done():
            session.poll()
            time.sleep(POLL_S)
    return seconds.result()
