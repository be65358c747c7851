"""Decode loops on the asynchronous device, with set times: what the probe is to get right.

Run by the interpreter that has torch, as `python -m tests.fakestream.workers SHAPE`. It looks
like a scheduler process of SGLang: the title, and the modules, classes and functions of the
engine table. It decodes until told to stop and follows words on its standard input:

    idle SECONDS   nothing to do for so long
    capture        the next draft is captured as a graph, and the graph replayed
    lose COUNT     the next COUNT events of the forward stream never complete
    counters       says the device's counters as one line of JSON
    break          the device fails from now on, as after an illegal access
    stop           ends, and says as one line of JSON what happened

`v1` blocks inside verify on reading the accepted counts. `v2` reads them one cycle later, when
the next cycle has been launched. The times are those of the consistent figures in
device-timing.md: device draft 2.18 ms, verify 27.40; on the host draft's launch 0.87, verify's
1.05 and the rest 0.32.
"""

from __future__ import annotations

import argparse
import itertools
import json
import select
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from types import ModuleType
from typing import Any

import numpy as np
import setproctitle  # type: ignore[import-not-found]  # not in the environment of the tool
import torch  # type: ignore[import-not-found]  # not in the environment of the tool

from tests.fakestream.device import NAME, DeviceValues, ext

CORRECT_DRAFTS = 2
REQUESTS = 2
PROMPT_TOKENS = 100
_KEPT_TOKENS = 1000
_COMMON = "sglang.srt.speculative.eagle_worker_common"
_SCHEDULER = "sglang.srt.managers.scheduler"


@dataclass(frozen=True)
class Times:
    """How long things take, in ms.

    Attributes:
        draft: On the device.
        verify: On the device.
        extend: On the device; the draft model's pass over the accepted tokens.
        launch_draft: On the host, while the device may begin.
        launch_verify: On the host, before the device may begin.
        rest: On the host, processing results.
    """

    draft: float = 2.18
    verify: float = 27.40
    extend: float = 0.0
    launch_draft: float = 0.87
    launch_verify: float = 1.05
    rest: float = 0.32

    def scaled(self, factor: float) -> Times:
        """All times multiplied."""
        return Times(**{name: value * factor for name, value in asdict(self).items()})


def work(ms: float) -> None:
    """Keeps the host busy."""
    end_ns = time.perf_counter_ns() + int(ms * 1e6)
    while time.perf_counter_ns() < end_ns:
        pass


class ForwardMode(IntEnum):
    """The names that matter of SGLang's enum."""

    EXTEND = 1
    DECODE = 2


@dataclass
class Request:
    """One request of a batch."""

    rid: str
    origin_input_ids: list[int] = field(default_factory=lambda: [0] * PROMPT_TOKENS)
    output_ids: list[int] = field(default_factory=list)
    finished_reason: Any = None
    is_retracted: bool = False
    finished_len: int | None = None

    def finished(self) -> bool:
        """Whether the request has ended."""
        return self.finished_reason is not None


@dataclass
class Batch:
    """What `run_batch` is given."""

    reqs: list[Request]
    forward_mode: ForwardMode = ForwardMode.DECODE
    forward_iter: int = 0


@dataclass
class Result:
    """What `run_batch` gives back; the counts are the device's until they were copied."""

    num_correct_drafts_per_req_cpu: Any = None


class DraftRunner:
    """Runs the draft model once."""

    def __init__(self, times: Times) -> None:
        self.times = times

    def forward(self, batch: Batch) -> None:
        """One step."""
        steps = EAGLEWorkerV2.speculative_num_steps
        ext.launch(f"step {batch.forward_iter}", self.times.draft / steps * 1e3)
        work(self.times.launch_draft / steps)


