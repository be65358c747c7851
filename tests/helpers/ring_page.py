"""The page of simulated ranks whose rings somebody else writes, in a process of its own.

python -m tests.helpers.ring_page FOLDER RANKS
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from spectrace.server.open import open_page
from spectrace.server.state import Source
from tests.helpers.ring_source import ROOT, RingTracer

POLL_S = 0.05  # as the command does


@contextmanager
def ring_page(folder: Path, ranks: int) -> Iterator[str]:
    """The address of such a page; the rings are there already."""
    command = [sys.executable, "-m", "tests.helpers.ring_page", str(folder), str(ranks)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def main() -> None:
    """The process: reads the rings and serves the page until it is killed."""
    folder, ranks = Path(sys.argv[1]), int(sys.argv[2])
    with (
        closing(RingTracer(folder, ranks)) as tracer,
        open_page(retain_s=600, max_bytes=1 << 30, port=0) as (hub, server),
    ):
        hub.put_run(tracer.run, Source.ATTACHED)
        print(server.url, flush=True)
        while True:
            hub.feed(tracer.poll())
            time.sleep(POLL_S)


if __name__ == "__main__":
    main()
