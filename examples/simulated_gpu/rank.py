"""One scheduler process of the simulated server; started by `server.py`, where torch is."""

from __future__ import annotations

import argparse
import mmap
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import setproctitle  # type: ignore[import-not-found]  # not in the environment of the tool

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.simulated_gpu.device import ext
from examples.simulated_gpu.load import Visitors
from examples.simulated_gpu.options import Options, add_options, options_of
from examples.simulated_gpu.scheduler import scheduler_of

TITLE = "sglang::scheduler"
READY = "ready"
_WORD = 8
_LOOK_S = 20e-6


@dataclass(frozen=True)
class Meeting:
    """Where the ranks of a server wait for each other before each cycle.

    Attributes:
        words: In memory that they share, the turn that each rank has come to.
        rank: This one.
    """

    words: memoryview
    rank: int

    @staticmethod
    def at(path: Path, rank: int, ranks: int) -> Meeting:
        """Opens a file of `ranks` words as the meeting of so many ranks."""
        with path.open("r+b") as file:
            shared = mmap.mmap(file.fileno(), ranks * _WORD)
        return Meeting(memoryview(shared).cast("Q"), rank)

    def wait(self) -> None:
        """Comes to the next turn, and returns when all have."""
        turn = self.words[self.rank] + 1
        self.words[self.rank] = turn
        while min(self.words) < turn:
            time.sleep(_LOOK_S)


def prepare(options: Options, title: str) -> None:
    """Makes this process look like a scheduler, and the device ready."""
    setproctitle.setproctitle(title)
    ext.be_punctual()
    ext.set_drift_ppm(options.drift_ppm)
    ext.launch_blocking(options.blocking_launches)


def title_of(rank: int, ranks: int) -> str:
    """As SGLang names its processes: a rank that is alone goes without."""
    return TITLE if ranks == 1 else f"{TITLE}_TP{rank}"


def main() -> None:
    """Decodes until it is ended from outside."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--meeting", type=Path, required=True, help="file of the ranks' turns")
    given = parser.parse_args()
    options = options_of(given)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends us
    prepare(options, title_of(given.rank, options.ranks))
    scheduler = scheduler_of(options, Visitors(options.batch, options.seed))
    meeting = Meeting.at(given.meeting, given.rank, options.ranks)
    print(READY, flush=True)
    while True:
        meeting.wait()
        scheduler.step()


if __name__ == "__main__":
    main()
