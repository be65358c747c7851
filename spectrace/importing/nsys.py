"""Reads what Nsight Systems exports: `nsys export --type sqlite`, of any version of its schema.

Tables and columns are asked for, not assumed: they came and went with the versions.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from spectrace.errors import SpectraceError
from spectrace.importing.columns import (
    FURTHEST_NS,
    GRAPH,
    Meaning,
    ProcessTrace,
    Role,
    Span,
    TraceFile,
)
from spectrace.importing.faults import Fault, Faults
from spectrace.importing.kineto import rank_of
from spectrace.importing.names import meaning_of_own, meaning_of_range

SOURCE = "Nsight Systems"
_MAGIC = b"SQLite format 3\0"
_DOMAIN = "spectrace"
_PUSH_POP, _START_END, _DOMAIN_CREATE = 59, 60, 75  # of ENUM_NSYS_EVENT_TYPE
_PAYLOADS = ("uint64Value", "int64Value", "uint32Value", "int32Value")
_WAIT = Meaning(Role.WAIT)
_CAPTURE = Meaning(Role.CAPTURE)
_ID_BITS = 24  # globalTid: … | process id | thread id
_ID_MASK = (1 << _ID_BITS) - 1
_HOSTS = frozenset({"SYNCHRONIZATION"})  # activities that are the host's waits
_NAMED = {"MEMCPY": "Memcpy", "MEMSET": "Memset", "GRAPH_TRACE": GRAPH}


def is_sqlite(path: Path) -> bool:
    """Whether a file is one of SQLite's.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_nsys(path: Path, faults: Faults, progress: Callable[[int], None]) -> TraceFile:
    """Reads one export.

    Args:
        path: The file.
        faults: Where it is counted what is left out.
        progress: Is told the file's size at the end.

    Raises:
        SpectraceError: It is no such export, or damaged.
    """
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        ) as connection:
            file = _Export(connection, rank_of(path.name), faults).read(path.name)
    except sqlite3.Error as error:
        raise SpectraceError(
            f"{path.name} cannot be read as an export of Nsight Systems ({error}): export it again "
            "with `nsys export --type sqlite`."
        ) from error
    progress(path.stat().st_size)
    return file


class _Range(NamedTuple):
    start_ns: int
    end_ns: int | None
    kind: int
    thread: int
    text: str
    domain: int
    payload: int | None


