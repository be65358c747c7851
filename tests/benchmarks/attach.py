"""Measures for how long attaching holds up a real server under load, by each way in.

Attaches and detaches again and again. The last line of `--json` is one object: `attaches`,
`failures`, `stall_ms_median`, `stall_ms_p99` and the medians of the three parts of a stall, of
the way that `auto` takes; the same of each way under `ways`; and, for the plugin,
`dormant_ns`: what its look costs in a cycle while it sleeps.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.sglang_cpu.load import LoadLoop
from examples.sglang_cpu.server import PYTHON, CpuServer, ServerOptions
from spectrace.attach.ways import Method
from tests.helpers.attach_rounds import attach_often
from tests.helpers.plugin_site import plugin_site
from tests.newest_gdb import with_newest

ROOT = Path(__file__).parents[2]
INJECTING = (Method.PTRACE, Method.GDB)  # of the ways, those that this machine's server allows


def measure(methods: tuple[Method, ...], count: int) -> dict[str, dict[str, Any]]:
    """Figures of each way, on one server for those that inject and one for the plugin."""
    found: dict[str, dict[str, Any]] = {}
    injecting = [method for method in methods if method is not Method.PLUGIN]
    if injecting:
        with CpuServer(ServerOptions()) as server, LoadLoop(server.url):
            for method in injecting:
                found[method.value] = attach_often(server.pid, count, method).figures()
    if Method.PLUGIN in methods:
        with plugin_site() as site:
            options = ServerOptions(extra_env={"PYTHONPATH": str(site)})
            with CpuServer(options) as server, LoadLoop(server.url):
                found["plugin"] = attach_often(server.pid, count, Method.PLUGIN).figures()
            found["plugin"]["dormant_ns"] = dormant_ns(site)
    return found


def dormant_ns(site: Path) -> float:
    """What the look costs in a cycle, in the server's interpreter; in ns."""
    script = ROOT / "tests" / "helpers" / "dormant_cost.py"
    done = subprocess.run(
        [PYTHON, script],
        env={"PYTHONPATH": f"{site}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main() -> int:
    """Run the command line; return the exit status."""
    os.environ["PATH"] = with_newest(os.environ["PATH"])
    names = [method.value for method in (Method.PLUGIN, *INJECTING)]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--method", choices=names, help="this way alone")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    given = parser.parse_args()
    methods = [Method(given.method)] if given.method else [Method(name) for name in names]
    ways = measure(tuple(methods), given.count)
    first = ways.get(Method.PTRACE.value) or next(iter(ways.values()))
    found = {**first, "ways": ways}
    print(json.dumps(found) if given.json else json.dumps(found, indent=2))
    return 1 if any(way["failures"] for way in ways.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
