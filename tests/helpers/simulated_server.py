"""A server of simulated schedulers: processes with the titles of SGLang's, and no model.

They decode, idle or stand still as a file says, and say what they were left with. The interpreter
loads nothing but the probe's engine table, so that such a server starts in a fraction of a second.

    DIR/TP0.do      what the rank TP0 is to do: decode (also if missing), idle, pause (Python runs,
                    and no cycle comes), block (in the kernel), block in a cycle, or native
                    (native code waits and lets no Python run)
    DIR/TP0.does    what it does by now
    DIR/TP0.wake    a pipe whose first byte ends blocking and native
    DIR/TP0.says    what it says of itself once it finds DIR/TP0.tell
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_PYTHON = str(Path(sys.executable).resolve())
_PROGRAM = "from tests.helpers.simulated_server import main; main()"
_TIMEOUT_S = 60.0
_CYCLE_S = 0.004


class SimulatedServer:
    """A server, from its start to its end.

    Args:
        folder: Where its ranks are told what to do.
        ranks: Names of the ranks that it begins with.
        fall_together: The death of a rank ends the others, as it does in SGLang.
        packages: Folders of packages that its ranks can import.
    """

    def __init__(
        self,
        folder: Path,
        *ranks: str,
        fall_together: bool = False,
        packages: Sequence[Path] = (),
    ) -> None:
        self.folder = folder
        self._kind = "fragile" if fall_together else "root"
        self.pids: dict[str, int] = {}
        self._ranks = ranks
        self._packages = packages

    def __enter__(self) -> SimulatedServer:  # noqa: PYI034 - Self came with Python 3.11
        """Starts it and waits until its ranks decode."""
        self._process = subprocess.Popen(
            [_PYTHON, "-c", _PROGRAM, str(self.folder), self._kind],
            env=_environment(self._packages),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in self._ranks:
            self.add(name)
        return self

    def __exit__(self, *_: object) -> None:
        """Ends all its processes, however they stand."""
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The parent of its ranks."""
        return self._process.pid

    def add(self, name: str) -> int:
        """Starts a rank and gives its process id."""
        os.mkfifo(self.folder / f"{name}.wake")
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        pid = self.pids[name] = int(self._process.stdout.readline())
        return pid

    def order(self, name: str, what: str) -> None:
        """Has a rank do something, see above."""
        new = self.folder / f"{name}.new"
        new.write_text(what)
        new.replace(self.folder / f"{name}.do")

    def does(self, name: str) -> str:
        """What a rank has begun to do."""
        path = self.folder / f"{name}.does"
        return path.read_text() if path.exists() else ""

    def wake(self, name: str) -> None:
        """Ends blocking; the rank decodes."""
        self.order(name, "decode")
        with (self.folder / f"{name}.wake").open("w") as pipe:
            pipe.write("x")

    def says(self, name: str) -> dict[str, Any]:
        """What a rank says of itself: whether every function is its own, and the probe is gone."""
        answer = self.folder / f"{name}.says"
        answer.unlink(missing_ok=True)
        (self.folder / f"{name}.tell").touch()
        deadline = time.monotonic() + _TIMEOUT_S
        while not answer.exists():
            assert time.monotonic() < deadline, f"{name} says nothing"
            time.sleep(0.005)
        found: dict[str, Any] = json.loads(answer.read_text())
        return found

    def untouched(self) -> bool:
        """Whether every rank has its own functions again and nothing of the probe."""
        return all(
            self.says(name) == {"own_functions": True, "probe_modules": []} for name in self.pids
        )


def _environment(packages: Sequence[Path]) -> dict[str, str]:
    path = ":".join(map(str, (ROOT, *packages)))
    return {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


def main() -> None:
    """One of its processes."""
    folder, what = Path(sys.argv[1]), sys.argv[2]
    if what in {"root", "fragile"}:
        _be_root(folder, fragile=what == "fragile")
    else:
        _be_rank(folder, what)


def _be_root(folder: Path, *, fragile: bool) -> None:
    """Starts the ranks that it reads the names of; when it ends they end as well."""
    ranks: list[subprocess.Popen[str]] = []
    while not (fragile and any(rank.poll() is not None for rank in ranks)):
        if select.select([sys.stdin], [], [], 0.05)[0]:
            name = sys.stdin.readline().strip()
            if not name:
                return
            ranks.append(_start_rank(folder, name))
            print(ranks[-1].pid, flush=True)


def _start_rank(folder: Path, name: str) -> subprocess.Popen[str]:
    title = f"sglang::scheduler_{name.replace(' ', '_')}"
    rank = subprocess.Popen(
        [title, "-c", _PROGRAM, str(folder), name],
        executable=_PYTHON,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert rank.stdout is not None
    rank.stdout.readline()
    return rank


def _be_rank(folder: Path, name: str) -> None:
    from tests.helpers import simulated_scheduler as simulated  # noqa: PLC0415 - not for the root

    for scheduler_class in simulated.installed():
        holders = (
            scheduler_class,
            simulated.EAGLEWorkerV2,
            simulated.DraftWorker,
            simulated.Processor,
            simulated.ModelRunner,
            sys.modules[simulated.COMMON],
        )
        before = [dict(vars(holder)) for holder in holders]
        print("ready", flush=True)
        for _ in _turns(folder, name, scheduler_class()):
            own = [dict(vars(holder)) for holder in holders] == before
            probe = sorted(module for module in sys.modules if "spectrace_probe" in module)
            new = folder / f"{name}.answer"
            new.write_text(json.dumps({"own_functions": own, "probe_modules": probe}))
            new.replace(folder / f"{name}.says")


def _turns(folder: Path, name: str, scheduler: Any) -> Iterator[None]:
    """Does what the files say until its parent ends; gives where it is to say something."""
    order, tell = folder / f"{name}.do", folder / f"{name}.tell"
    wake = os.open(folder / f"{name}.wake", os.O_RDWR | os.O_NONBLOCK)
    requests = _requests()
    does = ""
    while not select.select([sys.stdin], [], [], 0)[0]:
        what = order.read_text() if order.exists() else "decode"
        if what != does:
            does = what
            (folder / f"{name}.does").write_text(does)
        if what == "decode":
            _decode(scheduler, requests)
        elif what == "idle":
            scheduler.on_idle()
            time.sleep(_CYCLE_S / 10)
        elif what == "block":
            _block(wake)
        elif what == "native":
            _wait_natively(wake)
        elif what == "block in a cycle":
            scheduler.model_worker.draft_worker.draft_forward = lambda: _block(wake)
            _decode(scheduler, requests)
            del scheduler.model_worker.draft_worker.draft_forward
        if tell.exists():
            tell.unlink()
            yield


def _block(wake: int) -> None:
    select.select([wake, sys.stdin], [], [])
    with contextlib.suppress(BlockingIOError):
        os.read(wake, 100)


def _wait_natively(wake: int) -> None:
    """As `_block` within native code that keeps the GIL."""
    asked = struct.pack("ihh", wake, select.POLLIN, 0)  # a struct pollfd
    ctypes.PyDLL(None).poll(ctypes.c_char_p(asked), 1, -1)
    os.read(wake, 100)


def _requests() -> list[Any]:
    from tests.helpers.simulated_scheduler import Request  # noqa: PLC0415 - as above

    return [Request(f"request-{place}") for place in range(2)]


def _decode(scheduler: Any, requests: list[Any]) -> None:
    from tests.helpers.simulated_scheduler import Batch  # noqa: PLC0415 - as above

    scheduler.step(Batch(requests))
    for request in requests:
        del request.output_ids[:-10]
    time.sleep(_CYCLE_S)
