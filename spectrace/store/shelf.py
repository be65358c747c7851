"""Reads cycles across all slices of a store, or from the one file of a recording."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from spectrace.errors import SpectraceError
from spectrace.measures import Measures
from spectrace.model import Cycle, OtherSpan, Run
from spectrace.store.database import Database, Looked, Span, log_of
from spectrace.store.measure import measure
from spectrace.store.recent import GroupKey
from spectrace.store.source import PAGE, OtherTrace, Stats, TraceKey

_MOST = (1 << 63) - 1


class Slice(msgspec.Struct, kw_only=True):
    """One file of a store.

    Attributes:
        path: The file.
        name: What it is attached as.
        opened_ns: Time of its first cycle, in ns.
        newest_ns: Time of its newest cycle, look or span of others, in ns.
        cycles_ns: Time of its newest cycle or look, in ns, 0 if it has none.
        bytes: Size of the file and its log.
        spans: What it holds of each group.
        looks: Those that it holds with all of their kernels, by place.
        seen: The numbers of each group, for the two newest slices of a live store.
        runs: The runs that are written down in it.
    """

    path: Path
    name: str
    opened_ns: int
    newest_ns: int
    cycles_ns: int = 0
    bytes: int = 0
    spans: dict[GroupKey, Span]
    looks: dict[int, Looked] = msgspec.field(default_factory=dict)
    seen: dict[GroupKey, set[int]] = msgspec.field(default_factory=dict)
    runs: set[str] = msgspec.field(default_factory=set)

    @property
    def cycles(self) -> int:
        """Cycles in it, amended ones counted once."""
        return sum(span.cycles for span in self.spans.values())

    def measure(self) -> None:
        """Looks how large the files are, and keeps them to their owner."""
        self.bytes = 0
        for path in (self.path, log_of(self.path)):
            if path.exists():
                path.chmod(0o600)
                self.bytes += path.stat().st_size


class Shelf:
    """The slices, the oldest first, and all that can be asked about them.

    It belongs to one thread.

    Args:
        database: What the slices are attached to.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.slices: list[Slice] = []
        self.known: dict[str, Run] = {}

    def take_in(self, path: Path, name: str, *, read_only: bool) -> None:
        """Attaches an existing file as the newest slice.

        Raises:
            SpectraceError: It is in use, damaged, or none of spectrace's.
        """
        self.database.attach(path, name, read_only=read_only)
        spans = self.database.spans(name)
        runs = {run.run_id: run for run in self.database.runs(name)}
        self.known |= runs
        looks = self.database.looked(name)
        ends_ns = [
            *(span.last_ns for span in spans.values()),
            *(one.end_ns for one in looks.values()),
        ]
        cycles_ns = max(ends_ns, default=0)
        held = Slice(
            path=path,
            name=name,
            opened_ns=min((span.first_ns for span in spans.values()), default=0),
            newest_ns=max(self.database.last_span_ns(name), cycles_ns),
            cycles_ns=cycles_ns,
            spans=spans,
            looks=looks,
            runs=set(runs),
        )
        held.bytes = sum(file.stat().st_size for file in (path, log_of(path)) if file.exists())
        self.slices.append(held)

    def runs(self) -> list[Run]:
        """As `CycleSource.runs`: the runs that any slice speaks of."""
        held = {run_id for part in self.slices for run_id in part.runs}
        return [run for run_id, run in self.known.items() if run_id in held]

    def groups(self, run_id: str) -> list[str]:
        """As `CycleSource.groups`."""
        return sorted({key[1] for key, _ in self._spans(run_id)})

    def cycles(
        self, run_id: str, *, group: str = "", before: int | None = None, limit: int = PAGE
    ) -> list[Cycle]:
        """As `CycleSource.cycles`."""
        below = _MOST if before is None else before
        newest = self._versions((run_id, group), below, limit)
        numbers = sorted(newest, reverse=True)[:limit]
        cycles = self._load(newest[number] for number in numbers)
        return [cycles[newest[number][0]] for number in numbers]

    def _versions(self, key: GroupKey, below: int, limit: int) -> dict[int, tuple[int, Slice]]:
        """The highest numbers with the id of their newest version and where it is.

        Slices are looked into in the order of their highest numbers, until those that are
        left can hold none of the `limit` highest. A number may be in several of them.
        """
        newest: dict[int, tuple[int, Slice]] = {}
        holding = [part for part in self.slices if key in part.spans]
        for part in sorted(holding, key=lambda part: part.spans[key].last_n, reverse=True):
            if _has(newest, limit, part.spans[key].last_n):
                break
            if part.spans[key].first_n >= below:
                continue
            for number, version in self.database.versions(part.name, key, below, limit):
                if number not in newest or newest[number][0] < version:
                    newest[number] = version, part
        return newest

    def _load(self, versions: Iterable[tuple[int, Slice]]) -> dict[int, Cycle]:
        by_slice: defaultdict[str, list[int]] = defaultdict(list)
        for version, part in versions:
            by_slice[part.name].append(version)
        loaded: dict[int, Cycle] = {}
        for name, ids in by_slice.items():
            loaded |= self.database.load(name, ids)
        return loaded

    def cycle(self, run_id: str, group: str, number: int) -> Cycle | None:
        """As `CycleSource.cycle`."""
        newest = self.version(run_id, group, number)
        return None if newest is None else self._load([newest])[newest[0]]

    def version(self, run_id: str, group: str, number: int) -> tuple[int, Slice] | None:
        """The id of the newest version of a cycle and where it is; None if it is not here."""
        key = run_id, group
        newest: tuple[int, Slice] | None = None
        for part in self.slices:
            span = part.spans.get(key)
            if span is None or not span.first_n <= number <= span.last_n:
                continue
            version = self.database.version(part.name, key, number)
            if version is not None and (newest is None or newest[0] < version):
                newest = version, part
        return newest

    def looks(self, run_id: str | None) -> list[tuple[int, Slice]]:
        """Places of the looks at one run, or at all, and where they are; the oldest first.

        A look is kept as long as any cycle of its time is.
        """
        kept: dict[str, list[Span]] = {}
        for (key, _), span in self._spans(run_id):
            kept.setdefault(key, []).append(span)
        first_ns = {key: min(span.first_ns for span in spans) for key, spans in kept.items()}
        last_ns = {key: max(span.last_ns for span in spans) for key, spans in kept.items()}
        found = [
            (look.start_ns, place, part)
            for part in self.slices
            for place, look in part.looks.items()
            if look.run_id in kept
            and look.end_ns >= first_ns[look.run_id]
            and look.start_ns <= last_ns[look.run_id]
        ]
        return [(place, part) for _, place, part in sorted(found, key=lambda one: one[:2])]

    def recent(self, run_id: str, seconds: float) -> list[Cycle]:
        """As `CycleSource.recent`."""
        last_ns = self.stats(run_id).last_ns
        if last_ns is None:
            return []
        since_ns = last_ns - round(seconds * 1e9)
        cycles = [
            cycle
            for group in self.groups(run_id)
            for cycle in self._back_to(run_id, group, since_ns)
        ]
        return sorted(cycles, key=lambda cycle: cycle.start_ns)

    def _back_to(self, run_id: str, group: str, since_ns: int) -> Iterable[Cycle]:
        before: int | None = None
        while page := self.cycles(run_id, group=group, before=before):
            yield from (cycle for cycle in page if cycle.start_ns >= since_ns)
            if page[-1].start_ns < since_ns:
                return
            before = page[-1].number

    def stats(self, run_id: str | None = None) -> Stats:
        """As `CycleSource.stats`."""
        spans = [span for _, span in self._spans(run_id)]
        return Stats(
            cycles=sum(span.cycles for span in spans),
            bytes=sum(part.bytes for part in self.slices),
            first_ns=min((span.first_ns for span in spans), default=None),
            last_ns=max((span.last_ns for span in spans), default=None),
            first_n=min((span.first_n for span in spans), default=None),
            last_n=max((span.last_n for span in spans), default=None),
            looks=len(self.looks(run_id)),
        )

    def measure(self, run_id: str) -> Measures:
        """As `CycleSource.measure`."""
        if run_id not in self.known:
            raise SpectraceError(f"There is no run {run_id} here.")
        return measure(self.database, [part.name for part in self.slices], self.known[run_id])

    def other_spans(self, limit: int) -> list[OtherSpan]:
        """As `CycleSource.other_spans`."""
        last = max((self.database.last_place(part.name) for part in self.slices), default=-1)
        newest: dict[tuple[str, str], OtherSpan] = {}
        for part in self.slices:
            for span in self.database.other_spans(part.name, last - limit, limit):
                newest.setdefault((span.trace_id, span.span_id), span)
            # Places tell each span apart, but not in a file that somebody else has made.
            for key in list(newest)[:-limit]:
                del newest[key]
        return list(newest.values())

    def other_traces(self, before: TraceKey | None, limit: int, spans: int) -> list[OtherTrace]:
        """As `CycleSource.other_traces`."""
        names = [part.name for part in self.slices]
        return self.database.other_traces(names, before or (_MOST, ""), limit, spans)

    def _spans(self, run_id: str | None) -> list[tuple[GroupKey, Span]]:
        return [
            (key, span)
            for part in self.slices
            for key, span in part.spans.items()
            if run_id is None or key[0] == run_id
        ]


def _has(newest: dict[int, tuple[int, Slice]], limit: int, highest_left: int) -> bool:
    """Whether the `limit` highest numbers are found, all above `highest_left`."""
    return sum(number > highest_left for number in newest) >= limit
