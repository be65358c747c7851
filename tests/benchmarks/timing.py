"""Measures whether the comparison of timing modes keeps its promises, on data of known truth.

The last line of `--json` is one object. `coverage`: the part of runs whose 95 % interval holds the
truth, of all kinds of intervals the one that is farthest from 0.95. `coverage_KIND`: of each kind:
`difference` of a phase between two modes, `throughput_ratio`, `phase_median`, `rate`, and
`stopped_difference`, of runs that ended at the first round at which the intervals were narrow
enough. `aa_false_rate`: the part of runs on a server on which all modes show the same that claimed
any difference or cost at all; `aa_stopped_false_rate` the same of runs that ended so.
`compare_ms`: CPU time of one comparison of three rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers.timing_trials import aa_rate, coverage


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    parser.add_argument("--runs", type=int, default=1000, help="for coverage")
    parser.add_argument("--aa-runs", type=int, default=200)
    options = parser.parse_args()
    began_s = time.process_time()
    by_kind = coverage(options.runs)
    took_s = time.process_time() - began_s
    figures: dict[str, float] = {
        "coverage": max(by_kind.values(), key=lambda part: abs(part - 0.95)),
        **{f"coverage_{kind}": part for kind, part in by_kind.items()},
        "aa_false_rate": aa_rate(options.aa_runs, stops=False),
        "aa_stopped_false_rate": aa_rate(options.aa_runs, stops=True),
        "compare_ms": round(took_s / options.runs * 1e3, 1),
    }
    for name, value in figures.items():
        print(f"{name:30} {value}")
    if options.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
