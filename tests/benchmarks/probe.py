"""Measures what the probe costs: a cycle in a tight loop, and a real server under load.

The last line of `--json` is one object. In a tight loop, µs of host time for a cycle of 8
boundaries, medians: `off_us`, `host_us`, `device_us` and `sync_us` (on the asynchronous test
device; `device_events_us` is the part of the events alone), `nvtx_us` (added while a tool
listens), `results_us` (the counts of one request), `loop_us` and `loop_asleep_us` (a cycle of
`spectrace.loop` with four phases); with `_p99_us` beside the first three; `bytes_per_cycle`;
`syncs` (of the device, in all modes but `sync`).

On the real server, whose scheduler has a core of its own, by the probe's own counter
`server_us_batch1` and `server_us_batch4`, medians, with the means as `server_mean_us_…`. Then
`throughput_ratio`, `p99_ratio` and `median_ratio` with `_low` and `_high`: `host` relative to
`off`, alternating every 50 cycles by cycle number, like batch sizes compared. `p99_ratio` is of
pairs of blocks in which at most two cycles took more than 1.15 times as long as usual: others slow
this machine in bursts, and then its tail is theirs. `disturbed_off` and `disturbed_other` say of
how many blocks that is so, among `blocks` of each mode, and `p99_of_all_ratio` is of all pairs.
`untraced_ratio`: the
throughput of the same requests with the tracer relative to none, in interleaved blocks. The
intervals are of 95 %; one that is wider than ± 1 % cannot tell, and the run goes on until it can or
`--seconds` have passed. What could not be measured is None, and `reasons` says why.

Where the machine's own noise makes the tail of the real server's cycles, their p99 may need hours.
So the same is asked of a simulated GPU, whose times are set (V1 worker, 30 ms a cycle): `host` and
`device` relative to `off`, as `simulated_host_…` and `simulated_device_…`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.sglang_cpu.server import PYTHON, CpuServer, ServerOptions
from examples.simulated_gpu.demo import running
from examples.simulated_gpu.options import Options
from spectrace.attach import sleepers
from spectrace.collect.ring_view import RingView
from spectrace.loop import Tracer
from spectrace.model import TimingMode
from spectrace.probe.layout import UNIT_BYTES, Mode, Word
from spectrace.probe.recorder import Recorder
from tests.helpers import server_cost
from tests.helpers.bootstrap import Interval
from tests.helpers.cycle_cost import WARM_UP, Cost, cost_of, mark_cycle, simulate_cycle
from tests.helpers.probe_ring import make_ring
from tests.helpers.server_cost import Alternation, Limits
from tests.nvtx_recorder import recorder as nvtx
from tests.nvtx_recorder.drive import PAIRS_OF_A_CYCLE

ROOT = Path(__file__).parents[2]
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where real rings are
SURE = 0.01  # half of the width of an interval that can tell
AIMS_US = {
    "off_us": 2.0,
    "host_us": 8.0,
    "device_us": 45.0,
    "server_us_batch1": 30.0,
    "server_us_batch4": 45.0,
}
ADDED = {"throughput_ratio": 0.005, "p99_ratio": 0.02}  # of each place where they are measured
PLACES = ("", "simulated_host_", "simulated_device_")
TIMEOUT_S = 600.0

Found = dict[str, Any]


def say(text: str) -> None:
    """For the person who waits."""
    print(text, file=sys.stderr, flush=True)


# In a tight loop.


def recorder_costs(cycles: int, folder: Path) -> Found:
    """The modes without a device, and what results add."""
    off, _ = recorder_cost(Mode.OFF, mark_cycle, cycles, folder)
    host, _ = recorder_cost(Mode.HOST, mark_cycle, cycles, folder)
    with_results = partial(simulate_cycle, request_id="a request")
    whole, taken = recorder_cost(Mode.HOST, with_results, cycles, folder)
    return {
        "off_us": off.median_us,
        "off_p99_us": off.p99_us,
        "host_us": host.median_us,
        "host_p99_us": host.p99_us,
        "results_us": whole.median_us - host.median_us,
        "bytes_per_cycle": taken,
    }


def recorder_cost(
    mode: int, cycle: Callable[[Recorder, int], None], cycles: int, folder: Path
) -> tuple[Cost, float]:
    """Cost of one mode, and bytes that a cycle takes in the ring."""
    ring = make_ring(folder / "ring", units=65_536, mode=mode)
    recorder = Recorder(ring)
    cost = cost_of(lambda number: cycle(recorder, number), cycles)
    taken = ring.words[Word.HEAD] * UNIT_BYTES / (cycles + WARM_UP)
    ring.close()
    return cost, taken


def loop_costs(cycles: int) -> Found:
    """A cycle of a loop that its author traces, while nobody reads and while somebody does."""
    tracer = Tracer("benchmark")

    def turn(_: int) -> None:
        with tracer.cycle("speculative", ("a",), steps=3, topk=1, draft_tokens=4) as cycle:
            with tracer.phase("draft"):
                pass
            with tracer.phase("verify"):
                pass
            with tracer.phase("wait"):
                pass
            with tracer.phase("result"):
                pass
            cycle.accepted({"a": 2})

    asleep = cost_of(turn, cycles)
    read_it(tracer)
    awake = cost_of(turn, cycles)
    assert tracer.traced
    tracer.close()
    return {"loop_asleep_us": asleep.median_us, "loop_us": awake.median_us}


def read_it(tracer: Tracer) -> None:
    """Wakes a tracer as a reader does that then gives no sign of life for a while."""
    assert tracer.path is not None
    ring = RingView(tracer.path)
    sleepers.wake(os.getpid(), ring, ring.units)
    ring.set_word(Word.HEARTBEAT_NS, time.monotonic_ns())
    ring.set_word(Word.JOINS, ring.word(Word.JOINS) + 1)
    ring.close()


def device_costs(cycles: int) -> Found:
    """On the simulated GPU, in the interpreter that has torch."""
    done = subprocess.run(
        [PYTHON, "-m", "tests.helpers.device_cost", str(cycles)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        check=True,
        cwd=ROOT,
        timeout=TIMEOUT_S,
    )
    found: Found = json.loads(done.stdout)
    return found


def nvtx_costs() -> Found:
    """All ranges of a cycle, in a process into which an NVTX tool is injected."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, ROOT / "tests" / "nvtx_recorder" / "drive.py", "benchmark"],
            env={
                **os.environ,
                **nvtx.environment(Path(folder)),
                "PYTHONPATH": str(ROOT),
            },
            stdout=subprocess.PIPE,
            check=True,
            timeout=TIMEOUT_S,
        )
    answer = json.loads(done.stdout)
    if answer["result"] is None:
        raise LookupError(answer["way"])
    return {"nvtx_us": answer["result"] * PAIRS_OF_A_CYCLE / 1e3}


