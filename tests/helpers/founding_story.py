"""A recording with the figures of the founding story (F1): five steps, then two, then none.

A cycle of 5 steps takes 29.9 ms and gives 2.1 tokens, one of 2 steps 26.45 ms and 2 tokens, and a
plain decode 11.1 ms; verify of n tokens takes 22.5 ms + 1.03 ms n.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from spectrace.kernels import Seen
from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    PhaseName,
    RankCycle,
    RequestRow,
    TimingMode,
)
from tests.helpers.recorded import T0_NS, record, run_of

WARM_UP = 10
FIVE, TWO, PLAIN = 1000, 300, 200  # cycles of each
# Of ten verifies; the mean is 1.1, and 1.0 of those that can accept two at most.
CORRECT = (0, 0, 0, 0, 1, 1, 2, 2, 2, 3)
PLAIN_MS = 11.1
_REST_MS = 0.42
_WINDOW = 25
_SEED = 4
_NS = 1e6

Parts = Sequence[tuple[PhaseName, float]]


def cycle_ms(steps: int) -> float:
    """What a cycle of so many steps takes."""
    return sum(part_ms for _, part_ms in _parts(steps)) + _REST_MS


def recording(path: Path, *, with_plain: bool = True, looks: Sequence[Seen] = ()) -> Path:
    """Writes it; without plain decode there is nothing to hold speculation against."""
    plan = [5] * (WARM_UP + FIVE) + [2] * TWO + [0] * (PLAIN if with_plain else 0)
    correct = [0] * WARM_UP + _shuffled(FIVE) + _shuffled(TWO) + [0] * PLAIN
    return record(path, _cycles(plan, correct), run_of(1), looks=looks)


def _shuffled(count: int) -> list[int]:
    every = list(CORRECT) * (count // len(CORRECT))
    random.Random(_SEED).shuffle(every)  # noqa: S311 - no secret
    return every


def _cycles(plan: Sequence[int], correct: Sequence[int]) -> Iterator[Cycle]:
    start_ns = T0_NS
    for number, steps in enumerate(plan):
        # A hundredth more or less from window to window, so that medians stay and have an interval.
        factor = 1 + 0.01 * (number // _WINDOW % 3 - 1)
        rank = _rank(steps, start_ns, factor, number)
        accepted = min(steps, correct[number])
        yield Cycle(
            run_id=run_of().run_id,
            group="",
            number=number,
            kind=CycleKind.SPECULATIVE if steps else CycleKind.DECODE,
            batch_size=1,
            steps=steps,
            topk=1 if steps else 0,
            draft_tokens=steps + 1 if steps else 0,
            ranks=(rank,),
            requests=(
                RequestRow(
                    request_id=f"request-{number // 100}",
                    correct_drafts=accepted if steps else None,
                    output_tokens=accepted + 1,
                ),
            ),
        )
        start_ns = rank.end_ns


def _parts(steps: int) -> Parts:
    if not steps:
        return ((PhaseName.FORWARD, PLAIN_MS - _REST_MS),)
    return (
        (PhaseName.DRAFT, 0.12 * steps),
        (PhaseName.VERIFY_FORWARD, 22.5 + 1.03 * (steps + 1)),
        (PhaseName.DRAFT_EXTEND, 0.2),
    )


def _rank(steps: int, start_ns: int, factor: float, number: int) -> RankCycle:
    phases = []
    for lane in (Lane.HOST, Lane.DEVICE):
        begin_ns = start_ns
        for name, part_ms in _parts(steps):
            end_ns = begin_ns + round(part_ms * factor * _NS)
            phases.append(
                Phase(name=name, start_ns=begin_ns, end_ns=end_ns, of_cycle=number, lane=lane)
            )
            begin_ns = end_ns
    return RankCycle(
        rank="TP0",
        start_ns=start_ns,
        end_ns=begin_ns + round(_REST_MS * factor * _NS),
        phases=tuple(phases),
        mode=TimingMode.DEVICE,
        probe_ns=40_000,
        clock_error_ns=900,
    )