class DraftWorker:
    """Launches the draft model: all steps in one graph, or one by one."""

    def __init__(self, times: Times, *, eager: bool) -> None:
        self.times = times
        self.eager = eager
        self.capture_next = False
        self.draft_runner = DraftRunner(times)

    def draft(self, batch: Batch) -> None:
        """All steps."""
        if self.eager:
            self.draft_forward(batch)
            return
        if self.capture_next:
            self.capture_next = False
            self._capture(batch)
        else:
            ext.launch(f"draft {batch.forward_iter}", self.times.draft * 1e3)
        work(self.times.launch_draft)

    def draft_forward(self, batch: Batch) -> None:
        """The steps one by one."""
        for _ in range(EAGLEWorkerV2.speculative_num_steps):
            self.draft_runner.forward(batch)

    def _capture(self, batch: Batch) -> None:
        """As a server does that makes a graph late: functions that are hooked run within."""
        ext.begin_capture()
        ext.launch(f"draft {batch.forward_iter}", self.times.draft * 1e3)
        sys.modules[_COMMON].eagle_sample(0)
        self._draft_extend_for_prefill()
        ext.replay(ext.end_capture())

    def _draft_extend_for_decode(self, batch: Batch) -> None:
        if self.times.extend:
            ext.launch(f"extend {batch.forward_iter}", self.times.extend * 1e3)

    def _draft_extend_for_prefill(self) -> None:
        """Of a prefill."""


class TpModelWorker:
    """Launches the target model."""

    def __init__(self, times: Times) -> None:
        self.times = times

    def forward_batch_generation(self, batch: Batch) -> None:
        """One forward, to verify."""
        work(self.times.launch_verify)
        ext.launch(f"verify {batch.forward_iter}", self.times.verify * 1e3)


class EAGLEWorkerV2:
    """Drafts, verifies, extends; blocks in verify until the counts are on the CPU."""

    speculative_num_steps = 5
    topk = 1
    speculative_num_draft_tokens = 6

    def __init__(self, target_worker: TpModelWorker, *, eager: bool) -> None:
        self.target_worker = target_worker
        self.draft_worker = DraftWorker(target_worker.times, eager=eager)

    def forward_batch_generation(self, batch: Batch) -> Result:
        """One decode."""
        self.draft_worker.draft(batch)
        result = self.verify(batch)
        self.draft_worker._draft_extend_for_decode(batch)
        return result

    def verify(self, batch: Batch) -> Result:
        """Calls what the real one looks up in its module."""
        common: Any = sys.modules[_COMMON]
        self.target_worker.forward_batch_generation(batch)
        result = Result(common.eagle_sample(len(batch.reqs)))
        self.read_counts(result)
        return result

    def read_counts(self, result: Result) -> None:
        """Waits for the device."""
        copy_counts(result)


class AheadWorker(EAGLEWorkerV2):
    """Reads no counts: the host runs ahead of the device."""

    def read_counts(self, result: Result) -> None:
        """Left to the processing of results."""


def copy_counts(result: Result) -> None:
    """The worker's own copy to the CPU; from then on everyone may read."""
    counts = result.num_correct_drafts_per_req_cpu
    if isinstance(counts, DeviceValues):
        result.num_correct_drafts_per_req_cpu = counts.copied()


class Processor:
    """Processes results."""

    def _normalize_decode_outputs(self, batch: Batch, result: Result) -> None:
        for request, drafts in zip(batch.reqs, result.num_correct_drafts_per_req_cpu, strict=True):
            if len(request.output_ids) > _KEPT_TOKENS:
                request.output_ids.clear()
            request.output_ids.extend([0] * (drafts + 1))

    def move_logprobs_to_cpu(self) -> None:
        """Of a prefill."""


