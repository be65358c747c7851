"""The arithmetic of `tests/gpu/kernel_window.py`, and that it steps aside where there is no GPU.

A stand-in for torch plays the device, whose launches CUPTI is made to record; what CUPTI itself
does is checked on a GPU only.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spectrace.probe.layout_window import Activity
from tests.gpu import kernel_window
from tests.helpers import scripted_cupti
from tests.helpers.cupti_records import Buffer, record
from tests.helpers.scripted_cupti import ScriptedCupti

KERNEL_NS = 5_000


class PlayedTorch:
    """A device on which every kernel takes 5 µs, as much of torch as the script uses.

    Args:
        cupti: Records what is launched while it is asked for.
        lose: So many kernels of each replay are not recorded.
    """

    def __init__(self, cupti: ScriptedCupti, lose: int = 0) -> None:
        self._cupti = cupti
        self._lose = lose
        self._captured: list[int] | None = None
        self._correlation = 0
        self._name = ctypes.create_string_buffer(b"vectorized_elementwise_kernel")
        self.cuda = SimpleNamespace(
            CUDAGraph=lambda: self, graph=self._capturing, synchronize=lambda: None
        )

    def zeros(self, _count: int, *, device: str) -> PlayedTorch:
        """A tensor, whose operations are launches."""
        assert device == "cuda"
        return self

    @contextmanager
    def _capturing(self, _graph: PlayedTorch) -> Iterator[None]:
        self._captured = []
        self._graph = self._captured
        yield
        self._captured = None

    def mul_(self, _by: float) -> None:
        """One kernel."""
        if self._captured is None:
            self._launched(1)

    def add_(self, _more: float) -> None:
        """One kernel, or one more in the graph that is captured."""
        if self._captured is not None:
            self._captured.append(1)

    def replay(self) -> None:
        """All of the graph's kernels by one call."""
        self._launched(len(self._graph), graph=1)

    def _launched(self, kernels: int, graph: int = 0) -> None:
        enabled = self._cupti.enabled
        if Activity.RUNTIME not in enabled:
            return
        self._correlation += 1
        at = time.time_ns()
        same: dict[str, int] = {"correlation_id": self._correlation}
        thread = threading.get_ident() & 0xFFFFFFFF
        records = [record("api", "", start=at, end=at + 1, thread_id=thread, **same)]
        same |= {"stream_id": 7, "graph_id": graph, "start": at + 1}
        if graph and Activity.GRAPH in enabled:
            records.append(record("graph_trace2", "", end=at + kernels * KERNEL_NS, **same))
        else:
            name = ctypes.addressof(self._name)
            count = kernels - self._lose if graph else kernels
            records += [record("kernel13", "", end=at + KERNEL_NS, name=name, **same)] * count
        self._cupti.filled(Buffer(*records))


def found(lose: int = 0) -> dict[str, Any]:
    """What the script's first check finds on the played device."""
    cupti = ScriptedCupti()
    with scripted_cupti.installed(cupti):
        return kernel_window.counts(kernel_window.Loop(PlayedTorch(cupti, lose)))


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectrace.probe.kernels.FLUSH_EVERY_NS", 0)
    monkeypatch.setattr(kernel_window, "CLOSING_S", 0.0)


def test_what_is_launched_is_what_is_found() -> None:
    """Three eager kernels in each draft, and one replay of seven in each verify."""
    assert found()["passed"], found()


def test_a_kernel_too_few_fails_the_check() -> None:
    """One kernel of each replay is missing."""
    lost = found(lose=1)
    assert not lost["passed"]
    assert lost["found"]["verify.forward"] == [kernel_window.IN_GRAPH - 1, 1, 1]


def test_each_cycle_has_its_kernels_and_no_other() -> None:
    """Of 40 cycles the last 30 are seen kernel by kernel, but for one that the switch cuts."""
    [each] = found()["each_cycle"]
    assert each.keys() == {"draft 3 0", "verify.forward 7 7"}
    assert len(set(each.values())) == 1
    assert each["draft 3 0"] in {29, 30}


def test_the_time_before_is_that_of_a_process_in_which_nobody_looked() -> None:
    """It is taken first of all, and where CUPTI is loaded already the check does not pass."""
    assert next(iter(kernel_window.CHECKS)) == "same_time"
    cupti = ScriptedCupti()
    with scripted_cupti.installed(cupti):
        again = kernel_window.same_time(kernel_window.Loop(PlayedTorch(cupti)))
    assert not again["fresh"]
    assert not again["passed"]


def test_without_a_device_the_script_says_so_and_ends_well() -> None:
    """As on the machines that test everything else."""
    if not kernel_window.why_not():
        pytest.skip("there is a device")
    script = Path(kernel_window.__file__)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["skipped"]
