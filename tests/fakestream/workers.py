"""Simulated workers that tests tell what to do: `python -m tests.fakestream.workers SHAPE`.

Run by the interpreter that has torch. It is one scheduler process of `examples/simulated_gpu`,
with requests that never end unless `--visitors` is given, with exact times, and with words that
only a test needs. It decodes until told to stop, or until as many visitors have gone, and follows
words on its standard input:

    idle SECONDS   nothing to do for so long
    capture        the next draft is captured as a graph, and the graph replayed
    lose COUNT     the next COUNT events of the forward stream never complete
    counters       says the device's counters as one line of JSON
    break          the device fails from now on, as after an illegal access
    stop           ends, and says as one line of JSON what happened
"""

from __future__ import annotations

import argparse
import itertools
import json
import select
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from examples.simulated_gpu.device import ext
from examples.simulated_gpu.figures import FIGURES, Times
from examples.simulated_gpu.load import Batch, Request, Residents, Visitors
from examples.simulated_gpu.meeting import READY
from examples.simulated_gpu.options import Options, add_options, options_of
from examples.simulated_gpu.rank import TITLE, prepare
from examples.simulated_gpu.scheduler import Scheduler, scheduler_of
from examples.simulated_gpu.workers import COMMON_MODULE, EagleVerifyInput, Result

REQUESTS = 2

READS: dict[str, Callable[[Any], Any]] = {
    "tolist": lambda counts: counts.tolist(),
    "cpu": lambda counts: counts.cpu(),
    "numpy": lambda counts: counts.numpy(),
    "item": lambda counts: counts[0].item(),
    "int": lambda counts: int(counts[0]),
    "index": lambda counts: range(counts[0]),
    "compare": lambda counts: max(counts[0], 0),
    "array": np.array,
}
HARMLESS = {
    "len": len,
    "row": lambda counts: counts[0],
}


def read_early(log: dict[str, int]) -> None:
    """Makes `run_batch` read the counts behind its end, as a bad probe would.

    Args:
        log: Is given, by way of reading, how many synchronize calls one reading made.
    """
    original = Scheduler.run_batch
    ways = itertools.cycle([*READS.items(), *HARMLESS.items()])

    def run_batch(self: Scheduler, batch: Batch) -> Result:
        result = original(self, batch)
        way, read = next(ways)
        before = ext.counters()["syncs"]
        read(result.num_correct_drafts_per_req_cpu)
        log[way] = ext.counters()["syncs"] - before
        return result

    Scheduler.run_batch = run_batch  # type: ignore[method-assign]


def capture_next(scheduler: Scheduler) -> None:
    """Has the next draft captured, as a server does that makes a graph late.

    Two functions that are hooked run within.
    """
    drafter = scheduler.model_worker.drafter
    graph = drafter.cuda_graph_runner

    def captured(batch: Batch) -> None:
        graph.launch = drafter.launch_draft
        ext.begin_capture()
        drafter.launch_draft(batch)
        nobody = Batch([])
        if drafter is scheduler.model_worker:
            EagleVerifyInput().verify(nobody, drafter.deck)
            drafter.forward_draft_extend(nobody)
        else:
            sys.modules[COMMON_MODULE].eagle_sample(0)
            drafter._draft_extend_for_prefill(nobody)
        ext.replay(ext.end_capture())

    graph.launch = captured


def _next_words() -> list[str]:
    """What stands on the standard input, without waiting."""
    if not select.select([sys.stdin], [], [], 0)[0]:
        return []
    return sys.stdin.readline().split() or ["stop"]


def _follow(scheduler: Scheduler, words: list[str]) -> None:
    match words:
        case ["idle", seconds]:
            scheduler.idle(float(seconds))
        case ["capture"]:
            capture_next(scheduler)
        case ["lose", count]:
            ext.lose_records(int(count), scheduler.forward_stream.stream_id)
        case ["break"]:
            ext.break_device()
        case ["counters"]:
            print(json.dumps(ext.counters()), flush=True)


def run(scheduler: Scheduler, ended: Callable[[], bool]) -> dict[str, Any]:
    """Decodes until told to stop.

    Args:
        scheduler: What to run.
        ended: Whether it is to stop by itself.

    Returns:
        What the device did as `[name, start_ns, end_ns]` in CLOCK_MONOTONIC, when each cycle
        began on the host, and the device's counters.
    """
    starts = []
    while (words := _next_words()) != ["stop"] and not ended():
        _follow(scheduler, words)
        starts.append(time.monotonic_ns())
        scheduler.step()
    scheduler.idle(0)
    log = [[name, start, end] for name, _, start, end in ext.take_log()]
    return {"log": log, "starts": starts, "counters": ext.counters()}


def answer(request: Request) -> list[int]:
    """What a request got: how many tokens, their checksum, its verifies and correct drafts."""
    tokens = request.output_ids
    checksum = zlib.crc32(repr(tokens).encode())
    return [len(tokens), checksum, request.spec_verify_ct, request.spec_num_correct_drafts]


def times_of(options: Options, extend_ms: float) -> Times:
    """The times of the options, with a draft extend of its own."""
    return replace(FIGURES[options.figures].times, extend=extend_ms).scaled(options.scale)


def main() -> None:
    """The process."""
    parser = argparse.ArgumentParser()
    add_options(parser)
    parser.set_defaults(jitter=0.0, batch=REQUESTS)
    parser.add_argument("--extend", type=float, default=0.0, help="device draft extend, ms")
    parser.add_argument("--visitors", type=int, help="so many requests come and go, then end")
    parser.add_argument("--read-early", action="store_true")
    given = parser.parse_args()
    options = options_of(given)
    prepare(options, TITLE)
    early: dict[str, int] = {}
    if given.read_early:
        read_early(early)
    answers: dict[str, list[int]] = {}
    residents, visitors = Residents(options.batch), Visitors(options.batch, options.seed)
    visitors.on_leaving = lambda request: answers.update({request.rid: answer(request)})
    load = residents if given.visitors is None else visitors
    scheduler = scheduler_of(options, load, times_of(options, given.extend))
    print(READY, flush=True)
    found = run(scheduler, lambda: load is visitors and visitors.gone >= given.visitors)
    print(json.dumps({**found, "early": early, "answers": answers}), flush=True)


if __name__ == "__main__":
    main()
