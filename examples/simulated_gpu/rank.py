"""One scheduler process of the simulated server; started by `server.py`, where torch is."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import setproctitle  # type: ignore[import-not-found]  # not in the environment of the tool

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.simulated_gpu.device import ext
from examples.simulated_gpu.load import Visitors
from examples.simulated_gpu.meeting import READY, Meeting
from examples.simulated_gpu.options import Options, add_options, options_of
from examples.simulated_gpu.scheduler import scheduler_of

TITLE = "sglang::scheduler"


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
    parser.add_argument("--meeting", type=Path, required=True, help="file by which ranks meet")
    given = parser.parse_args()
    options = options_of(given)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends us
    prepare(options, title_of(given.rank, options.ranks))
    scheduler = scheduler_of(options, Visitors(options.batch, options.seed))
    meeting = Meeting(given.meeting, given.rank)
    print(READY, flush=True)
    while True:
        meeting.wait()
        scheduler.step()


if __name__ == "__main__":
    main()
