"""Measures what the metrics cost spectrace's own process, for both lanes of one and of 8 ranks.

The last line of `--json` is one object. For each number of ranks R: `count_us_R`, to count one
cycle in the meter, median of batches as a session gives them; `cpu_share_R`, what that is of a
CPU at 90 cycles/s; `series_R`, the samples of a scrape; `scrape_ms_R` and `openmetrics_ms_R`, to
read the meter and write them; `push_ms_R`, to read it and encode a push over OTLP; `held_us_R`, for
how long reading holds up whoever counts. All are CPU times, which a busy machine leaves alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec.structs import replace
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from spectrace_exporters._metrics_data import MetricsWriter

from spectrace.metrics.exposition import OPENMETRICS, expose
from spectrace.metrics.meter import Meter
from spectrace.model import Cycle, CycleKind
from tests.helpers.recorded import cycle_of, run_of

RANKS = (1, 8)
BATCHES, CYCLES = 40, 50
ROUNDS = 20
CYCLES_PER_S = 90
KINDS = (CycleKind.SPECULATIVE, CycleKind.EXTEND)


def made(ranks: int) -> list[Cycle]:
    """Cycles of two kinds."""
    return [
        replace(cycle_of(number, ranks), kind=KINDS[number % 10 == 0])
        for number in range(BATCHES * CYCLES)
    ]


def median_s(work: Callable[[], object]) -> float:
    """How much CPU time it takes."""
    times = []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        work()
        times.append(time.process_time() - began_s)
    return statistics.median(times)


def measure(ranks: int) -> dict[str, float]:
    """The figures for so many ranks."""
    meter = Meter(hold_s=0.0)
    meter.put_run(run_of(ranks))
    cycles = made(ranks)
    times = []
    for begin in range(0, len(cycles), CYCLES):
        began_s = time.process_time()
        meter.add(cycles[begin : begin + CYCLES])
        times.append(time.process_time() - began_s)
    count_s = statistics.median(times) / CYCLES
    writer = MetricsWriter()
    samples = sum(not line.startswith(b"#") for line in expose(meter.read())[0].splitlines())
    return {
        f"count_us_{ranks}": round(count_s * 1e6, 1),
        f"cpu_share_{ranks}": round(count_s * CYCLES_PER_S, 5),
        f"series_{ranks}": samples,
        f"scrape_ms_{ranks}": round(median_s(lambda: expose(meter.read())) * 1e3, 2),
        f"openmetrics_ms_{ranks}": round(
            median_s(lambda: expose(meter.read(), OPENMETRICS)) * 1e3, 2
        ),
        f"push_ms_{ranks}": round(
            median_s(lambda: encode_metrics(writer.data(meter.read())).SerializeToString()) * 1e3, 2
        ),
        f"held_us_{ranks}": round(median_s(meter.read) * 1e6, 1),
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    wants_json = parser.parse_args().json
    figures = {name: value for ranks in RANKS for name, value in measure(ranks).items()}
    for name, value in figures.items():
        print(f"{name:20} {value}")
    if wants_json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
