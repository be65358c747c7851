"""Writes what `nsys export --type sqlite` writes, as old and new versions of its schema have it.

The old one keeps texts in the rows of ranges and says no kernel's process and no session's start;
the new one keeps texts in `StringIds` and has further columns and tables.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

SESSION_NS = 1_790_857_026_000_000_000
PID = 4242
THREAD = (1 << 48) | (PID << 24) | PID
PROCESS = (1 << 48) | (PID << 24)

_OLD = """
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
    rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
    endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
"""
_NEW = """
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL,
    rangeId INTEGER, category INTEGER, color INTEGER, text TEXT, globalTid INTEGER,
    endGlobalTid INTEGER, textId INTEGER, domainId INTEGER, uint64Value INTEGER,
    int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER,
    floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, greenContextId INTEGER,
    streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
    graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
    globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT);
"""
_BOTH = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL,
    eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL,
    returnValue INTEGER NOT NULL);
"""
_OLD_KERNEL = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 7, ?, ?, ?)"
_NEW_KERNEL = """
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, 0, 1, NULL, 7, ?, ?, ?, ?, NULL, NULL)
"""
_PUSH_POP, _DOMAIN_CREATE = 59, 75

NvtxRange = tuple[str, int, int | None, int | None]  # text, begin and end in ns, payload
Launch = tuple[str, int, str, int, int]  # call, begin of it, kernel, begin and end of it


def write_export(  # noqa: PLR0913 - what a session has
    path: Path,
    ranges: Iterable[NvtxRange],
    launches: Iterable[Launch] = (),
    *,
    new: bool = True,
    domain: str = "",
    process_name: str = "/usr/bin/python3.12",
) -> Path:
    """Writes an export; times in ns from the session's start.

    Args:
        path: The file to make.
        ranges: Pushed and popped on the scheduler's thread; without an end they stay open.
        launches: Calls of the runtime with the kernel that each launched.
        new: Which schema.
        domain: That the ranges are of; the default one if empty.
        process_name: As the newer schema has it.
    """
    with closing(sqlite3.connect(path)) as file:
        file.executescript((_NEW if new else _OLD) + _BOTH)
        texts: dict[str, int] = {}

        def number(text: str) -> int:
            return texts.setdefault(text, len(texts))

        insert = "INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, text, textId, "
        insert += "domainId, uint64Value) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        if domain:
            file.execute(insert, (0, None, _DOMAIN_CREATE, THREAD, domain, None, 3, None))
        for text, start, end, payload in ranges:
            said = (None, number(text)) if new else (text, None)
            row = (start, end, _PUSH_POP, THREAD, *said, 3 if domain else 0, payload)
            file.execute(insert, row)
        for place, (call, at, kernel, start, end) in enumerate(launches, start=1):
            file.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, 0, ?, ?, ?, 0)",
                (at, at + 4000, THREAD, place, number(call)),
            )
            names = number(kernel), number(kernel[:8])
            if new:
                file.execute(_NEW_KERNEL, (start, end, place, PROCESS, *names))
            else:
                file.execute(_OLD_KERNEL, (start, end, place, *names))
        file.executemany("INSERT INTO StringIds VALUES (?, ?)", [(n, t) for t, n in texts.items()])
        if new:
            file.execute(
                "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", (SESSION_NS,)
            )
            file.execute("INSERT INTO PROCESSES VALUES (?, ?, ?)", (PROCESS, PID, process_name))
        file.commit()
    return path
