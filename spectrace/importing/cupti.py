"""Reads the records of a kernel window: columns of what the host launched and the device did.

The record types are those of CUPTI's `cupti_activity.h`; of each the fields are read that stand at
the same place in all its versions.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spectrace.importing.columns import GRAPH, Kernels, ProcessTrace
from spectrace.probe.layout_window import DATA_OFFSET, PIECE, RECORD_BYTES, Activity

Column: TypeAlias = NDArray[np.int64]

_PLACE_BYTES = 4
_COPIES = {  # by `CUpti_ActivityMemcpyKind`, as the torch profiler calls them
    1: "Memcpy HtoD",
    2: "Memcpy DtoH",
    8: "Memcpy DtoD",
    10: "Memcpy PtoP",
}
_COPY = "Memcpy"
_SET = "Memset"
_PEER = "Memcpy PtoP"


def _record(kind: int, **fields: tuple[str, int]) -> np.dtype[np.void]:
    """The part of a record that is read: format and place of each field."""
    return np.dtype(
        {
            "names": list(fields),
            "formats": [form for form, _ in fields.values()],
            "offsets": [place for _, place in fields.values()],
            "itemsize": RECORD_BYTES[kind],
        }
    )


def _copy(kind: int, correlation: int, graph: int) -> np.dtype[np.void]:
    return _record(
        kind,
        copy_kind=("u1", 4),
        start=("<u8", 16),
        end=("<u8", 24),
        device_id=("<u4", 32),
        stream_id=("<u4", 40),
        correlation_id=("<u4", correlation),
        graph_id=("<u4", graph),
    )


_CALL = {
    "start": ("<u8", 8),
    "end": ("<u8", 16),
    "thread_id": ("<u4", 28),
    "correlation_id": ("<u4", 32),
}
RECORDS: dict[int, np.dtype[np.void]] = {
    Activity.MEMCPY: _copy(Activity.MEMCPY, 44, 72),
    Activity.PEER_COPY: _copy(Activity.PEER_COPY, 60, 80),
    Activity.MEMSET: _record(
        Activity.MEMSET,
        start=("<u8", 16),
        end=("<u8", 24),
        device_id=("<u4", 32),
        stream_id=("<u4", 40),
        correlation_id=("<u4", 44),
        graph_id=("<u4", 72),
    ),
    Activity.DRIVER: _record(Activity.DRIVER, **_CALL),
    Activity.RUNTIME: _record(Activity.RUNTIME, **_CALL),
    Activity.KERNEL: _record(
        Activity.KERNEL,
        start=("<u8", 16),
        end=("<u8", 24),
        device_id=("<u4", 40),
        stream_id=("<u4", 48),
        correlation_id=("<u4", 92),
        name=("<u8", 104),
        graph_id=("<u4", 156),
    ),
    Activity.GRAPH: _record(
        Activity.GRAPH,
        correlation_id=("<u4", 4),
        start=("<u8", 8),
        end=("<u8", 16),
        device_id=("<u4", 24),
        graph_id=("<u4", 28),
        stream_id=("<u4", 36),
    ),
}
_ON_DEVICE = (
    Activity.KERNEL,
    Activity.MEMCPY,
    Activity.PEER_COPY,
    Activity.MEMSET,
    Activity.GRAPH,
)
_CALLS = (Activity.RUNTIME, Activity.DRIVER)


class Piece(NamedTuple):
    """One buffer as CUPTI filled it.

    Attributes:
        places: Where its records begin in `data`, in order.
        data: Its bytes.
    """

    places: NDArray[np.uint32]
    data: NDArray[np.uint8]


class Pieces(NamedTuple):
    """What a window's file holds.

    Attributes:
        whole: Pieces that are as they were written.
        torn: How many are not.
    """

    whole: list[Piece]
    torn: int


class Calls(NamedTuple):
    """Calls that may have launched something, as columns of one length.

    Attributes:
        start_ns: Of CUPTI's clock, CLOCK_REALTIME in ns.
        correlation: What it launched carries, too.
        thread: As CUPTI numbers threads.
    """

    start_ns: Column
    correlation: Column
    thread: Column


class Works(NamedTuple):
    """What the device did, as columns of one length.

    Attributes:
        start_ns: Of CUPTI's clock.
        end_ns: The same.
        correlation: That of the call that launched it.
        stream: Device and stream in one number.
        graph: Number of the graph that it was part of, 0 for none.
        kind: `layout_window.Activity`.
        name: Of a kernel the address of its name, of a copy which way it went, else 0.
    """

    start_ns: Column
    end_ns: Column
    correlation: Column
    stream: Column
    graph: Column
    kind: Column
    name: Column


class Decoded(NamedTuple):
    """All records of a window.

    Attributes:
        calls: See there.
        works: See there.
        unfinished: Records of work that had not ended, left out.
        unknown: Records of kinds that nobody asked for, left out.
    """

    calls: Calls
    works: Works
    unfinished: int
    unknown: int


def pieces_in(content: bytes | memoryview, head: int) -> Pieces:
    """The pieces in a window's file.

    Args:
        content: The file.
        head: Where the piece behind the last one would begin.
    """
    whole: list[Piece] = []
    torn = 0
    at, end = DATA_OFFSET, min(head, len(content))
    while at + PIECE.size <= end:
        size, records, length, checksum = PIECE.unpack_from(content, at)
        begin = at + PIECE.size
        data_at = begin + records * _PLACE_BYTES
        if size < PIECE.size or at + size > end or data_at + length > at + size:
            return Pieces(whole, torn + 1)  # where the next one begins is not known
        if zlib.crc32(content[begin : data_at + length]) == checksum:
            places = np.frombuffer(content, "<u4", records, begin)
            whole.append(Piece(places, np.frombuffer(content, np.uint8, length, data_at)))
        else:
            torn += 1
        at += size
    return Pieces(whole, torn)


def decoded(pieces: Iterable[Piece]) -> Decoded:
    """Makes columns of the records, in the order of their begins."""
    found: dict[int, list[NDArray[np.void]]] = {kind: [] for kind in RECORDS}
    unknown = 0
    for one in pieces:
        kinds = _kinds(one)
        known = 0
        for kind, record in RECORDS.items():
            places = one.places[kinds == kind]
            rows = _rows(one.data, places, record)
            known += len(rows)
            found[kind].append(rows)
        unknown += len(kinds) - known
    calls = _calls([rows for kind in _CALLS for rows in found[kind]])
    works, unfinished = _works({kind: found[kind] for kind in _ON_DEVICE})
    return Decoded(calls, works, unfinished, unknown)


def _kinds(one: Piece) -> Column:
    """The kind of each record; -1 where it does not lie in the bytes."""
    places = one.places.astype(np.int64)
    inside = places + _PLACE_BYTES <= one.data.size
    kinds = np.full(places.size, -1, dtype=np.int64)
    spread = places[inside, None] + np.arange(_PLACE_BYTES)
    kinds[inside] = np.ascontiguousarray(one.data[spread]).view("<i4").reshape(-1)
    return kinds


def _rows(
    data: NDArray[np.uint8], places: NDArray[np.uint32], record: np.dtype[np.void]
) -> NDArray[np.void]:
    """The records at some places, those that reach beyond the bytes left out."""
    begins = places.astype(np.int64)
    begins = begins[begins + record.itemsize <= data.size]
    spread = begins[:, None] + np.arange(record.itemsize)
    return np.ascontiguousarray(data[spread]).view(record).reshape(-1)


def _column(rows: Sequence[NDArray[np.void]], name: str) -> Column:
    parts = [part[name].astype(np.int64) for part in rows]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _calls(rows: Sequence[NDArray[np.void]]) -> Calls:
    """The outermost call of each correlation: the runtime's calls the driver's within it."""
    start_ns, correlation = _column(rows, "start"), _column(rows, "correlation_id")
    order = np.lexsort((start_ns, correlation))
    _, first = np.unique(correlation[order], return_index=True)
    kept = order[first]
    kept = kept[np.argsort(start_ns[kept], kind="stable")]
    return Calls(start_ns[kept], correlation[kept], _column(rows, "thread_id")[kept])


def _works(rows: dict[int, list[NDArray[np.void]]]) -> tuple[Works, int]:
    """What the device did, and how many records of work had no begin or end yet."""
    parts = [
        Works(
            start_ns=_column(some, "start"),
            end_ns=_column(some, "end"),
            correlation=_column(some, "correlation_id"),
            stream=_column(some, "device_id") << 32 | _column(some, "stream_id"),
            graph=_column(some, "graph_id"),
            kind=np.full(sum(map(len, some)), kind, dtype=np.int64),
            name=_names(kind, some),
        )
        for kind, some in rows.items()
    ]
    whole = Works(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    ended = (whole.start_ns > 0) & (whole.end_ns >= whole.start_ns)
    order = np.flatnonzero(ended)
    order = order[np.argsort(whole.start_ns[order], kind="stable")]
    return Works(*(column[order] for column in whole)), int(ended.size - order.size)


def _names(kind: int, rows: Sequence[NDArray[np.void]]) -> Column:
    if kind == Activity.KERNEL:
        return _column(rows, "name")
    if kind == Activity.MEMCPY:
        return _column(rows, "copy_kind")
    return np.zeros(sum(map(len, rows)), dtype=np.int64)


def addresses(works: Works) -> list[int]:
    """Where the names of the kernels stand in the memory of the server, each once."""
    return [int(one) for one in np.unique(works.name[works.kind == Activity.KERNEL])]


def between(found: Decoded, begin_ns: int, end_ns: int) -> Decoded:
    """What was launched in a stretch of time; work without its call by when it ran.

    Args:
        found: All records.
        begin_ns: Of CUPTI's clock.
        end_ns: The first ns behind it.
    """
    calls, works = found.calls, found.works
    of_call = (calls.start_ns >= begin_ns) & (calls.start_ns < end_ns)
    known = np.isin(works.correlation, calls.correlation)
    own = np.isin(works.correlation, calls.correlation[of_call])
    ran = (works.start_ns >= begin_ns) & (works.start_ns < end_ns)
    kept = np.where(known, own, ran)
    return found._replace(
        calls=Calls(*(column[of_call] for column in calls)),
        works=Works(*(column[kept] for column in works)),
    )


def process_of(
    found: Decoded, rank: str, pid: int, *, shift_ns: int, name_at: Callable[[int], str]
) -> ProcessTrace:
    """The records as what all sources of kernels fill.

    Args:
        found: The records.
        rank: Name of the rank.
        pid: Its process.
        shift_ns: What is added to CUPTI's times to make UNIX times of the run.
        name_at: The name of a kernel by its address.

    Returns:
        Launches are those calls alone of which the device shows something.
    """
    process = ProcessTrace(rank, pid)
    calls, works = found.calls, found.works
    graphs = set(works.correlation[works.graph > 0].tolist())
    launched = np.isin(calls.correlation, works.correlation)
    for start_ns, correlation, thread in zip(
        *(column[launched].tolist() for column in calls), strict=True
    ):
        process.launches.add(
            start_ns + shift_ns,
            correlation,
            process.thread_number(thread),
            graph=correlation in graphs,
        )
    _fill(process.kernels, works, shift_ns, name_at)
    process.end_ns = int(works.end_ns.max(initial=0)) + shift_ns
    return process


def _fill(kernels: Kernels, works: Works, shift_ns: int, name_at: Callable[[int], str]) -> None:
    texts: dict[tuple[int, int], str] = {}
    for start_ns, end_ns, correlation, stream, _, kind, name in zip(
        *(column.tolist() for column in works), strict=True
    ):
        text = texts.get((kind, name))
        if text is None:
            text = texts[kind, name] = _text(kind, name, name_at)
        kernels.add(start_ns + shift_ns, end_ns + shift_ns, correlation, stream, text)


def _text(kind: int, name: int, name_at: Callable[[int], str]) -> str:
    if kind == Activity.KERNEL:
        return name_at(name)
    if kind == Activity.MEMCPY:
        return _COPIES.get(name, _COPY)
    return {Activity.MEMSET: _SET, Activity.PEER_COPY: _PEER}.get(kind, GRAPH)
