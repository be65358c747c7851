"""A simulated SGLang server on a GPU that does not exist, for spectrace to attach to.

`python examples/simulated_gpu/server.py v1` decodes until Ctrl-C and says how to attach. The
device keeps the times of a published measurement (`--figures`), and the host waits for it or
runs ahead as SGLang's V1 and V2 workers do.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.sglang_cpu.install import InstallError
from examples.simulated_gpu import environment
from examples.simulated_gpu.figures import FIGURES
from examples.simulated_gpu.meeting import READY, place_for
from examples.simulated_gpu.options import SHAPES, Options, add_options, options_of

HERE = Path(__file__).resolve().parent
GUARD = HERE.parent / "sglang_cpu" / "die_with_parent.py"
_POLL_S = 0.1
_STOP_S = 5.0


class ServerError(Exception):
    """The server could not be started, or has lost a rank; the message says what to do."""


def arguments(options: Options) -> list[str]:
    """The command line of `options`."""
    given = []
    for field in fields(options):
        value, flag = getattr(options, field.name), "--" + field.name.replace("_", "-")
        if field.name == "shape":
            given.append(value)
        elif isinstance(value, bool):
            given += [flag] * value
        else:
            given += [flag, str(value)]
    return given


class Ranks:
    """The scheduler processes of a server; a context manager that ends them.

    Args:
        options: What kind of server.
        python: The interpreter that has torch.
    """

    def __init__(self, options: Options, python: Path) -> None:
        self._options = options
        self._python = python
        self._processes: list[subprocess.Popen[str]] = []
        self._files = ExitStack()

    def __enter__(self) -> Ranks:  # noqa: PYI034 - Self came with Python 3.11
        """Starts all, one after the other: the first compiles the device where that is due.

        Raises:
            ServerError: One did not start.
        """
        meeting = self._files.enter_context(place_for(self._options.ranks))
        try:
            for rank in range(self._options.ranks):
                self._start(rank, str(meeting))
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, rank: int, meeting: str) -> None:
        python = str(self._python)
        guard = [python, str(GUARD), str(os.getpid())]
        program = [python, str(HERE / "rank.py"), *arguments(self._options)]
        process = subprocess.Popen(
            [*guard, *program, "--rank", str(rank), "--meeting", meeting],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is ours
        )
        self._processes.append(process)
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        if process.stdout.readline().strip() != READY:
            raise ServerError(f"Rank {rank} did not start: it said why above.")

    def __exit__(self, *_: object) -> None:
        """Ends all."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._files.close()

    def ended(self) -> int | None:
        """The first rank that has ended, None while all run."""
        states = (process.poll() for process in self._processes)
        return next((rank for rank, state in enumerate(states) if state is not None), None)


def description(options: Options) -> str:
    """What the server is, in a few lines."""
    figures = FIGURES[options.figures]
    times = figures.times.scaled(options.scale)
    device = (
        f"On the device draft {times.draft:.2f} ms, verify {times.verify:.2f}, "
        f"draft extend {times.extend:.2f}, plain decode {times.decode:.2f}"
    )
    host = (
        f"on the host {times.launch_draft:.2f} to launch the draft, {times.launch_verify:.2f} to "
        f"launch the target model, {times.rest:.2f} for the rest"
    )
    lines = [
        f"A simulated server, {SHAPES[options.shape]}.",
        f"Times of {options.figures}: {figures.source}.",
        f"{device}; {host}.",
    ]
    if figures.unpublished:
        lines.append(f"Not published: {figures.unpublished}.")
    return "\n".join(lines)


def serve(options: Options, stopped: Callable[[], bool]) -> None:
    """Runs a server until it is told to stop.

    Args:
        options: What kind.
        stopped: Whether it was told.

    Raises:
        ServerError: A rank did not start, or has ended.
        InstallError: There is no torch, and it cannot be installed.
    """
    python = environment.python()
    with Ranks(options, python) as ranks:
        print(description(options))
        print(f"Ctrl-C ends it. To look at it:\n$ spectrace attach {os.getpid()}", flush=True)
        while not stopped():
            lost = ranks.ended()
            if lost is not None:
                raise ServerError(f"Rank {lost} has ended by itself: see what it said above.")
            time.sleep(_POLL_S)


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    options = options_of(parser.parse_args())
    told: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        told.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        serve(options, lambda: bool(told))
    except (ServerError, InstallError) as error:
        if not told:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