# On a real server.


def server_costs(limits: Limits, probe_s: float) -> Found:
    """Everything that a real server under load is needed for."""
    found: Found = {}
    with CpuServer(ServerOptions()) as server, server_cost.apart(server):
        for batch in (1, 4):
            middle, mean = server_cost.probe_us(server, batch, probe_s)
            found |= {f"server_us_batch{batch}": middle, f"server_mean_us_batch{batch}": mean}
        found |= ratios("", server_cost.alternate_under_load(server, limits, say))
        untraced, found["compared_pairs"] = server_cost.against_no_tracer(server, limits, say)
        found |= as_fields("untraced_ratio", untraced)
    return found


# On a simulated GPU.


def simulated_costs(limits: Limits) -> Found:
    """What the modes without a synchronize call add where a cycle takes as long as it is set to."""
    found: Found = {}
    with contextlib.redirect_stdout(sys.stderr), running(Options(shape="v1")) as pid:
        for mode in (TimingMode.HOST, TimingMode.DEVICE):
            alternation = server_cost.alternate(pid, mode, limits, say)
            found |= ratios(f"simulated_{mode.value}_", alternation)
    return found


def ratios(place: str, alternation: Alternation) -> Found:
    """The fields of a comparison with `off`, each beginning with the place."""
    return {
        f"{place}compared_cycles": alternation.cycles,
        **as_fields(f"{place}throughput_ratio", alternation.throughput),
        f"{place}calm_cycles": alternation.calm_cycles,
        f"{place}disturbed_off": alternation.disturbed[0],
        f"{place}disturbed_other": alternation.disturbed[1],
        f"{place}blocks": alternation.blocks,
        **as_fields(f"{place}p99_ratio", alternation.p99),
        **as_fields(f"{place}p99_of_all_ratio", alternation.p99_of_all),
        **as_fields(f"{place}median_ratio", alternation.median),
    }


