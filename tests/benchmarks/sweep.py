"""Sweeps the real server on the CPU over numbers of draft steps: which is fastest?

On these models plain decode is, one request at a time, where the machine has nothing else to do.
The last line of `--json` is one object: `best` (null without a clear winner), `fastest`, `sweep_s`,
and of each setting its `tokens_per_s` with `low` and `high`, and its `accept_length`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.helpers.sweep_command import sweep_command


def measure(steps: str, rounds: int, requests: int) -> dict[str, Any]:
    """The result of one sweep."""
    load = ("--requests", str(requests), "--concurrency", "1", "--max-tokens", "64")
    asked = ("--steps", steps, "--rounds", str(rounds), *load, "--json")
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        sweep = sweep_command(Path(folder) / "sweep", *asked)
        done = subprocess.run(
            sweep.command, env=sweep.environment, stdout=subprocess.PIPE, check=True
        )
    found = json.loads(done.stdout)
    return {
        "best": found["best"],
        "fastest": found["fastest"],
        "sweep_s": round(time.monotonic() - began_s, 1),
        "settings": {one["name"]: _figures(one) for one in found["settings"]},
        "sentences": found["sentences"],
    }


def _figures(setting: dict[str, Any]) -> dict[str, float | None]:
    rate, length = setting["tokens_per_s"] or {}, setting["accept_length"] or {}
    return {
        "tokens_per_s": rate.get("value"),
        "low": rate.get("low"),
        "high": rate.get("high"),
        "accept_length": length.get("value"),
    }


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", default="1,2,3,5")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    given = parser.parse_args()
    found = measure(given.steps, given.rounds, given.requests)
    print(json.dumps(found) if given.json else json.dumps(found, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
