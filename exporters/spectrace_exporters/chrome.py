"""Writes Chrome's trace JSON, which chrome://tracing, Perfetto and speedscope read.

Every slice is a pair of events B and E, not one X with a duration: viewers round start and
duration of an X apart from each other, and slices that touch then cross. Times are µs with three
decimals since the whole second in which the recording begins: since 1970 they would not fit into
the numbers that viewers calculate with.

Format: "Trace Event Format" of the Chromium project.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from spectrace.model import Lane
from spectrace_exporters import Recorded
from spectrace_exporters._tracks import Slice, Track, Tracks, edges

_NS_PER_S = 1_000_000_000
_ROWS = 1000  # threads of one lane


class ChromeFile:
    """A process per rank, in it a thread per lane."""

    suffix = ".chrome.json"

    def write(self, recorded: Recorded, path: Path) -> None:
        """As `FileExporter.write`."""
        origin_ns = recorded.first_ns // _NS_PER_S * _NS_PER_S
        head = {"displayTimeUnit": "ns", "otherData": {"origin_unix_ns": str(origin_ns)}}
        with path.open("wb") as out:
            out.write(msgspec.json.encode(head)[:-1] + b',"traceEvents":[')
            for place, event in enumerate(events(recorded, origin_ns)):
                out.write(b",\n" if place else b"\n")
                out.write(msgspec.json.encode(event))
            out.write(b"\n]}\n")


def events(recorded: Recorded, origin_ns: int) -> Iterator[Mapping[str, Any]]:
    """All events; those of a track in their order.

    Args:
        recorded: What to write.
        origin_ns: UNIX time in ns from which times count.
    """
    tracks, threads = Tracks(), _Threads()
    for cycle in recorded.cycles():
        for track, piece in tracks.place(cycle):
            yield from threads.introduce(track)
            place = threads.place(track)
            for time_ns, begun in edges(piece):
                yield {**_event(begun), **place, "ts": _microseconds(time_ns - origin_ns)}


def _event(begun: Slice | None) -> dict[str, Any]:
    if begun is None:
        return {"ph": "E"}
    args = {"args": begun.details} if begun.details else {}
    return {"ph": "B", "name": begun.name, "cat": "spectrace", **args}


def _microseconds(time_ns: int) -> msgspec.Raw:
    """A JSON number with every ns."""
    sign = "-" if time_ns < 0 else ""
    return msgspec.Raw(f"{sign}{abs(time_ns) // 1000}.{abs(time_ns) % 1000:03}".encode())


class _Threads:
    """Numbers ranks as processes and tracks as their threads.

    They are no process ids: those of two machines may be the same.
    """

    def __init__(self) -> None:
        self._processes: dict[tuple[str, str], int] = {}
        self._known: set[Track] = set()

    def place(self, track: Track) -> dict[str, int]:
        """The fields that say where an event belongs."""
        process = self._processes.setdefault((track.run_id, track.rank), len(self._processes) + 1)
        return {"pid": process, "tid": (_ROWS if track.lane is Lane.DEVICE else 0) + track.row + 1}

    def introduce(self, track: Track) -> Iterator[dict[str, Any]]:
        """The names of a track that has not been seen yet."""
        if track in self._known:
            return
        self._known.add(track)
        place = self.place(track)
        yield _metadata(place, "process_name", name=track.rank)
        yield _metadata(place, "process_sort_index", sort_index=place["pid"])
        yield _metadata(place, "thread_name", name=track.name)
        yield _metadata(place, "thread_sort_index", sort_index=place["tid"])


def _metadata(place: Mapping[str, int], what: str, **args: str | int) -> dict[str, Any]:
    return {"ph": "M", "name": what, **place, "args": args}