class Scheduler:
    """Runs batches; with `ahead` results are processed one cycle later."""

    def __init__(self, times: Times, *, ahead: bool, eager: bool = False) -> None:
        self.times = times
        self.enable_overlap = ahead
        self.device = NAME
        self.forward_stream = torch.Stream(device=NAME)
        self.tp_worker = TpModelWorker(times)
        worker = AheadWorker if ahead else EAGLEWorkerV2
        self.model_worker = worker(self.tp_worker, eager=eager)
        self.batch_result_processor = Processor()
        self.forward_ct = 0
        self.waiting_queue: list[Request] = []
        self._behind: tuple[Batch, Result] | None = None

    def run_batch(self, batch: Batch) -> Result:
        """One cycle."""
        self.forward_ct += 1
        batch.forward_iter = self.forward_ct
        with self.forward_stream:
            return self.model_worker.forward_batch_generation(batch)

    def process_batch_result(self, batch: Batch, result: Result) -> None:
        """Hands out the tokens."""
        copy_counts(result)
        self.batch_result_processor._normalize_decode_outputs(batch, result)
        work(self.times.rest)

    def on_idle(self) -> None:
        """Nothing to do."""

    def step(self, requests: list[Request]) -> None:
        """One turn of the loop."""
        batch = Batch(requests)
        done: tuple[Batch, Result] | None = (batch, self.run_batch(batch))
        if self.enable_overlap:
            done, self._behind = self._behind, done
        if done is not None:
            self.process_batch_result(*done)

    def idle(self, seconds: float) -> None:
        """The loop without requests."""
        if self._behind is not None:
            self.process_batch_result(*self._behind)
            self._behind = None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.on_idle()
            time.sleep(0.0001)


def _sample(size: int) -> DeviceValues:
    """Stands for eagle_sample: what the verify that was just launched will find."""
    return DeviceValues([CORRECT_DRAFTS] * size)


def install_modules() -> None:
    """Puts the modules in place that the engine table names."""
    modules: dict[str, Any] = {name: ModuleType(name) for name in ("sglang", _SCHEDULER, _COMMON)}
    modules["sglang"].__version__ = "0.5.23"
    modules[_SCHEDULER].Scheduler = Scheduler
    modules[_COMMON].eagle_sample = _sample
    sys.modules.update(modules)


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
            scheduler.model_worker.draft_worker.capture_next = True
        case ["lose", count]:
            ext.lose_records(int(count), scheduler.forward_stream.stream_id)
        case ["break"]:
            ext.break_device()
        case ["counters"]:
            print(json.dumps(ext.counters()), flush=True)


def run(scheduler: Scheduler) -> dict[str, Any]:
    """Decodes until told to stop.

    Returns:
        What the device did as `[name, start_ns, end_ns]` in CLOCK_MONOTONIC, when each cycle
        began on the host, and the device's counters.
    """
    requests = [Request(f"request-{place}") for place in range(REQUESTS)]
    starts = []
    while (words := _next_words()) != ["stop"]:
        _follow(scheduler, words)
        starts.append(time.monotonic_ns())
        scheduler.step(requests)
    scheduler.idle(0)
    log = [[name, start, end] for name, _, start, end in ext.take_log()]
    return {"log": log, "starts": starts, "counters": ext.counters()}


def main() -> None:
    """The process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=("v1", "v2"))
    parser.add_argument("--scale", type=float, default=1.0, help="of all times")
    parser.add_argument("--extend", type=float, default=0.0, help="device draft extend, ms")
    parser.add_argument("--drift-ppm", type=float, default=40.0, help="of the device's clock")
    parser.add_argument("--eager", action="store_true", help="draft step by step")
    parser.add_argument("--read-early", action="store_true")
    options = parser.parse_args()
    setproctitle.setproctitle("sglang::scheduler")
    ext.be_punctual()
    ext.set_drift_ppm(options.drift_ppm)
    install_modules()
    early: dict[str, int] = {}
    if options.read_early:
        read_early(early)
    times = Times(extend=options.extend).scaled(options.scale)
    scheduler = Scheduler(times, ahead=options.shape == "v2", eager=options.eager)
    print("ready", flush=True)
    print(json.dumps({**run(scheduler), "early": early}), flush=True)


if __name__ == "__main__":
    main()
