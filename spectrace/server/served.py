"""Answers which requests the stored cycles served, and what each cycle gave to one of them."""

from __future__ import annotations

import msgspec
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from spectrace.server.asked import MOST_NAME, Asked
from spectrace.store.source import CycleSource, RequestCycle, ServedRequest

MOST_LISTED = 500  # requests of one answer
MOST_CYCLES = 5000  # likewise
_LISTED = 100  # when nobody says how many
_CYCLES = 2000
_MOST_ID = 256
_MOST_GROUPS = 512


class WireServed(msgspec.Struct, frozen=True, kw_only=True):
    """A request that cycles worked for.

    Attributes:
        id: The server's id of it.
        cycles: As in `ServedRequest`, like all but the times.
        verifies: The same.
        correct: Its `correct_drafts`.
        tokens: Its `output_tokens`.
        first_n: The same.
        last_n: The same.
        t0: When its first cycle began, UNIX ns in decimal digits.
        length_ns: From then to the end of its last one, in ns.
    """

    id: str
    cycles: int
    verifies: int
    correct: int
    tokens: int
    first_n: int
    last_n: int
    t0: str
    length_ns: int


class WireRow(msgspec.Struct, frozen=True, array_like=True):
    """A cycle as `[n, start_ns, took_ns, batch, steps, correct, tokens, overshoot]`.

    Its start is in ns from the request's `t0`.
    """

    n: int
    start_ns: int
    took_ns: int
    batch: int
    steps: int
    correct: int | None
    tokens: int
    overshoot: bool


class _Page(msgspec.Struct, frozen=True, kw_only=True):
    """Requests, and what to give as `before_n` and `before_id` for those that follow.

    Attributes:
        groups: Names of the groups of the run.
        requests: The one that was served last first.
        before: The two; None where none follow.
    """

    groups: list[str]
    requests: tuple[WireServed, ...]
    before: tuple[int, str] | None


class _History(msgspec.Struct, frozen=True, kw_only=True):
    """A request and its cycles, the newest first, and what to give as `before` for the others."""

    request: WireServed
    cycles: tuple[WireRow, ...]
    before: int | None


def groups_of(store: CycleSource, run_id: str) -> list[str]:
    """Names of the groups of a run that can be asked for; whoever sends may send any."""
    return [name for name in store.groups(run_id) if len(name) <= MOST_NAME][:_MOST_GROUPS]


def served_page(store: CycleSource, run_id: str, parameters: QueryParams) -> bytes:
    """The JSON of a page of requests.

    Raises:
        HTTPException: A parameter is wrong (400).
        SpectraceError: A file is damaged.
    """
    asked = Asked(parameters, ("group", "before_n", "before_id", "limit"))
    before_n, before_id = asked.number("before_n"), asked.text("before_id", _MOST_ID)
    if (before_n is None) != (before_id is None):
        raise HTTPException(400, "before_n and before_id belong together: give both or none.")
    before = None if before_n is None or before_id is None else (before_n, before_id)
    limit = asked.number("limit", 1, MOST_LISTED) or _LISTED
    found = store.served_requests(run_id, asked.text("group") or "", before, limit)
    return msgspec.json.encode(
        _Page(
            groups=groups_of(store, run_id),
            requests=tuple(map(_wire, found)),
            before=found[-1].key if len(found) == limit else None,
        )
    )


def served_history(store: CycleSource, run_id: str, parameters: QueryParams) -> bytes:
    """The JSON of one request and its cycles.

    Raises:
        HTTPException: A parameter is wrong (400), or there is no such request (404).
        SpectraceError: A file is damaged.
    """
    asked = Asked(parameters, ("id", "group", "before", "limit"))
    request_id = asked.text("id", _MOST_ID)
    if request_id is None:
        raise HTTPException(400, "Say which request: id is missing.")
    limit = asked.number("limit", 1, MOST_CYCLES) or _CYCLES
    group, before = asked.text("group") or "", asked.number("before")
    found = store.request_history(run_id, group, request_id, before, limit)
    if found is None:
        raise HTTPException(404, "No cycle of this request is here, or not any more.")
    cycles = found.cycles
    return msgspec.json.encode(
        _History(
            request=_wire(found.request),
            cycles=tuple(_wire_row(row, found.request.first_ns) for row in cycles),
            before=cycles[-1].number if len(cycles) == limit else None,
        )
    )


def _wire(request: ServedRequest) -> WireServed:
    return WireServed(
        id=request.request_id,
        cycles=request.cycles,
        verifies=request.verifies,
        correct=request.correct_drafts,
        tokens=request.output_tokens,
        first_n=request.first_n,
        last_n=request.last_n,
        t0=str(request.first_ns),
        length_ns=request.last_ns - request.first_ns,
    )


def _wire_row(row: RequestCycle, t0_ns: int) -> WireRow:
    return WireRow(
        row.number,
        row.start_ns - t0_ns,
        row.took_ns,
        row.batch,
        row.steps,
        row.correct_drafts,
        row.output_tokens,
        row.overshoot,
    )
