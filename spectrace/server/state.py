"""What the page is told about each run beside its cycles, and how it is derived."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from spectrace.attach.looking import Looking
from spectrace.model import Cycle, Run, SkippedCycles
from spectrace.store.source import Stats

IDLE_AFTER_S = 1.0
LOST_AFTER_S = 10.0


class Source(str, Enum):
    """Where the cycles of a run come from."""

    ATTACHED = "attached"
    RECEIVED = "received"
    FILE = "file"


class Life(str, Enum):
    """How a run is doing."""

    TRACING = "tracing"
    IDLE = "idle"
    SERVER_GONE = "server_gone"
    DETACHED = "detached"
    LOST_SENDER = "lost_sender"


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """What did not arrive.

    Attributes:
        records: Records that were overwritten in a ring before they were read.
        missing: Cycles that not every rank reported.
        export: Spans that an exporter could not deliver.
        stored: Cycles, of all runs together, that came and could not be stored.
    """

    records: int = 0
    missing: int = 0
    export: int = 0
    stored: int = 0


class RunFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a source knows about its run beside the cycles.

    Attributes:
        worker: Class of the worker.
        algorithm: Speculative algorithm, as the server names it.
        overlap: The overlap scheduler runs; None where it is not known.
        device: Such as `cuda`.
        reporting: Names of the ranks that report; None to go by the cycles.
        lost: What did not arrive.
        message: A sentence for people, or empty.
        timing: Why the device is not timed, a sentence; empty where it is, or that is not known.
        sample_every: One of so many cycles is recorded in full.
        skipped: Sums of those that are not, since the start.
        notes: Sentences on how the run is traced: what is not seen of it, and what it cost.
    """

    worker: str = ""
    algorithm: str = ""
    overlap: bool | None = None
    device: str = ""
    reporting: frozenset[str] | None = None
    lost: Lost = Lost()
    message: str = ""
    timing: str = ""
    sample_every: int = 1
    skipped: SkippedCycles = SkippedCycles()
    notes: tuple[str, ...] = ()


class Digest(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest cycles of a run show.

    Attributes:
        modes: Timing modes on any rank.
        ranks: Names of the ranks.
        summary: JSON of `spectrace.analysis.summary.Summary`, or of null.
    """

    modes: tuple[str, ...] = ()
    ranks: tuple[str, ...] = ()
    summary: msgspec.Raw = msgspec.Raw(b"null")


class RankPart(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of a run."""

    name: str
    pid: int
    reporting: bool


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What can be looked up; `bytes` is of all runs together."""

    cycles: int
    bytes: int
    retain_s: float | None
    first_n: int | None
    last_n: int | None


class RecordingState(msgspec.Struct, frozen=True, kw_only=True):
    """A recording as the page gets it.

    Attributes:
        name: Of the file.
        active: It goes on.
        since_ms: UNIX time in ms at which it began.
        cycles: Cycles in it.
        bytes: Size of the store so far, of the file in the end.
        max_bytes: Beyond it the oldest cycles go.
        lost: Cycles that could not be stored.
        cut: The oldest cycles went, to keep below `max_bytes`.
        problem: Why there is no file, or not all in it; a sentence.
    """

    name: str
    active: bool
    since_ms: int
    cycles: int
    bytes: int
    max_bytes: int
    lost: int
    cut: bool
    problem: str


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """One run as the page shows it; see the API's description for the fields."""

    run: str
    host: str
    server_pid: int
    command: tuple[str, ...]
    engine: str
    source: Source
    state: Life
    message: str
    ranks: tuple[RankPart, ...]
    modes: tuple[str, ...]
    steerable: bool
    worker: str
    algorithm: str
    overlap: bool | None
    device: str
    lost: Lost
    timing: str
    sample_every: int
    skipped: SkippedCycles
    notes: tuple[str, ...]
    summary: msgspec.Raw
    stored: Stored
    recording: RecordingState | None
    looking: Looking | None  # the look at kernels that goes on, or the last one
    looks: int  # at kernels, that are stored


class LostCycles(msgspec.Struct, frozen=True):
    """Cycles of all runs that came here and are not stored.

    Attributes:
        lost: So many.
        problem: Why the last of them could not be written, a sentence; empty where they could.
    """

    lost: int = 0
    problem: str = ""


class LostSpans(msgspec.Struct, frozen=True, kw_only=True):
    """Spans that were sent here and are not stored.

    Attributes:
        stored: Spans of others that could not be stored.
        problem: Why the last of them could not be written, a sentence; empty where they could.
        refused: Spans that were refused, and their sender was told so.
        reasons: Why, a sentence; empty where none was.
        unjoined: Cycles of which spans came, but never their root, or none of their ranks.
        evicted: Cycles that were put together no further, because too many spans waited.
        partial: Times that a cycle was taken in without all of its spans, which may be late.
    """

    stored: int = 0
    problem: str = ""
    refused: int = 0
    reasons: str = ""
    unjoined: int = 0
    evicted: int = 0
    partial: int = 0


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the page knows at once.

    Attributes:
        version: Of spectrace.
        runs: All that there are.
        otlp_endpoint: Where spans can be sent to by HTTP; None where nothing is received.
        grpc_endpoint: The same by gRPC.
        lost_spans: What was sent and is not stored.
        attaches: The page may have servers of this machine attached to.
    """

    version: str
    runs: tuple[RunState, ...]
    otlp_endpoint: str | None
    grpc_endpoint: str | None
    lost_spans: LostSpans
    attaches: bool = False


def life_of(source: Source, host: str, quiet_s: float) -> tuple[Life, str]:
    """How a run is doing that nobody has declared ended, and a sentence for people.

    Args:
        source: Where its cycles come from.
        host: Name of its machine.
        quiet_s: Time in s since its last cycle arrived; infinite if none ever did.
    """
    if source is Source.FILE:
        return Life.DETACHED, "Read from a recording."
    if source is Source.RECEIVED and quiet_s > LOST_AFTER_S:
        return Life.LOST_SENDER, (
            f"Nothing has come from {host} for more than {LOST_AFTER_S:.0f} s: "
            "its server is idle, or its sender has ended."
        )
    return (Life.IDLE if quiet_s > IDLE_AFTER_S else Life.TRACING), ""


def ranks_of(run: Run, reporting: frozenset[str] | Sequence[str]) -> tuple[RankPart, ...]:
    """The ranks of a run, each with whether it reports."""
    return tuple(
        RankPart(name=rank.name, pid=rank.pid, reporting=rank.name in reporting)
        for rank in run.ranks
    )


def stored_of(stats: Stats) -> Stored:
    """What the page is told of the store."""
    return Stored(
        cycles=stats.cycles,
        bytes=stats.bytes,
        retain_s=stats.retain_s,
        first_n=stats.first_n,
        last_n=stats.last_n,
    )


def names_of(cycles: Sequence[Cycle]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The timing modes and the names of the ranks that occur, sorted."""
    modes = {rank.mode.value for cycle in cycles for rank in cycle.ranks}
    ranks = {rank.rank for cycle in cycles for rank in cycle.ranks}
    return tuple(sorted(modes)), tuple(sorted(ranks))


def span_s(cycles: Sequence[Cycle], longest_s: float) -> float:
    """From the first start to the last end of `cycles`, at most `longest_s`, in s.

    It is the window that rates refer to, and therefore never 0.
    """
    first_ns = min(cycle.start_ns for cycle in cycles)
    last_ns = max(cycle.end_ns for cycle in cycles)
    return min(longest_s, max(last_ns - first_ns, 1) / 1e9)
