"""Measures how long `spectrace import` takes for a large trace of the profiler, and its memory.

The last line of `--json` is one object: `megabytes`, of the trace's text; `import_s`, from the
command's start to its end; `peak_mb`, the most memory that it held; `gz_import_s`, the same for
the compressed trace, of `gz_megabytes`. The trace is made here, with the shares of operators,
functions, launches and kernels that an eager EAGLE-3 server's has, and written as Kineto does.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers.kineto_trace import RUN, TURN_US, TraceOf, newest

MEGABYTES = 200
KERNELS = ("nvjet_tst_64x8_64x16_2x1_v_bz_TNT", "fused_moe_kernel", "_rmsnorm_kernel")
PER_TURN = 600  # operators with a launch and a kernel each
_SPECTRACE = str(Path(sys.executable).with_name("spectrace"))
_END = b'\n  ],"traceName": "/tmp/trace.json" }'


def turn(place: int) -> bytes:
    """The events of one turn, as lines of the file."""
    trace = TraceOf()
    begin_us = 1000.0 + place * TURN_US
    newest(trace, begin_us, 4)
    for operator in range(PER_TURN):
        at_us = begin_us + operator * RUN[1] / PER_TURN
        shapes = [[4, 4096], [4096, 4096]]
        trace.slice("cpu_op", "aten::mm", (at_us, 20.0), **{"Input Dims": shapes, "Ev Idx": 1})
        trace.function("torch/nn/modules/module.py(1501): _call_impl", (at_us, 20.0))
        name = KERNELS[operator % len(KERNELS)]
        trace.launched(at_us + 2.0, (name, at_us + 40.0, 12.0))
    for event in trace.events:  # ids go on from turn to turn
        if "correlation" in event["args"]:
            event["args"]["correlation"] += place * PER_TURN
    return ",\n".join(json.dumps(event, indent=2) for event in trace.events).encode()


def write(file: IO[bytes], megabytes: int) -> None:
    """Writes a trace of that size."""
    head, _, _ = TraceOf().text().partition('"traceEvents": [')
    file.write(f'{head}"traceEvents": [\n'.encode())
    place = 0
    while file.tell() < megabytes * 1_000_000:
        file.write(b",\n" * bool(place) + turn(place))
        place += 1
    file.write(_END)


def imported(path: Path) -> tuple[float, float]:
    """Seconds and the most MB of memory that the command took.

    Raises:
        CalledProcessError: It failed.
    """
    began_s = time.monotonic()
    command = [_SPECTRACE, "import", str(path), "-o", str(path.with_suffix(".out"))]
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.monotonic() - began_s, usage.ru_maxrss * 1024 / 1e6


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--megabytes", type=int, default=MEGABYTES, help="size of the trace")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "1-TP-0.trace.json"
        with path.open("wb") as file:
            write(file, asked.megabytes)
        packed = path.with_name("2-TP-0.trace.json.gz")
        packed.write_bytes(gzip.compress(path.read_bytes(), compresslevel=1))
        import_s, peak_mb = imported(path)
        gz_import_s, gz_peak_mb = imported(packed)
        figures = {
            "megabytes": round(path.stat().st_size / 1e6, 1),
            "import_s": round(import_s, 1),
            "peak_mb": round(max(peak_mb, gz_peak_mb)),
            "gz_megabytes": round(packed.stat().st_size / 1e6, 1),
            "gz_import_s": round(gz_import_s, 1),
        }
    for name, value in figures.items():
        print(f"{name:20} {value}")
    if asked.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
