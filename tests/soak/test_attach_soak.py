"""Attaches to a hard-working process over and over; SPECTRACE_SOAK_ATTACHES says how often."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spectrace.attach.ways import Method
from tests.helpers.stress import stress, ways_of_this_machine

COUNT = int(os.environ.get("SPECTRACE_SOAK_ATTACHES", "1000"))


@pytest.mark.parametrize(("method", "python"), ways_of_this_machine(), ids=str)
def test_process_survives_every_attach(method: Method, python: Path, tmp_path: Path) -> None:
    """A process that allocates in five threads takes the probe in and lets it go each time."""
    print(stress(method, python, tmp_path / "finish", COUNT))
