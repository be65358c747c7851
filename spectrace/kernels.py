"""What is said of kernels: what a look inside phases shows, and the kernels that it saw.

A window on a running server and a trace that is imported make them, the store keeps them, and the
page, the reports and `analysis` read them; none of these knows the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec
from numpy.typing import NDArray

from spectrace.model import Rank

Column: TypeAlias = NDArray[Any]


class LookSource(str, Enum):
    """Where the kernels come from."""

    WINDOW = "window"  # on a running server
    TRACE = "trace"  # that another tool wrote


class KernelClass(str, Enum):
    """What a kernel does."""

    COMMUNICATION = "communication"
    MOE = "moe"
    ATTENTION = "attention"
    MATMUL = "matmul"
    NORM = "norm"
    SAMPLING = "sampling"
    COPY = "copy"
    OTHER = "other"


class PhaseWork(msgspec.Struct, frozen=True, kw_only=True):
    """What the device did for one phase, per cycle that has the phase.

    Attributes:
        rank: Name of the rank.
        phase: Name of the phase.
        cycles: How many cycles of the window have it, graphs seen kernel by kernel.
        device_ms: From its first kernel to the end of its last one, on the busiest stream.
        busy_ms: Of that the time in which a kernel ran there.
        gap_ms: And in which none did.
        kernels: Kernels, copies and fills, on all streams.
        launches: Calls of the host that put them there.
        replays: Of those the launches of graphs.
        replay_ms: One replay, as seen whole in the cycles before; None where none was.
        replays_seen: In how many replays.
    """

    rank: str
    phase: str
    cycles: int
    device_ms: float
    busy_ms: float
    gap_ms: float
    kernels: float
    launches: float
    replays: float
    replay_ms: float | None = None
    replays_seen: int = 0


class ClassTime(msgspec.Struct, frozen=True, kw_only=True):
    """Time of one class of kernels in one phase.

    Attributes:
        rank: Name of the rank.
        phase: Name of the phase, empty for what no phase launched.
        kernel_class: See `analysis.kernel_classes.KernelClass`.
        time_ms: The sum over its kernels; those that ran at once count each.
        kernels: How many.
    """

    rank: str
    phase: str
    kernel_class: str
    time_ms: float
    kernels: int


class WindowCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a window cost one rank.

    Attributes:
        rank: Its name.
        loading_ms: For so long its scheduler stood still while CUPTI was loaded.
        switching_ms: And while it was switched on, over and off.
        flushing_ms: And while it was asked for what is done.
        taking_ms: Taking its buffers, on whatever thread CUPTI hands them over.
        before_ms: A cycle before the window, the median; None where there was none.
        graphs_ms: One in the part in which graphs are seen whole.
        kernels_ms: One in the part in which they are seen kernel by kernel.
        after_ms: One after the window.
    """

    rank: str
    loading_ms: float
    switching_ms: float
    flushing_ms: float
    taking_ms: float
    before_ms: float | None
    graphs_ms: float | None
    kernels_ms: float | None
    after_ms: float | None


class WindowLoss(msgspec.Struct, frozen=True, kw_only=True):
    """What of the records of one rank is not in the figures.

    Attributes:
        rank: Its name.
        records: That CUPTI handed over.
        no_room: Of these found no room in the window's file.
        torn: Buffers that could not be taken, or are not as they were written.
        unfinished: Records of work that had not ended.
        unknown: Records of kinds that nobody asked for.
        unnamed: Kernels whose names could not be read.
        cut_short: The window was closed before its last cycle.
        clock_stepped: The machine's clock was set meanwhile: phases may be wrong.
    """

    rank: str
    records: int
    no_room: int = 0
    torn: int = 0
    unfinished: int = 0
    unknown: int = 0
    unnamed: int = 0
    cut_short: bool = False
    clock_stepped: bool = False


class KernelLook(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the kernels of a run.

    Attributes:
        source: Where they come from.
        start_ns: UNIX time in ns from which on kernels were seen one by one.
        end_ns: UNIX time in ns up to which.
        cycles: How many cycles were asked for; 0 for a trace.
        cycles_seen: By rank in how many graphs were seen kernel by kernel.
        phases: What the device did for each phase of each rank.
        kernels: Time of kernels by rank, phase and class, over the cycles seen.
        communication: By rank the share of communication in the time of all kernels of phases.
        costs: What a window cost each rank; empty for a trace.
        losses: What is not in the figures of a window; empty for a trace.
    """

    source: LookSource
    start_ns: int
    end_ns: int
    cycles: int
    cycles_seen: dict[str, int]
    phases: tuple[PhaseWork, ...]
    kernels: tuple[ClassTime, ...]
    communication: dict[str, float]
    costs: tuple[WindowCost, ...] = ()
    losses: tuple[WindowLoss, ...] = ()


class SeenKernels(NamedTuple):
    """Kernels, copies and fills of one rank that phases of its cycles launched, as columns.

    The columns have the same length; `phase` and `name` hold places in the texts.

    Attributes:
        rank: Name of the rank.
        group: Name of its group.
        number: Of the cycle whose phase launched it.
        phase: Name of the phase.
        start_ns: UNIX time in ns.
        end_ns: UNIX time in ns.
        stream: Number of the stream on the device.
        name: Of the kernel.
        graph: 1 where a graph's launch put it there, 0 elsewhere.
        phases: Names of phases.
        names: Of kernels, as the compiler wrote them or demangled.
        classes: For each name its class, see `analysis.kernel_classes`.
    """

    rank: str
    group: str
    number: Column
    phase: Column
    start_ns: Column
    end_ns: Column
    stream: Column
    name: Column
    graph: Column
    phases: Sequence[str]
    names: Sequence[str]
    classes: Sequence[str]


class Seen(NamedTuple):
    """A look, and the kernels that it rests on, of each rank that has any."""

    look: KernelLook
    kernels: list[SeenKernels]


class Written(NamedTuple):
    """What the window of one rank left.

    Attributes:
        rank: The process.
        words: Of the file's header, by `layout_window.Place`.
        text: What CUPTI said, empty where it said nothing.
        content: The file, as far as it was written.
        names: Of kernels by their addresses, once they were read.
    """

    rank: Rank
    words: dict[int, int]
    text: str
    content: bytes
    names: Mapping[int, str] = MappingProxyType({})
