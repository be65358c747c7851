"""Measures whether the comparison of timing modes keeps its promises, on data of known truth.

The last line of `--json` is one object. `coverage`: the part of intervals at 95 % that hold the
truth, of all kinds of intervals the one that is farthest from 0.95. `coverage_KIND`: of each kind:
`difference` of a phase between two modes, `throughput_ratio`, `phase_median`, `phase_share`,
`rate` of cycles, `tokens_rate`, `p50`, `p95` and `p99` of cycles in three rounds and
`..._of_a_long_run` of eighteen, and `stopped_difference`, of runs that ended at the first round at
which the intervals were narrow enough. `coverage_drift_MODES_PERCENT`: of costs of two, three and
four modes that cost nothing, while cycles become longer by so many percent over the run.
`wide_KIND`: the part of runs in which the data gave no interval; these count nowhere else, and
where it is 1 there is no `coverage_KIND`.
`aa_false_rate`: the part of runs on a server on which all modes show the same that claimed any
difference or cost at all; `aa_stopped_false_rate` the same of runs that ended so. `compare_ms`:
CPU time of one comparison of eighteen rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from spectrace.analysis.timing_comparison import compare
from tests.helpers.timing_trials import LONG_ROUNDS, aa_rate, coverage, drift_coverage
from tests.helpers.timing_truth import STORY, samples

_REPEATS = 5


def compare_ms() -> float:
    """CPU time of one comparison of a long run."""
    taken = samples(STORY, LONG_ROUNDS, 0)
    began_s = time.process_time()
    for _ in range(_REPEATS):
        compare(taken)
    return (time.process_time() - began_s) / _REPEATS * 1e3


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--runs", type=int, default=1000, help="for coverage")
    parser.add_argument("--aa-runs", type=int, default=200)
    options = parser.parse_args()
    tallies = coverage(options.runs)
    by_kind = {
        kind: tally.coverage for kind, tally in tallies.items() if tally.coverage is not None
    }
    figures: dict[str, float] = {
        "coverage": max(by_kind.values(), key=lambda part: abs(part - 0.95)),
        **{f"coverage_{kind}": part for kind, part in by_kind.items()},
        **{f"wide_{kind}": tally.wide / tally.runs for kind, tally in tallies.items()},
        **{
            f"coverage_drift_{modes}_{percent}": part
            for modes in (2, 3, 4)
            for percent in (0, 3, 10)
            if (part := drift_coverage(options.runs, modes, percent / 100).coverage) is not None
        },
        "aa_false_rate": aa_rate(options.aa_runs, stops=False),
        "aa_stopped_false_rate": aa_rate(options.aa_runs, stops=True),
        "compare_ms": round(compare_ms(), 1),
    }
    for name, value in figures.items():
        print(f"{name:30} {value}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
