"""Makes samples of a simulated server whose true times are known, for the comparison of modes.

Cycles that follow each other are alike (an autoregressive process), blocks differ beyond that, the
server drifts, and times are skewed to the right, as measured ones are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from statistics import NormalDist

import numpy as np

from spectrace.analysis.block_plan import Plan, Turn
from spectrace.analysis.samples import Like, Sample
from spectrace.model import CycleKind, PhaseName, TimingMode

MODES = (TimingMode.OFF, TimingMode.HOST, TimingMode.DEVICE, TimingMode.SYNC)
PHASES = (PhaseName.DRAFT, PhaseName.VERIFY)
_MEMORY = 0.6  # of one cycle for the one before
_OF_BLOCK = 0.1  # part of the variance that a block has in common
_SKEW = 0.5
TOKENS = 4.2  # of a cycle, on average
_GRID_MS = 5e-4
_NEARLY_ALL = 1 - 1e-9
_ABOVE_LEAST = 1e-12  # of a log-normal value, where its logarithm would have none
LIKE = Like(group="", kind=CycleKind.SPECULATIVE, batch_size=2, steps=5, topk=1, draft_tokens=6)


@dataclass(frozen=True)
class Server:
    """True medians in ms, and how much times vary.

    Attributes:
        host: Of each phase by the host's clock, by mode.
        device: Of each phase on the device.
        rest: What else a cycle takes.
        spread_ms: Of each phase and of the rest; 0.03 of 30 ms varies by 1 ms.
        drift_ms: By how much each phase becomes longer over the run.
        block_cycles: Cycles of a block that count.
    """

    host: dict[TimingMode, tuple[float, float]] = field(
        default_factory=lambda: dict.fromkeys(MODES, (2.18, 27.40))
    )
    device: tuple[float, float] = (2.18, 27.40)
    rest: float = 0.32
    spread_ms: float = 0.4
    drift_ms: float = 0.3
    block_cycles: int = 40


# The consistent times of the founding story: what hides what, and what sync costs.
STORY = Server(
    host={
        TimingMode.OFF: (0.87, 28.71),
        TimingMode.HOST: (0.87, 28.71),
        TimingMode.DEVICE: (0.87, 28.71),
        TimingMode.SYNC: (2.18, 28.45),
    }
)


def samples(
    server: Server, rounds: int, seed: int, modes: Sequence[TimingMode] = MODES
) -> list[Sample]:
    """What so many rounds of a balanced plan would give."""
    random = np.random.default_rng(seed)
    plan = Plan(modes, seed)
    total = rounds * plan.turns_per_round
    made: list[Sample] = []
    for block, turn in enumerate(islice(plan.turns(), total)):
        made += _block(server, block, turn, server.drift_ms * block / total, random)
    return made


def _block(
    server: Server, block: int, turn: Turn, later_ms: float, random: np.random.Generator
) -> list[Sample]:
    bases = (*server.host[turn.mode], *server.device, server.rest)
    columns = [base + later_ms + _noise(server, server.block_cycles, random) for base in bases]
    tokens = random.poisson(TOKENS, server.block_cycles)
    return [
        _sample(block, turn, [float(column[place]) for column in columns], int(tokens[place]))
        for place in range(server.block_cycles)
    ]


def _sample(block: int, turn: Turn, times: list[float], tokens: int) -> Sample:
    draft, verify, device_draft, device_verify, rest = times
    off, on_device = turn.mode is TimingMode.OFF, turn.mode is TimingMode.DEVICE
    return Sample(
        block=block,
        round=turn.round,
        mode=turn.mode,
        like=LIKE,
        cycle_ms=draft + verify + rest,
        host={} if off else dict(zip(PHASES, (draft, verify), strict=True)),
        device=dict(zip(PHASES, (device_draft, device_verify), strict=True)) if on_device else None,
        tokens=tokens,
        correct_drafts=tokens,
        verifies=2,
        runs_ahead=False,
    )


def _noise(server: Server, count: int, random: np.random.Generator) -> np.ndarray:
    """Of median 0: a skewed function of standard normal values that remember each other."""
    own = _memory(count) @ random.standard_normal(count)
    normal = math.sqrt(_OF_BLOCK) * random.standard_normal() + math.sqrt(1 - _OF_BLOCK) * own
    return server.spread_ms * _skewed(normal)


@cache
def _memory(count: int) -> np.ndarray:
    """What each value has of each independent one before it: an autoregressive process."""
    places = np.arange(count)
    share: np.ndarray = np.tril(_MEMORY ** np.maximum(0, places[:, None] - places))
    share[:, 1:] *= math.sqrt(1 - _MEMORY**2)
    return share


def _skewed(normal: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.expm1(_SKEW * normal)
    return found


def noise_quantile(server: Server, part: float) -> float:
    """The true quantile of one phase's noise, in ms."""
    return server.spread_ms * math.expm1(_SKEW * NormalDist().inv_cdf(part))


def mean_noise(server: Server) -> float:
    """The true mean of one phase's noise, in ms: that of a log-normal value, less 1."""
    return server.spread_ms * math.expm1(_SKEW**2 / 2)


def sum_quantile(server: Server, part: float) -> float:
    """The true quantile of a whole cycle's noise, in ms: of the sum of three independent ones.

    Their density is convolved twice on a grid, which the probability of each of its steps fills.
    """
    least, most = -server.spread_ms, noise_quantile(server, _NEARLY_ALL)
    edges = np.arange(least, most, _GRID_MS)
    normal = np.log1p(np.maximum(edges / server.spread_ms, _ABOVE_LEAST - 1)) / _SKEW
    below = np.array([NormalDist().cdf(value) for value in normal])
    size = 3 * len(below)
    one = np.fft.rfft(np.diff(below), size)
    three = np.cumsum(np.fft.irfft(one**3, size))
    # Three values in the middles of their steps lie one and a half steps above their sum of edges.
    return 3 * least + _GRID_MS * (1.5 + float(np.interp(part, three, np.arange(size))))
