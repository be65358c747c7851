"""Where in shared memory spectrace keeps files for traced processes, for tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from spectrace.attach import ring_file


def shared_files(pids: Iterable[int]) -> list[Path]:
    """The ring of each process and the window on its kernels, whether they are there or not."""
    rings = [ring_file.ring_path(pid) for pid in pids]
    return [path for ring in rings for path in (ring, ring.with_suffix(".kernels"))]


def left_of(pids: Iterable[int]) -> list[Path]:
    """Those that are there."""
    return [path for path in shared_files(pids) if path.exists()]
