"""Runs a simulated worker on the simulated GPU as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-sglang" / "bin" / "python"
_STOP_S = 60.0


@dataclass(frozen=True)
class Kernel:
    """What the device did, in CLOCK_MONOTONIC ns."""

    name: str
    cycle: int
    start_ns: int
    end_ns: int

    @property
    def ms(self) -> float:
        """How long it took."""
        return (self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True)
class Account:
    """What a worker says of itself when it has stopped.

    Attributes:
        kernels: What the device did, in order.
        starts_ns: When each cycle began on the host; the first is cycle 1.
        counters: Of the device, among them `syncs`: synchronize calls that are not the worker's.
        early: How many of these one early read of the counts made, by way of reading.
        answers: Of each request that came and went how many tokens it got, their checksum, its
            verifies and its correct drafts (0 with V2, whose worker does not count them).
    """

    kernels: list[Kernel]
    starts_ns: list[int]
    counters: dict[str, int]
    early: dict[str, int]
    answers: dict[str, list[int]]

    def of(self, name: str) -> dict[int, Kernel]:
        """The kernels of one name by cycle."""
        return {kernel.cycle: kernel for kernel in self.kernels if kernel.name == name}


class FakeWorker:
    """A worker process, from its start to its end.

    Args:
        shape: `v1` or `v2`.
        options: Further options of `tests/fakestream/workers.py`.
        packages: Folders of packages that it can import.
    """

    def __init__(self, shape: str, *options: str, packages: Sequence[Path] = ()) -> None:
        self._path = ":".join(map(str, (ROOT, *packages)))
        self._command = [str(PYTHON), "-m", "tests.fakestream.workers", shape, *options]

    def __enter__(self) -> FakeWorker:  # noqa: PYI034 - Self came with Python 3.11
        """Starts the process and waits until it decodes."""
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": self._path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._read() == "ready"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Ends the process, however it stands."""
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def tell(self, words: str) -> None:
        """Gives it a command, see `tests/fakestream/workers.py`."""
        assert self._process.stdin is not None
        self._process.stdin.write(words + "\n")
        self._process.stdin.flush()

    def counters(self) -> dict[str, int]:
        """The device's counters at this moment."""
        self.tell("counters")
        found: dict[str, int] = json.loads(self._read())
        return found

    def stop(self) -> Account:
        """Stops it and takes its account."""
        self.tell("stop")
        return self.account()

    def account(self) -> Account:
        """Its account, when it has stopped by itself."""
        account: dict[str, Any] = json.loads(self._read())
        self._process.wait(_STOP_S)
        kernels = []
        for text, start_ns, end_ns in account["log"]:
            name, number = text.split()
            kernels.append(Kernel(name, int(number), start_ns, end_ns))
        return Account(
            kernels,
            account["starts"],
            account["counters"],
            account["early"],
            account["answers"],
        )
