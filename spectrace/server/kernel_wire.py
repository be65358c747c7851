"""Looks at kernels, and kernels of a cycle, as the page gets them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from spectrace.kernels import KernelLook, SeenKernels
from spectrace.model import Cycle


class WireKernels(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of one rank in one cycle, as columns of the same length.

    Attributes:
        rank: Name of the rank.
        phases: Names of phases, in which `phase` holds places.
        names: Of kernels, likewise for `name`.
        classes: For each name its class.
        start: In ns from the cycle's `t0`.
        end: Likewise.
        stream: Number of the stream on the device.
        phase: Whose launch it was.
        name: Of the kernel.
        graph: 1 where a graph's launch put it there.
    """

    rank: str
    phases: Sequence[str]
    names: Sequence[str]
    classes: Sequence[str]
    start: list[int]
    end: list[int]
    stream: list[int]
    phase: list[int]
    name: list[int]
    graph: list[int]


class WireCycleKernels(msgspec.Struct, frozen=True, kw_only=True):
    """Kernels of a cycle.

    Attributes:
        t0: As in `wire.WireCycle`.
        ranks: Those that have any.
    """

    t0: str
    ranks: list[WireKernels]


def encode_looks(looks: Sequence[KernelLook]) -> bytes:
    """The JSON of looks.

    `start_ns` and `end_ns` are decimal digits: JavaScript's numbers hold no more than 2^53.
    """
    found = [
        msgspec.to_builtins(look) | {"start_ns": str(look.start_ns), "end_ns": str(look.end_ns)}
        for look in looks
    ]
    return msgspec.json.encode({"looks": found})


def encode_kernels(cycle: Cycle, seen: Sequence[SeenKernels]) -> bytes:
    """The JSON of the kernels of a cycle.

    Args:
        cycle: The cycle.
        seen: Its kernels alone, rank by rank.
    """
    t0 = cycle.start_ns
    ranks = [_of_rank(one, t0) for one in seen]
    return msgspec.json.encode(WireCycleKernels(t0=str(t0), ranks=ranks))


def _of_rank(seen: SeenKernels, t0: int) -> WireKernels:
    return WireKernels(
        rank=seen.rank,
        phases=seen.phases,
        names=seen.names,
        classes=seen.classes,
        start=(seen.start_ns - t0).tolist(),
        end=(seen.end_ns - t0).tolist(),
        stream=seen.stream.tolist(),
        phase=seen.phase.tolist(),
        name=seen.name.tolist(),
        graph=seen.graph.tolist(),
    )
