"""Puts together what the ranks of a server reported about the same cycle."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from spectrace.collect.reader import (
    PHASES,
    CycleRecord,
    DeviceRecord,
    Record,
    Row,
    RowsRecord,
    SkippedRecord,
    TextRecord,
)
from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    Phase,
    Rank,
    RankCycle,
    RequestRow,
    Run,
    SkippedCycles,
    TimingMode,
)
from spectrace.probe.layout import DEVICE_PHASES, Ph, RecordType

PATIENCE_NS = 2_000_000_000  # a cycle waits this long for its last rank
_OPEN_CYCLES = 2048  # of one group; a rank that is further behind is no longer joined
_INTERNED_IDS = 16_384  # of one rank; the probe keeps 4096 at a time
_ERRORS = 100
_STRETCHES = 1024  # between cycles that sampling kept
_WITHOUT_ROWS = (CycleKind.IDLE, CycleKind.OTHER)
_SPAN = re.compile("[0-9a-f]{32}-[0-9a-f]{16}")
_OF_THE_GROUP = re.compile(r"\b(?:ENGINE|DP)\d+\b")
# Which of a record's graph entries speaks of a phase: of draft, target model, draft extend.
_GRAPH_OF = {
    Ph.DRAFT: 0,
    Ph.DRAFT_STEP: 0,
    Ph.FORWARD: 1,
    Ph.VERIFY: 1,
    Ph.VERIFY_FORWARD: 1,
    Ph.DRAFT_EXTEND: 2,
}


class Assembler:
    """Joins the records of all ranks of one run into Cycles.

    A Cycle goes out when all ranks of its group have reported it and the first rank's rows
    and the ids in them are there, in mode `device` with the device's times, or `PATIENCE_NS`
    after its first report. What comes later amends it: the Cycle is given again, with the
    same run, group and number, and takes the place of the one before. Cycles from before the
    last rank of a group began to report are dropped. The result does not depend on how the
    records of different ranks interleave.

    Args:
        run: The server, with all its ranks.

    Attributes:
        errors: What the probes reported as gone wrong, each behind its rank's name; the
            newest hundred.
    """

    def __init__(self, run: Run) -> None:
        self.errors: list[str] = []
        self._run = run
        names: dict[str, list[str]] = {}
        for rank in run.ranks:
            names.setdefault(group_of(rank.name), []).append(rank.name)
        self._groups = {group: _Group(run, group, ranks) for group, ranks in names.items()}
        self._texts = {rank.name: _Texts() for rank in run.ranks}

    def join(self, rank: Rank) -> None:
        """Takes in a rank that the server has got since.

        It belongs to its group from the first cycle on that no rank had reported when it
        reported for the first time: those before are whole without it.
        """
        self._texts[rank.name] = _Texts()
        name = group_of(rank.name)
        if name in self._groups:
            self._groups[name].join(rank.name)
        else:
            self._groups[name] = _Group(self._run, name, [rank.name])

    @property
    def missing(self) -> int:
        """Cycles that not every rank reported, between those that it did report."""
        return sum(group.missing for group in self._groups.values())

    @property
    def skipped(self) -> SkippedCycles:
        """What sampling left out, of all groups, as their first ranks counted it."""
        sums = [group.skipped for group in self._groups.values()]
        return SkippedCycles(
            **{
                name: sum(getattr(part, name) for part in sums)
                for name in SkippedCycles.__struct_fields__
            }
        )

    def add(self, rank_name: str, records: Iterable[Record], now_ns: int) -> list[Cycle]:
        """Takes in `records` of one rank, in the order of their ring.

        Args:
            rank_name: Name of the rank, as in the run.
            records: What its reader gave.
            now_ns: CLOCK_MONOTONIC in ns.

        Returns:
            Cycles that are ready or were amended, by number.

        Raises:
            KeyError: The run has no such rank.
        """
        group = self._groups[group_of(rank_name)]
        texts = self._texts[rank_name]
        for record in records:
            if isinstance(record, CycleRecord):
                group.report(rank_name, record, now_ns)
            elif isinstance(record, RowsRecord):
                group.add_rows(rank_name, record)
            elif isinstance(record, DeviceRecord):
                group.add_device(rank_name, record)
            elif isinstance(record, SkippedRecord):
                group.skip(rank_name, record)
            else:
                self._add_text(rank_name, group, texts, record)
        return group.take_ready(now_ns)

    def _add_text(self, rank_name: str, group: _Group, texts: _Texts, record: TextRecord) -> None:
        text = texts.join(record)
        if text is None:
            return
        if record.kind == RecordType.ERROR:
            self.errors = [*self.errors, f"{rank_name}: {text}"][-_ERRORS:]
        elif record.kind == RecordType.SPAN:
            group.add_span(rank_name, record.interned, text)
        else:
            group.name(rank_name, record.interned, text)

    def flush(self, now_ns: int) -> list[Cycle]:
        """Gives the cycles that have waited long enough; `now_ns` is CLOCK_MONOTONIC."""
        return [cycle for group in self._groups.values() for cycle in group.take_ready(now_ns)]

    def close(self) -> list[Cycle]:
        """Gives every cycle that is still waiting, when no records can come any more."""
        return [cycle for group in self._groups.values() for cycle in group.take_all()]


def group_of(rank_name: str) -> str:
    """The group that a rank steps with: `DP1` of `DP1 TP0`, `""` without replicas.

    A later engine of the same program steps alone: `ENGINE2 DP1` of `ENGINE2 DP1 TP0`.
    """
    return " ".join(_OF_THE_GROUP.findall(rank_name))


def phases_of(record: CycleRecord, run: Run) -> tuple[Phase, ...]:
    """The host's phases of a record, on the UNIX axis of `run`.

    Each mark ends the phase before it, and the cycle's end the last one, so that phases
    touch. The first begins with the cycle. Phases of no length are left out.
    """
    ends = [min(offset, record.length_ns) for _, _, offset in record.marks[1:]]
    phases = []
    start = 0
    for (phase, lag, _), end in zip(record.marks, [*ends, record.length_ns], strict=False):
        if end > start:
            phases.append(
                Phase(
                    name=PHASES[phase],
                    start_ns=run.unix_ns(record.start_ns + start),
                    end_ns=run.unix_ns(record.start_ns + end),
                    of_cycle=record.number - lag,
                    graph=_graph_of(phase, record),
                )
            )
            start = end
    return tuple(phases)


def device_phases_of(device: DeviceRecord, record: CycleRecord, run: Run) -> tuple[Phase, ...]:
    """The device's phases of a cycle, on the UNIX axis of `run`.

    Each mark ends the phase before it. Between phases there are gaps where the marks say so,
    and the last mark begins nothing: when it ended was not seen. Phases of no length are left
    out, and all are where the device's clock is not mapped to the host's.
    """
    if not device.placed:
        return ()
    return tuple(
        Phase(
            name=PHASES[phase],
            start_ns=run.unix_ns(device.start_ns + start),
            end_ns=run.unix_ns(device.start_ns + end),
            of_cycle=device.number,
            lane=Lane.DEVICE,
            graph=_graph_of(phase, record),
        )
        for (phase, _, start), (_, _, end) in pairwise(device.marks)
        if phase in DEVICE_PHASES and end > start
    )


def _graph_of(phase: int, record: CycleRecord) -> bool | None:
    place = _GRAPH_OF.get(phase)
    return None if place is None else record.graph[place]


def _has_device_lane(record: CycleRecord) -> bool:
    """Whether the device will report on this cycle too."""
    return record.mode is TimingMode.DEVICE and any(
        phase in DEVICE_PHASES for phase, _, _ in record.marks
    )


class _Texts:
    """Joins the parts of one rank's texts; they follow each other in the ring."""

    def __init__(self) -> None:
        self._parts: list[TextRecord] = []

    def join(self, record: TextRecord) -> str | None:
        """The whole text once its last part is there."""
        if record.part == 0:
            self._parts = []
        elif not self._parts or not _continues(self._parts[-1], record):
            self._parts = []  # a part in between was lost, and the text with it
            return None
        self._parts.append(record)
        if record.part + 1 < record.parts:
            return None
        text = b"".join(part.text for part in self._parts)
        self._parts = []
        return text.decode("utf-8", "replace")


