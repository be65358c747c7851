"""Attaches to a hard-working process over and over; SPECTRACE_SOAK_ATTACHES says how often."""

from __future__ import annotations

import json
import os
import statistics
import time
from pathlib import Path

import pytest

from spectrace.attach import handle, inject, leave
from tests.integration.attach_targets import BUSY, interpreters, rank_of, running, sources

COUNT = int(os.environ.get("SPECTRACE_SOAK_ATTACHES", "1000"))


@pytest.mark.parametrize("python", interpreters(), ids=str)
def test_process_survives_every_attach(python: Path, tmp_path: Path) -> None:
    """A process that allocates in five threads takes the probe in and lets it go each time."""
    finish = tmp_path / "finish"
    stops_ms, walls_ms = [], []
    with running(BUSY, str(finish), "4", python=python) as process:
        for _ in range(COUNT):
            start = time.monotonic()
            options = handle.Options(units=64)
            attached = inject.put_in(
                rank_of(process), options=options, timeout_s=30, sources=sources()
            )
            walls_ms.append((time.monotonic() - start) * 1e3)
            stops_ms.append(attached.stop_ns / 1e6)
            assert leave.take_out(attached, timeout_s=30).removed
        finish.touch()
        out, complaint = process.communicate(timeout=60)
    assert not complaint
    assert json.loads(out.splitlines()[-1]) == {"new": [], "error": None}
    for what, values in (("stopped", stops_ms), ("put_in", walls_ms)):
        p99 = sorted(values)[int(len(values) * 0.99)]
        print(f"{what}: median {statistics.median(values):.2f} ms, p99 {p99:.2f} ms")
