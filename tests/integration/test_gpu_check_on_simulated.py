"""The checks for a GPU pass on a device that keeps time, so that they can be trusted on a GPU."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-sglang" / "bin" / "python"
SCRIPT = ROOT / "tests" / "gpu" / "on_simulated.py"
TIMEOUT_S = 300  # the device is compiled the first time


def test_the_checks_for_a_gpu_pass_on_the_simulated_gpu() -> None:
    """All that needs no CUDA: kernel, graph, clock, debug mode and cost, by the real timer."""
    done = subprocess.run(
        [PYTHON, SCRIPT],
        stdout=subprocess.PIPE,
        check=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    found = json.loads(done.stdout)
    assert len(found) == 6
    assert all(each["passed"] for each in found.values()), found