def _continues(before: TextRecord, record: TextRecord) -> bool:
    def place(part: TextRecord) -> tuple[int, int, int, int]:
        return part.record - part.part, part.kind, part.interned, part.parts

    return place(before) == place(record) and before.part + 1 == record.part


class _Open:
    """What is known so far about one cycle."""

    def __init__(self) -> None:
        self.reports: dict[str, CycleRecord] = {}
        self.rows: dict[str, dict[int, RowsRecord]] = {}
        self.devices: dict[str, DeviceRecord] = {}
        self.given: Cycle | None = None

    def rows_of(self, rank_name: str) -> list[Row] | None:
        """The rows that a rank reported, None while parts are missing."""
        parts = self.rows.get(rank_name)
        if not parts or len(parts) < next(iter(parts.values())).parts:
            return None
        return [row for part in sorted(parts) for row in parts[part].rows]

    @property
    def timed(self) -> bool:
        """Whether every device that reports on this cycle has reported."""
        return all(
            rank in self.devices or not _has_device_lane(record)
            for rank, record in self.reports.items()
        )


class _Skips:
    """What sampling left out on one rank."""

    def __init__(self) -> None:
        self.sums = SkippedCycles()
        self._begin = -1
        self._stretches: list[tuple[int, int, int]] = []  # first and last number, cycles

    def start(self, begin: int) -> None:
        """From now on `counted` counts, and only stretches behind that cycle."""
        self._begin = begin
        self._stretches = [one for one in self._stretches if one[0] > begin]

    def add(self, record: SkippedRecord) -> None:
        """Takes in one stretch of cycles, or late results of one."""
        self.sums = SkippedCycles(
            cycles=self.sums.cycles + record.cycles,
            total_ns=self.sums.total_ns + record.total_ns,
            verifies=self.sums.verifies + record.verifies,
            correct_drafts=self.sums.correct_drafts + record.correct_drafts,
            output_tokens=self.sums.output_tokens + record.output_tokens,
        )
        if not record.cycles or record.first <= self._begin:
            return
        self._stretches.append((record.first, record.last, record.cycles))
        if len(self._stretches) > _STRETCHES:  # the older half has long been passed by all ranks
            half = _STRETCHES // 2
            old, self._stretches = self._stretches[:half], self._stretches[half:]
            merged = (old[0][0], old[-1][1], sum(cycles for _, _, cycles in old))
            self._stretches.insert(0, merged)

    def counted(self, end: int) -> int:
        """Cycles in stretches from the start to before the cycle `end`."""
        return sum(cycles for _, last, cycles in self._stretches if last < end)


