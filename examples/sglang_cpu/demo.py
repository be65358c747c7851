"""Shows spectrace on a real EAGLE-3 server: starts it, sends load, attaches to it while it runs.

`--check` does the same without a person: it compares every request's counts with the server's
own, and its last line is one JSON object. Exit status 0 only if all of it is right.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from examples.foreground import in_foreground
from examples.sglang_cpu.load import Answer, LoadLoop, generate
from examples.sglang_cpu.server import CpuServer, ServerOptions
from spectrace.analysis.summary import RequestCounts, Summary, per_request, summarize
from spectrace.attach.discover import find_by_pid
from spectrace.attach.session import TraceSession
from spectrace.model import Cycle

REQUESTS = 100
CONCURRENCY = 4
TOKENS = 48
ENOUGH_CYCLES = 300
POLL_S = 0.02
SETTLE_S = 0.5  # the last results are processed after the last answer was sent
SPECTRACE = Path(sys.executable).with_name("spectrace")


def same_counts(ours: RequestCounts | None, answer: Answer) -> bool:
    """Whether what was traced of a request is what the server says of it."""
    if ours is None:
        return False
    length = len(answer.correct_drafts_histogram)
    return (
        ours.cycles == answer.verify_count
        and ours.correct_drafts == answer.correct_drafts
        and ours.output_tokens == answer.completion_tokens
        and ours.histogram[:length] == answer.correct_drafts_histogram
        and not any(ours.histogram[length:])
    )


def collect(session: TraceSession, answers: Future[list[Answer]]) -> dict[int, Cycle]:
    """Polls until the answers and the results behind them are there; Cycles by number."""
    cycles: dict[int, Cycle] = {}
    settled = False
    while not settled:
        settled = answers.done()
        if settled:
            time.sleep(SETTLE_S)
        cycles.update((cycle.number, cycle) for cycle in session.poll())
        time.sleep(POLL_S)
    session.detach()
    cycles.update((cycle.number, cycle) for cycle in session.last_cycles)
    return cycles


def verdict(summary: Summary, session: TraceSession, equal: int, requests: int) -> dict[str, Any]:
    """What the check found, ready for JSON; `ok` says whether all of it is right."""
    times = summary.speculative
    detached = all(out.removed and not out.foreign for out in session.detach())
    lost = session.lost
    return {
        "ok": summary.cycles >= ENOUGH_CYCLES and not lost and detached and equal == requests,
        "cycles": summary.cycles,
        "ranks": len(session.run.ranks),
        "phases": {p.name.value: round(p.time.p50_ms, 4) for p in times.phases} if times else {},
        "accept_length": summary.accept_length,
        "server_accept_length": summary.server_accept_length,
        "tokens_per_s": round(summary.tokens_per_s, 1),
        "lost": lost,
        "detached": detached,
        "requests": requests,
        "requests_equal": equal,
        "probe_median_us": summary.probe_median_us,
        "stall_ms": [round(stall.total_ms, 3) for stall in session.stall()],
        "engine": session.run.engine,
    }


def check(options: ServerOptions, requests: int) -> int:
    """Runs without a person; returns the exit status."""
    with CpuServer(options) as server, ThreadPoolExecutor(1) as pool:
        print(f"{server.url}: process {server.pid}, up after {server.startup_s:.0f} s")
        with TraceSession(find_by_pid(server.pid)) as session:
            began = time.monotonic()
            answers = pool.submit(
                generate,
                server.url,
                requests=requests,
                concurrency=CONCURRENCY,
                max_new_tokens=TOKENS,
                tag="demo",
            )
            cycles = collect(session, answers)
            seconds = time.monotonic() - began
    counts = per_request(cycles.values())
    equal = sum(same_counts(counts.get(a.request_id), a) for a in answers.result())
    found = verdict(summarize(cycles.values(), seconds), session, equal, requests)
    print(json.dumps(found))
    return 0 if found["ok"] else 1


def show(options: ServerOptions, attach_arguments: list[str]) -> int:
    """Runs the command that a person would run, with the server under load."""
    print("Starting the server; this takes about 20 s.", flush=True)
    with CpuServer(options) as server, LoadLoop(server.url, concurrency=CONCURRENCY):
        command = [str(SPECTRACE), "attach", str(server.pid), *attach_arguments]
        print("$", "spectrace", *command[1:], flush=True)
        return in_foreground(command)


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="without a person")
    parser.add_argument("--scheduler", choices=("plain", "overlap"), default="plain")
    parser.add_argument("--tp", type=int, default=1, help="ranks")
    parser.add_argument("--requests", type=int, default=REQUESTS, help="of --check")
    given, attach_arguments = parser.parse_known_args()
    options = ServerOptions(scheduler=given.scheduler, tp=given.tp)
    if given.check:
        return check(options, given.requests)
    return show(options, attach_arguments)


if __name__ == "__main__":
    sys.exit(main())