def as_fields(name: str, interval: Interval | None) -> Found:
    """A ratio with both ends of its interval, and whether it can tell; None where it has none."""
    if interval is None:
        return {**dict.fromkeys((name, f"{name}_low", f"{name}_high")), f"{name}_can_tell": False}
    return {
        name: interval.value,
        f"{name}_low": interval.low,
        f"{name}_high": interval.high,
        f"{name}_can_tell": interval.half_width <= SURE,
    }


RATIOS = tuple(
    f"{name}_ratio{end}"
    for name in ("throughput", "p99", "p99_of_all", "median")
    for end in ("", "_low", "_high")
)
FIELDS = {
    "tight loop": ("off_us", "host_us", "results_us", "bytes_per_cycle"),
    "own loop": ("loop_us", "loop_asleep_us"),
    "device": ("device_us", "sync_us", "device_events_us", "syncs"),
    "nvtx": ("nvtx_us",),
    "server": (
        "server_us_batch1",
        "server_us_batch4",
        "server_mean_us_batch1",
        "server_mean_us_batch4",
        *RATIOS,
        *(f"untraced_ratio{end}" for end in ("", "_low", "_high")),
    ),
    "simulated": tuple(f"{place}{name}" for place in PLACES if place for name in RATIOS),
}


def measure(parts: dict[str, Callable[[], Found]]) -> Found:
    """Runs all parts; the fields of one that cannot be measured are None, with the reason."""
    found: Found = {"reasons": {}}
    for name, part in parts.items():
        say(f"{name} …")
        try:
            found |= part()
        except Exception as error:  # noqa: BLE001 - the other parts are worth having
            why = f"{type(error).__name__}: {error}"
            say(f"{name} could not be measured: {why}")
            found |= dict.fromkeys(FIELDS[name])
            found["reasons"] |= dict.fromkeys(FIELDS[name], why)
    return found


def misses(found: Found) -> list[str]:
    """Which aims were missed, in sentences; an interval that cannot tell misses nothing."""
    missed = [
        f"{name} is {found[name]:.1f} µs, more than {aim:g} µs"
        for name, aim in AIMS_US.items()
        if found.get(name) is not None and found[name] > aim
    ]
    if found.get("syncs"):
        missed.append(f"the device was synchronized {found['syncs']} times")
    for place in PLACES:
        at_most, at_least = (
            found.get(f"{place}throughput_ratio_high"),
            found.get(f"{place}p99_ratio_low"),
        )
        if at_most is not None and at_most < 1 - ADDED["throughput_ratio"]:
            missed.append(f"{place}throughput is at most {at_most:.4f} of that without phases")
        if at_least is not None and at_least > 1 + ADDED["p99_ratio"]:
            missed.append(
                f"{place}p99 of a cycle is at least {at_least:.4f} of that without phases"
            )
    return missed


def main() -> int:
    """Run the command line; return the exit status: 1 where an aim was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="a short run that may not tell")
    parser.add_argument("--no-server", action="store_true", help="the tight loops alone")
    parser.add_argument("--seconds", type=float, default=600, help="at most, per comparison")
    given = parser.parse_args()
    cycles = 3_000 if given.quick else 20_000
    limits = Limits(SURE, 20 if given.quick else given.seconds)
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as name:
        parts: dict[str, Callable[[], Found]] = {
            "tight loop": lambda: recorder_costs(cycles, Path(name)),
            "own loop": lambda: loop_costs(cycles),
            "device": lambda: device_costs(cycles),
            "nvtx": nvtx_costs,
            "simulated": lambda: simulated_costs(limits),
            "server": lambda: server_costs(limits, 5 if given.quick else 20),
        }
        if given.no_server:
            del parts["server"], parts["simulated"]
        found = measure(parts)
    found["missed"] = misses(found)
    print(json.dumps(found) if given.json else json.dumps(found, indent=1))
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
