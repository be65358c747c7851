"""Shows spectrace on a simulated GPU: starts the server of `server.py`, attaches to it.

`--check` does the same without a person: it holds what was traced against the times that the
device was given, and its last line is one JSON object. Exit status 0 only if all of it is right.
Further arguments go to `spectrace attach`.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.foreground import in_foreground
from examples.simulated_gpu.figures import FIGURES
from examples.simulated_gpu.options import Options, add_options, options_of
from examples.simulated_gpu.server import arguments
from spectrace.analysis.summary import PhaseSummary, Summary, summarize
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import TraceSession
from spectrace.errors import SpectraceError
from spectrace.model import Cycle, PhaseName

HERE = Path(__file__).resolve().parent
SPECTRACE = Path(sys.executable).with_name("spectrace")
ENOUGH_CYCLES = 300
TOLERANCE = 0.05
_TIMEOUT_S = 120.0  # for that many cycles
_POLL_S = 0.02
_STOP_S = 10.0


@contextmanager
def running(options: Options) -> Iterator[int]:
    """Runs a server, with what it says shown, and gives its process id once it decodes.

    Raises:
        SystemExit: It ended while starting, and has said why.
    """
    server = subprocess.Popen(
        [sys.executable, str(HERE / "server.py"), *arguments(options)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for spectrace, which leaves before the server ends
    )
    try:
        _show_until_ready(server)
        yield server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=_STOP_S)


def _show_until_ready(server: subprocess.Popen[str]) -> None:
    for line in server.stdout or ():
        print(line, end="", flush=True)
        if line.startswith("$ spectrace attach"):
            return
    raise SystemExit(server.wait() or 1)


def show(options: Options, attach_arguments: list[str]) -> int:
    """Runs the command that a person would run."""
    with running(options) as pid:
        return in_foreground([str(SPECTRACE), "attach", str(pid), *attach_arguments])


def check(options: Options) -> int:
    """Runs without a person; returns the exit status."""
    with running(options) as pid, TraceSession(find_by_pid(pid)) as session:
        began = time.monotonic()
        cycles = collect(session)
        found = verdict(options, summarize(cycles, time.monotonic() - began), session)
    print(json.dumps(found))
    return 0 if found["ok"] else 1


def collect(session: TraceSession) -> list[Cycle]:
    """Polls until enough cycles are there, and takes leave."""
    cycles: dict[int, Cycle] = {}
    deadline = time.monotonic() + _TIMEOUT_S
    while len(cycles) < ENOUGH_CYCLES and time.monotonic() < deadline and session.end is None:
        cycles.update((cycle.number, cycle) for cycle in session.poll())
        time.sleep(_POLL_S)
    session.detach()
    cycles.update((cycle.number, cycle) for cycle in session.last_cycles)
    return list(cycles.values())


def verdict(options: Options, summary: Summary, session: TraceSession) -> dict[str, Any]:
    """What the check found, ready for JSON; `ok` says whether all of it is right."""
    expected = device_ms(options)
    times = summary.speculative or summary.decode
    device = medians(times.device if times else ())
    right = all(close(device.get(name), ms) for name, ms in expected.items())
    accept_length = None if options.shape == "plain" else FIGURES[options.figures].accept_length
    counted = accept_length is None or close(summary.accept_length, accept_length)
    detached = all(out.removed and not out.foreign for out in session.detach())
    enough = summary.cycles >= ENOUGH_CYCLES and not session.lost
    return {
        "ok": enough and right and counted and detached,
        "cycles": summary.cycles,
        "ranks": len(session.run.ranks),
        "cycle_ms": round(times.time.p50_ms, 4) if times and times.time else None,
        "phases": medians(times.phases if times else ()),
        "device_phases": device,
        "device_set": expected,
        "accept_length": summary.accept_length,
        "tokens_per_s": round(summary.tokens_per_s, 1),
        "lost": session.lost,
        "detached": detached,
        "probe_median_us": summary.probe_median_us,
        "stall_ms": [round(stall.total_ms, 3) for stall in session.stall()],
        "engine": session.run.engine,
    }


def device_ms(options: Options) -> dict[str, float]:
    """What each phase must take on the device, by its name.

    A phase lasts until the next begins: where the device has nothing to do meanwhile, that counts
    too. A host that runs ahead leaves it no such gap.
    """
    times = FIGURES[options.figures].times.scaled(options.scale)
    if options.shape == "plain":
        return {PhaseName.FORWARD.value: times.launch_verify + times.decode}
    if options.blocking_launches:
        draft = times.draft + times.launch_draft
        idle = times.launch_verify
    elif options.shape == "v1":
        draft = max(times.draft, times.launch_draft)
        idle = max(0.0, times.launch_draft + times.launch_verify - draft)
    else:
        draft, idle = times.draft, 0.0
    return {
        PhaseName.DRAFT.value: round(draft, 4),
        PhaseName.VERIFY_FORWARD.value: round(idle + times.verify, 4),
    }


def medians(phases: tuple[PhaseSummary, ...]) -> dict[str, float]:
    """The median of each phase in ms, by its name."""
    return {phase.name.value: round(phase.time.p50_ms, 4) for phase in phases}


def close(found: float | None, expected: float) -> bool:
    """Whether a figure is within 5 % of what it must be."""
    return found is not None and abs(found - expected) <= TOLERANCE * expected


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="without a person")
    add_options(parser)
    given, attach_arguments = parser.parse_known_args()
    options = options_of(given)
    try:
        return check(options) if given.check else show(options, attach_arguments)
    except SpectraceError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
