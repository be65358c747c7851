"""Turns Cycles into columns for the database, and rows of the database into Cycles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from spectrace.model import (
    Cycle,
    CycleKind,
    Lane,
    OtherSpan,
    Phase,
    PhaseName,
    RankCycle,
    RequestRow,
    TimingMode,
)
from spectrace.store.schema import TABLES, Column

Row: TypeAlias = tuple[Any, ...]
Batch: TypeAlias = dict[str, npt.NDArray[Any]]


def batches(cycles: Sequence[Cycle], first_id: int) -> dict[str, Batch]:
    """The columns of `cycles` by table; tables without rows are left out.

    Args:
        cycles: Each with at least one rank; they get the ids from `first_id` on.
        first_id: Id of the first cycle.

    Raises:
        OverflowError: A number does not fit into 64 bits.
        UnicodeEncodeError: A text is not Unicode.
    """
    numbered = list(enumerate(cycles, first_id))
    rows = {
        "cycles": [_cycle_row(key, cycle) for key, cycle in numbered],
        "ranks": [row for key, cycle in numbered for row in _rank_rows(key, cycle)],
        "phases": [row for key, cycle in numbered for row in _phase_rows(key, cycle)],
        "requests": [row for key, cycle in numbered for row in _request_rows(key, cycle)],
    }
    return {table: batch(TABLES[table], lines) for table, lines in rows.items() if lines}


def span_batches(spans: Sequence[OtherSpan], first_place: int) -> dict[str, Batch]:
    """The same for spans of others, which get the places from `first_place` on.

    Raises:
        OverflowError: A number does not fit into 64 bits.
        UnicodeEncodeError: A text is not Unicode.
    """
    rows = [(place, *_span_row(span)) for place, span in enumerate(spans, first_place)]
    return {"spans": batch(TABLES["spans"], rows)} if rows else {}


def batch(columns: Sequence[Column], rows: Iterable[Row]) -> Batch:
    """The same values column by column, each column an array of its type."""
    values = zip(*rows, strict=True)
    return {
        column.name: _array(column.type, cells)
        for column, cells in zip(columns, values, strict=True)
    }


def _array(kind: str, cells: Sequence[Any]) -> npt.NDArray[Any]:
    if kind == "BOOLEAN":
        return np.array(cells, dtype=np.bool_)
    if kind == "VARCHAR":
        "".join(cells).encode()  # raises at what is not Unicode, which DuckDB would take as empty
        return np.array(cells, dtype=object)
    if None not in cells:
        return np.array(cells, dtype=np.int64)
    filled = np.array([0 if cell is None else cell for cell in cells], dtype=np.int64)
    return np.ma.masked_array(filled, mask=[cell is None for cell in cells])


def _cycle_row(key: int, cycle: Cycle) -> Row:
    return (
        key,
        cycle.run_id,
        cycle.group,
        cycle.number,
        cycle.kind.value,
        cycle.batch_size,
        cycle.steps,
        cycle.topk,
        cycle.draft_tokens,
        cycle.start_ns,
        cycle.end_ns,
        cycle.requests is not None,
        cycle.padded_batch,
        cycle.context_tokens_sum,
        cycle.context_tokens_max,
        cycle.queued,
        cycle.running,
    )


def _rank_rows(key: int, cycle: Cycle) -> Iterable[Row]:
    for place, rank in enumerate(cycle.ranks):
        yield (
            key,
            place,
            rank.rank,
            rank.start_ns,
            rank.end_ns,
            rank.mode.value,
            rank.probe_ns,
            rank.ended_idle,
            rank.incomplete,
            "" if rank.asked_mode is None else rank.asked_mode.value,
            rank.late_switch,
            rank.clock_error_ns,
            rank.device_incomplete,
        )


def _phase_rows(key: int, cycle: Cycle) -> Iterable[Row]:
    for rank_place, rank in enumerate(cycle.ranks):
        for place, phase in enumerate(rank.phases):
            yield (
                key,
                rank_place,
                place,
                rank.rank,
                phase.lane.value,
                phase.name.value,
                phase.start_ns,
                phase.end_ns,
                phase.of_cycle,
                phase.graph,
            )


def _request_rows(key: int, cycle: Cycle) -> Iterable[Row]:
    for place, row in enumerate(cycle.requests or ()):
        yield (
            key,
            place,
            row.request_id,
            row.correct_drafts,
            row.output_tokens,
            row.overshoot,
            row.health_check,
            row.span or "",
        )


def _span_row(span: OtherSpan) -> Row:
    return (
        span.trace_id,
        span.span_id,
        span.parent_id,
        span.service,
        span.name,
        span.start_ns,
        span.end_ns,
        span.request_id,
        span.failed,
    )


def span_of(row: Row) -> OtherSpan:
    """The span in a row of its table."""
    _, trace_id, span_id, parent_id, service, name, start_ns, end_ns, request_id, failed = row
    return OtherSpan(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        service=service,
        name=name,
        start_ns=start_ns,
        end_ns=end_ns,
        request_id=request_id,
        failed=failed,
    )


def cycles_of(rows: Mapping[str, Sequence[Row]]) -> dict[int, Cycle]:
    """The Cycles in the rows of the four tables, by id.

    Args:
        rows: By table; in the order of `id`, then `rank_place`, then `place`.

    Raises:
        ValueError: A word is unknown: another version of spectrace wrote it.
    """
    ranks = _ranks_by_id(rows["ranks"], rows["phases"])
    requests = {
        key: tuple(map(_request, lines)) for key, lines in groupby(rows["requests"], itemgetter(0))
    }
    return {row[0]: _cycle(row, ranks[row[0]], requests.get(row[0], ())) for row in rows["cycles"]}


def _ranks_by_id(rank_rows: Iterable[Row], phase_rows: Iterable[Row]) -> dict[int, list[RankCycle]]:
    phases = {
        place: tuple(map(_phase, lines)) for place, lines in groupby(phase_rows, itemgetter(0, 1))
    }
    return {
        key: [_rank(row, phases.get(row[:2], ())) for row in lines]
        for key, lines in groupby(rank_rows, itemgetter(0))
    }


def _cycle(row: Row, ranks: Iterable[RankCycle], requests: tuple[RequestRow, ...]) -> Cycle:
    _, run_id, group, number, kind, batch_size, steps, topk, draft_tokens = row[:9]
    known, padded_batch, context_tokens_sum, context_tokens_max, queued, running = row[11:]
    return Cycle(
        run_id=run_id,
        group=group,
        number=number,
        kind=CycleKind(kind),
        batch_size=batch_size,
        steps=steps,
        topk=topk,
        draft_tokens=draft_tokens,
        ranks=tuple(ranks),
        requests=requests if known else None,
        padded_batch=padded_batch,
        context_tokens_sum=context_tokens_sum,
        context_tokens_max=context_tokens_max,
        queued=queued,
        running=running,
    )


def _rank(row: Row, phases: tuple[Phase, ...]) -> RankCycle:
    _, _, rank, start_ns, end_ns, mode, probe_ns, ended_idle, incomplete = row[:9]
    asked_mode, late_switch, clock_error_ns, device_incomplete = row[9:]
    return RankCycle(
        rank=rank,
        start_ns=start_ns,
        end_ns=end_ns,
        phases=phases,
        mode=TimingMode(mode),
        probe_ns=probe_ns,
        ended_idle=ended_idle,
        incomplete=incomplete,
        asked_mode=TimingMode(asked_mode) if asked_mode else None,
        late_switch=late_switch,
        clock_error_ns=clock_error_ns,
        device_incomplete=device_incomplete,
    )


def _phase(row: Row) -> Phase:
    _, _, _, _, lane, name, start_ns, end_ns, of_cycle, graph = row
    return Phase(
        name=PhaseName(name),
        start_ns=start_ns,
        end_ns=end_ns,
        of_cycle=of_cycle,
        lane=Lane(lane),
        graph=None if graph is None else bool(graph),
    )


def _request(row: Row) -> RequestRow:
    _, _, request_id, correct_drafts, output_tokens, overshoot, health_check, span = row
    return RequestRow(
        request_id=request_id,
        correct_drafts=correct_drafts,
        output_tokens=output_tokens,
        overshoot=overshoot,
        health_check=health_check,
        span=span or None,
    )
