"""Measures for how long attaching holds up a real server under load.

Attaches and detaches again and again. The last line of `--json` is one object: `attaches`,
`failures`, `stall_ms_median`, `stall_ms_p99`, and the medians of the three parts of a stall.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.sglang_cpu.load import LoadLoop
from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.analysis.summary import percentile
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import Stall, TraceSession
from spectrace.errors import SpectraceError

INSTALL_TIMEOUT_S = 10.0


def attach_once(pid: int) -> Stall | None:
    """Attaches, waits until the worker is hooked, detaches; None where that failed."""
    try:
        with TraceSession(find_by_pid(pid)) as session:
            deadline = time.monotonic() + INSTALL_TIMEOUT_S
            while not session.stall()[0].installed and time.monotonic() < deadline:
                session.poll()
                time.sleep(0.01)
            detached = session.detach()
            (stall,) = session.stall()
    except SpectraceError as error:
        print(error, file=sys.stderr)
        return None
    return stall if stall.installed and detached[0].removed else None


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    given = parser.parse_args()
    with CpuServer(ServerOptions()) as server, LoadLoop(server.url):
        stalls = [attach_once(server.pid) for _ in range(given.count)]
    good = [stall for stall in stalls if stall is not None]
    totals = sorted(stall.total_ms for stall in good)
    found = {
        "attaches": given.count,
        "failures": given.count - len(good),
        "stall_ms_median": percentile(totals, 50) if good else None,
        "stall_ms_p99": percentile(totals, 99) if good else None,
        "stop_ms_median": median(stall.stop_ms for stall in good) if good else None,
        "loading_ms_median": median(stall.loading_ms for stall in good) if good else None,
        "installing_ms_median": median(stall.installing_ms for stall in good) if good else None,
    }
    print(json.dumps(found) if given.json else found)
    return 0 if not found["failures"] else 1


if __name__ == "__main__":
    sys.exit(main())
