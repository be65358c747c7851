"""The kernel window on a real CUDA device; skipped where there is none, or no cupti-python.

Not among the tests of `make test`: run `pytest tests/gpu` on a machine with a GPU.
"""

from __future__ import annotations

import sys

import pytest

from tests.gpu import kernel_window

WHY_NOT = kernel_window.why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a device")


@pytest.fixture(scope="module")
def loop() -> kernel_window.Loop:
    """Cycles with a graph, captured once."""
    return kernel_window.Loop(sys.modules["torch"])


@pytest.mark.parametrize("name", kernel_window.CHECKS)
def test_the_window_shows_what_was_launched(name: str, loop: kernel_window.Loop) -> None:
    """Each check of `kernel_window.py` passes; its figures are shown if it does not."""
    found = kernel_window.CHECKS[name](loop)
    assert found["passed"], found
