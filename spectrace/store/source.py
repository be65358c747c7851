"""What can be read from a live store and from a recording alike."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec

from spectrace.model import Cycle, OtherSpan, Run

if TYPE_CHECKING:  # numpy takes long to import, and most who count cycles need none of it
    from spectrace.chosen import Choice, Chosen, Timed
    from spectrace.kernels import KernelLook, SeenKernels
    from spectrace.measures import Measures

PAGE = 200  # cycles that a read gives when nobody says how many

TraceKey: TypeAlias = tuple[int, str]
"""When the first span of a trace began, UNIX time in ns, and the trace's id."""


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored.

    Attributes:
        cycles: Cycles, each counted once however often it was amended.
        bytes: Size of the files of all runs.
        first_ns: UNIX time in ns at which the oldest cycle began, None without cycles.
        last_ns: UNIX time in ns at which the newest cycle ended, None without cycles.
        first_n: The lowest cycle number, None without cycles.
        last_n: The highest cycle number, None without cycles.
        looks: Looks at kernels.
        retain_s: Age in s up to which cycles are kept; None where nothing is ever dropped.
        lost: Cycles that were to be written and could not be.
        lost_spans: Spans of others likewise.
        problem: Why the last cycles could not be written; empty where they could.
        spans_problem: The same of spans of others.
    """

    cycles: int
    bytes: int
    first_ns: int | None
    last_ns: int | None
    first_n: int | None
    last_n: int | None
    looks: int = 0
    retain_s: float | None = None
    lost: int = 0
    lost_spans: int = 0
    problem: str = ""
    spans_problem: str = ""


class OtherTrace(msgspec.Struct, frozen=True, kw_only=True):
    """Spans of others that belong together.

    Attributes:
        trace_id: 32 hexadecimal digits.
        first_ns: UNIX time in ns at which the first of them began.
        last_ns: UNIX time in ns at which the last of them ended.
        failed: One of them failed.
        count: How many there are, each counted once.
        spans: Some of them: those without a parent before others, then as they came.
    """

    trace_id: str
    first_ns: int
    last_ns: int
    failed: bool
    count: int
    spans: list[OtherSpan]

    @property
    def key(self) -> TraceKey:
        """By which traces are in order."""
        return self.first_ns, self.trace_id


RequestKey: TypeAlias = tuple[int, str]
"""The number of the last cycle that worked for a request, and the request's id."""


class ServedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What cycles gave to one request, overshoot left out of `verifies` and `correct_drafts`.

    Attributes:
        request_id: The server's id of it.
        cycles: Cycles that worked for it.
        verifies: In how many of them something was verified.
        correct_drafts: Drafts found correct.
        output_tokens: Tokens that it got.
        first_n: Number of the first of these cycles.
        last_n: Of the last one.
        first_ns: UNIX time in ns at which the first of them began.
        last_ns: UNIX time in ns at which the last of them ended.
    """

    request_id: str
    cycles: int
    verifies: int
    correct_drafts: int
    output_tokens: int
    first_n: int
    last_n: int
    first_ns: int
    last_ns: int

    @property
    def key(self) -> RequestKey:
        """By which requests are in order."""
        return self.last_n, self.request_id


class RequestCycle(msgspec.Struct, frozen=True, kw_only=True):
    """What one cycle gave to a request.

    Attributes:
        number: Of the cycle.
        start_ns: UNIX time in ns at which it began.
        took_ns: Its time in ns.
        batch: Requests in its batch.
        steps: Draft steps.
        correct_drafts: Drafts found correct; None where nothing was verified.
        output_tokens: Tokens that the request got.
        overshoot: The request had ended before.
    """

    number: int
    start_ns: int
    took_ns: int
    batch: int
    steps: int
    correct_drafts: int | None
    output_tokens: int
    overshoot: bool


class RequestHistory(msgspec.Struct, frozen=True, kw_only=True):
    """A request with cycles of its own.

    Attributes:
        request: The sums over all of its cycles that are kept.
        cycles: Some of these, the highest number first.
    """

    request: ServedRequest
    cycles: list[RequestCycle]


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """A part of what is stored: a run, or of it what lies in a stretch of time.

    A cycle belongs to it that has any time in common with the stretch, and so does a span of
    others; without a stretch, with the run's own cycles.

    Attributes:
        run_id: The run.
        first_ns: Where the stretch begins, UNIX time in ns; None for the run's beginning.
        last_ns: Where it ends, UNIX time in ns; None for the run's end.
    """

    run_id: str
    first_ns: int | None = None
    last_ns: int | None = None


class CycleSource(Protocol):
    """Gives runs and their cycles; of a cycle that was amended the newest version."""

    def runs(self) -> list[Run]:
        """The runs, in the order in which they were first seen."""

    def groups(self, run_id: str) -> list[str]:
        """The groups of a run that have cycles, by name."""

    def cycles(
        self, run_id: str, *, group: str = "", before: int | None = None, limit: int = PAGE
    ) -> list[Cycle]:
        """Cycles of one group, the highest number first.

        Args:
            run_id: The run; one that is not here has no cycles.
            group: Name of the group.
            before: Only cycles with a lower number; None for all.
            limit: How many at most.
        """

    def cycle(self, run_id: str, group: str, number: int) -> Cycle | None:
        """One cycle, None if it is not here (any more)."""

    def recent(self, run_id: str, seconds: float) -> list[Cycle]:
        """The cycles of all groups in the last `seconds` of the run, the oldest first.

        The time counts back from the end of the run's newest cycle; cycles that began
        within it are given.
        """

    def measure(self, run_id: str) -> Measures:
        """What the statistics of a run rest on.

        Raises:
            SpectraceError: There is no such run, or it has no cycles.
        """

    def chosen(self, choice: Choice) -> Chosen:
        """The cycles that are picked, with all of their times.

        It takes a few seconds at most: of a run that is too long the newest cycles are read.

        Raises:
            SpectraceError: A file is damaged.
        """

    def timed(self, run_id: str, group: str, from_ns: int | None, to_ns: int | None) -> Timed:
        """How long the cycles of a group took that began in a stretch of time.

        It takes a few seconds at most: of a stretch that is too long the newest cycles are read.

        Args:
            run_id: The run.
            group: Name of the group.
            from_ns: UNIX time in ns; None for the oldest that is kept.
            to_ns: UNIX time in ns before which they began; None for the newest.

        Raises:
            SpectraceError: A file is damaged.
        """

    def served_requests(
        self, run_id: str, group: str, before: RequestKey | None, limit: int
    ) -> list[ServedRequest]:
        """Requests that cycles worked for, by their keys, the one that was served last first.

        Health checks are left out. Of a run that is too long the newest cycles are looked at.

        Args:
            run_id: The run.
            group: Name of the group.
            before: Only those with lower keys; None for all.
            limit: How many at most.
        """

    def request_history(
        self, run_id: str, group: str, request_id: str, before: int | None, limit: int
    ) -> RequestHistory | None:
        """One request and cycles that worked for it; None if none is here.

        Args:
            run_id: The run.
            group: Name of the group.
            request_id: The server's id of the request.
            before: Only cycles with a lower number; None for all.
            limit: How many cycles at most.
        """

    def looks(self, run_id: str) -> list[KernelLook]:
        """The looks at the kernels of a run, the oldest first.

        A look is there as long as any cycle of its time is.

        Raises:
            SpectraceError: A file is damaged.
        """

    def kernels(self, run_id: str, group: str, number: int) -> list[SeenKernels]:
        """The kernels of one cycle, rank by rank in the order of the cycle; none if none were seen.

        Those of a rank stand in the order of their begins, with such phases and names alone as
        they have. Of a cycle that two looks saw, those of the newer one.

        Raises:
            SpectraceError: A file is damaged.
        """

    def other_spans(self, limit: int) -> list[OtherSpan]:
        """Spans of others among the `limit` that came last, each once, the oldest first."""

    def other_traces(self, before: TraceKey | None, limit: int, spans: int) -> list[OtherTrace]:
        """Traces of others by their keys, the one that began last first.

        Args:
            before: Only those with lower keys; None for all.
            limit: How many at most.
            spans: How many spans of each at most.
        """

    def stats(self, run_id: str | None = None) -> Stats:
        """What is stored of one run, or of all."""

    def cut(
        self, cut: Cut, name: str, check: Callable[[Path], None]
    ) -> AbstractContextManager[Path]:
        """A recording of a part, in a folder of its own that is removed at the end.

        What comes meanwhile is not in it, and waits for it no longer than for any other read.

        Args:
            cut: The part.
            name: Of the file.
            check: Is called with the file now and then while it is written; what it raises ends
                that.

        Raises:
            SpectraceError: There is no cycle in it, or it cannot be written.
        """

    def close(self) -> None:
        """Lets go of the files."""
