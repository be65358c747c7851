"""A scheduler shaped like SGLang's that drives one of the workers, and where it is found."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from enum import IntEnum
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol

import torch  # type: ignore[import-not-found]  # not in the environment of the tool

from examples.simulated_gpu.device import NAME, DeviceValues
from examples.simulated_gpu.figures import FIGURES, Times
from examples.simulated_gpu.load import Batch, Deck, ForwardMode, Request
from examples.simulated_gpu.options import Options
from examples.simulated_gpu.workers import (
    COMMON_MODULE,
    VERIFY_MODULE,
    EagleVerifyInput,
    EAGLEWorker,
    EAGLEWorkerV2,
    Machine,
    Result,
    TpModelWorker,
    spin,
)

_SCHEDULER_MODULE = "sglang.srt.managers.scheduler"
_IDLE_S = 0.0001  # between two idle calls


class SpeculativeAlgorithm(IntEnum):
    """The names that matter of SGLang's enum."""

    NONE = 1
    EAGLE3 = 2


class Load(Protocol):
    """Decides what is run."""

    running: list[Request]

    def batch(self) -> Batch:
        """What to run next."""


class Processor:
    """Processes results on 0.5.23; the times of the rest of a cycle are its own."""

    def __init__(self, times: Times) -> None:
        self._times = times

    def _normalize_decode_outputs(self, batch: Batch, result: Result) -> None:
        counts = result.num_correct_drafts_per_req_cpu or [0] * len(batch.reqs)
        for request, correct in zip(batch.reqs, counts, strict=True):
            request.take(correct + 1)  # nothing where it had ended a cycle before
        spin(self._times.rest)

    def move_logprobs_to_cpu(self, batch: Batch) -> None:
        """Of a prefill."""
        for request in batch.reqs:
            request.take(1)
        spin(self._times.rest)


class Scheduler:
    """The loop of 0.5.23; with overlap results are processed one cycle later.

    Args:
        worker: Who runs the models.
        target_worker: Who runs the target model.
        load: What is run.
        overlap: The host runs a cycle ahead.
    """

    def __init__(
        self, worker: Any, target_worker: TpModelWorker, load: Load, *, overlap: bool
    ) -> None:
        speculates = worker is not target_worker
        self.spec_algorithm = (
            SpeculativeAlgorithm.EAGLE3 if speculates else SpeculativeAlgorithm.NONE
        )
        self.server_args = SimpleNamespace(
            speculative_num_steps=getattr(worker, "speculative_num_steps", None),
            speculative_eagle_topk=getattr(worker, "topk", None),
            speculative_num_draft_tokens=getattr(worker, "speculative_num_draft_tokens", None),
        )
        self.enable_overlap = overlap
        self.device = NAME
        self.forward_stream = torch.Stream(device=NAME)
        self.tp_worker = target_worker
        self.model_worker = worker
        self.batch_result_processor = Processor(target_worker.machine.times)
        self.forward_ct = 0
        self.waiting_queue: list[Request] = []
        self.running_batch = Batch([])
        self._load = load
        self._behind: tuple[Batch, Result] | None = None

    def run_batch(self, batch: Batch) -> Result:
        """One cycle."""
        self.forward_ct += 1
        batch.forward_iter = self.forward_ct
        with self.forward_stream:
            result: Result = self.model_worker.forward_batch_generation(batch)
        return result

    def process_batch_result(self, batch: Batch, result: Result) -> None:
        """Hands out the tokens."""
        result.copy_to_cpu()
        if batch.forward_mode == ForwardMode.EXTEND:
            self.batch_result_processor.move_logprobs_to_cpu(batch)
        else:
            self.batch_result_processor._normalize_decode_outputs(batch, result)  # noqa: SLF001 - SGLang's name

    def on_idle(self) -> None:
        """Nothing to do."""

    def step(self) -> None:
        """One turn of the loop."""
        batch = self._load.batch()
        self.running_batch = Batch(self._load.running)
        done: tuple[Batch, Result] | None = (batch, self.run_batch(batch))
        if self.enable_overlap:
            done, self._behind = self._behind, done
        if done is not None:
            self.process_batch_result(*done)

    def idle(self, seconds: float) -> None:
        """The loop without requests; what is still to be processed comes first."""
        if self._behind is not None:
            self.process_batch_result(*self._behind)
            self._behind = None
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.on_idle()
            time.sleep(_IDLE_S)


class TokenPool:
    """Stands for the allocator of the cache."""

    def free_group_begin(self) -> None:
        """Called first once the results of a decode are there."""


class TreeCache:
    """Stands for the cache of prefixes."""

    def cache_unfinished_req(self, request: Request) -> None:
        """Called for each request of a prefill."""

    def cache_finished_req(self, request: Request) -> None:
        """And for each that has ended."""


class OlderScheduler(Scheduler):
    """The loop of 0.5.12, whose V1 worker has handed out the tokens of a decode itself."""

    def __init__(self, worker: EAGLEWorker, target_worker: TpModelWorker, load: Load) -> None:
        super().__init__(worker, target_worker, load, overlap=False)
        self.token_to_kv_pool_allocator = TokenPool()
        self.tree_cache = TreeCache()

    def process_batch_result(self, batch: Batch, result: Result) -> None:
        """Does the rest."""
        result.copy_to_cpu()
        if batch.forward_mode == ForwardMode.EXTEND:
            for request in batch.reqs:
                self.tree_cache.cache_unfinished_req(request)
                request.take(1)
        else:
            self.token_to_kv_pool_allocator.free_group_begin()
        spin(self.tp_worker.machine.times.rest)

    def _resolve_spec_overlap_tokens(self) -> None:
        """With a V2 worker; never called here."""


def scheduler_of(options: Options, load: Load, times: Times | None = None) -> Scheduler:
    """Makes a scheduler, and puts it where SGLang has its own.

    Args:
        options: What kind of server.
        load: What it runs.
        times: How long everything takes; by default as the options say.
    """
    figures = FIGURES[options.figures]
    times = times or figures.times.scaled(options.scale)
    target = TpModelWorker(Machine(times, jitter=options.jitter, seed=options.seed))
    deck = Deck(figures.accept_length, figures.steps, options.seed)
    if options.shape == "v1":
        _install("0.5.12", OlderScheduler, VERIFY_MODULE, EagleVerifyInput=EagleVerifyInput)
        worker = EAGLEWorker(target, steps=figures.steps, deck=deck, eager=options.eager)
        return OlderScheduler(worker, target, load)
    _install("0.5.23", Scheduler, COMMON_MODULE, eagle_sample=_sampling(deck))
    if options.shape == "plain":
        return Scheduler(target, target, load, overlap=False)
    ahead = EAGLEWorkerV2(target, steps=figures.steps, eager=options.eager)
    return Scheduler(ahead, target, load, overlap=True)


def _sampling(deck: Deck) -> Callable[[int], DeviceValues]:
    """Stands for eagle_sample: what the verify that was just launched will find."""

    def eagle_sample(size: int) -> DeviceValues:
        return DeviceValues(deck.deal(size))

    return eagle_sample


def _install(version: str, scheduler: type, module: str, **contents: Any) -> None:
    """Puts the modules of SGLang in place."""
    modules: dict[str, Any] = {
        name: ModuleType(name) for name in ("sglang", _SCHEDULER_MODULE, module)
    }
    modules["sglang"].__version__ = version
    modules[_SCHEDULER_MODULE].Scheduler = scheduler
    vars(modules[module]).update(contents)
    sys.modules.update(modules)
