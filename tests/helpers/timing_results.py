"""Results of `compare-timing` as the founding story's server would give them."""

from __future__ import annotations

import msgspec

from spectrace.analysis.timing_comparison import compare
from spectrace.analysis.timing_report import Comparison
from spectrace.cli.compare_timing import TimingResult
from spectrace.cli.timing_words import sentences
from tests.helpers.timing_truth import STORY, samples


def found() -> Comparison:
    """The founding story's server, two rounds."""
    bare = compare(samples(STORY, 2, 1), rounds=2, plain_decode_ms=11.1, left_out={"warm_up": 240})
    return msgspec.structs.replace(bare, sentences=sentences(bare))


def result(comparison: Comparison | None = None, seed: int = 0) -> TimingResult:
    """What the command would write, at noon of 30 November 2026."""
    return TimingResult(
        run_id="c" * 32,
        server_pid=70,
        engine="sglang 0.5.23",
        worker="<EAGLEWorker>",
        device="cuda",
        seed=seed,
        ended_unix_ns=1_796_040_000_000_000_000,
        duration_s=40.0,
        end=None,
        comparison=comparison or found(),
    )
