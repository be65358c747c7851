"""A process that allocates all the time in four threads, attached to over and over."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

from spectrace.analysis.summary import percentile
from spectrace.attach import handle, inject, leave
from spectrace.attach.ways import Method
from tests.integration.attach_targets import (
    BUSY,
    NEWEST_PYTHON,
    interpreters,
    rank_of,
    running,
    sources,
)

TIMEOUT_S = 60.0


def ways_of_this_machine() -> list[tuple[Method, Path]]:
    """Each way in that puts something into a process, with every interpreter that allows it."""
    pythons = interpreters()
    found = [(Method.PTRACE, python) for python in pythons] + [(Method.GDB, pythons[0])]
    if NEWEST_PYTHON in pythons:
        found += [(Method.REMOTE_EXEC, NEWEST_PYTHON), (Method.GDB, NEWEST_PYTHON)]
    return found


def one_of_each_way() -> list[tuple[Method, Path]]:
    """Each way in once, with the first interpreter that allows it."""
    return list(
        {method: (method, python) for method, python in ways_of_this_machine()[::-1]}.values()
    )


def stress(method: Method, python: Path, finish: Path, count: int) -> str:
    """Attaches and detaches `count` times; gives in a line for how long the process stood.

    Args:
        method: The way in.
        python: The interpreter of the process.
        finish: A file whose appearance ends the process.
        count: How often.

    Raises:
        AssertionError: The process noticed.
    """
    options = handle.Options(units=64, method=method)
    stops_ms = []
    with running(BUSY, str(finish), "4", python=python) as process:
        for _ in range(count):
            attached = inject.put_in(
                rank_of(process), options=options, timeout_s=TIMEOUT_S, sources=sources()
            )
            stops_ms.append(attached.stop_ns / 1e6)
            assert leave.take_out(attached, timeout_s=TIMEOUT_S).removed
        finish.touch()
        out, complaint = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0
    assert not complaint
    assert json.loads(out.splitlines()[-1]) == {"new": [], "error": None}
    stops_ms.sort()
    figures = f"median {median(stops_ms):.2f} ms, p99 {percentile(stops_ms, 99):.2f} ms"
    return f"{method.value} on {python}: {count} of {count}, stood {figures}"
