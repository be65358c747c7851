"""Measures what sending and receiving OpenTelemetry traces costs, and how much is possible.

The last line of `--json` is one object:

`out_spans_per_s`: spans of 8 ranks with both lanes, from full rings through reader, assembler
and exporter to a collector in another process that counts them, by `--protocol`.
`in_spans_per_s`: such spans from a sender into the store, while the receiver has one core;
`in_cpu_us_per_span` is its time on that core.
`cpu_share_full`: CPU time of that process by the time that passed, while the ranks make 90
cycles/s and every one is sent; `cpu_share_sampled` with one cycle in 10; `cpu_share_reading`
with no exporter at all, to tell what reading takes of these. `spans_per_cycle` says how
large the cycles are, `lost_spans` must be 0. `exit_dead_s`: from Ctrl-C to the end of `spectrace
attach`, which sends traces and metrics to where nobody listens, the longest of five;
`exit_hanging_s` the same where connections are taken and never answered.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from spectrace_exporters.otlp import OtlpExporter

from tests.helpers.command import start
from tests.helpers.counting_collector import counting
from tests.helpers.no_endpoint import listening
from tests.helpers.otlp_in_speed import measure
from tests.helpers.ring_source import (
    SPANS_OF_A_RANK,
    RingTracer,
    make_rings,
    paced,
    write_cycle,
)
from tests.helpers.simulated_server import SimulatedServer

RANKS = 8
SPANS = 1 + RANKS * SPANS_OF_A_RANK
CYCLES_PER_S = 90.0
SAMPLE_EVERY = 10
POLL_S = 0.05  # as the command does
FULL_CYCLES = 1500
WARM_UP_S = 3.0
PACED_S = 15.0
LEAVINGS = 5
TIMEOUT_S = 120.0
AIMS = {
    "out_spans_per_s": 20_000,
    "in_spans_per_s": 60_000,
    "cpu_share_full": 0.70,
    "cpu_share_sampled": 0.12,
    "exit_dead_s": 1.0,
    "exit_hanging_s": 1.0,
}
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where real rings are

_INWARDS = {"http/protobuf": "http", "http/json": "json", "grpc": "grpc"}

Found = dict[str, Any]


def throughput(protocol: str, cycles: int) -> Found:
    """Reads full rings and sends what is in them, as fast as that goes."""
    with folder() as rings, counting(protocol) as collector:
        written = make_rings(rings, RANKS)
        for number in range(1, cycles + 1):
            write_cycle(written, number, time.monotonic_ns())
        with closing(RingTracer(rings, RANKS)) as tracer:
            exporter = OtlpExporter(collector.url, tracer.run, protocol=protocol)
            began_s = time.perf_counter()
            while exporter.stats.sent_cycles + exporter.stats.lost_cycles < cycles:
                exporter.add(tracer.poll())
                time.sleep(POLL_S)
                assert time.perf_counter() - began_s < TIMEOUT_S, exporter.stats
            seconds = time.perf_counter() - began_s
            stats = exporter.close(TIMEOUT_S)
        assert collector.counted() == stats.sent_spans
    return {
        "out_spans_per_s": round(stats.sent_spans / seconds),
        "lost_spans": stats.lost_spans,
        "spans_per_cycle": SPANS,
    }


def cpu_share(protocol: str, every: int | None) -> float:
    """CPU time of this process by the time that passes, at the pace of a real server.

    Args:
        protocol: How it is sent.
        every: One cycle in so many is sent; None for no exporter.
    """
    with (
        folder() as rings,
        counting(protocol) as collector,
        paced(rings, RANKS, CYCLES_PER_S, WARM_UP_S + PACED_S + 5),
        closing(RingTracer(rings, RANKS)) as tracer,
    ):
        exporter = OtlpExporter(
            collector.url, tracer.run, protocol=protocol, sample_every=every or 1
        )

        def follow(seconds: float) -> int:
            cycles = 0
            until_s = time.monotonic() + seconds
            while time.monotonic() < until_s:
                ready = tracer.poll()
                cycles += len(ready)
                if every is not None:
                    exporter.add(ready)
                time.sleep(POLL_S)
            return cycles

        follow(WARM_UP_S)
        began_s, cpu_s = time.perf_counter(), time.process_time()
        cycles = follow(PACED_S)
        share = (time.process_time() - cpu_s) / (time.perf_counter() - began_s)
        lost = exporter.close(TIMEOUT_S).lost_spans
    assert lost == 0
    assert cycles > PACED_S * CYCLES_PER_S * 0.9, f"only {cycles} cycles came"
    return share


@contextmanager
def folder() -> Iterator[Path]:
    """A place for rings."""
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as path:
        yield Path(path)


def leaving(protocol: str, behave: str) -> float:
    """How long the command takes to end after Ctrl-C, in s, where nobody takes its cycles."""
    with (
        tempfile.TemporaryDirectory() as path,
        SimulatedServer(Path(path), "TP0") as server,
        listening(behave) as url,
    ):
        sends = ["--otlp-endpoint", url, "--otlp-protocol", protocol, "--otlp-metrics", "same"]
        process = start("attach", str(server.pid), "--json", "--no-page", *sends)
        assert process.stdout is not None
        for _ in range(3):  # a report each second
            process.stdout.readline()
        process.send_signal(signal.SIGINT)
        began_s = time.perf_counter()
        process.communicate(timeout=TIMEOUT_S)
        return time.perf_counter() - began_s


def sending(protocol: str) -> Found:
    """All figures of the way out."""
    found = throughput(protocol, FULL_CYCLES) | receiving(protocol)
    found["cpu_share_full"] = round(cpu_share(protocol, 1), 3)
    found["cpu_share_sampled"] = round(cpu_share(protocol, SAMPLE_EVERY), 3)
    found["cpu_share_reading"] = round(cpu_share(protocol, None), 3)
    for name, behave in (("exit_dead_s", "dead"), ("exit_hanging_s", "mute")):
        found[name] = round(max(leaving(protocol, behave) for _ in range(LEAVINGS)), 2)
    return found


def receiving(protocol: str) -> Found:
    """The figures of the way in."""
    arrived = measure(_INWARDS[protocol], FULL_CYCLES)
    return {
        "in_spans_per_s": round(arrived.spans_per_s),
        "in_cpu_us_per_span": round(arrived.cpu_us_per_span, 2),
    }


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one object in the last line")
    parser.add_argument("--protocol", default="http/protobuf", help="or grpc, or http/json")
    given = parser.parse_args()
    found = sending(given.protocol) | {"aims": AIMS}
    print(json.dumps(found) if given.json else json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