class _Group:
    """The cycles of the ranks that step together.

    Ranks that came later are in `_late` until they report, then in `_since` with the cycle
    from which on they are waited for. `_floor` is the number up to which every cycle is settled:
    given, or dropped. `_done` holds the settled ones above it.
    """

    def __init__(self, run: Run, group: str, ranks: Sequence[str]) -> None:
        self._run = run
        self._group = group
        self._ranks = tuple(ranks)
        self._late: set[str] = set()
        self._since: dict[str, int] = {}
        self._first: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._ids: dict[str, dict[int, str]] = {rank: {} for rank in ranks}
        self._spans: dict[str, dict[int, str]] = {rank: {} for rank in ranks}
        self._open: dict[int, _Open] = {}
        self._done: set[int] = set()
        self._floor = -1
        self._touched: set[int] = set()
        self._nameless: set[int] = set()
        self._waiting: dict[int, int] = {}  # number: time of the first report in ns
        self._complete = 0
        self._settled_ahead = 0
        self._skips = {rank: _Skips() for rank in ranks}

    def join(self, rank_name: str) -> None:
        """Takes in a rank that came later."""
        self._ids[rank_name] = {}
        self._spans[rank_name] = {}
        self._skips[rank_name] = _Skips()
        if self._first:
            self._late.add(rank_name)
        else:
            self._ranks += (rank_name,)

    def report(self, rank_name: str, record: CycleRecord, now_ns: int) -> None:
        """Takes in one rank's boundaries of a cycle."""
        number = record.number
        if rank_name in self._late:
            self._late.remove(rank_name)
            self._since[rank_name] = max(number, max(self._last.values()) + 1)
            self._ranks += (rank_name,)
        self._last[rank_name] = max(number, self._last.get(rank_name, number))
        if rank_name not in self._first and rank_name not in self._since:
            self._first[rank_name] = number
            if self._all_report:
                begin = max(self._first.values())
                self._drop_before(begin)
                for skips in self._skips.values():
                    skips.start(begin)
        cycle = self._cycle(number)
        if cycle is None or rank_name in cycle.reports or not self._has(rank_name, number):
            return
        if not cycle.reports:
            self._waiting[number] = now_ns
        cycle.reports[rank_name] = record
        if self._is_everyone(number, cycle):
            self._complete += 1

    @property
    def _all_report(self) -> bool:
        """Whether every rank that was there from the start has reported."""
        return len(self._first) == len(self._ranks) - len(self._since)

    def _has(self, rank_name: str, number: int) -> bool:
        """Whether a rank belongs to the group by that cycle."""
        return not self._since or self._since.get(rank_name, number) <= number

    def _is_everyone(self, number: int, cycle: _Open) -> bool:
        """Whether all ranks that belong to the group by that cycle have reported it."""
        if not self._since:
            return len(cycle.reports) == len(self._ranks)
        return all(rank in cycle.reports for rank in self._ranks if self._has(rank, number))

    def add_rows(self, rank_name: str, record: RowsRecord) -> None:
        """Takes in results of a cycle."""
        cycle = self._cycle(record.number)
        if cycle is not None:
            cycle.rows.setdefault(rank_name, {})[record.part] = record

    def add_device(self, rank_name: str, record: DeviceRecord) -> None:
        """Takes in the device's boundaries of a cycle."""
        cycle = self._cycle(record.number)
        if cycle is not None:
            cycle.devices.setdefault(rank_name, record)

    def skip(self, rank_name: str, record: SkippedRecord) -> None:
        """Takes in what sampling left out."""
        self._skips[rank_name].add(record)

    @property
    def skipped(self) -> SkippedCycles:
        """What sampling left out, as the first rank counted it."""
        return self._skips[self._ranks[0]].sums

    def name(self, rank_name: str, interned: int, request_id: str) -> None:
        """Takes in the request id behind a number of this rank."""
        _keep(self._ids[rank_name], interned, request_id)
        self._touched |= self._nameless

    def add_span(self, rank_name: str, interned: int, span: str) -> None:
        """Takes in the server's own span of a request; it comes before the request's id."""
        if _SPAN.fullmatch(span):
            _keep(self._spans[rank_name], interned, span)

    def take_ready(self, now_ns: int) -> list[Cycle]:
        """The cycles that are ready or were amended since the last call, by number."""
        for number, since_ns in list(self._waiting.items()):
            if now_ns - since_ns < PATIENCE_NS:
                break  # they stand in the order of their first reports
            self._touched.add(number)
        cycles = [self._settle(number, now_ns) for number in sorted(self._touched)]
        self._touched.clear()
        if len(self._open) + len(self._done) > _OPEN_CYCLES:
            newest = max(*self._open, *self._done)
            cycles += self._raise_floor(newest - _OPEN_CYCLES // 2)
        self._follow_floor()
        return sorted(filter(None, cycles), key=lambda cycle: cycle.number)

    def take_all(self) -> list[Cycle]:
        """Every cycle that was reported and not given yet, by number."""
        cycles = [self._give(number) for number in sorted(self._waiting)]
        return [cycle for cycle in cycles if cycle is not None]

    @property
    def missing(self) -> int:
        """Numbers that a rank skipped, since all ranks report.

        Up to the last number that every rank has reached, all but the complete cycles and
        those that sampling left out are missing. Beyond it a rank that has not come so far
        has skipped nothing yet.
        """
        if not self._all_report:
            return 0
        reached = min(self._last.values())
        newest = max(self._last.values())
        ahead = sum(number > reached and self._unbroken(number) for number in self._open)
        ahead += min(self._settled_ahead, max(0, self._floor - reached))
        begin = max(self._first.values())
        skipped = max(skips.counted(newest) for skips in self._skips.values())
        return max(0, newest - begin + 1 - self._complete - ahead - skipped)

    def _cycle(self, number: int) -> _Open | None:
        """The open cycle of that number, None if it is settled."""
        if number <= self._floor or number in self._done:
            return None
        self._touched.add(number)
        return self._open.setdefault(number, _Open())

    def _unbroken(self, number: int) -> bool:
        """Whether every rank that has come as far as `number` has reported it, and one has."""
        reports = self._open[number].reports
        come = [
            rank for rank, last in self._last.items() if last >= number and self._has(rank, number)
        ]
        return bool(come) and all(rank in reports for rank in come)

    def _settle(self, number: int, now_ns: int) -> Cycle | None:
        cycle = self._open.get(number)
        if cycle is None or not cycle.reports:
            return None
        everyone = self._is_everyone(number, cycle)
        first_rows = cycle.rows_of(self._ranks[0])
        named = first_rows is not None and self._all_named(self._ranks[0], first_rows)
        no_rows = not cycle.rows and self._kind(cycle) in _WITHOUT_ROWS
        ready = everyone and cycle.timed and (named or no_rows)
        late = now_ns - self._waiting.get(number, now_ns) >= PATIENCE_NS
        given = self._give(number) if ready or late or cycle.given else None
        self._nameless.discard(number)
        if everyone and named and cycle.timed:
            del self._open[number]
            self._done.add(number)
        elif cycle.rows:
            self._nameless.add(number)
        return given

    def _kind(self, cycle: _Open) -> CycleKind:
        return next(cycle.reports[rank].kind for rank in self._ranks if rank in cycle.reports)

    def _all_named(self, rank_name: str, rows: Iterable[Row]) -> bool:
        ids = self._ids[rank_name]
        return all(row.interned in ids for row in rows)

    def _give(self, number: int) -> Cycle | None:
        """The cycle as it is known now, None if it was given just so before."""
        opened = self._open[number]
        self._waiting.pop(number, None)
        cycle = self._build(number, opened)
        if cycle == opened.given:
            return None
        opened.given = cycle
        return cycle

    def _build(self, number: int, opened: _Open) -> Cycle:
        ranks = [rank for rank in self._ranks if rank in opened.reports]
        first = opened.reports[ranks[0]]
        batch = self._batch_of(opened)
        context = batch.context_tokens if batch else None
        return Cycle(
            run_id=self._run.run_id,
            group=self._group,
            number=number,
            kind=first.kind,
            batch_size=first.batch_size,
            steps=first.steps,
            topk=first.topk,
            draft_tokens=first.draft_tokens,
            ranks=tuple(
                self._rank_cycle(rank, opened.reports[rank], opened.devices.get(rank))
                for rank in ranks
            ),
            requests=self._requests(opened),
            padded_batch=first.padded_batch,
            context_tokens_sum=context[0] if context else None,
            context_tokens_max=context[1] if context else None,
            queued=batch.queued if batch else None,
            running=batch.running if batch else None,
        )

    def _batch_of(self, opened: _Open) -> RowsRecord | None:
        """What the first rank that has results says of the whole batch."""
        parts = next((opened.rows[rank] for rank in self._ranks if rank in opened.rows), None)
        return parts[min(parts)] if parts else None

    def _rank_cycle(
        self, rank_name: str, record: CycleRecord, device: DeviceRecord | None
    ) -> RankCycle:
        on_device = () if device is None else device_phases_of(device, record, self._run)
        silent = device is None and _has_device_lane(record)
        return RankCycle(
            rank=rank_name,
            start_ns=self._run.unix_ns(record.start_ns),
            end_ns=self._run.unix_ns(record.start_ns + record.length_ns),
            phases=phases_of(record, self._run) + on_device,
            mode=record.mode,
            probe_ns=record.probe_ns,
            ended_idle=record.ended_idle,
            incomplete=record.incomplete,
            asked_mode=None if record.asked_mode is record.mode else record.asked_mode,
            late_switch=record.late_switch,
            clock_error_ns=device.error_ns if device and on_device else None,
            device_incomplete=silent or (device is not None and (device.lost or not device.placed)),
        )

    def _requests(self, opened: _Open) -> tuple[RequestRow, ...] | None:
        """The rows of the first rank that has all of them, by preference with all ids."""
        best: tuple[str, list[Row]] | None = None
        for rank in self._ranks:
            rows = opened.rows_of(rank)
            if rows is not None and self._all_named(rank, rows):
                best = rank, rows
                break
            if rows is not None and best is None:
                best = rank, rows
        if best is None:
            return None
        ids, spans = self._ids[best[0]], self._spans[best[0]]
        return tuple(_request_row(row, ids, spans) for row in best[1])

    def _drop_before(self, number: int) -> None:
        """Drops the cycles that came before the last rank began to report."""
        for early in [known for known in self._open if known < number]:
            del self._open[early]
            self._waiting.pop(early, None)
        self._floor = max(self._floor, number - 1)

    def _raise_floor(self, number: int) -> list[Cycle | None]:
        """Settles all cycles up to `number`, whatever of them is still missing."""
        cycles = []
        for old in sorted(known for known in self._open if known <= number):
            if old in self._waiting:
                cycles.append(self._give(old))
            if self._is_ahead(old):
                self._settled_ahead += 1
            del self._open[old]
        self._floor = max(self._floor, number)
        self._done = {known for known in self._done if known > number}
        self._nameless = {known for known in self._nameless if known > number}
        return cycles

    def _is_ahead(self, number: int) -> bool:
        beyond = len(self._last) < len(self._ranks) or number > min(self._last.values())
        return beyond and self._unbroken(number)

    def _follow_floor(self) -> None:
        while self._floor + 1 in self._done:
            self._floor += 1
            self._done.discard(self._floor)


def _keep(texts: dict[int, str], interned: int, text: str) -> None:
    """Adds what stands behind a number, and forgets the oldest of too many."""
    texts[interned] = text
    if len(texts) > _INTERNED_IDS:
        del texts[next(iter(texts))]


def _request_row(row: Row, ids: dict[int, str], spans: dict[int, str]) -> RequestRow:
    return RequestRow(
        request_id=ids.get(row.interned, f"unknown-{row.interned}"),
        correct_drafts=row.correct_drafts,
        output_tokens=row.output_tokens,
        overshoot=row.overshoot,
        health_check=row.health_check,
        span=spans.get(row.interned),
    )
