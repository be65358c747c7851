"""The arithmetic of `tests/gpu/check.py`, and that it steps aside where there is no GPU.

A stand-in for the timer plays the device; what CUDA itself does is checked on a GPU only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spectrace.probe.layout import DeviceFlag, Ph
from tests.gpu import check
from tests.gpu.check import Emitted, Sink
from tests.nvtx_recorder.recorder import Call, Op

CHECK = Path(check.__file__)


class PlayedTimer:
    """A device that takes exactly what `WORK_MS` says and answers one drain later."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.marks: list[int] = []
        self.ended: list[tuple[int, list[int]]] = []
        self.most_pending = 0

    def begin(self, number: int) -> None:
        """A cycle starts."""
        del number
        self.marks = []

    def mark(self, phase: int) -> None:
        """A boundary."""
        self.marks.append(phase)

    def end(self, number: int) -> None:
        """The cycle is whole."""
        self.ended.append((number, self.marks))
        self.most_pending = max(self.most_pending, len(self.ended))

    def drain(self, now_ns: int) -> None:
        """Hands out the oldest cycle once a newer one has come, or nothing else is left."""
        if not self.ended:
            return
        number, marks = self.ended.pop(0)
        times_ns = {phase: int(ms * 1e6) for phase, ms in check.WORK_MS}
        phases = [phase for phase in marks if phase != Ph.RESOLVE]
        distances = [0]
        for phase in phases[:-1]:
            distances.append(distances[-1] + times_ns[phase])
        self.sink(number, now_ns, 1000, 0, bytes(phases), distances)


def emitted(**changes: Any) -> Emitted:
    """A cycle of draft and verify with a gap of 1 µs between them."""
    values: dict[str, Any] = {
        "number": 1,
        "start_ns": 10_000,
        "error_ns": 500,
        "flags": 0,
        "phases": bytes([Ph.DRAFT, 0, Ph.VERIFY_FORWARD, Ph.SCHEDULE]),
        "distances": [0, 2_000, 3_000, 9_000],
    }
    return Emitted(**{**values, **changes})


def test_a_phase_lasts_until_the_next_boundary_and_gaps_are_nobodys() -> None:
    """Only phases of the device are counted; the boundary that ends the cycle is none."""
    assert emitted().durations() == {Ph.DRAFT: 2_000, Ph.VERIFY_FORWARD: 6_000}


def test_a_phase_that_comes_twice_is_added_up() -> None:
    """Draft steps that run one by one count together."""
    cycle = emitted(phases=bytes([Ph.DRAFT_STEP, Ph.DRAFT_STEP, 0, 0]))
    assert cycle.durations() == {Ph.DRAFT_STEP: 3_000}


def test_a_driven_device_that_keeps_time_shows_no_deviation() -> None:
    """Every cycle comes back, in order and right."""
    sink = Sink()
    timer = PlayedTimer(sink)
    check.drive(timer, sink, range(1, 11), lambda _: None)
    check.drain_all(timer, sink, 10)
    found = check.compared(sink, {phase: ms * 1e6 for phase, ms in check.WORK_MS}, 10)
    assert found["passed"]
    assert set(found["deviation"].values()) == {0.0}
    assert timer.most_pending <= 2


@pytest.mark.parametrize(("factor", "passed"), [(1.04, True), (1.06, False), (0.94, False)])
def test_a_deviation_beyond_the_tolerance_fails(factor: float, passed: bool) -> None:
    """Five percent are allowed, in both directions."""
    sink = Sink([emitted()])
    expected = {Ph.DRAFT: 2_000 / factor, Ph.VERIFY_FORWARD: 6_000 / factor}
    assert check.compared(sink, expected, 1)["passed"] is passed


def test_lost_boundaries_and_lost_cycles_fail() -> None:
    """A cycle with a lost boundary is not measured, and all cycles must be there."""
    expected = {Ph.DRAFT: 2_000.0}
    assert not check.compared(Sink([emitted(flags=DeviceFlag.LOST)]), expected, 1)["passed"]
    assert not check.compared(Sink([emitted()]), expected, 2)["passed"]
    assert not check.compared(Sink(), expected, 1)["passed"]


def test_a_cycle_lies_within_its_bounds_give_or_take_the_error() -> None:
    """It starts at 10,000 and ends at 19,000, each known to 500 ns."""
    assert check.lies_within(emitted(), 10_500, 18_500)
    assert not check.lies_within(emitted(), 10_501, 20_000)
    assert not check.lies_within(emitted(), 0, 18_499)


def test_percentiles_are_in_microseconds() -> None:
    """Of 1 to 100 µs."""
    values = [each * 1000 for each in range(1, 101)]
    assert check.percentiles_us(values) == {"median": 50.5, "p99": 100.0}


def calls(domain: str, texts: list[tuple[str, int | None]]) -> list[Call]:
    """Two cycles with four parts of verify each, as a tool receives them."""
    rows: list[Call] = []
    for text, payload in texts:
        opened = [text, "verify", *(["a", "b", "c", "d"])]
        for depth, each in enumerate(opened):
            rows.append(Call(Op.PUSH, domain, each, payload, 0, 1))
            if depth > 1:
                rows.append(Call(Op.POP, domain, "", None, 0, 1))
        rows += [Call(Op.POP, domain, "", None, 0, 1)] * 2
    return rows


def test_the_ranges_of_both_ways_are_recognised() -> None:
    """By torch the number is in the text, by the package it is the payload."""
    by_torch = calls("", [("spectrace cycle 7", None), ("spectrace cycle 8", None)])
    by_package = calls("spectrace", [("cycle", 7), ("cycle", 8)])
    assert check.nvtx_complete(by_torch, through_torch=True)
    assert check.nvtx_complete(by_package, through_torch=False)
    assert not check.nvtx_complete(by_torch, through_torch=False)
    assert not check.nvtx_complete(by_package[:12], through_torch=False)


def test_a_real_process_of_ranges_is_recognised() -> None:
    """The child that the check starts delivers through the package, here as on a GPU."""
    found = check.nvtx_child(through_torch=False)
    assert found["passed"], found
    assert "domain spectrace" in found["way"]


def test_what_a_check_raises_is_its_result() -> None:
    """One broken check does not keep the others from running."""
    found = check.run("kernel", None)  # type: ignore[arg-type] # provokes the error
    assert not found["passed"]
    assert found["error"].startswith("AttributeError")


WITH_TORCH = check.ROOT / ".venv-sglang" / "bin" / "python"


@pytest.mark.parametrize(
    "python", [Path(sys.executable), WITH_TORCH], ids=["without", "with torch"]
)
def test_without_a_gpu_the_script_says_so_and_succeeds(python: Path) -> None:
    """With no torch, with a build for the CPU, with no device: one sentence, nothing checked."""
    done = subprocess.run(
        [python, CHECK],
        capture_output=True,
        check=False,
        timeout=120,
        env={"CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "there is no CUDA device" in json.loads(done.stdout)["skipped"]