class _Export:
    """One export; times of the file are relative to the session's start."""

    def __init__(self, connection: sqlite3.Connection, rank: str, faults: Faults) -> None:
        self._connection = connection
        self._rank = rank
        self._faults = faults
        self._processes: dict[int, ProcessTrace] = {}
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
        )
        self._tables = {name: self._columns(name) for (name,) in tables.fetchall()}
        self._texts = self._strings()
        self._base_ns = self._session_start()

    def read(self, name: str) -> TraceFile:
        """All that is used of it.

        Raises:
            SpectraceError: It has no ranges.
        """
        if "NVTX_EVENTS" not in self._tables:
            raise SpectraceError(
                f"{name} has no NVTX ranges: trace with `nsys profile --trace=cuda,nvtx`, and "
                "SGLANG_ENABLE_NVTX_SCHEDULER=1 or spectrace attached."
            )
        self._nvtx()
        self._runtime()
        for table in self._tables:
            if table.startswith("CUPTI_ACTIVITY_KIND_"):
                self._device(table.removeprefix("CUPTI_ACTIVITY_KIND_"), table)
        self._name_ranks()
        return TraceFile(SOURCE, "", list(self._processes.values()))

    def _columns(self, table: str) -> set[str]:
        quoted = table.replace('"', '""')
        return {row[1] for row in self._connection.execute(f'PRAGMA table_info("{quoted}")')}

    def _rows(self, table: str, wanted: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
        """Rows of a table; a column that this version lacks is NULL.

        Args:
            table: One of the file's own.
            wanted: By column what to take instead where it is missing, "" for NULL.
        """
        has = self._tables[table]
        columns = [
            f'"{name}"' if name in has else (f'"{other}"' if other in has else "NULL")
            for name, other in wanted.items()
        ]
        # The names are those above, and of tables of the file.
        return self._connection.execute(f'SELECT {", ".join(columns)} FROM "{table}"')  # noqa: S608

    def _strings(self) -> dict[int, str]:
        if "StringIds" not in self._tables:
            return {}
        return dict(self._rows("StringIds", {"id": "", "value": ""}))

    def _session_start(self) -> int:
        table = "TARGET_INFO_SESSION_START_TIME"
        if table not in self._tables:
            return 0
        row = next(self._rows(table, {"utcEpochNs": ""}), None)
        return int(row[0]) if row and _are_times(row[0]) else 0

    def _text(self, text: Any) -> str:
        """A text, or the one of that number."""
        return self._texts.get(text, "") if isinstance(text, int) else str(text or "")

    def _process(self, global_id: int) -> ProcessTrace:
        pid = global_id >> _ID_BITS & _ID_MASK
        if pid not in self._processes:
            self._processes[pid] = ProcessTrace("", pid)
        return self._processes[pid]

    def _owner(self, global_pid: int | None) -> ProcessTrace:
        """Whose a kernel is; the only process's where this version does not say it."""
        if global_pid is None and len(self._processes) == 1:
            return next(iter(self._processes.values()))
        return self._process(global_pid or 0)

    def _add(self, thread: int, start_ns: int, end_ns: int, meaning: Meaning) -> None:
        if end_ns < start_ns:
            self._faults.add(Fault.NEGATIVE)
            return
        process = self._process(thread)
        span = Span(start_ns + self._base_ns, end_ns + self._base_ns, meaning)
        process.threads.setdefault(thread, []).append(span)
        process.end_ns = max(process.end_ns, span.end_ns)

    def _nvtx(self) -> None:
        ranges = list(self._ranges())
        own = {
            (piece.thread >> _ID_BITS, piece.domain)
            for piece in ranges
            if piece.kind == _DOMAIN_CREATE and piece.text == _DOMAIN
        }
        for piece in ranges:
            if piece.kind not in {_PUSH_POP, _START_END}:
                continue
            meaning = _meaning(piece, own=(piece.thread >> _ID_BITS, piece.domain) in own)
            if meaning is None:
                continue
            if piece.end_ns is None:
                self._faults.add(Fault.UNCLOSED)
            else:
                self._add(piece.thread, piece.start_ns, piece.end_ns, meaning)

    def _ranges(self) -> Iterator[_Range]:
        wanted = dict.fromkeys(
            ("start", "end", "eventType", "globalTid", "text", "textId", "domainId", *_PAYLOADS), ""
        )
        for row in self._rows("NVTX_EVENTS", wanted):
            start, end, kind, thread, text, text_id, domain, *payloads = row
            if not (_are_numbers(thread) and _are_times(start, start if end is None else end)):
                self._faults.add(Fault.UNREADABLE)
                continue
            payload = next((value for value in payloads if isinstance(value, int)), None)
            name = self._text(text if text is not None else text_id)
            yield _Range(start, end, kind or _PUSH_POP, thread, name, domain or 0, payload)

    def _runtime(self) -> None:
        table = "CUPTI_ACTIVITY_KIND_RUNTIME"
        if table not in self._tables:
            return
        wanted = dict.fromkeys(("start", "end", "globalTid", "correlationId", "nameId"), "")
        begun: dict[int, int] = {}
        for start, end, thread, correlation, name_id in self._rows(table, wanted):
            if not (_are_numbers(thread, correlation) and _are_times(start, end)):
                self._faults.add(Fault.UNREADABLE)
                continue
            name = self._text(name_id).partition("_v")[0]
            if name.endswith("Synchronize") and name.startswith("cuda"):
                self._add(thread, start, end, _WAIT)
            elif "StreamBeginCapture" in name:
                begun[thread] = start
            elif "StreamEndCapture" in name and thread in begun:
                self._add(thread, begun.pop(thread), end, _CAPTURE)
            process = self._process(thread)
            process.launches.add(
                start + self._base_ns,
                correlation,
                process.thread_number(thread),
                graph="GraphLaunch" in name,
            )

    def _device(self, kind: str, table: str) -> None:
        has = self._tables[table]
        if kind in _HOSTS or not {"start", "end", "correlationId", "streamId"} <= has:
            return
        name = "demangledName" if "demangledName" in has else "shortName"
        wanted = {
            **dict.fromkeys(("start", "end", "correlationId", "globalPid"), ""),
            **dict.fromkeys(("deviceId", "streamId"), ""),
            name: "mangledName",
        }
        for start, end, correlation, global_pid, device, stream, text in self._rows(table, wanted):
            if not (_are_numbers(correlation, global_pid or 0) and _are_times(start, end)):
                self._faults.add(Fault.UNREADABLE)
                continue
            if end < start:
                self._faults.add(Fault.NEGATIVE)
                continue
            self._owner(global_pid).kernels.add(
                start + self._base_ns,
                end + self._base_ns,
                correlation,
                (device, stream),
                self._text(text) or _NAMED.get(kind, kind.lower()),
            )

    def _name_ranks(self) -> None:
        """By the names of processes, which SGLang sets; else by the file's."""
        if "PROCESSES" in self._tables:
            wanted = dict.fromkeys(("globalPid", "name"), "")
            for global_pid, name in self._rows("PROCESSES", wanted):
                if isinstance(global_pid, int):
                    process = self._processes.get(global_pid >> _ID_BITS & _ID_MASK)
                    if process is not None:
                        process.rank = rank_of(self._text(name))
        if len(self._processes) == 1:
            for process in self._processes.values():
                process.rank = process.rank or self._rank


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int) for value in values)


def _are_times(*values: Any) -> bool:
    return all(isinstance(value, int) and abs(value) <= FURTHEST_NS for value in values)


def _meaning(piece: _Range, *, own: bool) -> Meaning | None:
    """What a range is: spectrace's by its domain, or by its text where torch made it; SGLang's."""
    if own:
        return meaning_of_own(piece.text, piece.payload)
    if piece.text.startswith(f"{_DOMAIN} "):
        name, _, number = piece.text.removeprefix(f"{_DOMAIN} ").partition(" ")
        return meaning_of_own(name, int(number) if number.isdecimal() else None)
    return meaning_of_range(piece.text)
