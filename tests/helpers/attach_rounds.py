"""Attaches to a server again and again, and looks whether it notices, for tests and benchmarks."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from spectrace.analysis.summary import percentile
from spectrace.attach.discover import find_by_pid
from spectrace.attach.handle import Options
from spectrace.attach.session import Stall, TraceSession
from spectrace.attach.ways import Method
from spectrace.errors import SpectraceError

INSTALL_TIMEOUT_S = 30.0
POLL_S = 0.01


def attach_once(pid: int, method: Method = Method.AUTO) -> list[Stall] | None:
    """Attaches, waits until the worker of every rank is hooked, detaches; None where that failed.

    Args:
        pid: Any process of the server, which must be under load.
        method: The way in.
    """
    try:
        with TraceSession(find_by_pid(pid), options=Options(method=method)) as session:
            deadline = time.monotonic() + INSTALL_TIMEOUT_S
            while not _is_installed(session) and time.monotonic() < deadline:
                session.poll()
                time.sleep(POLL_S)
            detached = session.detach()
            stalls = session.stall()
    except SpectraceError as error:
        print(error, file=sys.stderr)
        return None
    good = all(stall.installed for stall in stalls) and all(out.removed for out in detached)
    return stalls if good else None


def _is_installed(session: TraceSession) -> bool:
    return all(stall.installed for stall in session.stall())


@dataclass(frozen=True)
class Rounds:
    """What so many attaches came to.

    Attributes:
        attaches: How many.
        failures: Of those.
        stalls: Of the others, one a rank.
    """

    attaches: int
    failures: int
    stalls: list[Stall]

    def figures(self) -> dict[str, float | int | None]:
        """Counts, and stalls in ms."""
        totals = sorted(stall.total_ms for stall in self.stalls)
        parts = {
            "stop_ms_median": [stall.stop_ms for stall in self.stalls],
            "loading_ms_median": [stall.loading_ms for stall in self.stalls],
            "installing_ms_median": [stall.installing_ms for stall in self.stalls],
        }
        return {
            "attaches": self.attaches,
            "failures": self.failures,
            "stall_ms_median": percentile(totals, 50) if totals else None,
            "stall_ms_p99": percentile(totals, 99) if totals else None,
            **{name: median(values) if values else None for name, values in parts.items()},
        }


def attach_often(pid: int, count: int, method: Method = Method.AUTO) -> Rounds:
    """Attaches and detaches `count` times, as `attach_once`."""
    rounds = [attach_once(pid, method) for _ in range(count)]
    good = [stalls for stalls in rounds if stalls is not None]
    return Rounds(count, count - len(good), [stall for stalls in good for stall in stalls])


@dataclass(frozen=True)
class Belongings:
    """What a process has at a moment, as the kernel lists it.

    Attributes:
        threads: How many.
        files: How many open descriptors.
        mapped: Places of a ring in its memory.
        rss_bytes: Memory of its own.
    """

    threads: int
    files: int
    mapped: int
    rss_bytes: int


def belongings(pid: int) -> Belongings:
    """Looks at a process."""
    folder = Path(f"/proc/{pid}")
    fields = (folder / "status").read_text().split()
    return Belongings(
        threads=len(list((folder / "task").iterdir())),
        files=len(list((folder / "fd").iterdir())),
        mapped=(folder / "maps").read_text().count("spectrace-"),
        rss_bytes=1024 * int(fields[fields.index("RssAnon:") + 1]),
    )
