"""Runs the checks of `check.py` that need no CUDA on the simulated GPU.

So the script is known to work before it meets a GPU. Needs torch: run by `.venv-sglang`.
Prints one JSON object with what each check found.
"""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch  # type: ignore[import-not-found] # not in the environment of the tool

from examples.simulated_gpu import device as simulated
from tests.gpu import check

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKS = ("support", "kernel", "graph", "clock", "no_sync", "cost")
CYCLES_PER_US = 1000  # of a clock that the device does not have


class Graph:
    """What is used of torch.cuda.CUDAGraph."""

    def __init__(self) -> None:
        self.captured: Any = None

    def replay(self) -> None:
        """Launches what was captured."""
        simulated.ext.replay(self.captured)


@contextmanager
def capture(graph: Graph) -> Iterator[None]:
    """Stands for torch.cuda.graph."""
    simulated.ext.begin_capture()
    yield
    graph.captured = simulated.ext.end_capture()


def event(*, enable_timing: bool) -> Any:
    """Stands for torch.cuda.Event."""
    return torch.Event(device=simulated.NAME, enable_timing=enable_timing)


class Torch:
    """The real torch, with a `cuda` that is the simulated one."""

    cuda = SimpleNamespace(
        _sleep=lambda cycles: simulated.ext.launch("sleep", cycles // CYCLES_PER_US),
        synchronize=torch.accelerator.synchronize,
        Event=event,
        CUDAGraph=Graph,
        graph=capture,
        set_sync_debug_mode=lambda _mode: None,
    )

    def __getattr__(self, name: str) -> Any:
        """All else is the real one's."""
        return getattr(torch, name)


class Device(check.Device):
    """The simulated one."""

    kind = simulated.NAME


def main() -> None:
    """Runs the checks."""
    device = Device(Torch())
    print(json.dumps({name: check.run(name, device) for name in CHECKS}))


if __name__ == "__main__":
    main()
