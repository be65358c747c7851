"""The probe on a real CUDA device; skipped where there is none.

Not among the tests of `make test`: run `pytest tests/gpu` on a machine with a GPU.
"""

from __future__ import annotations

import sys

import pytest

from tests.gpu import check

WHY_NOT = check.why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is a device")


@pytest.fixture(scope="module")
def device() -> check.Device:
    """The device, its kernels calibrated once."""
    return check.Device(sys.modules["torch"])


@pytest.mark.parametrize("name", check.CHECKS)
def test_what_the_probe_says_of_the_device_is_right(name: str, device: check.Device) -> None:
    """Each check of `check.py` passes; its figures are shown if it does not."""
    found = check.CHECKS[name](device)
    assert found["passed"], found
