"""Measures how long a report on a long run takes, and how much memory.

A store of ten million cycles is made by the database itself, in slices, with both lanes of one
rank; that takes minutes and 5 GB of disk, and is left out where `--store` names one that was kept.
The last line of `--json` is one object: `cycles`, `report_s` (from the command's start to its end,
the shortest of three), `cpu_s` (the CPU time of its process, which a busy machine leaves alone),
`peak_mb` (the most memory of its process), `verdict_found`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers import long_recording

CYCLES = 10_000_000
ROUNDS = 3
_COMMAND = [str(Path(sys.executable).with_name("spectrace")), "report"]


class Round(NamedTuple):
    """What one report took, and what it says."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    answer: str


def reported(store: Path) -> Round:
    """Makes one report in a process of its own."""
    began_s = time.perf_counter()
    with subprocess.Popen([*_COMMAND, str(store), "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        answer = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    took_s = time.perf_counter() - began_s
    if process.returncode:
        raise SystemExit(f"the report failed with {process.returncode}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return Round(took_s, cpu_s, usage.ru_maxrss / 1000, answer["verdict"]["answer"])


def measure(store: Path) -> dict[str, object]:
    """The figures of a store."""
    rounds = [reported(store) for _ in range(ROUNDS)]
    return {
        "report_s": round(min(one.wall_s for one in rounds), 2),
        "cpu_s": round(min(one.cpu_s for one in rounds), 2),
        "peak_mb": round(max(one.peak_mb for one in rounds)),
        "verdict_found": rounds[0].answer,
    }


def main() -> None:
    """Makes the store where there is none, and prints the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--cycles", type=int, default=CYCLES)
    parser.add_argument("--store", type=Path, help="where it is, or is to be made and kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spectrace-bench-") as folder:
        store = options.store or Path(folder) / "store"
        if not store.exists():
            long_recording.make(store, options.cycles)
        found = {"cycles": options.cycles, **measure(store)}
    if options.json:
        print(json.dumps(found))
    else:
        for name, figure in found.items():
            print(f"{name:14} {figure}")


if __name__ == "__main__":
    main()
